-- The table as its author has it, with 1,000 runs in every state. Nothing here knows of retry.
CREATE TABLE runs (
    id TEXT PRIMARY KEY,
    category TEXT NOT NULL,
    url TEXT NOT NULL,
    expected TEXT,
    submitted_date TEXT NOT NULL,
    status TEXT NOT NULL,
    retry_count INTEGER NOT NULL DEFAULT 0,
    next_retry_at TEXT,
    error_class TEXT
);

CREATE INDEX idx_runs_retry ON runs(next_retry_at) WHERE next_retry_at IS NOT NULL;

WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 999)
INSERT INTO runs
SELECT printf('run %03d', i),
    CASE WHEN i % 7 = 0 THEN 'batch' ELSE 'web' END,
    'http://127.0.0.1/' || i,
    'answer',
    strftime('%Y-%m-%dT%H:%M:%S', '2024-01-01', (i * 37 % 1000) || ' hours')
        || CASE i % 3 WHEN 0 THEN '' WHEN 1 THEN '.5' ELSE '.123456789' END || '+00:00',
    CASE i % 8 WHEN 0 THEN 'discovered' WHEN 1 THEN 'discovered' WHEN 2 THEN 'processing'
        WHEN 3 THEN 'passed' WHEN 4 THEN CASE i % 16 WHEN 4 THEN 'needs_review' ELSE 'failed' END ELSE 'error' END,
    CASE i % 8 WHEN 0 THEN 0 WHEN 3 THEN 0 WHEN 4 THEN 0 ELSE i % 9 END,
    CASE WHEN i % 8 >= 5 THEN CASE i % 5
        WHEN 0 THEN NULL
        WHEN 1 THEN strftime('%Y-%m-%dT%H:%M:%S.123456+00:00', 'now', '-1 hours')
        WHEN 2 THEN strftime('%Y-%m-%dT%H:%M:%S+00:00', 'now', '+1 hours')
        WHEN 3 THEN '1893-05-06T07:08:09+00:00'
        ELSE strftime('%Y-%m-%d %H:%M:%S', 'now', '-1 minutes') END END,
    CASE i % 8 WHEN 5 THEN 'final' WHEN 6 THEN 'retryable' WHEN 7 THEN 'rate_limited' WHEN 1 THEN 'retryable' END
FROM n;
