package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/seed-5ff3c98e/retry/examples/shared"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// schema is what a run is to everybody: status is discovered, processing, passed,
// needs_review, failed or error. What [retrytable.Table.Schema] adds is for processors:
// the state of the queue, when a retry is due, how many attempts were begun, and a lease
// and a fence, which a claim needs. A retry that is due is made ready there, and the
// status stays what it is until the run is processed.
const schema = `
CREATE TABLE runs (
	id             text NOT NULL PRIMARY KEY,
	category       text NOT NULL,
	url            text NOT NULL, -- what to replay
	expected       text,          -- the recorded answer; NULL if somebody has to look at it
	submitted_date {instant} NOT NULL DEFAULT ({now}),
	status         text NOT NULL DEFAULT 'discovered',
	retry_count    bigint NOT NULL DEFAULT 0, -- retries so far: 0 during the first attempt
	next_retry_at  {instant},     -- NULL if there is none to come
	error_class    text           -- final, retryable, rate_limited
);
`

// categoryIndex keeps processors that may not process all categories from looking at
// the due retries of the others.
const categoryIndex = `
CREATE INDEX runs_promote_category ON runs (category, due_at)
	WHERE state IN ('ready', 'waiting') AND due_at IS NOT NULL;
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
		Columns: retrytable.Columns{Status: "state", RateLimited: "rate_limited_count", First: "first_attempt_at"},
		Where:   where,
		OrderBy: "submitted_date, id", NoPromote: true, // see promote
		Set: retrytable.Set{
			// What is read here is what was there before: attempts without this one.
			Claim: "status = 'processing', next_retry_at = NULL, retry_count = attempts",
			// clear_retry_fields; the claim has cleared next_retry_at
			Succeed: "status = $1, retry_count = 0, error_class = NULL",
			// schedule_retry, and with NULL for the delay mark_run_permanently_failed
			Fail: db.SQL("status = 'error', error_class = $1, next_retry_at = {now} + $2 * {microsecond}"),
			// As before the claim: a new run, or a retry, which is due.
			Release: db.SQL(`status = CASE WHEN error_class IS NULL THEN 'discovered' ELSE 'error' END,
				next_retry_at = CASE WHEN error_class IS NOT NULL THEN {now} END,
				retry_count = CASE WHEN attempts > 1 THEN attempts - 2 ELSE 0 END`),
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
	if err := s.promote(ctx); err != nil {
		return nil, err
	}
	return s.Claim(ctx, s.db, 1, s.categories...)
}

// promote makes retries that are due ready, in the queue alone. Of several categories, each is asked for
// by itself: only so does a planner use their index.
func (s *store) promote(ctx context.Context) error { return s.promoteIn(ctx, s.db) }

func (s *store) promoteIn(ctx context.Context, db retrytable.DB) error {
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
	result             outcome
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
