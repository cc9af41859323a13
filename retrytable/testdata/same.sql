-- postgres
ALTER TABLE "tickets" ADD COLUMN IF NOT EXISTS "status" text NOT NULL DEFAULT 'ready';
ALTER TABLE "tickets" ADD COLUMN IF NOT EXISTS "attempts" bigint NOT NULL DEFAULT 0;
ALTER TABLE "tickets" ADD COLUMN IF NOT EXISTS "due_at" bigint DEFAULT (extract(epoch FROM statement_timestamp()) * 1000000)::bigint / 1000;
ALTER TABLE "tickets" ADD COLUMN IF NOT EXISTS "lease_until" bigint;
ALTER TABLE "tickets" ADD COLUMN IF NOT EXISTS "fence" bigint NOT NULL DEFAULT 0;
CREATE INDEX IF NOT EXISTS "tickets_claim" ON "tickets" ((coalesce("due_at", 0))) WHERE "status" IN ('ready');
CREATE INDEX IF NOT EXISTS "tickets_sweep" ON "tickets" ("lease_until") WHERE "status" IN ('running');
CREATE INDEX IF NOT EXISTS "tickets_dead" ON "tickets" ("status", "id") WHERE "status" IN ('dead');
ALTER TABLE "tickets" SET (autovacuum_vacuum_scale_factor = 0.01);

-- postgres: claim
WITH picked AS MATERIALIZED (SELECT picked_id FROM (SELECT "id" AS picked_id FROM "tickets" WHERE "status" IN ('ready') AND coalesce("due_at", 0) <= (extract(epoch FROM statement_timestamp()) * 1000000)::bigint / 1000 ORDER BY coalesce("due_at", 0) LIMIT 16 FOR NO KEY UPDATE SKIP LOCKED) AS each LIMIT $1) UPDATE "tickets" SET "status" = 'running', "attempts" = coalesce("attempts", 0) + 1, "due_at" = NULL, "lease_until" = ((extract(epoch FROM clock_timestamp()) * 1000000)::bigint + 60000000::bigint + 999) / 1000, "fence" = coalesce("fence", 0) + 1 WHERE "id" = ANY (ARRAY(SELECT picked_id FROM picked)) RETURNING "id", "fence", coalesce("attempts", 0), 0, 0, NULL, NULL, NULL, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

-- postgres: sweep
WITH picked AS MATERIALIZED (SELECT picked_id FROM (SELECT "id" AS picked_id FROM "tickets" WHERE "status" IN ('running') AND "lease_until" <= (extract(epoch FROM statement_timestamp()) * 1000000)::bigint / 1000 ORDER BY "lease_until" LIMIT 16 FOR NO KEY UPDATE SKIP LOCKED) AS each LIMIT $1) UPDATE "tickets" SET "lease_until" = ((extract(epoch FROM clock_timestamp()) * 1000000)::bigint + 60000000::bigint + 999) / 1000, "fence" = coalesce("fence", 0) + 1 WHERE "id" = ANY (ARRAY(SELECT picked_id FROM picked)) RETURNING "id", "fence", coalesce("attempts", 0), 0, 0, NULL, NULL, NULL, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

-- postgres: promote
WITH picked AS MATERIALIZED (SELECT picked_id FROM (SELECT "id" AS picked_id FROM "tickets" WHERE "status" IN ('ready') AND coalesce("due_at", 0) <= (extract(epoch FROM statement_timestamp()) * 1000000)::bigint / 1000 AND ("due_at" IS NOT NULL) ORDER BY coalesce("due_at", 0) LIMIT 16 FOR NO KEY UPDATE SKIP LOCKED) AS each LIMIT $1) UPDATE "tickets" SET "status" = 'ready', "due_at" = NULL WHERE "id" = ANY (ARRAY(SELECT picked_id FROM picked)) RETURNING "id";

-- postgres: succeed
UPDATE "tickets" SET "status" = $1, "lease_until" = NULL WHERE "id" = $2 AND "fence" = $3 AND "status" IN ('running') AND "lease_until" IS NOT NULL;

-- postgres: succeed as
UPDATE "tickets" SET "status" = $1, "lease_until" = NULL WHERE "id" = $2 AND "fence" = $3 AND "status" IN ('running') AND "lease_until" IS NOT NULL;

-- postgres: retry
UPDATE "tickets" SET "status" = 'ready', "lease_until" = NULL, "attempts" = $1, "due_at" = ((extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $2::bigint + 999) / 1000 WHERE "id" = $3 AND "fence" = $4 AND "status" IN ('running') AND "lease_until" IS NOT NULL;

-- postgres: end
UPDATE "tickets" SET "status" = 'dead', "lease_until" = NULL, "attempts" = $1, "due_at" = NULL WHERE "id" = $2 AND "fence" = $3 AND "status" IN ('running') AND "lease_until" IS NOT NULL;

-- postgres: extend
WITH held AS MATERIALIZED (SELECT "id" AS held_id FROM "tickets" WHERE "id" = $2 AND "fence" = $3 AND "status" IN ('running') AND "lease_until" IS NOT NULL FOR NO KEY UPDATE) UPDATE "tickets" SET "lease_until" = ((extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $1::bigint + 999) / 1000 FROM held WHERE "id" = held_id;

-- postgres: release
UPDATE "tickets" SET "status" = 'ready', "attempts" = "attempts" - 1, "due_at" = NULL, "lease_until" = NULL WHERE "id" = $1 AND "fence" = $2 AND "status" IN ('running') AND "lease_until" IS NOT NULL;
-- sqlite
ALTER TABLE `tickets` ADD COLUMN `status` TEXT NOT NULL DEFAULT 'ready';
ALTER TABLE `tickets` ADD COLUMN `attempts` INTEGER NOT NULL DEFAULT 0;
ALTER TABLE `tickets` ADD COLUMN `due_at` INTEGER;
ALTER TABLE `tickets` ADD COLUMN `lease_until` INTEGER;
ALTER TABLE `tickets` ADD COLUMN `fence` INTEGER NOT NULL DEFAULT 0;
CREATE INDEX IF NOT EXISTS `tickets_claim` ON `tickets` ((coalesce(`due_at`, 0))) WHERE `status` IN ('ready');
CREATE INDEX IF NOT EXISTS `tickets_sweep` ON `tickets` (`lease_until`) WHERE `status` IN ('running');
CREATE INDEX IF NOT EXISTS `tickets_dead` ON `tickets` (`status`, `id`) WHERE `status` IN ('dead');

-- sqlite: claim
UPDATE `tickets` SET `status` = 'running', `attempts` = coalesce(`attempts`, 0) + 1, `due_at` = NULL, `lease_until` = (CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + 60000000 + 999) / 1000, `fence` = coalesce(`fence`, 0) + 1 WHERE `id` IN (SELECT `id` AS picked_id FROM `tickets` WHERE `status` IN ('ready') AND coalesce(`due_at`, 0) <= CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000 / 1000 ORDER BY coalesce(`due_at`, 0) LIMIT 10) RETURNING `id`, `fence`, coalesce(`attempts`, 0), 0, 0, NULL, NULL, NULL, CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000;

-- sqlite: sweep
UPDATE `tickets` SET `lease_until` = (CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + 60000000 + 999) / 1000, `fence` = coalesce(`fence`, 0) + 1 WHERE `id` IN (SELECT `id` AS picked_id FROM `tickets` WHERE `status` IN ('running') AND `lease_until` <= CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000 / 1000 ORDER BY `lease_until` LIMIT 10) RETURNING `id`, `fence`, coalesce(`attempts`, 0), 0, 0, NULL, NULL, NULL, CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000;

-- sqlite: promote
UPDATE `tickets` SET `status` = 'ready', `due_at` = NULL WHERE `id` IN (SELECT `id` AS picked_id FROM `tickets` WHERE `status` IN ('ready') AND coalesce(`due_at`, 0) <= CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000 / 1000 AND (`due_at` IS NOT NULL) ORDER BY coalesce(`due_at`, 0) LIMIT 10) RETURNING `id`;

-- sqlite: succeed
UPDATE `tickets` SET `status` = ?1, `lease_until` = NULL WHERE `id` = ?2 AND `fence` = ?3 AND `status` IN ('running') AND `lease_until` IS NOT NULL;

-- sqlite: succeed as
UPDATE `tickets` SET `status` = ?1, `lease_until` = NULL WHERE `id` = ?2 AND `fence` = ?3 AND `status` IN ('running') AND `lease_until` IS NOT NULL;

-- sqlite: retry
UPDATE `tickets` SET `status` = 'ready', `lease_until` = NULL, `attempts` = ?1, `due_at` = (CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + ?2 + 999) / 1000 WHERE `id` = ?3 AND `fence` = ?4 AND `status` IN ('running') AND `lease_until` IS NOT NULL;

-- sqlite: end
UPDATE `tickets` SET `status` = 'dead', `lease_until` = NULL, `attempts` = ?1, `due_at` = NULL WHERE `id` = ?2 AND `fence` = ?3 AND `status` IN ('running') AND `lease_until` IS NOT NULL;

-- sqlite: extend
UPDATE `tickets` SET `lease_until` = (CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + ?1 + 999) / 1000 WHERE `id` = ?2 AND `fence` = ?3 AND `status` IN ('running') AND `lease_until` IS NOT NULL;

-- sqlite: release
UPDATE `tickets` SET `status` = 'ready', `attempts` = `attempts` - 1, `due_at` = NULL, `lease_until` = NULL WHERE `id` = ?1 AND `fence` = ?2 AND `status` IN ('running') AND `lease_until` IS NOT NULL;
-- mysql
ALTER TABLE `tickets`
	ADD COLUMN `status` varchar(255) CHARACTER SET utf8mb4 NOT NULL DEFAULT 'ready',
	ADD COLUMN `attempts` bigint NOT NULL DEFAULT 0,
	ADD COLUMN `due_at` bigint DEFAULT (TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) DIV 1000),
	ADD COLUMN `lease_until` bigint,
	ADD COLUMN `fence` bigint NOT NULL DEFAULT 0,
	ADD COLUMN claim_5a73466b bigint GENERATED ALWAYS AS (CASE WHEN `status` IN ('ready') THEN coalesce(`due_at`, 0) END) STORED INVISIBLE,
	ADD INDEX claim_5a73466b (claim_5a73466b),
	ADD COLUMN sweep_458d3090 bigint GENERATED ALWAYS AS (CASE WHEN `status` IN ('running') THEN `lease_until` END) STORED INVISIBLE,
	ADD INDEX sweep_458d3090 (sweep_458d3090),
	ADD COLUMN dead_e4da4629 tinyint GENERATED ALWAYS AS (CASE WHEN `status` IN ('dead') THEN 1 END) STORED INVISIBLE,
	ADD INDEX dead_e4da4629 (dead_e4da4629, `id`);

-- mysql: claim
SELECT `id` FROM `tickets` FORCE INDEX (claim_5a73466b) WHERE claim_5a73466b <= TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) DIV 1000 ORDER BY claim_5a73466b LIMIT 10 FOR UPDATE SKIP LOCKED;

-- mysql: sweep
SELECT `id` FROM `tickets` FORCE INDEX (sweep_458d3090) WHERE sweep_458d3090 <= TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) DIV 1000 ORDER BY sweep_458d3090 LIMIT 10 FOR UPDATE SKIP LOCKED;

-- mysql: promote
SELECT `id` FROM `tickets` FORCE INDEX (claim_5a73466b) WHERE claim_5a73466b <= TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) DIV 1000 AND (`due_at` IS NOT NULL) ORDER BY claim_5a73466b LIMIT 10 FOR UPDATE SKIP LOCKED;

-- mysql: succeed
UPDATE `tickets` SET `status` = ?, `lease_until` = NULL WHERE `id` = ? AND `fence` = ? AND `status` IN ('running') AND `lease_until` IS NOT NULL;

-- mysql: succeed as
UPDATE `tickets` SET `status` = ?, `lease_until` = NULL WHERE `id` = ? AND `fence` = ? AND `status` IN ('running') AND `lease_until` IS NOT NULL;

-- mysql: retry
UPDATE `tickets` SET `status` = 'ready', `lease_until` = NULL, `attempts` = ?, `due_at` = (TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ? + 999) DIV 1000 WHERE `id` = ? AND `fence` = ? AND `status` IN ('running') AND `lease_until` IS NOT NULL;

-- mysql: end
UPDATE `tickets` SET `status` = 'dead', `lease_until` = NULL, `attempts` = ?, `due_at` = NULL WHERE `id` = ? AND `fence` = ? AND `status` IN ('running') AND `lease_until` IS NOT NULL;

-- mysql: extend
SELECT `id`, `fence` FROM `tickets` WHERE CASE WHEN `status` IN ('running') AND `lease_until` IS NOT NULL THEN 1 END = 1 AND `id` IN (?) FOR UPDATE;

-- mysql: release
UPDATE `tickets` SET `status` = 'ready', `attempts` = `attempts` - 1, `due_at` = NULL, `lease_until` = NULL WHERE `id` = ? AND `fence` = ? AND `status` IN ('running') AND `lease_until` IS NOT NULL;
