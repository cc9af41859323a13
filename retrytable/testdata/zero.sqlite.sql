ALTER TABLE `jobs` ADD COLUMN `status` TEXT NOT NULL DEFAULT 'ready';
ALTER TABLE `jobs` ADD COLUMN `attempts` INTEGER NOT NULL DEFAULT 0;
ALTER TABLE `jobs` ADD COLUMN `due_at` INTEGER;
ALTER TABLE `jobs` ADD COLUMN `lease_until` INTEGER;
ALTER TABLE `jobs` ADD COLUMN `fence` INTEGER NOT NULL DEFAULT 0;
CREATE INDEX IF NOT EXISTS `jobs_claim` ON `jobs` ((CASE WHEN `status` = 'ready' THEN coalesce(`due_at`, 0) ELSE `due_at` END)) WHERE `status` IN ('ready', 'waiting');
CREATE INDEX IF NOT EXISTS `jobs_sweep` ON `jobs` (`lease_until`) WHERE `status` IN ('running');
CREATE INDEX IF NOT EXISTS `jobs_dead` ON `jobs` (`status`, `id`) WHERE `status` IN ('dead');

-- claim
UPDATE `jobs` SET `status` = 'running', `attempts` = coalesce(`attempts`, 0) + 1, `due_at` = NULL, `lease_until` = CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + 60000000, `fence` = coalesce(`fence`, 0) + 1 WHERE `id` IN (SELECT `id` AS picked_id FROM `jobs` WHERE `status` IN ('ready', 'waiting') AND CASE WHEN `status` = 'ready' THEN coalesce(`due_at`, 0) ELSE `due_at` END <= CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000 ORDER BY CASE WHEN `status` = 'ready' THEN coalesce(`due_at`, 0) ELSE `due_at` END LIMIT 10) RETURNING `id`, `fence`, coalesce(`attempts`, 0), 0, 0, NULL, NULL, NULL, CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000;

-- sweep
UPDATE `jobs` SET `lease_until` = CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + 60000000, `fence` = coalesce(`fence`, 0) + 1 WHERE `id` IN (SELECT `id` AS picked_id FROM `jobs` WHERE `status` IN ('running') AND `lease_until` <= CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000 ORDER BY `lease_until` LIMIT 10) RETURNING `id`, `fence`, coalesce(`attempts`, 0), 0, 0, NULL, NULL, NULL, CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000;

-- promote
UPDATE `jobs` SET `status` = 'ready', `due_at` = NULL WHERE `id` IN (SELECT `id` AS picked_id FROM `jobs` WHERE `status` IN ('ready', 'waiting') AND CASE WHEN `status` = 'ready' THEN coalesce(`due_at`, 0) ELSE `due_at` END <= CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000 AND (`due_at` IS NOT NULL) ORDER BY CASE WHEN `status` = 'ready' THEN coalesce(`due_at`, 0) ELSE `due_at` END LIMIT 10) RETURNING `id`;

-- succeed
UPDATE `jobs` SET `status` = ?1, `lease_until` = NULL WHERE `id` = ?2 AND `fence` = ?3 AND `status` IN ('running') AND `lease_until` IS NOT NULL;

-- succeed as
UPDATE `jobs` SET `status` = ?1, `lease_until` = NULL WHERE `id` = ?2 AND `fence` = ?3 AND `status` IN ('running') AND `lease_until` IS NOT NULL;

-- retry
UPDATE `jobs` SET `status` = 'waiting', `lease_until` = NULL, `attempts` = ?1, `due_at` = CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + ?2 WHERE `id` = ?3 AND `fence` = ?4 AND `status` IN ('running') AND `lease_until` IS NOT NULL;

-- end
UPDATE `jobs` SET `status` = 'dead', `lease_until` = NULL, `attempts` = ?1, `due_at` = NULL WHERE `id` = ?2 AND `fence` = ?3 AND `status` IN ('running') AND `lease_until` IS NOT NULL;

-- extend
UPDATE `jobs` SET `lease_until` = CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000 + ?1 WHERE `id` = ?2 AND `fence` = ?3 AND `status` IN ('running') AND `lease_until` IS NOT NULL;

-- release
UPDATE `jobs` SET `status` = 'ready', `attempts` = `attempts` - 1, `due_at` = NULL, `lease_until` = NULL WHERE `id` = ?1 AND `fence` = ?2 AND `status` IN ('running') AND `lease_until` IS NOT NULL;
