package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/seed-5ff3c98e/retry/examples/shared"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// schema is what the table has beside the columns of [retrytable.Table.Schema]:
// status (discovered, processing, passed, needs_review, failed or error),
// retry_count and next_retry_at of the document, and a lease and a fence, which a
// claim needs.
const schema = `
CREATE TABLE runs (
	id             text NOT NULL PRIMARY KEY,
	category       text NOT NULL,
	url            text NOT NULL, -- what to replay
	expected       text,          -- the recorded answer; NULL if somebody has to look at it
	submitted_date {instant} NOT NULL DEFAULT ({now}),
	error_class    text           -- final, retryable, rate_limited
);
`

// categoryIndex keeps processors that may not process all categories from looking at
// the due retries of the others.
const categoryIndex = `
CREATE INDEX runs_promote_category ON runs (category, next_retry_at)
	WHERE status IN ('discovered', 'error') AND next_retry_at IS NOT NULL;
`

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

	*retrytable.Table[string]

	category *retrytable.Table[string] // the runs of one category
}

func newStore(db *shared.DB, lease time.Duration, categories []string) *store {
	s := &store{db: db, category: newTable(db, lease, "category = $1")}
	var parameters []string
	for i, category := range categories {
		s.categories = append(s.categories, category)
		parameters = append(parameters, fmt.Sprintf("$%d", i+1))
	}
	where := ""
	if len(categories) > 0 {
		where = "category IN (" + strings.Join(parameters, ", ") + ")"
	}
	s.Table = newTable(db, lease, where)
	return s
}

func newTable(db *shared.DB, lease time.Duration, where string) *retrytable.Table[string] {
	return &retrytable.Table[string]{
		Dialect: db.Dialect, Name: "runs", Lease: lease,
		Columns: retrytable.Columns{Attempts: "retry_count", Due: "next_retry_at"},
		Statuses: retrytable.Statuses{
			Ready: "discovered", Waiting: "error", Running: []string{"processing"},
			Done: []string{string(passed), string(needsReview), string(failed)}, Dead: "error",
		},
		Where:   where,
		OrderBy: "submitted_date, id",
		Set: retrytable.Set{
			Succeed: "retry_count = 0, error_class = NULL", // clear_retry_fields; the claim has cleared next_retry_at
			Fail:    "error_class = $1",                    // schedule_retry, mark_run_permanently_failed
		},
	}
}

// create makes the table if it is not there.
func (s *store) create(ctx context.Context) error {
	return s.db.Create(ctx, "runs", schema+s.Schema()+categoryIndex)
}

// next is get_next_run_to_process: it claims the run that was submitted first,
// among those that are new and those whose retry is due.
func (s *store) next(ctx context.Context) ([]retrytable.Row[string], error) {
	if err := s.promote(ctx, s.db); err != nil {
		return nil, err
	}
	return s.Claim(ctx, s.db, 1, s.categories...)
}

// promote makes retries that are due ready. Of several categories, each is asked for
// by itself: only so does a planner use their index.
func (s *store) promote(ctx context.Context, db retrytable.DB) error {
	const most = 1000 // of a category; more wait for the next claim
	if len(s.categories) == 0 {
		_, err := s.Promote(ctx, db, most)
		return err
	}
	for _, category := range s.categories {
		if _, err := s.category.Promote(ctx, db, most, category); err != nil {
			return err
		}
	}
	return nil
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
