//nolint:thelper // what Each calls is the test itself
package main

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/lab/systems/shared"
	"github.com/seed-5ff3c98e/retry/lab/systems/shared/dbtest"
	"github.com/seed-5ff3c98e/retry/retryquota"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// An API timeout → a retry with backoff.
func TestAPITimeoutIsRetriedWithBackoff(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		s := newSystem(t, db)
		id := s.add(0)
		s.attempt(errTimeout)
		s.waitsFor(id, 1, 30*time.Second)
		r := s.record(id)
		assert.Equal(t, errTimeout.Error(), r.err)
		assert.Empty(t, r.reason)
		assert.Empty(t, r.vm, "the VM is free")
		assert.False(t, r.completed)
		assert.True(t, r.hasUpdated)
		assert.JSONEq(t, `{"name": "transient", "max_attempts": 4, "backoff": {"exponential": {"initial": "30s", "multiplier": 2}}}`, r.strategy)
		s.idle("retry_after is to come")

		s.pass(id, 31*time.Second)
		s.attempt(nil)
		r = s.record(id)
		assert.Equal(t, needsReview, r.state)
		assert.Equal(t, 1, r.retries, "how many it took")
		assert.False(t, r.waits)
		assert.Empty(t, r.err)
		assert.True(t, r.completed)
	})
}

// A ticket that the engine cannot read has not been tried: it waits for the length of a lease.
func TestUnreadableTicketIsNotTried(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		s := newSystem(t, db)
		id := s.add(0)
		dbtest.Exec(t, db, "ALTER TABLE designs RENAME TO gone")
		_, err := s.once()
		require.ErrorContains(t, err, "designs")
		s.waitsFor(id, 0, time.Minute) // a lease
		assert.Empty(t, s.decisions(id))
		dbtest.Exec(t, db, "ALTER TABLE gone RENAME TO designs")
		if db.Dialect == retrytable.PostgreSQL {
			dbtest.Exec(t, db, "ALTER TABLE designs ALTER COLUMN definition TYPE jsonb USING to_jsonb(definition)") // of an author
		}
		s.pass(id, time.Minute+time.Second)
		s.attempt(nil)
		assert.Equal(t, needsReview, s.state(id))
		assert.Zero(t, s.record(id).retries)
	})
}

// A syntax error → a single retry, then on_hold.
func TestSyntaxErrorIsRetriedOnceThenOnHold(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		s := newSystem(t, db)
		id := s.add(0)
		s.attempt(errSyntax)
		s.waitsFor(id, 1, 0) // no backoff: due at once
		s.attempt(errSyntax)
		r := s.record(id)
		assert.Equal(t, onHold, r.state)
		assert.Equal(t, "Max retries exceeded: code_error", r.reason)
		assert.Equal(t, errSyntax.Error(), r.err)
		assert.Equal(t, 1, r.retries)
		assert.False(t, r.waits)
		assert.Empty(t, r.vm)
		assert.True(t, r.completed)
		s.idle("on hold")
	})
}

// A transient error → 3 retries, then on_hold.
func TestTransientErrorIsRetried3TimesThenOnHold(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		s := newSystem(t, db)
		id := s.add(0)
		for i, delay := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute} {
			s.attempt(errLimited)
			s.waitsFor(id, i+1, delay)
			s.pass(id, delay-10*time.Second)
			s.idle("10 s are left")
			s.pass(id, 11*time.Second)
		}
		s.attempt(errLimited)
		assert.Equal(t, onHold, s.state(id))
		assert.Equal(t, 3, s.record(id).retries)
		assert.Equal(t, "Max retries exceeded: transient", s.record(id).reason)
	})
}

// Two transient failures leave an api_error no retry.
func TestOneCountForAllCategories(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		s := newSystem(t, db)
		id := s.add(0)
		s.attempt(errLimited)
		s.pass(id, time.Hour)
		s.attempt(errLimited)
		s.pass(id, time.Hour)
		s.attempt(errors.New("API error"))
		assert.Equal(t, "Max retries exceeded: api_error", s.record(id).reason)
	})
}

// A server that wants to be left alone for longer than a ticket may wait is no case of
// max retries.
func TestOnHoldForAnotherReason(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		s := newSystem(t, db)
		id := s.add(0)
		s.attempt(&statusError{429, 25 * time.Hour})
		r := s.record(id)
		assert.Equal(t, onHold, r.state)
		assert.Equal(t, "retry_after: transient", r.reason)
		assert.Zero(t, r.retries)
		url, err := s.metrics.serve(t.Context(), "127.0.0.1:0", s.log)
		require.NoError(t, err)
		assert.Zero(t, scrape(t, url)[`tickets_retry_exhausted_total{category="transient"}`])
	})
}

// Each retry/fail decision logs to activity.
func TestActivityLogOfEachDecision(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		s := newSystem(t, db)
		id := s.add(0)
		s.attempt(errors.New("git push failed"))
		s.pass(id, time.Hour)
		s.attempt(errLimited)
		s.pass(id, time.Hour)
		s.attempt(errors.New("git push failed"))
		assert.Equal(t, []decision{
			{"system_error", 1, 2, true, 30_000, "git push failed"},
			{"transient", 2, 3, true, 60_000, errLimited.Error()},
			{"system_error", 3, 2, false, 0, "git push failed"},
		}, s.decisions(id))
	})
}

// The log of a decision and its effect are one: there is never one without the other.
func TestActivityAndStateCommitTogether(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		s := newSystem(t, db)
		id := s.add(0)
		dbtest.Exec(t, db, "ALTER TABLE activity RENAME TO activity2")
		s.outcome = errLimited
		_, err := s.once()
		require.ErrorContains(t, err, "activity")
		assert.Equal(t, inProgress, s.state(id))
		assert.Empty(t, s.changes)
	})
}

// Whatever an agent says, the decision is stored: PostgreSQL takes neither a NUL nor
// what is not UTF-8.
func TestTextsThatNoDatabaseTakes(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		s := newSystem(t, db)
		id := s.add(0)
		s.attempt(errors.New("rate limit \xff\x00"))
		s.waitsFor(id, 1, 30*time.Second)
		assert.Equal(t, "rate limit \uFFFD", s.record(id).err)
		assert.Equal(t, "rate limit \uFFFD\uFFFD", s.decisions(id)[0].Error)

		s.agent = shell
		s.pass(id, time.Minute)
		dbtest.Exec(t, db, `UPDATE designs SET definition = 'printf "rate limit \377\000" >&2; exit 1'`)
		s.attempt(nil)
		s.waitsFor(id, 2, time.Minute)
		assert.Contains(t, s.record(id).err, "rate limit \uFFFD")
	})
}

// notifyTicketStateChange tells what was decided.
func TestNotifications(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		s := newSystem(t, db)
		id, other := s.add(1), s.add(0)
		s.attempt(errSyntax)
		s.attempt(errSyntax)
		s.attempt(errLimited)
		s.pass(other, time.Hour)
		s.attempt(nil)
		require.Len(t, s.changes, 4)
		assert.WithinDuration(t, time.Now().Add(30*time.Second), s.changes[2].RetryAfter, 10*time.Second)
		s.changes[0].RetryAfter, s.changes[2].RetryAfter = time.Time{}, time.Time{}
		assert.Equal(t, []change{
			{Ticket: id, State: ready, Category: codeError, Error: errSyntax.Error(), AttemptsRemaining: 1},
			{Ticket: id, State: onHold, Category: codeError, Error: errSyntax.Error(), Reason: "max_retries"},
			{Ticket: other, State: ready, Category: transient, Error: errLimited.Error(), AttemptsRemaining: 3},
			{Ticket: other, State: needsReview},
		}, s.changes)
	})
}

// With -design-quota, a ticket that meets a limit holds the others of its design, and no others.
func TestQuotaOfDesign(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		s := newSystem(t, db)
		s.quotaFor, s.table.Columns.Key = new(retryquota.Keys[string]).Of, "design_id"
		limited, held, other := s.add(3), s.add(2), s.add(1)
		dbtest.Exec(t, db, "UPDATE tickets SET design_id = (SELECT design_id FROM tickets WHERE id = $1) WHERE id = $2", limited, held)
		s.attempt(&statusError{429, time.Hour})
		s.outcome = nil
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.worker(1).Run(ctx) }()
		assert.Eventually(t, func() bool { return s.state(other) == needsReview }, limit, 5*time.Millisecond)
		stop()
		require.ErrorIs(t, <-ended, context.Canceled)
		assert.Equal(t, ready, s.state(held))
		assert.Zero(t, s.record(held).retries)
		s.quotaFor = nil // without the flag
		s.pass(held, time.Hour)
		s.attempt(nil)
		assert.Equal(t, needsReview, s.state(held))
	})
}

// Instants that are text in SQLite are written in the form of those that are there.
func TestFormOfInstants(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t, retrytable.SQLite)
	s := newSystem(t, db)
	id := s.add(0)
	dbtest.Exec(t, db, "UPDATE tickets SET created_at = '2024-05-06 07:08:09', updated_at = '2024-05-06 07:08:09'")
	s.table = newTable(db)
	s.attempt(errLimited)
	assert.Equal(t, 1, s.record(id).retries)
	for _, column := range []string{"retry_after", "updated_at"} {
		assert.Regexp(t, `^[\d-]{10} [\d:]{8}$`, dbtest.Get[string](t, db, "SELECT CAST("+column+" AS text) FROM tickets"), column)
	}
}
