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

-- claim
SELECT `run id` FROM `app`.`run"s` FORCE INDEX (claim_4914734f) WHERE claim_4914734f = 1 AND (category = ?) AND (busy < ? OR urgent) ORDER BY submitted_date LIMIT 10 FOR UPDATE SKIP LOCKED;

-- sweep
SELECT `run id` FROM `app`.`run"s` FORCE INDEX (sweep_cf13dc98) WHERE sweep_cf13dc98 <= TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) DIV 1000000 AND (category = ?) ORDER BY sweep_cf13dc98 LIMIT 10 FOR UPDATE SKIP LOCKED;

-- promote
SELECT `run id` FROM `app`.`run"s` FORCE INDEX (promote_41375147) WHERE promote_41375147 <= TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) DIV 1000000 AND (category = ?) ORDER BY promote_41375147 LIMIT 10 FOR UPDATE SKIP LOCKED;

-- succeed
UPDATE `app`.`run"s` SET retry_count = 0, `select` = ?, `lease` = NULL, `ended` = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) DIV 1000000, `sort of` = NULL, `why` = NULL WHERE `run id` = ? AND `f"e` = ? AND `select` IN ('claimed', 'running') AND `lease` IS NOT NULL;

-- succeed as
UPDATE `app`.`run"s` SET retry_count = 0, `select` = ?, `lease` = NULL, `ended` = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) DIV 1000000, `sort of` = NULL, `why` = NULL WHERE `run id` = ? AND `f"e` = ? AND `select` IN ('claimed', 'running') AND `lease` IS NOT NULL;

-- retry
UPDATE `app`.`run"s` SET error = ?, hold_reason = NULL, `select` = 'error', `lease` = NULL, `ended` = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) DIV 1000000, `retry_count` = ?, `limited` = ?, `polls` = ?, `first` = coalesce(? DIV 1000000, `first`), `next_retry_at` = (TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ? + 999999) DIV 1000000, `sort of` = ?, `why` = ? WHERE `run id` = ? AND `f"e` = ? AND `select` IN ('claimed', 'running') AND `lease` IS NOT NULL;

-- end
UPDATE `app`.`run"s` SET error = ?, hold_reason = ?, `select` = 'error', `lease` = NULL, `ended` = TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) DIV 1000000, `retry_count` = ?, `limited` = ?, `polls` = ?, `first` = coalesce(? DIV 1000000, `first`), `next_retry_at` = NULL, `sort of` = ?, `why` = ? WHERE `run id` = ? AND `f"e` = ? AND `select` IN ('claimed', 'running') AND `lease` IS NOT NULL;

-- extend
SELECT `run id` FROM `app`.`run"s` WHERE `run id` = ? AND `f"e` = ? AND `select` IN ('claimed', 'running') AND `lease` IS NOT NULL FOR UPDATE;

-- release
UPDATE `app`.`run"s` SET worker = NULL, `select` = 'it''s new', `first` = CASE WHEN `retry_count` <= 1 AND coalesce(`limited`, 0) = 0 AND coalesce(`polls`, 0) = 0 THEN NULL ELSE `first` END, `retry_count` = `retry_count` - 1, `next_retry_at` = NULL, `lease` = NULL WHERE `run id` = ? AND `f"e` = ? AND `select` IN ('claimed', 'running') AND `lease` IS NOT NULL;
