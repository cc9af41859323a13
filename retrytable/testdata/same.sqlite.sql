ALTER TABLE `tickets` ADD COLUMN `status` TEXT NOT NULL DEFAULT 'ready';
ALTER TABLE `tickets` ADD COLUMN `attempts` INTEGER NOT NULL DEFAULT 0;
ALTER TABLE `tickets` ADD COLUMN `due_at` INTEGER;
ALTER TABLE `tickets` ADD COLUMN `lease_until` INTEGER;
ALTER TABLE `tickets` ADD COLUMN `fence` INTEGER NOT NULL DEFAULT 0;
CREATE INDEX IF NOT EXISTS `tickets_claim` ON `tickets` ((coalesce(`due_at`, 0))) WHERE `status` IN ('ready');
CREATE INDEX IF NOT EXISTS `tickets_sweep` ON `tickets` (`lease_until`) WHERE `status` IN ('running');
CREATE INDEX IF NOT EXISTS `tickets_dead` ON `tickets` (`status`, `id`) WHERE `status` IN ('dead');

-- claim
UPDATE `tickets` SET `status` = 'running', `attempts` = coalesce(`attempts`, 0) + 1, `due_at` = NULL, `lease_until` = (CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + 60000000 + 999) / 1000, `fence` = coalesce(`fence`, 0) + 1 WHERE `id` IN (SELECT `id` AS picked_id FROM `tickets` WHERE `status` IN ('ready') AND coalesce(`due_at`, 0) <= CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000 / 1000 ORDER BY coalesce(`due_at`, 0) LIMIT 10) RETURNING `id`, `fence`, coalesce(`attempts`, 0), 0, 0, NULL, NULL, NULL, CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000;

-- sweep
UPDATE `tickets` SET `lease_until` = (CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + 60000000 + 999) / 1000, `fence` = coalesce(`fence`, 0) + 1 WHERE `id` IN (SELECT `id` AS picked_id FROM `tickets` WHERE `status` IN ('running') AND `lease_until` <= CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000 / 1000 ORDER BY `lease_until` LIMIT 10) RETURNING `id`, `fence`, coalesce(`attempts`, 0), 0, 0, NULL, NULL, NULL, CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000;

-- promote
UPDATE `tickets` SET `status` = 'ready', `due_at` = NULL WHERE `id` IN (SELECT `id` AS picked_id FROM `tickets` WHERE `status` IN ('ready') AND coalesce(`due_at`, 0) <= CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000 / 1000 AND (`due_at` IS NOT NULL) ORDER BY coalesce(`due_at`, 0) LIMIT 10) RETURNING `id`;

-- succeed
UPDATE `tickets` SET `status` = ?1, `lease_until` = NULL WHERE `id` = ?2 AND `fence` = ?3 AND `status` IN ('running') AND `lease_until` IS NOT NULL;

-- succeed as
UPDATE `tickets` SET `status` = ?1, `lease_until` = NULL WHERE `id` = ?2 AND `fence` = ?3 AND `status` IN ('running') AND `lease_until` IS NOT NULL;

-- retry
UPDATE `tickets` SET `status` = 'ready', `lease_until` = NULL, `attempts` = ?1, `due_at` = (CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + ?2 + 999) / 1000 WHERE `id` = ?3 AND `fence` = ?4 AND `status` IN ('running') AND `lease_until` IS NOT NULL;

-- end
UPDATE `tickets` SET `status` = 'dead', `lease_until` = NULL, `attempts` = ?1, `due_at` = NULL WHERE `id` = ?2 AND `fence` = ?3 AND `status` IN ('running') AND `lease_until` IS NOT NULL;

-- extend
UPDATE `tickets` SET `lease_until` = (CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + ?1 + 999) / 1000 WHERE `id` = ?2 AND `fence` = ?3 AND `status` IN ('running') AND `lease_until` IS NOT NULL;

-- release
UPDATE `tickets` SET `status` = 'ready', `attempts` = `attempts` - 1, `due_at` = NULL, `lease_until` = NULL WHERE `id` = ?1 AND `fence` = ?2 AND `status` IN ('running') AND `lease_until` IS NOT NULL;
