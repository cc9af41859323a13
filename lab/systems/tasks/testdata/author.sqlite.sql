-- The same in SQLite, with instants in microseconds since 1970.
CREATE TABLE task (
	id             text PRIMARY KEY,
	name           text NOT NULL,
	kind           text NOT NULL,
	status         text NOT NULL,
	timeout        integer NOT NULL,
	created_at     integer NOT NULL DEFAULT 0,
	started_at     integer,
	ended_at       integer,
	last_updated   integer NOT NULL DEFAULT 0,
	success        integer NOT NULL DEFAULT 0,
	failures       integer NOT NULL DEFAULT 0,
	failure_reason text
);
CREATE INDEX task_status ON task (status);
CREATE TABLE webhook_execution (idempotency_key text PRIMARY KEY, task_id text, status text);
WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 999),
	w(i, word) AS (SELECT i, CASE i % 10 WHEN 0 THEN 'waiting' WHEN 1 THEN 'pending' WHEN 2 THEN 'claimed' WHEN 3 THEN 'claimed silent'
		WHEN 4 THEN 'running' WHEN 5 THEN 'running silent' WHEN 6 THEN 'failure' WHEN 7 THEN 'success' WHEN 8 THEN 'paused' ELSE 'canceled' END FROM n)
INSERT INTO task (id, name, kind, status, timeout, created_at, started_at, last_updated)
	SELECT 'task-' || i, word, 'etl', CASE WHEN word LIKE '% silent' THEN substr(word, 1, length(word) - 7) ELSE word END, 60,
		(unixepoch() - i) * 1000000, CASE WHEN word LIKE 'running%' THEN (unixepoch() - 3600) * 1000000 END,
		(unixepoch() - CASE WHEN word LIKE '%silent' THEN 3600 ELSE 1 END) * 1000000
	FROM w
