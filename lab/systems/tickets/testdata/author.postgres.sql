-- A table of tickets as somebody has it, with 1,000 of them. This script knows nothing of
-- the program that is to work on them.
CREATE TABLE designs (id UUID PRIMARY KEY DEFAULT gen_random_uuid(), name TEXT NOT NULL, definition TEXT NOT NULL);
INSERT INTO designs (name, definition) VALUES ('good', 'good'), ('limited', 'limited'), ('broken', 'broken');

CREATE TABLE tickets (
	id              UUID PRIMARY KEY DEFAULT gen_random_uuid(),
	title           TEXT NOT NULL,
	design_id       UUID REFERENCES designs (id),
	state           TEXT NOT NULL DEFAULT 'ready'
		CHECK (state IN ('ready', 'in_progress', 'needs_review', 'on_hold', 'cancelled')),
	assignee_type   TEXT,
	priority        INTEGER DEFAULT 0,
	vm_id           TEXT,
	error           TEXT,
	hold_reason     TEXT,
	retry_count     INTEGER DEFAULT 0,
	rejection_count INTEGER DEFAULT 0,
	created_at      TIMESTAMP DEFAULT NOW(),
	updated_at      TIMESTAMP DEFAULT NOW(),
	completed_at    TIMESTAMP
);
ALTER TABLE tickets ADD COLUMN IF NOT EXISTS retry_after TIMESTAMP;
ALTER TABLE tickets ADD COLUMN IF NOT EXISTS retry_strategy JSONB;

INSERT INTO tickets (title, state, assignee_type, priority, vm_id, error, hold_reason, retry_count, rejection_count,
	retry_after, completed_at, created_at, design_id)
SELECT k.title, k.state, k.assignee, n % 7, k.vm, k.error, k.reason, k.retries, n % 3,
	NOW() + k.wait, CASE WHEN k.state IN ('on_hold', 'cancelled') THEN NOW() END, NOW() - n * interval '1 minute',
	(SELECT id FROM designs WHERE name = k.design)
FROM generate_series(0, 999) AS n JOIN (VALUES
	(0, 'new', 'ready', 'agent', NULL, NULL, NULL, NULL, NULL::interval, 'good'),
	(1, 'due', 'ready', 'agent', NULL, 'HTTP 503', NULL, 1, interval '-1 minute', 'good'),
	(2, 'waits', 'ready', 'agent', NULL, 'HTTP 503', NULL, 2, interval '1 hour', 'good'),
	(3, 'in work', 'in_progress', 'agent', 'vm-old', NULL, NULL, 1, interval '-1 hour', 'good'),
	(4, 'reviewed', 'needs_review', 'agent', NULL, NULL, NULL, 0, NULL, 'good'),
	(5, 'held', 'on_hold', 'agent', NULL, 'HTTP 503', 'Max retries exceeded: transient', 3, interval '-1 hour', 'limited'),
	(6, 'cancelled', 'cancelled', 'agent', NULL, 'HTTP 503', NULL, 0, NULL, 'limited'),
	(7, 'of a person', 'ready', 'human', NULL, NULL, NULL, 0, NULL, 'good'),
	(8, 'limited', 'ready', 'agent', NULL, NULL, NULL, 0, NULL, 'limited'),
	(9, 'last try', 'ready', 'agent', NULL, 'HTTP 503', NULL, 3, interval '-1 second', 'limited'),
	(10, 'broken', 'ready', 'agent', NULL, NULL, NULL, 0, NULL, 'broken')
) AS k (kind, title, state, assignee, vm, error, reason, retries, wait, design) ON k.kind = n % 11;
