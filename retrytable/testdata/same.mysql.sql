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

-- claim
SELECT `id` FROM `tickets` FORCE INDEX (claim_5a73466b) WHERE claim_5a73466b <= TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) DIV 1000 ORDER BY claim_5a73466b LIMIT 10 FOR UPDATE SKIP LOCKED;

-- sweep
SELECT `id` FROM `tickets` FORCE INDEX (sweep_458d3090) WHERE sweep_458d3090 <= TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) DIV 1000 ORDER BY sweep_458d3090 LIMIT 10 FOR UPDATE SKIP LOCKED;

-- promote
SELECT `id` FROM `tickets` FORCE INDEX (claim_5a73466b) WHERE claim_5a73466b <= TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) DIV 1000 AND (`due_at` IS NOT NULL) ORDER BY claim_5a73466b LIMIT 10 FOR UPDATE SKIP LOCKED;

-- succeed
UPDATE `tickets` SET `status` = ?, `lease_until` = NULL WHERE `id` = ? AND `fence` = ? AND `status` IN ('running') AND `lease_until` IS NOT NULL;

-- succeed as
UPDATE `tickets` SET `status` = ?, `lease_until` = NULL WHERE `id` = ? AND `fence` = ? AND `status` IN ('running') AND `lease_until` IS NOT NULL;

-- retry
UPDATE `tickets` SET `status` = 'ready', `lease_until` = NULL, `attempts` = ?, `due_at` = (TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6)) + ? + 999) DIV 1000 WHERE `id` = ? AND `fence` = ? AND `status` IN ('running') AND `lease_until` IS NOT NULL;

-- end
UPDATE `tickets` SET `status` = 'dead', `lease_until` = NULL, `attempts` = ?, `due_at` = NULL WHERE `id` = ? AND `fence` = ? AND `status` IN ('running') AND `lease_until` IS NOT NULL;

-- extend
SELECT `id` FROM `tickets` WHERE `id` = ? AND `fence` = ? AND `status` IN ('running') AND `lease_until` IS NOT NULL FOR UPDATE;

-- release
UPDATE `tickets` SET `status` = 'ready', `attempts` = `attempts` - 1, `due_at` = NULL, `lease_until` = NULL WHERE `id` = ? AND `fence` = ? AND `status` IN ('running') AND `lease_until` IS NOT NULL;
