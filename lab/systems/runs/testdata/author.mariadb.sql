-- The table as its author has it, with 1,000 runs in every state. Nothing here knows of retry.
CREATE TABLE runs (
    id VARCHAR(64) PRIMARY KEY,
    category VARCHAR(64) NOT NULL,
    url TEXT NOT NULL,
    expected TEXT,
    submitted_date DATETIME(6) NOT NULL,
    status VARCHAR(32) NOT NULL,
    retry_count INTEGER NOT NULL DEFAULT 0,
    next_retry_at DATETIME(6),
    error_class VARCHAR(32)
);

CREATE INDEX idx_runs_retry ON runs(next_retry_at);

INSERT INTO runs
WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 999)
SELECT CONCAT('run ', LPAD(i, 3, '0')),
    CASE WHEN i % 7 = 0 THEN 'batch' ELSE 'web' END,
    CONCAT('http://127.0.0.1/', i),
    'answer',
    TIMESTAMP'2024-01-01 00:00:00' + INTERVAL (i * 37 % 1000) HOUR,
    CASE i % 8 WHEN 0 THEN 'discovered' WHEN 1 THEN 'discovered' WHEN 2 THEN 'processing'
        WHEN 3 THEN 'passed' WHEN 4 THEN CASE i % 16 WHEN 4 THEN 'needs_review' ELSE 'failed' END ELSE 'error' END,
    CASE i % 8 WHEN 0 THEN 0 WHEN 3 THEN 0 WHEN 4 THEN 0 ELSE i % 9 END,
    CASE WHEN i % 8 >= 5 THEN CASE i % 5
        WHEN 0 THEN NULL
        WHEN 1 THEN UTC_TIMESTAMP(6) - INTERVAL 1 HOUR
        WHEN 2 THEN UTC_TIMESTAMP(6) + INTERVAL 1 HOUR
        WHEN 3 THEN '1893-05-06 07:08:09'
        ELSE UTC_TIMESTAMP(6) - INTERVAL 1 MINUTE END END,
    CASE i % 8 WHEN 5 THEN 'final' WHEN 6 THEN 'retryable' WHEN 7 THEN 'rate_limited' WHEN 1 THEN 'retryable' END
FROM n;
