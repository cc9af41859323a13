-- A table as somebody had it before there were retries, with 1,000 tasks in every status.
CREATE TYPE status_kind AS ENUM ('waiting', 'pending', 'claimed', 'running', 'failure', 'success', 'paused', 'canceled');
CREATE TABLE task (
	id             uuid PRIMARY KEY DEFAULT gen_random_uuid(),
	name           text NOT NULL,
	kind           text NOT NULL,
	status         status_kind NOT NULL,
	timeout        int NOT NULL,
	created_at     timestamptz NOT NULL DEFAULT now(),
	started_at     timestamptz,
	ended_at       timestamptz,
	last_updated   timestamptz NOT NULL DEFAULT now(),
	success        int NOT NULL DEFAULT 0,
	failures       int NOT NULL DEFAULT 0,
	failure_reason text
);
CREATE INDEX task_status ON task (status);
CREATE TABLE webhook_execution (idempotency_key text PRIMARY KEY, task_id uuid, status text);
INSERT INTO task (name, kind, status, timeout, created_at, started_at, last_updated)
	SELECT word, 'etl', split_part(word, ' ', 1)::status_kind, 60, now() - i * interval '1 second',
		CASE WHEN word LIKE 'running%' THEN now() - interval '1 hour' END,
		now() - CASE WHEN word LIKE '%silent' THEN interval '1 hour' ELSE interval '1 second' END
	FROM generate_series(0, 999) AS i, LATERAL (SELECT (ARRAY['waiting', 'pending', 'claimed', 'claimed silent', 'running',
		'running silent', 'failure', 'success', 'paused', 'canceled'])[i % 10 + 1] AS word) AS words
