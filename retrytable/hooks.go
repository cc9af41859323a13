package retrytable

import (
	"fmt"
	"log/slog"

	"github.com/seed-5ff3c98e/retry/internal/engine"
	"github.com/seed-5ff3c98e/retry/internal/show"
	"github.com/seed-5ff3c98e/retry/retrytable/internal/sqltable"
)

// guarded is [engine.Guard] for a function that is called for a job. It reports the error.
func (s *shift[ID]) guarded(job *Job[ID], hook string, fn func() error) error {
	err := engine.Guard(hook, fn)
	if err != nil {
		s.reportOf(job, err)
	}
	return err
}

// report tells OnError. If that panics, the log has both, because nobody else is left to
// be told.
func (s *shift[ID]) report(err error) {
	if panicked := engine.Guard("OnError", func() error { s.tell(err); return nil }); panicked != nil {
		s.log(err)
		s.log(panicked)
	}
}

// reportOf is report for an error of a job.
func (s *shift[ID]) reportOf(job *Job[ID], err error) {
	s.report(fmt.Errorf("retrytable: job %s: %w", show.Text(fmt.Sprint(job.ID)), err))
}

// announce logs the end of a job that has failed, if nobody else is told.
func (s *shift[ID]) announce(o *Outcome[ID]) {
	if o.Err == nil || o.Released || o.Decision.Retry || o.Job.policy.Observer != nil || s.OnError != nil {
		return
	}
	attrs := []any{"table", s.Table.Name, "id", sqltable.Storable(fmt.Sprint(o.Job.ID))}
	if o.Job.Kind != "" {
		attrs = append(attrs, "kind", sqltable.Storable(o.Job.Kind))
	}
	slog.Default().ErrorContext(s.ctx, "retrytable job has failed", append(attrs,
		"attempts", o.Decision.State.Attempts(), "reason", o.Decision.Stop, "error", textOf(o.Decision, o.Err))...)
}

// log takes the place of OnError if it is nil.
func (s *shift[ID]) log(err error) {
	slog.Default().ErrorContext(s.ctx, "retrytable worker", "table", s.Table.Name, "error", err)
}
