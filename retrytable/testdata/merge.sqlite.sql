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

-- claim
UPDATE `app`.`runs` SET `status` = 'running', `next_retry_at` = NULL, `lease_until` = strftime('%Y-%m-%dT%H:%M:%f+00:00', (CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) + (60000000 + 999) / 1000) / 1000.0, 'unixepoch'), `fence` = coalesce(`fence`, 0) + 1, `first_at` = coalesce(`first_at`, strftime('%Y-%m-%dT%H:%M:%f+00:00', (CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)) / 1000.0, 'unixepoch')) WHERE `id` IN (SELECT `app`.`runs`.`id` FROM (SELECT * FROM (SELECT `id` AS picked_id FROM `app`.`runs` WHERE `status` IN ('ready') ORDER BY submitted LIMIT 10) UNION ALL SELECT * FROM (SELECT `id` AS picked_id FROM (SELECT * FROM `app`.`runs` WHERE `status` IN ('error') AND `next_retry_at` IS NOT NULL AND CAST(round((julianday(`next_retry_at`) - 2440587.5) * 86400000.0) AS INTEGER) <= CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) ORDER BY CAST(round((julianday(`next_retry_at`) - 2440587.5) * 86400000.0) AS INTEGER) LIMIT 1000) AS `runs` ORDER BY submitted LIMIT 110)) CROSS JOIN `app`.`runs` ON `app`.`runs`.`id` = picked_id ORDER BY submitted LIMIT 10) RETURNING `id`, `fence`, coalesce(`retry_count`, 0) + 1, 0, 0, CAST(round((julianday(`first_at`) - 2440587.5) * 86400000.0) AS INTEGER) * 1000, NULL, NULL, CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000;

-- sweep
UPDATE `app`.`runs` SET `lease_until` = strftime('%Y-%m-%dT%H:%M:%f+00:00', (CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) + (60000000 + 999) / 1000) / 1000.0, 'unixepoch'), `fence` = coalesce(`fence`, 0) + 1 WHERE `id` IN (SELECT `id` AS picked_id FROM `app`.`runs` WHERE `status` IN ('running') AND CAST(round((julianday(`lease_until`) - 2440587.5) * 86400000.0) AS INTEGER) <= CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) ORDER BY CAST(round((julianday(`lease_until`) - 2440587.5) * 86400000.0) AS INTEGER) LIMIT 10) RETURNING `id`, `fence`, coalesce(`retry_count`, 0) + 1, 0, 0, CAST(round((julianday(`first_at`) - 2440587.5) * 86400000.0) AS INTEGER) * 1000, NULL, NULL, CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000;

-- promote
UPDATE `app`.`runs` SET `status` = 'ready', `next_retry_at` = NULL WHERE `id` IN (SELECT `id` AS picked_id FROM `app`.`runs` WHERE `status` IN ('error') AND `next_retry_at` IS NOT NULL AND CAST(round((julianday(`next_retry_at`) - 2440587.5) * 86400000.0) AS INTEGER) <= CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) ORDER BY CAST(round((julianday(`next_retry_at`) - 2440587.5) * 86400000.0) AS INTEGER) LIMIT 10) RETURNING `id`;

-- succeed
UPDATE `app`.`runs` SET `status` = ?1, `lease_until` = NULL WHERE `id` = ?2 AND `fence` = ?3 AND `status` IN ('running') AND `lease_until` IS NOT NULL;

-- succeed as
UPDATE `app`.`runs` SET `status` = ?1, `lease_until` = NULL WHERE `id` = ?2 AND `fence` = ?3 AND `status` IN ('running') AND `lease_until` IS NOT NULL;

-- retry
UPDATE `app`.`runs` SET `status` = 'error', `lease_until` = NULL, `retry_count` = ?1, `first_at` = coalesce(strftime('%Y-%m-%dT%H:%M:%f+00:00', ((?2 + 999) / 1000) / 1000.0, 'unixepoch'), `first_at`), `next_retry_at` = strftime('%Y-%m-%dT%H:%M:%f+00:00', (CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) + (?3 + 999) / 1000) / 1000.0, 'unixepoch') WHERE `id` = ?4 AND `fence` = ?5 AND `status` IN ('running') AND `lease_until` IS NOT NULL;

-- end
UPDATE `app`.`runs` SET `status` = 'error', `lease_until` = NULL, `first_at` = coalesce(strftime('%Y-%m-%dT%H:%M:%f+00:00', ((?1 + 999) / 1000) / 1000.0, 'unixepoch'), `first_at`), `next_retry_at` = NULL WHERE `id` = ?2 AND `fence` = ?3 AND `status` IN ('running') AND `lease_until` IS NOT NULL;

-- extend
UPDATE `app`.`runs` SET `lease_until` = strftime('%Y-%m-%dT%H:%M:%f+00:00', (CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) + (?1 + 999) / 1000) / 1000.0, 'unixepoch') WHERE `id` = ?2 AND `fence` = ?3 AND `status` IN ('running') AND `lease_until` IS NOT NULL;

-- release
UPDATE `app`.`runs` SET `status` = 'ready', `first_at` = CASE WHEN `retry_count` <= 0 THEN NULL ELSE `first_at` END, `next_retry_at` = NULL, `lease_until` = NULL WHERE `id` = ?1 AND `fence` = ?2 AND `status` IN ('running') AND `lease_until` IS NOT NULL;
