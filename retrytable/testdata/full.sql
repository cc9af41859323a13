-- postgres
ALTER TABLE "app"."run""s" ADD COLUMN IF NOT EXISTS "select" text NOT NULL DEFAULT 'it''s new';
ALTER TABLE "app"."run""s" ADD COLUMN IF NOT EXISTS "retry_count" bigint NOT NULL DEFAULT 0;
ALTER TABLE "app"."run""s" ADD COLUMN IF NOT EXISTS "next_retry_at" bigint;
ALTER TABLE "app"."run""s" ADD COLUMN IF NOT EXISTS "lease" bigint;
ALTER TABLE "app"."run""s" ADD COLUMN IF NOT EXISTS "f""e" bigint NOT NULL DEFAULT 0;
ALTER TABLE "app"."run""s" ADD COLUMN IF NOT EXISTS "limited" bigint NOT NULL DEFAULT 0;
ALTER TABLE "app"."run""s" ADD COLUMN IF NOT EXISTS "polls" bigint NOT NULL DEFAULT 0;
ALTER TABLE "app"."run""s" ADD COLUMN IF NOT EXISTS "first" bigint;
ALTER TABLE "app"."run""s" ADD COLUMN IF NOT EXISTS "ended" bigint;
ALTER TABLE "app"."run""s" ADD COLUMN IF NOT EXISTS "so""rt" text;
ALTER TABLE "app"."run""s" ADD COLUMN IF NOT EXISTS "sort of" text;
ALTER TABLE "app"."run""s" ADD COLUMN IF NOT EXISTS "why" text;
CREATE INDEX IF NOT EXISTS "run""s_claim" ON "app"."run""s" ("select", submitted_date) WHERE "select" IN ('it''s new') AND "next_retry_at" IS NULL;
CREATE INDEX IF NOT EXISTS "run""s_promote" ON "app"."run""s" ("next_retry_at") WHERE "select" IN ('it''s new', 'error') AND "next_retry_at" IS NOT NULL;
CREATE INDEX IF NOT EXISTS "run""s_sweep" ON "app"."run""s" ("lease") WHERE "select" IN ('claimed', 'running');
CREATE INDEX IF NOT EXISTS "run""s_dead" ON "app"."run""s" ("select", "run id") WHERE "select" IN ('error') AND "next_retry_at" IS NULL;

-- postgres: claim
WITH picked AS MATERIALIZED (SELECT picked_id FROM (SELECT "run id" AS picked_id FROM "app"."run""s" WHERE "select" IN ('it''s new') AND "next_retry_at" IS NULL AND (category = $1) AND (busy < $3 OR urgent) ORDER BY submitted_date LIMIT 16 FOR NO KEY UPDATE SKIP LOCKED) AS each LIMIT $4) UPDATE "app"."run""s" SET worker = $2, "select" = 'claimed', "retry_count" = coalesce("retry_count", 0) + 1, "next_retry_at" = NULL, "lease" = ((extract(epoch FROM clock_timestamp()) * 1000000)::bigint + 300000000::bigint + 999999) / 1000000, "f""e" = coalesce("f""e", 0) + 1, "first" = coalesce("first", (extract(epoch FROM statement_timestamp()) * 1000000)::bigint / 1000000) WHERE "run id" = ANY (ARRAY(SELECT picked_id FROM picked)) RETURNING "run id", "f""e", coalesce("retry_count", 0), coalesce("limited", 0), coalesce("polls", 0), "first" * 1000000, "so""rt", NULL, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

-- postgres: sweep
WITH picked AS MATERIALIZED (SELECT picked_id FROM (SELECT "run id" AS picked_id FROM "app"."run""s" WHERE "select" IN ('claimed', 'running') AND "lease" <= (extract(epoch FROM statement_timestamp()) * 1000000)::bigint / 1000000 AND (category = $1) ORDER BY "lease" LIMIT 16 FOR NO KEY UPDATE SKIP LOCKED) AS each LIMIT $2) UPDATE "app"."run""s" SET "lease" = ((extract(epoch FROM clock_timestamp()) * 1000000)::bigint + 300000000::bigint + 999999) / 1000000, "f""e" = coalesce("f""e", 0) + 1 WHERE "run id" = ANY (ARRAY(SELECT picked_id FROM picked)) RETURNING "run id", "f""e", coalesce("retry_count", 0), coalesce("limited", 0), coalesce("polls", 0), "first" * 1000000, "so""rt", NULL, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

-- postgres: promote
WITH picked AS MATERIALIZED (SELECT picked_id FROM (SELECT "run id" AS picked_id FROM "app"."run""s" WHERE "select" IN ('it''s new', 'error') AND "next_retry_at" IS NOT NULL AND "next_retry_at" <= (extract(epoch FROM statement_timestamp()) * 1000000)::bigint / 1000000 AND (category = $1) ORDER BY "next_retry_at" LIMIT 16 FOR NO KEY UPDATE SKIP LOCKED) AS each LIMIT $2) UPDATE "app"."run""s" SET promoted = true, "select" = 'it''s new', "next_retry_at" = NULL WHERE "run id" = ANY (ARRAY(SELECT picked_id FROM picked)) RETURNING "run id";

-- postgres: succeed
UPDATE "app"."run""s" SET retry_count = 0, "select" = $1, "lease" = NULL, "ended" = (extract(epoch FROM statement_timestamp()) * 1000000)::bigint / 1000000, "sort of" = NULL, "why" = NULL WHERE "run id" = $2 AND "f""e" = $3 AND "select" IN ('claimed', 'running') AND "lease" IS NOT NULL;

-- postgres: succeed as
UPDATE "app"."run""s" SET retry_count = 0, "select" = $1, "lease" = NULL, "ended" = (extract(epoch FROM statement_timestamp()) * 1000000)::bigint / 1000000, "sort of" = NULL, "why" = NULL WHERE "run id" = $2 AND "f""e" = $3 AND "select" IN ('claimed', 'running') AND "lease" IS NOT NULL;

-- postgres: retry
UPDATE "app"."run""s" SET error = $1, hold_reason = NULL, "select" = 'error', "lease" = NULL, "ended" = (extract(epoch FROM statement_timestamp()) * 1000000)::bigint / 1000000, "retry_count" = $2, "limited" = $3, "polls" = $4, "first" = coalesce($5::bigint / 1000000, "first"), "next_retry_at" = ((extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $6::bigint + 999999) / 1000000, "sort of" = $7, "why" = $8 WHERE "run id" = $9 AND "f""e" = $10 AND "select" IN ('claimed', 'running') AND "lease" IS NOT NULL;

-- postgres: end
UPDATE "app"."run""s" SET error = $1, hold_reason = $1, "select" = 'error', "lease" = NULL, "ended" = (extract(epoch FROM statement_timestamp()) * 1000000)::bigint / 1000000, "retry_count" = $2, "limited" = $3, "polls" = $4, "first" = coalesce($5::bigint / 1000000, "first"), "next_retry_at" = NULL, "sort of" = $6, "why" = $7 WHERE "run id" = $8 AND "f""e" = $9 AND "select" IN ('claimed', 'running') AND "lease" IS NOT NULL;

-- postgres: extend
WITH held AS MATERIALIZED (SELECT "run id" AS held_id FROM "app"."run""s" WHERE "run id" = $2 AND "f""e" = $3 AND "select" IN ('claimed', 'running') AND "lease" IS NOT NULL FOR NO KEY UPDATE) UPDATE "app"."run""s" SET "lease" = ((extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $1::bigint + 999999) / 1000000 FROM held WHERE "run id" = held_id;

-- postgres: release
UPDATE "app"."run""s" SET worker = NULL, "select" = 'it''s new', "first" = CASE WHEN "retry_count" <= 1 AND coalesce("limited", 0) = 0 AND coalesce("polls", 0) = 0 THEN NULL ELSE "first" END, "retry_count" = "retry_count" - 1, "next_retry_at" = NULL, "lease" = NULL WHERE "run id" = $1 AND "f""e" = $2 AND "select" IN ('claimed', 'running') AND "lease" IS NOT NULL;
-- sqlite
ALTER TABLE `app`.`run"s` ADD COLUMN `select` TEXT NOT NULL DEFAULT 'it''s new';
ALTER TABLE `app`.`run"s` ADD COLUMN `retry_count` INTEGER NOT NULL DEFAULT 0;
ALTER TABLE `app`.`run"s` ADD COLUMN `next_retry_at` INTEGER;
ALTER TABLE `app`.`run"s` ADD COLUMN `lease` INTEGER;
ALTER TABLE `app`.`run"s` ADD COLUMN `f"e` INTEGER NOT NULL DEFAULT 0;
ALTER TABLE `app`.`run"s` ADD COLUMN `limited` INTEGER NOT NULL DEFAULT 0;
ALTER TABLE `app`.`run"s` ADD COLUMN `polls` INTEGER NOT NULL DEFAULT 0;
ALTER TABLE `app`.`run"s` ADD COLUMN `first` INTEGER;
ALTER TABLE `app`.`run"s` ADD COLUMN `ended` INTEGER;
ALTER TABLE `app`.`run"s` ADD COLUMN `so"rt` TEXT;
ALTER TABLE `app`.`run"s` ADD COLUMN `sort of` TEXT;
ALTER TABLE `app`.`run"s` ADD COLUMN `why` TEXT;
CREATE INDEX IF NOT EXISTS `app`.`run"s_claim` ON `run"s` (`select`, submitted_date) WHERE `select` IN ('it''s new') AND `next_retry_at` IS NULL;
CREATE INDEX IF NOT EXISTS `app`.`run"s_promote` ON `run"s` (`next_retry_at`) WHERE `select` IN ('it''s new', 'error') AND `next_retry_at` IS NOT NULL;
CREATE INDEX IF NOT EXISTS `app`.`run"s_sweep` ON `run"s` (`lease`) WHERE `select` IN ('claimed', 'running');
CREATE INDEX IF NOT EXISTS `app`.`run"s_dead` ON `run"s` (`select`, `run id`) WHERE `select` IN ('error') AND `next_retry_at` IS NULL;

-- sqlite: claim
UPDATE `app`.`run"s` SET worker = ?2, `select` = 'claimed', `retry_count` = coalesce(`retry_count`, 0) + 1, `next_retry_at` = NULL, `lease` = (CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + 300000000 + 999999) / 1000000, `f"e` = coalesce(`f"e`, 0) + 1, `first` = coalesce(`first`, CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000 / 1000000) WHERE `run id` IN (SELECT `run id` AS picked_id FROM `app`.`run"s` WHERE `select` IN ('it''s new') AND `next_retry_at` IS NULL AND (category = ?1) AND (busy < ?3 OR urgent) ORDER BY submitted_date LIMIT 10) RETURNING `run id`, `f"e`, coalesce(`retry_count`, 0), coalesce(`limited`, 0), coalesce(`polls`, 0), `first` * 1000000, `so"rt`, NULL, CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000;

-- sqlite: sweep
UPDATE `app`.`run"s` SET `lease` = (CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + 300000000 + 999999) / 1000000, `f"e` = coalesce(`f"e`, 0) + 1 WHERE `run id` IN (SELECT `run id` AS picked_id FROM `app`.`run"s` WHERE `select` IN ('claimed', 'running') AND `lease` <= CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000 / 1000000 AND (category = ?1) ORDER BY `lease` LIMIT 10) RETURNING `run id`, `f"e`, coalesce(`retry_count`, 0), coalesce(`limited`, 0), coalesce(`polls`, 0), `first` * 1000000, `so"rt`, NULL, CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000;

-- sqlite: promote
UPDATE `app`.`run"s` SET promoted = true, `select` = 'it''s new', `next_retry_at` = NULL WHERE `run id` IN (SELECT `run id` AS picked_id FROM `app`.`run"s` WHERE `select` IN ('it''s new', 'error') AND `next_retry_at` IS NOT NULL AND `next_retry_at` <= CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000 / 1000000 AND (category = ?1) ORDER BY `next_retry_at` LIMIT 10) RETURNING `run id`;

-- sqlite: succeed
UPDATE `app`.`run"s` SET retry_count = 0, `select` = ?1, `lease` = NULL, `ended` = CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000 / 1000000, `sort of` = NULL, `why` = NULL WHERE `run id` = ?2 AND `f"e` = ?3 AND `select` IN ('claimed', 'running') AND `lease` IS NOT NULL;

-- sqlite: succeed as
UPDATE `app`.`run"s` SET retry_count = 0, `select` = ?1, `lease` = NULL, `ended` = CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000 / 1000000, `sort of` = NULL, `why` = NULL WHERE `run id` = ?2 AND `f"e` = ?3 AND `select` IN ('claimed', 'running') AND `lease` IS NOT NULL;

-- sqlite: retry
UPDATE `app`.`run"s` SET error = ?1, hold_reason = NULL, `select` = 'error', `lease` = NULL, `ended` = CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000 / 1000000, `retry_count` = ?2, `limited` = ?3, `polls` = ?4, `first` = coalesce(?5 / 1000000, `first`), `next_retry_at` = (CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + ?6 + 999999) / 1000000, `sort of` = ?7, `why` = ?8 WHERE `run id` = ?9 AND `f"e` = ?10 AND `select` IN ('claimed', 'running') AND `lease` IS NOT NULL;

-- sqlite: end
UPDATE `app`.`run"s` SET error = ?1, hold_reason = ?1, `select` = 'error', `lease` = NULL, `ended` = CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000 / 1000000, `retry_count` = ?2, `limited` = ?3, `polls` = ?4, `first` = coalesce(?5 / 1000000, `first`), `next_retry_at` = NULL, `sort of` = ?6, `why` = ?7 WHERE `run id` = ?8 AND `f"e` = ?9 AND `select` IN ('claimed', 'running') AND `lease` IS NOT NULL;

-- sqlite: extend
UPDATE `app`.`run"s` SET `lease` = (CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + ?1 + 999999) / 1000000 WHERE `run id` = ?2 AND `f"e` = ?3 AND `select` IN ('claimed', 'running') AND `lease` IS NOT NULL;

-- sqlite: release
UPDATE `app`.`run"s` SET worker = NULL, `select` = 'it''s new', `first` = CASE WHEN `retry_count` <= 1 AND coalesce(`limited`, 0) = 0 AND coalesce(`polls`, 0) = 0 THEN NULL ELSE `first` END, `retry_count` = `retry_count` - 1, `next_retry_at` = NULL, `lease` = NULL WHERE `run id` = ?1 AND `f"e` = ?2 AND `select` IN ('claimed', 'running') AND `lease` IS NOT NULL;
-- mysql
ALTER TABLE `app`.`run"s`
	ADD COLUMN `select` varchar(255) CHARACTER SET utf8mb4 NOT NULL DEFAULT 'it''s new',
	ADD COLUMN `retry_count` bigint NOT NULL DEFAULT 0,
	ADD COLUMN `next_retry_at` bigint,
	ADD COLUMN `lease` bigint,
	ADD COLUMN `f"e` bigint NOT NULL DEFAULT 0,
	ADD COLUMN `limited` bigint NOT NULL DEFAULT 0,
	ADD COLUMN `polls` bigint NOT NULL DEFAULT 0,
	ADD COLUMN `first` bigint,
	ADD COLUMN `ended` bigint,
	ADD COLUMN `so"rt` varchar(255) CHARACTER SET utf8mb4,
	ADD COLUMN `sort of` varchar(255) CHARACTER SET utf8mb4,
	ADD COLUMN `why` text CHARACTER SET utf8mb4,
	ADD COLUMN claim_4914734f tinyint GENERATED ALWAYS AS (CASE WHEN `select` IN ('it''s new') AND `next_retry_at` IS NULL THEN 1 END) STORED INVISIBLE,
	ADD INDEX claim_4914734f (claim_4914734f, submitted_date),
	ADD COLUMN promote_41375147 bigint GENERATED ALWAYS AS (CASE WHEN `select` IN ('it''s new', 'error') AND `next_retry_at` IS NOT NULL THEN `next_retry_at` END) STORED INVISIBLE,
	ADD INDEX promote_41375147 (promote_41375147),
	ADD COLUMN sweep_cf13dc98 bigint GENERATED ALWAYS AS (CASE WHEN `select` IN ('claimed', 'running') THEN `lease` END) STORED INVISIBLE,
	ADD INDEX sweep_cf13dc98 (sweep_cf13dc98),
	ADD COLUMN dead_55961e0f tinyint GENERATED ALWAYS AS (CASE WHEN `select` IN ('error') AND `next_retry_at` IS NULL THEN 1 END) STORED INVISIBLE,
	ADD INDEX dead_55961e0f (dead_55961e0f, `run id`);

-- mysql: claim
SELECT `run id` FROM `app`.`run"s` FORCE INDEX (claim_4914734f) WHERE claim_4914734f = 1 AND (category = ?) AND (busy < ? OR urgent) ORDER BY submitted_date LIMIT 10 FOR UPDATE SKIP LOCKED;

-- mysql: sweep
SELECT `run id` FROM `app`.`run"s` FORCE INDEX (sweep_cf13dc98) WHERE sweep_cf13dc98 <= TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) DIV 1000000 AND (category = ?) ORDER BY sweep_cf13dc98 LIMIT 10 FOR UPDATE SKIP LOCKED;

-- mysql: promote
SELECT `run id` FROM `app`.`run"s` FORCE INDEX (promote_41375147) WHERE promote_41375147 <= TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) DIV 1000000 AND (category = ?) ORDER BY promote_41375147 LIMIT 10 FOR UPDATE SKIP LOCKED;

-- mysql: succeed
UPDATE `app`.`run"s` SET retry_count = 0, `select` = ?, `lease` = NULL, `ended` = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) DIV 1000000, `sort of` = NULL, `why` = NULL WHERE `run id` = ? AND `f"e` = ? AND `select` IN ('claimed', 'running') AND `lease` IS NOT NULL;

-- mysql: succeed as
UPDATE `app`.`run"s` SET retry_count = 0, `select` = ?, `lease` = NULL, `ended` = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) DIV 1000000, `sort of` = NULL, `why` = NULL WHERE `run id` = ? AND `f"e` = ? AND `select` IN ('claimed', 'running') AND `lease` IS NOT NULL;

-- mysql: retry
UPDATE `app`.`run"s` SET error = ?, hold_reason = NULL, `select` = 'error', `lease` = NULL, `ended` = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) DIV 1000000, `retry_count` = ?, `limited` = ?, `polls` = ?, `first` = coalesce(? DIV 1000000, `first`), `next_retry_at` = (TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ? + 999999) DIV 1000000, `sort of` = ?, `why` = ? WHERE `run id` = ? AND `f"e` = ? AND `select` IN ('claimed', 'running') AND `lease` IS NOT NULL;

-- mysql: end
UPDATE `app`.`run"s` SET error = ?, hold_reason = ?, `select` = 'error', `lease` = NULL, `ended` = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) DIV 1000000, `retry_count` = ?, `limited` = ?, `polls` = ?, `first` = coalesce(? DIV 1000000, `first`), `next_retry_at` = NULL, `sort of` = ?, `why` = ? WHERE `run id` = ? AND `f"e` = ? AND `select` IN ('claimed', 'running') AND `lease` IS NOT NULL;

-- mysql: extend
SELECT `run id`, `f"e` FROM `app`.`run"s` WHERE CASE WHEN `select` IN ('claimed', 'running') AND `lease` IS NOT NULL THEN 1 END = 1 AND `run id` IN (?) FOR UPDATE;

-- mysql: release
UPDATE `app`.`run"s` SET worker = NULL, `select` = 'it''s new', `first` = CASE WHEN `retry_count` <= 1 AND coalesce(`limited`, 0) = 0 AND coalesce(`polls`, 0) = 0 THEN NULL ELSE `first` END, `retry_count` = `retry_count` - 1, `next_retry_at` = NULL, `lease` = NULL WHERE `run id` = ? AND `f"e` = ? AND `select` IN ('claimed', 'running') AND `lease` IS NOT NULL;
