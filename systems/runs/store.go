package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/seed-5ff3c98e/retry/retrytable"
	"github.com/seed-5ff3c98e/retry/systems/shared"
)

// outcome is what a run that was replayed has come to.
type outcome string

const (
	passed      outcome = "passed"
	needsReview outcome = "needs_review"
	failed      outcome = "failed" // the answer was another one: no error, and no retry
)

// store is the table runs, as far as a processor may see it.
type store struct {
	*retrytable.Table[string]

	db         *shared.DB
	categories []any // those allowed; all if empty
}

// newStore says what the columns mean. A claim is get_next_run_to_process: of the runs that
// are discovered, and those in error whose next_retry_at has come, it takes the one that was
// submitted first. It clears next_retry_at and preserves retry_count. What is added to the
// table, a lease and a fence, has no say in what is due.
func newStore(db *shared.DB, lease time.Duration, categories string) *store {
	s := &store{db: db, Table: &retrytable.Table[string]{
		Dialect: db.Dialect, Name: "runs", Lease: lease, Instants: retrytable.Timestamptz,
		Columns: retrytable.Columns{
			Retries: "retry_count", Due: "next_retry_at",
			Kind: "error_class", // a run is of the kind of its last failure
		},
		Statuses: retrytable.Statuses{
			Ready: "discovered", Waiting: "error", Running: []string{"processing"},
			Done: []string{string(passed), string(needsReview), string(failed)}, Dead: "error",
		},
		OrderBy: "submitted_date, id", Merge: db.Dialect != retrytable.MySQL,
		Set: retrytable.Set{
			Succeed: "retry_count = 0, error_class = NULL", // clear_retry_fields
			Fail:    "error_class = $1",                    // schedule_retry, mark_run_permanently_failed
		},
	}}
	switch db.Dialect {
	case retrytable.SQLite:
		s.Instants = retrytable.RFC3339
	case retrytable.MySQL: // has no Merge: a claim makes the first 100 retries that are due discovered
		s.Instants = retrytable.Datetime
	default: // Timestamptz
	}
	var in []string
	for category := range strings.FieldsFuncSeq(categories, func(r rune) bool { return r == ',' || r == ' ' }) {
		s.categories = append(s.categories, category)
		in = append(in, fmt.Sprintf("$%d", len(s.categories)))
	}
	if len(in) > 0 {
		s.Where = "category IN (" + strings.Join(in, ", ") + ")"
	}
	return s
}

// tables are what there is besides the columns of the Table. What is to be replayed only its user knows.
func (s *store) tables() []shared.Table {
	words := strings.NewReplacer("{instant}", s.Instants.SQLType(s.Dialect), "{now}", s.Instants.Now(s.Dialect))
	index := "(next_retry_at)"
	if s.Dialect != retrytable.MySQL { // which has no such indexes
		index += " WHERE next_retry_at IS NOT NULL"
	}
	own := shared.Columns("category", "text", "url", "text", "expected", "text", "submitted_date", words.Replace("{instant}"))
	return []shared.Table{{
		Name: "runs", ByHand: own, Indexes: shared.Columns("idx_runs_retry", index),
		New: words.Replace(`
	id             varchar(255) NOT NULL PRIMARY KEY,
	category       text NOT NULL,
	url            text NOT NULL, -- what to replay
	expected       text,          -- the recorded answer; NULL if somebody has to look at it
	submitted_date {instant} NOT NULL DEFAULT ({now})
`),
	}}
}

// adopt gives the runs that are processing without a lease one that has run out.
func (s *store) adopt(ctx context.Context) (int64, error) {
	result, err := s.db.ExecContext(ctx, "UPDATE runs SET lease_until = "+s.Instants.Now(s.Dialect)+" WHERE status = 'processing' AND lease_until IS NULL")
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// request is what to replay.
type request struct {
	*retrytable.Job[string]

	category, url string
	expected      *string
}

func (s *store) load(ctx context.Context, job *retrytable.Job[string]) (*request, error) {
	r := &request{Job: job}
	err := s.db.QueryRowContext(ctx, s.db.SQL("SELECT category, url, expected FROM runs WHERE id = $1"), job.ID).Scan(&r.category, &r.url, &r.expected)
	return r, err
}
