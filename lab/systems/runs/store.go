package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/seed-5ff3c98e/retry/lab/systems/shared"
	"github.com/seed-5ff3c98e/retry/retrytable"
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
	db.Instants = db.TextLike("runs", "next_retry_at", "submitted_date")
	s := &store{db: db, Table: &retrytable.Table[string]{
		Dialect: db.Dialect, Name: "runs", Lease: lease, Instants: db.Instants,
		Columns: retrytable.Columns{
			Retries: "retry_count", Due: "next_retry_at",
			Kind: "error_class", // a run is of the kind of its last failure
		},
		Statuses: retrytable.Statuses{
			Ready: "discovered", Waiting: "error", Running: []string{"processing"},
			Done: []string{string(passed), string(needsReview), string(failed)}, Dead: "error",
		},
		// MySQL has no Merge: a claim makes the first 100 retries that are due discovered.
		OrderBy: "submitted_date, id", Merge: db.Dialect != retrytable.MySQL,
		Set: retrytable.Set{
			Succeed: "retry_count = 0, error_class = NULL", // clear_retry_fields
			Fail:    "error_class = $1",                    // schedule_retry, mark_run_permanently_failed
		},
	}}
	var in []string
	for category := range strings.FieldsFuncSeq(categories, func(r rune) bool { return r == ',' || r == ' ' }) {
		s.categories = append(s.categories, category)
		in = append(in, fmt.Sprintf("$%d", len(s.categories)))
		s.Where = "category IN (" + strings.Join(in, ", ") + ")"
	}
	return s
}

// schema is what a processor needs of the database, and writes to it. What is to be replayed only the
// user of the table knows.
func (p *processor) schema() *shared.Schema {
	index := "(next_retry_at)"
	if p.Dialect != retrytable.MySQL { // which has no such indexes
		index += " WHERE next_retry_at IS NOT NULL"
	}
	own := shared.Columns("category", "text", "url", "text", "expected", "text", "submitted_date", "{instant}")
	probe := retrytable.Probe[string]{Worker: p.worker(1)}
	return &shared.Schema{Program: "runs", Jobs: p.Table, Probe: probe, Tables: []shared.Table{{
		Name: "runs", ByHand: own, Indexes: shared.Columns("idx_runs_retry", index),
		New: `
	id             varchar(255) NOT NULL PRIMARY KEY,
	category       text NOT NULL,
	url            text NOT NULL, -- what to replay
	expected       text,          -- the recorded answer; NULL if somebody has to look at it
	submitted_date {instant} NOT NULL DEFAULT ({now})
`,
	}}}
}

// request is what to replay.
type request struct {
	*retrytable.Job[string]

	category, url string
	expected      *string
}
