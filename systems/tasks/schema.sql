CREATE TABLE task (
	id text PRIMARY KEY,
	status text NOT NULL DEFAULT 'pending',
	batch_id text NOT NULL DEFAULT '',
	position bigint NOT NULL DEFAULT 0,
	local_id text NOT NULL DEFAULT '',
	name text NOT NULL DEFAULT '',
	kind text NOT NULL DEFAULT '',
	timeout int NOT NULL DEFAULT 60,
	max_concurrency int NOT NULL DEFAULT 0,
	on_start jsonb,
	on_success jsonb,
	on_failure jsonb,
	retry_policy jsonb,
	attempt int NOT NULL DEFAULT 0,
	next_retry_at {instant},
	success bigint NOT NULL DEFAULT 0,
	failures bigint NOT NULL DEFAULT 0,
	failure_reason text,
	created_at {instant} NOT NULL DEFAULT {added},
	started_at {instant},
	ended_at {instant},
	last_updated {instant} NOT NULL DEFAULT {added}
);
CREATE INDEX task_batch ON task (batch_id);
CREATE INDEX task_created ON task (created_at);
CREATE INDEX task_running ON task (kind) WHERE status IN ('claimed', 'running');
CREATE INDEX task_timeouts ON task (lease_until) WHERE status IN ('running');
CREATE TABLE task_link (
	parent_id {id} NOT NULL,
	child_id {id} NOT NULL,
	PRIMARY KEY (parent_id, child_id)
);
CREATE INDEX task_link_child ON task_link (child_id);
CREATE TABLE webhook_execution (
	idempotency_key text PRIMARY KEY,
	task_id {id},
	attempt int NOT NULL DEFAULT 0,
	action jsonb,
	error text
);
CREATE INDEX webhook_execution_task ON webhook_execution (task_id)
