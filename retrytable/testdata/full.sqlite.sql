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

-- claim
UPDATE `app`.`run"s` SET worker = ?2, `select` = 'claimed', `retry_count` = coalesce(`retry_count`, 0) + 1, `next_retry_at` = NULL, `lease` = (CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + 300000000 + 999999) / 1000000, `f"e` = coalesce(`f"e`, 0) + 1, `first` = coalesce(`first`, CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000 / 1000000) WHERE `run id` IN (SELECT `run id` AS picked_id FROM `app`.`run"s` WHERE `select` IN ('it''s new') AND `next_retry_at` IS NULL AND (category = ?1) AND (busy < ?3 OR urgent) ORDER BY submitted_date LIMIT 10) RETURNING `run id`, `f"e`, coalesce(`retry_count`, 0), coalesce(`limited`, 0), coalesce(`polls`, 0), `first` * 1000000, `so"rt`, NULL, CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000;

-- sweep
UPDATE `app`.`run"s` SET `lease` = (CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + 300000000 + 999999) / 1000000, `f"e` = coalesce(`f"e`, 0) + 1 WHERE `run id` IN (SELECT `run id` AS picked_id FROM `app`.`run"s` WHERE `select` IN ('claimed', 'running') AND `lease` <= CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000 / 1000000 AND (category = ?1) ORDER BY `lease` LIMIT 10) RETURNING `run id`, `f"e`, coalesce(`retry_count`, 0), coalesce(`limited`, 0), coalesce(`polls`, 0), `first` * 1000000, `so"rt`, NULL, CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000;

-- promote
UPDATE `app`.`run"s` SET promoted = true, `select` = 'it''s new', `next_retry_at` = NULL WHERE `run id` IN (SELECT `run id` AS picked_id FROM `app`.`run"s` WHERE `select` IN ('it''s new', 'error') AND `next_retry_at` IS NOT NULL AND `next_retry_at` <= CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000 / 1000000 AND (category = ?1) ORDER BY `next_retry_at` LIMIT 10) RETURNING `run id`;

-- succeed
UPDATE `app`.`run"s` SET retry_count = 0, `select` = ?1, `lease` = NULL, `ended` = CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000 / 1000000, `sort of` = NULL, `why` = NULL WHERE `run id` = ?2 AND `f"e` = ?3 AND `select` IN ('claimed', 'running') AND `lease` IS NOT NULL;

-- succeed as
UPDATE `app`.`run"s` SET retry_count = 0, `select` = ?1, `lease` = NULL, `ended` = CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000 / 1000000, `sort of` = NULL, `why` = NULL WHERE `run id` = ?2 AND `f"e` = ?3 AND `select` IN ('claimed', 'running') AND `lease` IS NOT NULL;

-- retry
UPDATE `app`.`run"s` SET error = ?1, hold_reason = NULL, `select` = 'error', `lease` = NULL, `ended` = CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000 / 1000000, `retry_count` = ?2, `limited` = ?3, `polls` = ?4, `first` = coalesce(?5 / 1000000, `first`), `next_retry_at` = (CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + ?6 + 999999) / 1000000, `sort of` = ?7, `why` = ?8 WHERE `run id` = ?9 AND `f"e` = ?10 AND `select` IN ('claimed', 'running') AND `lease` IS NOT NULL;

-- end
UPDATE `app`.`run"s` SET error = ?1, hold_reason = ?1, `select` = 'error', `lease` = NULL, `ended` = CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000 / 1000000, `retry_count` = ?2, `limited` = ?3, `polls` = ?4, `first` = coalesce(?5 / 1000000, `first`), `next_retry_at` = NULL, `sort of` = ?6, `why` = ?7 WHERE `run id` = ?8 AND `f"e` = ?9 AND `select` IN ('claimed', 'running') AND `lease` IS NOT NULL;

-- extend
UPDATE `app`.`run"s` SET `lease` = (CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + ?1 + 999999) / 1000000 WHERE `run id` = ?2 AND `f"e` = ?3 AND `select` IN ('claimed', 'running') AND `lease` IS NOT NULL;

-- release
UPDATE `app`.`run"s` SET worker = NULL, `select` = 'it''s new', `first` = CASE WHEN `retry_count` <= 1 AND coalesce(`limited`, 0) = 0 AND coalesce(`polls`, 0) = 0 THEN NULL ELSE `first` END, `retry_count` = `retry_count` - 1, `next_retry_at` = NULL, `lease` = NULL WHERE `run id` = ?1 AND `f"e` = ?2 AND `select` IN ('claimed', 'running') AND `lease` IS NOT NULL;
