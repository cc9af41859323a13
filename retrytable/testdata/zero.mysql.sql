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

-- claim
SELECT `id` FROM `jobs` FORCE INDEX (claim_602cb9cf) WHERE claim_602cb9cf <= UTC_TIMESTAMP(6) ORDER BY claim_602cb9cf LIMIT 10 FOR UPDATE SKIP LOCKED;

-- sweep
SELECT `id` FROM `jobs` FORCE INDEX (sweep_3aab1c53) WHERE sweep_3aab1c53 <= UTC_TIMESTAMP(6) ORDER BY sweep_3aab1c53 LIMIT 10 FOR UPDATE SKIP LOCKED;

-- promote
SELECT `id` FROM `jobs` FORCE INDEX (claim_602cb9cf) WHERE claim_602cb9cf <= UTC_TIMESTAMP(6) AND (`due_at` IS NOT NULL) ORDER BY claim_602cb9cf LIMIT 10 FOR UPDATE SKIP LOCKED;

-- succeed
UPDATE `jobs` SET `status` = ?, `lease_until` = NULL WHERE `id` = ? AND `fence` = ? AND `status` IN ('running') AND `lease_until` IS NOT NULL;

-- succeed as
UPDATE `jobs` SET `status` = ?, `lease_until` = NULL WHERE `id` = ? AND `fence` = ? AND `status` IN ('running') AND `lease_until` IS NOT NULL;

-- retry
UPDATE `jobs` SET `status` = 'waiting', `lease_until` = NULL, `attempts` = ?, `due_at` = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND WHERE `id` = ? AND `fence` = ? AND `status` IN ('running') AND `lease_until` IS NOT NULL;

-- end
UPDATE `jobs` SET `status` = 'dead', `lease_until` = NULL, `attempts` = ?, `due_at` = NULL WHERE `id` = ? AND `fence` = ? AND `status` IN ('running') AND `lease_until` IS NOT NULL;

-- extend
SELECT `id` FROM `jobs` WHERE `id` = ? AND `fence` = ? AND `status` IN ('running') AND `lease_until` IS NOT NULL FOR UPDATE;

-- release
UPDATE `jobs` SET `status` = 'ready', `attempts` = `attempts` - 1, `due_at` = NULL, `lease_until` = NULL WHERE `id` = ? AND `fence` = ? AND `status` IN ('running') AND `lease_until` IS NOT NULL;
