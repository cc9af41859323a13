-- A pipeline's own table, with 1,000 partitions in every state.
CREATE TABLE partition_state (
	partition_key TEXT NOT NULL,
	customer      INTEGER NOT NULL,
	query         VARCHAR(64) NOT NULL,
	status        TEXT NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'running', 'failed', 'success')),
	attempt_count INTEGER NOT NULL DEFAULT 0,
	row_count     INTEGER,
	run_id        TEXT,
	error_message VARCHAR(500),
	updated_at    INTEGER NOT NULL,
	PRIMARY KEY (customer, query, partition_key)
);

WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 999)
INSERT INTO partition_state
SELECT date('2024-01-01', i || ' days'), 4711000000 + i % 7, 'query_' || i % 5,
	CASE i % 8 WHEN 0 THEN 'pending' WHEN 1 THEN 'running' WHEN 2 THEN 'success' ELSE 'failed' END,
	i / 3 % 13, i * 10, hex(randomblob(8)),
	CASE i % 5 WHEN 1 THEN 'quota exceeded' WHEN 2 THEN '[terminal] no such column'
		WHEN 3 THEN 'row count differs [terminal]' WHEN 4 THEN '' END,
	(unixepoch() - (i * 37 % 97 * 5 + 2) * 60) * 1000000
FROM n;
