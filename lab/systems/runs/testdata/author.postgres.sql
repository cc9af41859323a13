-- The table as its author has it, with 1,000 runs in every state. Nothing here knows of retry.
CREATE TABLE runs (
    id TEXT PRIMARY KEY,
    category TEXT NOT NULL,
    url TEXT NOT NULL,
    expected TEXT,
    submitted_date TIMESTAMPTZ NOT NULL,
    status TEXT NOT NULL,
    retry_count INTEGER NOT NULL DEFAULT 0,
    next_retry_at TIMESTAMPTZ,
    error_class TEXT
);

CREATE INDEX idx_runs_retry ON runs(next_retry_at) WHERE next_retry_at IS NOT NULL;

INSERT INTO runs
SELECT 'run ' || lpad(i::text, 3, '0'),
    CASE WHEN i % 7 = 0 THEN 'batch' ELSE 'web' END,
    'http://127.0.0.1/' || i,
    'answer',
    '2024-01-01 00:00:00+00'::timestamptz + (i * 37 % 1000) * interval '1 hour',
    CASE i % 8 WHEN 0 THEN 'discovered' WHEN 1 THEN 'discovered' WHEN 2 THEN 'processing'
        WHEN 3 THEN 'passed' WHEN 4 THEN CASE i % 16 WHEN 4 THEN 'needs_review' ELSE 'failed' END ELSE 'error' END,
    CASE i % 8 WHEN 0 THEN 0 WHEN 3 THEN 0 WHEN 4 THEN 0 ELSE i % 9 END,
    CASE WHEN i % 8 >= 5 THEN CASE i % 5
        WHEN 0 THEN NULL
        WHEN 1 THEN now() - interval '1 hour'
        WHEN 2 THEN now() + interval '1 hour'
        WHEN 3 THEN '1893-05-06 07:08:09+00'
        ELSE now() - interval '1 minute' END END,
    CASE i % 8 WHEN 5 THEN 'final' WHEN 6 THEN 'retryable' WHEN 7 THEN 'rate_limited' WHEN 1 THEN 'retryable' END
FROM generate_series(0, 999) AS i;
