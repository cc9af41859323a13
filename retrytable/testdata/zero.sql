-- postgres
ALTER TABLE "jobs" ADD COLUMN IF NOT EXISTS "status" text NOT NULL DEFAULT 'ready';
ALTER TABLE "jobs" ADD COLUMN IF NOT EXISTS "attempts" bigint NOT NULL DEFAULT 0;
ALTER TABLE "jobs" ADD COLUMN IF NOT EXISTS "due_at" timestamptz DEFAULT statement_timestamp();
ALTER TABLE "jobs" ADD COLUMN IF NOT EXISTS "lease_until" timestamptz;
ALTER TABLE "jobs" ADD COLUMN IF NOT EXISTS "fence" bigint NOT NULL DEFAULT 0;
CREATE INDEX IF NOT EXISTS "jobs_claim" ON "jobs" ((CASE WHEN "status" = 'ready' THEN coalesce("due_at", '-infinity'::timestamptz) ELSE "due_at" END)) WHERE "status" IN ('ready', 'waiting');
CREATE INDEX IF NOT EXISTS "jobs_sweep" ON "jobs" ("lease_until") WHERE "status" IN ('running');
CREATE INDEX IF NOT EXISTS "jobs_dead" ON "jobs" ("status", "id") WHERE "status" IN ('dead');
ALTER TABLE "jobs" SET (autovacuum_vacuum_scale_factor = 0.01);

-- postgres: claim
WITH picked AS MATERIALIZED (SELECT picked_id FROM (SELECT "id" AS picked_id FROM "jobs" WHERE "status" IN ('ready', 'waiting') AND CASE WHEN "status" = 'ready' THEN coalesce("due_at", '-infinity'::timestamptz) ELSE "due_at" END <= statement_timestamp() ORDER BY CASE WHEN "status" = 'ready' THEN coalesce("due_at", '-infinity'::timestamptz) ELSE "due_at" END LIMIT 16 FOR NO KEY UPDATE SKIP LOCKED) AS each LIMIT $1) UPDATE "jobs" SET "status" = 'running', "attempts" = coalesce("attempts", 0) + 1, "due_at" = NULL, "lease_until" = clock_timestamp() + 60000000::bigint * interval '1 microsecond', "fence" = coalesce("fence", 0) + 1 WHERE "id" = ANY (ARRAY(SELECT picked_id FROM picked)) RETURNING "id", "fence", coalesce("attempts", 0), 0, 0, NULL, NULL, NULL, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

-- postgres: sweep
WITH picked AS MATERIALIZED (SELECT picked_id FROM (SELECT "id" AS picked_id FROM "jobs" WHERE "status" IN ('running') AND "lease_until" <= statement_timestamp() ORDER BY "lease_until" LIMIT 16 FOR NO KEY UPDATE SKIP LOCKED) AS each LIMIT $1) UPDATE "jobs" SET "lease_until" = clock_timestamp() + 60000000::bigint * interval '1 microsecond', "fence" = coalesce("fence", 0) + 1 WHERE "id" = ANY (ARRAY(SELECT picked_id FROM picked)) RETURNING "id", "fence", coalesce("attempts", 0), 0, 0, NULL, NULL, NULL, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

-- postgres: promote
WITH picked AS MATERIALIZED (SELECT picked_id FROM (SELECT "id" AS picked_id FROM "jobs" WHERE "status" IN ('ready', 'waiting') AND CASE WHEN "status" = 'ready' THEN coalesce("due_at", '-infinity'::timestamptz) ELSE "due_at" END <= statement_timestamp() AND ("due_at" IS NOT NULL) ORDER BY CASE WHEN "status" = 'ready' THEN coalesce("due_at", '-infinity'::timestamptz) ELSE "due_at" END LIMIT 16 FOR NO KEY UPDATE SKIP LOCKED) AS each LIMIT $1) UPDATE "jobs" SET "status" = 'ready', "due_at" = NULL WHERE "id" = ANY (ARRAY(SELECT picked_id FROM picked)) RETURNING "id";

-- postgres: succeed
UPDATE "jobs" SET "status" = $1, "lease_until" = NULL WHERE "id" = $2 AND "fence" = $3 AND "status" IN ('running') AND "lease_until" IS NOT NULL;

-- postgres: succeed as
UPDATE "jobs" SET "status" = $1, "lease_until" = NULL WHERE "id" = $2 AND "fence" = $3 AND "status" IN ('running') AND "lease_until" IS NOT NULL;

-- postgres: retry
UPDATE "jobs" SET "status" = 'waiting', "lease_until" = NULL, "attempts" = $1, "due_at" = clock_timestamp() + $2::bigint * interval '1 microsecond' WHERE "id" = $3 AND "fence" = $4 AND "status" IN ('running') AND "lease_until" IS NOT NULL;

-- postgres: end
UPDATE "jobs" SET "status" = 'dead', "lease_until" = NULL, "attempts" = $1, "due_at" = NULL WHERE "id" = $2 AND "fence" = $3 AND "status" IN ('running') AND "lease_until" IS NOT NULL;

-- postgres: extend
WITH held AS MATERIALIZED (SELECT "id" AS held_id FROM "jobs" WHERE "id" = $2 AND "fence" = $3 AND "status" IN ('running') AND "lease_until" IS NOT NULL FOR NO KEY UPDATE) UPDATE "jobs" SET "lease_until" = clock_timestamp() + $1::bigint * interval '1 microsecond' FROM held WHERE "id" = held_id;

-- postgres: release
UPDATE "jobs" SET "status" = 'ready', "attempts" = "attempts" - 1, "due_at" = NULL, "lease_until" = NULL WHERE "id" = $1 AND "fence" = $2 AND "status" IN ('running') AND "lease_until" IS NOT NULL;
-- sqlite
ALTER TABLE `jobs` ADD COLUMN `status` TEXT NOT NULL DEFAULT 'ready';
ALTER TABLE `jobs` ADD COLUMN `attempts` INTEGER NOT NULL DEFAULT 0;
ALTER TABLE `jobs` ADD COLUMN `due_at` INTEGER;
ALTER TABLE `jobs` ADD COLUMN `lease_until` INTEGER;
ALTER TABLE `jobs` ADD COLUMN `fence` INTEGER NOT NULL DEFAULT 0;
CREATE INDEX IF NOT EXISTS `jobs_claim` ON `jobs` ((CASE WHEN `status` = 'ready' THEN coalesce(`due_at`, 0) ELSE `due_at` END)) WHERE `status` IN ('ready', 'waiting');
CREATE INDEX IF NOT EXISTS `jobs_sweep` ON `jobs` (`lease_until`) WHERE `status` IN ('running');
CREATE INDEX IF NOT EXISTS `jobs_dead` ON `jobs` (`status`, `id`) WHERE `status` IN ('dead');

-- sqlite: claim
UPDATE `jobs` SET `status` = 'running', `attempts` = coalesce(`attempts`, 0) + 1, `due_at` = NULL, `lease_until` = CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + 60000000, `fence` = coalesce(`fence`, 0) + 1 WHERE `id` IN (SELECT `id` AS picked_id FROM `jobs` WHERE `status` IN ('ready', 'waiting') AND CASE WHEN `status` = 'ready' THEN coalesce(`due_at`, 0) ELSE `due_at` END <= CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000 ORDER BY CASE WHEN `status` = 'ready' THEN coalesce(`due_at`, 0) ELSE `due_at` END LIMIT 10) RETURNING `id`, `fence`, coalesce(`attempts`, 0), 0, 0, NULL, NULL, NULL, CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000;

-- sqlite: sweep
UPDATE `jobs` SET `lease_until` = CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + 60000000, `fence` = coalesce(`fence`, 0) + 1 WHERE `id` IN (SELECT `id` AS picked_id FROM `jobs` WHERE `status` IN ('running') AND `lease_until` <= CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000 ORDER BY `lease_until` LIMIT 10) RETURNING `id`, `fence`, coalesce(`attempts`, 0), 0, 0, NULL, NULL, NULL, CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000;

-- sqlite: promote
UPDATE `jobs` SET `status` = 'ready', `due_at` = NULL WHERE `id` IN (SELECT `id` AS picked_id FROM `jobs` WHERE `status` IN ('ready', 'waiting') AND CASE WHEN `status` = 'ready' THEN coalesce(`due_at`, 0) ELSE `due_at` END <= CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000 AND (`due_at` IS NOT NULL) ORDER BY CASE WHEN `status` = 'ready' THEN coalesce(`due_at`, 0) ELSE `due_at` END LIMIT 10) RETURNING `id`;

-- sqlite: succeed
UPDATE `jobs` SET `status` = ?1, `lease_until` = NULL WHERE `id` = ?2 AND `fence` = ?3 AND `status` IN ('running') AND `lease_until` IS NOT NULL;

-- sqlite: succeed as
UPDATE `jobs` SET `status` = ?1, `lease_until` = NULL WHERE `id` = ?2 AND `fence` = ?3 AND `status` IN ('running') AND `lease_until` IS NOT NULL;

-- sqlite: retry
UPDATE `jobs` SET `status` = 'waiting', `lease_until` = NULL, `attempts` = ?1, `due_at` = CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + ?2 WHERE `id` = ?3 AND `fence` = ?4 AND `status` IN ('running') AND `lease_until` IS NOT NULL;

-- sqlite: end
UPDATE `jobs` SET `status` = 'dead', `lease_until` = NULL, `attempts` = ?1, `due_at` = NULL WHERE `id` = ?2 AND `fence` = ?3 AND `status` IN ('running') AND `lease_until` IS NOT NULL;

-- sqlite: extend
UPDATE `jobs` SET `lease_until` = CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + ?1 WHERE `id` = ?2 AND `fence` = ?3 AND `status` IN ('running') AND `lease_until` IS NOT NULL;

-- sqlite: release
UPDATE `jobs` SET `status` = 'ready', `attempts` = `attempts` - 1, `due_at` = NULL, `lease_until` = NULL WHERE `id` = ?1 AND `fence` = ?2 AND `status` IN ('running') AND `lease_until` IS NOT NULL;
-- mysql
ALTER TABLE `jobs`
	ADD COLUMN `status` varchar(255) CHARACTER SET utf8mb4 NOT NULL DEFAULT 'ready',
	ADD COLUMN `attempts` bigint NOT NULL DEFAULT 0,
	ADD COLUMN `due_at` datetime(6) DEFAULT (UTC_TIMESTAMP(6)),
	ADD COLUMN `lease_until` datetime(6),
	ADD COLUMN `fence` bigint NOT NULL DEFAULT 0,
	ADD COLUMN claim_602cb9cf datetime(6) GENERATED ALWAYS AS (CASE WHEN `status` IN ('ready', 'waiting') THEN CASE WHEN `status` = 'ready' THEN coalesce(`due_at`, TIMESTAMP'1000-01-01 00:00:00') ELSE `due_at` END END) STORED INVISIBLE,
	ADD INDEX claim_602cb9cf (claim_602cb9cf),
	ADD COLUMN sweep_3aab1c53 datetime(6) GENERATED ALWAYS AS (CASE WHEN `status` IN ('running') THEN `lease_until` END) STORED INVISIBLE,
	ADD INDEX sweep_3aab1c53 (sweep_3aab1c53),
	ADD COLUMN dead_e4da4629 tinyint GENERATED ALWAYS AS (CASE WHEN `status` IN ('dead') THEN 1 END) STORED INVISIBLE,
	ADD INDEX dead_e4da4629 (dead_e4da4629, `id`);

-- mysql: claim
SELECT `id` FROM `jobs` FORCE INDEX (claim_602cb9cf) WHERE claim_602cb9cf <= UTC_TIMESTAMP(6) ORDER BY claim_602cb9cf LIMIT 10 FOR UPDATE SKIP LOCKED;

-- mysql: sweep
SELECT `id` FROM `jobs` FORCE INDEX (sweep_3aab1c53) WHERE sweep_3aab1c53 <= UTC_TIMESTAMP(6) ORDER BY sweep_3aab1c53 LIMIT 10 FOR UPDATE SKIP LOCKED;

-- mysql: promote
SELECT `id` FROM `jobs` FORCE INDEX (claim_602cb9cf) WHERE claim_602cb9cf <= UTC_TIMESTAMP(6) AND (`due_at` IS NOT NULL) ORDER BY claim_602cb9cf LIMIT 10 FOR UPDATE SKIP LOCKED;

-- mysql: succeed
UPDATE `jobs` SET `status` = ?, `lease_until` = NULL WHERE `id` = ? AND `fence` = ? AND `status` IN ('running') AND `lease_until` IS NOT NULL;

-- mysql: succeed as
UPDATE `jobs` SET `status` = ?, `lease_until` = NULL WHERE `id` = ? AND `fence` = ? AND `status` IN ('running') AND `lease_until` IS NOT NULL;

-- mysql: retry
UPDATE `jobs` SET `status` = 'waiting', `lease_until` = NULL, `attempts` = ?, `due_at` = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND WHERE `id` = ? AND `fence` = ? AND `status` IN ('running') AND `lease_until` IS NOT NULL;

-- mysql: end
UPDATE `jobs` SET `status` = 'dead', `lease_until` = NULL, `attempts` = ?, `due_at` = NULL WHERE `id` = ? AND `fence` = ? AND `status` IN ('running') AND `lease_until` IS NOT NULL;

-- mysql: extend
SELECT `id`, `fence` FROM `jobs` WHERE CASE WHEN `status` IN ('running') AND `lease_until` IS NOT NULL THEN 1 END = 1 AND `id` IN (?) FOR UPDATE;

-- mysql: release
UPDATE `jobs` SET `status` = 'ready', `attempts` = `attempts` - 1, `due_at` = NULL, `lease_until` = NULL WHERE `id` = ? AND `fence` = ? AND `status` IN ('running') AND `lease_until` IS NOT NULL;
