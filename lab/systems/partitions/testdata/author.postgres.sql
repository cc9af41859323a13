-- A pipeline's own table, with 1,000 partitions in every state.
CREATE TYPE partition_status AS ENUM ('pending', 'running', 'failed', 'success');

CREATE TABLE partition_state (
	partition_key date NOT NULL,
	customer      bigint NOT NULL,
	query         varchar(64) NOT NULL,
	status        partition_status NOT NULL DEFAULT 'pending',
	attempt_count integer NOT NULL DEFAULT 0,
	row_count     bigint,
	run_id        uuid,
	error_message varchar(500),
	updated_at    timestamptz NOT NULL DEFAULT now(),
	PRIMARY KEY (customer, query, partition_key)
);

INSERT INTO partition_state
SELECT date '2024-01-01' + i, 4711000000 + i % 7, 'query_' || i % 5,
	(ARRAY['pending', 'running', 'success', 'failed', 'failed', 'failed', 'failed', 'failed'])[i % 8 + 1]::partition_status,
	i / 3 % 13, i * 10, gen_random_uuid(),
	(ARRAY[NULL, 'quota exceeded', '[terminal] no such column', 'row count differs [terminal]', ''])[i % 5 + 1],
	now() - (i * 37 % 97 * 5 + 2) * interval '1 minute'
FROM generate_series(0, 999) i;
