-- postgres
ALTER TABLE "app"."runs" ADD COLUMN IF NOT EXISTS "status" text NOT NULL DEFAULT 'ready';
ALTER TABLE "app"."runs" ADD COLUMN IF NOT EXISTS "retry_count" bigint NOT NULL DEFAULT 0;
ALTER TABLE "app"."runs" ADD COLUMN IF NOT EXISTS "next_retry_at" timestamptz;
ALTER TABLE "app"."runs" ADD COLUMN IF NOT EXISTS "lease_until" timestamptz;
ALTER TABLE "app"."runs" ADD COLUMN IF NOT EXISTS "fence" bigint NOT NULL DEFAULT 0;
ALTER TABLE "app"."runs" ADD COLUMN IF NOT EXISTS "first_at" timestamptz;
CREATE INDEX IF NOT EXISTS "runs_claim" ON "app"."runs" ("status", submitted) WHERE "status" IN ('ready');
CREATE INDEX IF NOT EXISTS "runs_retry" ON "app"."runs" ("next_retry_at") WHERE "status" IN ('error') AND "next_retry_at" IS NOT NULL;
CREATE INDEX IF NOT EXISTS "runs_sweep" ON "app"."runs" ("lease_until") WHERE "status" IN ('running');
CREATE INDEX IF NOT EXISTS "runs_dead" ON "app"."runs" ("status", "id") WHERE "status" IN ('error') AND "next_retry_at" IS NULL;
ALTER TABLE "app"."runs" SET (autovacuum_vacuum_scale_factor = 0.01);

-- postgres: claim
WITH fresh AS MATERIALIZED (SELECT picked_id FROM (SELECT "id" AS picked_id FROM "app"."runs" WHERE "status" IN ('ready') ORDER BY submitted LIMIT 16 FOR NO KEY UPDATE SKIP LOCKED) AS each LIMIT $1), picked AS MATERIALIZED (SELECT picked_id FROM (SELECT "id" AS picked_id FROM "app"."runs" WHERE "id" = ANY (ARRAY(SELECT picked_id FROM fresh UNION ALL (SELECT "id" AS picked_id FROM (SELECT * FROM "app"."runs" WHERE "status" IN ('error') AND "next_retry_at" IS NOT NULL AND "next_retry_at" <= statement_timestamp() ORDER BY "next_retry_at" LIMIT 1000) AS "runs" ORDER BY submitted LIMIT 116))) AND ("status" IN ('ready') OR "status" IN ('error') AND "next_retry_at" IS NOT NULL AND "next_retry_at" <= statement_timestamp()) ORDER BY submitted LIMIT 16 FOR NO KEY UPDATE SKIP LOCKED) AS each LIMIT $1) UPDATE "app"."runs" SET "status" = 'running', "next_retry_at" = NULL, "lease_until" = clock_timestamp() + 60000000::bigint * interval '1 microsecond', "fence" = coalesce("fence", 0) + 1, "first_at" = coalesce("first_at", statement_timestamp()) WHERE "id" = ANY (ARRAY(SELECT picked_id FROM picked)) RETURNING "id", "fence", coalesce("retry_count", 0) + 1, 0, 0, CASE WHEN isfinite("first_at") THEN (extract(epoch FROM "first_at") * 1000000)::bigint END, NULL, NULL, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

-- postgres: sweep
WITH picked AS MATERIALIZED (SELECT picked_id FROM (SELECT "id" AS picked_id FROM "app"."runs" WHERE "status" IN ('running') AND "lease_until" <= statement_timestamp() ORDER BY "lease_until" LIMIT 16 FOR NO KEY UPDATE SKIP LOCKED) AS each LIMIT $1) UPDATE "app"."runs" SET "lease_until" = clock_timestamp() + 60000000::bigint * interval '1 microsecond', "fence" = coalesce("fence", 0) + 1 WHERE "id" = ANY (ARRAY(SELECT picked_id FROM picked)) RETURNING "id", "fence", coalesce("retry_count", 0) + 1, 0, 0, CASE WHEN isfinite("first_at") THEN (extract(epoch FROM "first_at") * 1000000)::bigint END, NULL, NULL, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

-- postgres: promote
WITH picked AS MATERIALIZED (SELECT picked_id FROM (SELECT "id" AS picked_id FROM "app"."runs" WHERE "status" IN ('error') AND "next_retry_at" IS NOT NULL AND "next_retry_at" <= statement_timestamp() ORDER BY "next_retry_at" LIMIT 16 FOR NO KEY UPDATE SKIP LOCKED) AS each LIMIT $1) UPDATE "app"."runs" SET "status" = 'ready', "next_retry_at" = NULL WHERE "id" = ANY (ARRAY(SELECT picked_id FROM picked)) RETURNING "id";

-- postgres: succeed
UPDATE "app"."runs" SET "status" = $1, "lease_until" = NULL WHERE "id" = $2 AND "fence" = $3 AND "status" IN ('running') AND "lease_until" IS NOT NULL;

-- postgres: succeed as
UPDATE "app"."runs" SET "status" = $1, "lease_until" = NULL WHERE "id" = $2 AND "fence" = $3 AND "status" IN ('running') AND "lease_until" IS NOT NULL;

-- postgres: retry
UPDATE "app"."runs" SET "status" = 'error', "lease_until" = NULL, "retry_count" = $1, "first_at" = coalesce('epoch'::timestamptz + $2::bigint * interval '1 microsecond', "first_at"), "next_retry_at" = clock_timestamp() + $3::bigint * interval '1 microsecond' WHERE "id" = $4 AND "fence" = $5 AND "status" IN ('running') AND "lease_until" IS NOT NULL;

-- postgres: end
UPDATE "app"."runs" SET "status" = 'error', "lease_until" = NULL, "first_at" = coalesce('epoch'::timestamptz + $1::bigint * interval '1 microsecond', "first_at"), "next_retry_at" = NULL WHERE "id" = $2 AND "fence" = $3 AND "status" IN ('running') AND "lease_until" IS NOT NULL;

-- postgres: extend
WITH held AS MATERIALIZED (SELECT "id" AS held_id FROM "app"."runs" WHERE "id" = $2 AND "fence" = $3 AND "status" IN ('running') AND "lease_until" IS NOT NULL FOR NO KEY UPDATE) UPDATE "app"."runs" SET "lease_until" = clock_timestamp() + $1::bigint * interval '1 microsecond' FROM held WHERE "id" = held_id;

-- postgres: release
UPDATE "app"."runs" SET "status" = 'ready', "first_at" = CASE WHEN "retry_count" <= 0 THEN NULL ELSE "first_at" END, "next_retry_at" = NULL, "lease_until" = NULL WHERE "id" = $1 AND "fence" = $2 AND "status" IN ('running') AND "lease_until" IS NOT NULL;
-- sqlite
ALTER TABLE `app`.`runs` ADD COLUMN `status` TEXT NOT NULL DEFAULT 'ready';
ALTER TABLE `app`.`runs` ADD COLUMN `retry_count` INTEGER NOT NULL DEFAULT 0;
ALTER TABLE `app`.`runs` ADD COLUMN `next_retry_at` TEXT;
ALTER TABLE `app`.`runs` ADD COLUMN `lease_until` TEXT;
ALTER TABLE `app`.`runs` ADD COLUMN `fence` INTEGER NOT NULL DEFAULT 0;
ALTER TABLE `app`.`runs` ADD COLUMN `first_at` TEXT;
CREATE INDEX IF NOT EXISTS `app`.`runs_claim` ON `runs` (`status`, submitted) WHERE `status` IN ('ready');
CREATE INDEX IF NOT EXISTS `app`.`runs_retry` ON `runs` ((CAST(round((julianday(`next_retry_at`) - 2440587.5) * 86400000.0) AS INTEGER))) WHERE `status` IN ('error') AND `next_retry_at` IS NOT NULL;
CREATE INDEX IF NOT EXISTS `app`.`runs_sweep` ON `runs` ((CAST(round((julianday(`lease_until`) - 2440587.5) * 86400000.0) AS INTEGER))) WHERE `status` IN ('running');
CREATE INDEX IF NOT EXISTS `app`.`runs_dead` ON `runs` (`status`, `id`) WHERE `status` IN ('error') AND `next_retry_at` IS NULL;

-- sqlite: claim
UPDATE `app`.`runs` SET `status` = 'running', `next_retry_at` = NULL, `lease_until` = strftime('%Y-%m-%dT%H:%M:%f+00:00', ((CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + 60000000 + 999) / 1000) / 1000.0, 'unixepoch'), `fence` = coalesce(`fence`, 0) + 1, `first_at` = coalesce(`first_at`, strftime('%Y-%m-%dT%H:%M:%f+00:00', (CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)) / 1000.0, 'unixepoch')) WHERE `id` IN (SELECT `app`.`runs`.`id` FROM (SELECT * FROM (SELECT `id` AS picked_id FROM `app`.`runs` WHERE `status` IN ('ready') ORDER BY submitted LIMIT 10) UNION ALL SELECT * FROM (SELECT `id` AS picked_id FROM (SELECT * FROM `app`.`runs` WHERE `status` IN ('error') AND `next_retry_at` IS NOT NULL AND CAST(round((julianday(`next_retry_at`) - 2440587.5) * 86400000.0) AS INTEGER) <= CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) ORDER BY CAST(round((julianday(`next_retry_at`) - 2440587.5) * 86400000.0) AS INTEGER) LIMIT 1000) AS `runs` ORDER BY submitted LIMIT 110)) CROSS JOIN `app`.`runs` ON `app`.`runs`.`id` = picked_id ORDER BY submitted LIMIT 10) RETURNING `id`, `fence`, coalesce(`retry_count`, 0) + 1, 0, 0, CAST(round((julianday(`first_at`) - 2440587.5) * 86400000.0) AS INTEGER) * 1000, NULL, NULL, CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000;

-- sqlite: sweep
UPDATE `app`.`runs` SET `lease_until` = strftime('%Y-%m-%dT%H:%M:%f+00:00', ((CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + 60000000 + 999) / 1000) / 1000.0, 'unixepoch'), `fence` = coalesce(`fence`, 0) + 1 WHERE `id` IN (SELECT `id` AS picked_id FROM `app`.`runs` WHERE `status` IN ('running') AND CAST(round((julianday(`lease_until`) - 2440587.5) * 86400000.0) AS INTEGER) <= CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) ORDER BY CAST(round((julianday(`lease_until`) - 2440587.5) * 86400000.0) AS INTEGER) LIMIT 10) RETURNING `id`, `fence`, coalesce(`retry_count`, 0) + 1, 0, 0, CAST(round((julianday(`first_at`) - 2440587.5) * 86400000.0) AS INTEGER) * 1000, NULL, NULL, CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000;

-- sqlite: promote
UPDATE `app`.`runs` SET `status` = 'ready', `next_retry_at` = NULL WHERE `id` IN (SELECT `id` AS picked_id FROM `app`.`runs` WHERE `status` IN ('error') AND `next_retry_at` IS NOT NULL AND CAST(round((julianday(`next_retry_at`) - 2440587.5) * 86400000.0) AS INTEGER) <= CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) ORDER BY CAST(round((julianday(`next_retry_at`) - 2440587.5) * 86400000.0) AS INTEGER) LIMIT 10) RETURNING `id`;

-- sqlite: succeed
UPDATE `app`.`runs` SET `status` = ?1, `lease_until` = NULL WHERE `id` = ?2 AND `fence` = ?3 AND `status` IN ('running') AND `lease_until` IS NOT NULL;

-- sqlite: succeed as
UPDATE `app`.`runs` SET `status` = ?1, `lease_until` = NULL WHERE `id` = ?2 AND `fence` = ?3 AND `status` IN ('running') AND `lease_until` IS NOT NULL;

-- sqlite: retry
UPDATE `app`.`runs` SET `status` = 'error', `lease_until` = NULL, `retry_count` = ?1, `first_at` = coalesce(strftime('%Y-%m-%dT%H:%M:%f+00:00', ((?2 + 999) / 1000) / 1000.0, 'unixepoch'), `first_at`), `next_retry_at` = strftime('%Y-%m-%dT%H:%M:%f+00:00', ((CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + ?3 + 999) / 1000) / 1000.0, 'unixepoch') WHERE `id` = ?4 AND `fence` = ?5 AND `status` IN ('running') AND `lease_until` IS NOT NULL;

-- sqlite: end
UPDATE `app`.`runs` SET `status` = 'error', `lease_until` = NULL, `first_at` = coalesce(strftime('%Y-%m-%dT%H:%M:%f+00:00', ((?1 + 999) / 1000) / 1000.0, 'unixepoch'), `first_at`), `next_retry_at` = NULL WHERE `id` = ?2 AND `fence` = ?3 AND `status` IN ('running') AND `lease_until` IS NOT NULL;

-- sqlite: extend
UPDATE `app`.`runs` SET `lease_until` = strftime('%Y-%m-%dT%H:%M:%f+00:00', ((CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + ?1 + 999) / 1000) / 1000.0, 'unixepoch') WHERE `id` = ?2 AND `fence` = ?3 AND `status` IN ('running') AND `lease_until` IS NOT NULL;

-- sqlite: release
UPDATE `app`.`runs` SET `status` = 'ready', `first_at` = CASE WHEN `retry_count` <= 0 THEN NULL ELSE `first_at` END, `next_retry_at` = NULL, `lease_until` = NULL WHERE `id` = ?1 AND `fence` = ?2 AND `status` IN ('running') AND `lease_until` IS NOT NULL;
