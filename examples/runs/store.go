package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/seed-5ff3c98e/retry/examples/shared"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// schema is the table of the document, and what a claim needs beside it: a lease
// and a fence. The indexes are those that [retrytable.Table.Schema] prints.
const schema = `
CREATE TABLE IF NOT EXISTS runs (
	id             text NOT NULL PRIMARY KEY,
	category       text NOT NULL,
	url            text NOT NULL, -- what to replay
	expected       text,          -- the recorded answer; NULL if somebody has to look at it
	submitted_date {instant} NOT NULL DEFAULT ({now}),
	status         text NOT NULL DEFAULT 'discovered', -- processing, passed, needs_review, failed, error
	retry_count    bigint NOT NULL DEFAULT 0,
	next_retry_at  {instant},
	error_class    text,          -- final, retryable, rate_limited
	lease_until    {instant},
	fence          bigint NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS runs_claim ON runs (status, submitted_date, id) WHERE status IN ('discovered') AND next_retry_at IS NULL;
CREATE INDEX IF NOT EXISTS runs_promote ON runs (next_retry_at) WHERE status IN ('discovered', 'error') AND next_retry_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS runs_sweep ON runs (lease_until) WHERE status IN ('processing');`

// outcome is what a run that was replayed has come to.
type outcome string

const (
	passed      outcome = "passed"
	needsReview outcome = "needs_review"
	failed      outcome = "failed" // the answer was another one: no error, and no retry
)

// store is the table runs, as far as a processor may see it.
type store struct {
	db         *shared.DB
	categories []any // those allowed; all if empty

	// How the table ends a success is the one thing that differs in these.
	*retrytable.Table[string]
	ends map[outcome]*retrytable.Table[string]
}

func newStore(db *shared.DB, lease time.Duration, categories []string) *store {
	s := &store{db: db, ends: map[outcome]*retrytable.Table[string]{}}
	var parameters []string
	for i, category := range categories {
		s.categories = append(s.categories, category)
		parameters = append(parameters, fmt.Sprintf("$%d", i+1))
	}
	where := ""
	if len(categories) > 0 {
		where = "category IN (" + strings.Join(parameters, ", ") + ")"
	}
	for _, o := range []outcome{passed, needsReview, failed} {
		s.ends[o] = &retrytable.Table[string]{
			Dialect: db.Dialect, Name: "runs", Lease: lease,
			Columns: retrytable.Columns{Attempts: "retry_count", Due: "next_retry_at"},
			Statuses: retrytable.Statuses{
				Ready: "discovered", Waiting: "error", Running: []string{"processing"}, Done: string(o), Dead: "error",
			},
			Where:   where,
			OrderBy: "submitted_date, id",
			Set: retrytable.Set{
				Succeed: "retry_count = 0, error_class = NULL", // clear_retry_fields; the claim has cleared next_retry_at
				Fail:    "error_class = $1",                    // schedule_retry, mark_run_permanently_failed
			},
		}
	}
	s.Table = s.ends[passed]
	return s
}

// promoted is how many retries become due at a time at most. More wait for the
// next claim.
const promoted = 1000

// next is get_next_run_to_process: it claims the run that was submitted first,
// among those that are new and those whose retry is due.
func (s *store) next(ctx context.Context) ([]retrytable.Row[string], error) {
	if _, err := s.Promote(ctx, s.db, promoted, s.categories...); err != nil {
		return nil, err
	}
	return s.Claim(ctx, s.db, 1, s.categories...)
}

// request is what to replay.
type request struct {
	retrytable.Row[string]

	category, url      string
	expected, previous *string // previous is the error_class of the attempt before
}

func (s *store) load(ctx context.Context, row retrytable.Row[string]) (*request, error) {
	r := &request{Row: row}
	err := s.db.QueryRowContext(ctx, "SELECT category, url, expected, error_class FROM runs WHERE id = $1", row.ID).
		Scan(&r.category, &r.url, &r.expected, &r.previous)
	return r, err
}

// left is how many runs may still be processed, by anybody.
func (s *store) left(ctx context.Context) (n int, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT count(*) FROM runs
		WHERE status IN ('discovered', 'processing') OR next_retry_at IS NOT NULL`).Scan(&n)
	return n, err
}
