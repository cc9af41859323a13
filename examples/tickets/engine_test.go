//nolint:thelper // what Each calls is the test itself
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/examples/shared"
	"github.com/seed-5ff3c98e/retry/examples/shared/dbtest"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

var (
	errTimeout = errors.New("API timeout")
	errSyntax  = errors.New("SyntaxError: unexpected token")
	errLimited = errors.New("429: rate limit exceeded")
)

// limit is how long a test waits for what should not take a second.
const limit = 20 * time.Second

// system is an engine with an agent that does what the test says.
type system struct {
	*engine

	t       *testing.T
	changes []change
	outcome error // of the next attempt
}

func newSystem(t *testing.T, db *shared.DB) *system {
	t.Helper()
	require.NoError(t, createTables(t.Context(), db))
	s := &system{t: t}
	s.engine = newTestEngine(t, db, func(context.Context, ticket) error { return s.outcome })
	s.notify = func(c change) { s.changes = append(s.changes, c) }
	return s
}

func newTestEngine(t *testing.T, db *shared.DB, agent func(context.Context, ticket) error) *engine {
	t.Helper()
	return &engine{
		db: db, table: newTable(db), policy: newPolicy(30*time.Second, time.Hour), agent: agent, vm: "vm-7",
		metrics: newMetrics(), notify: func(change) {}, log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		interval: 5 * time.Millisecond, beat: time.Minute,
	}
}

func (s *system) add(priority int) int64 {
	s.t.Helper()
	id, err := add(s.t.Context(), s.db, "design", "definition", "agent", priority)
	require.NoError(s.t, err)
	return id
}

// attempt has the agent work on whatever goes first, with this outcome.
func (s *system) attempt(outcome error) {
	s.t.Helper()
	s.outcome = outcome
	worked, err := s.once()
	require.NoError(s.t, err)
	assert.True(s.t, worked, "a ticket is ready")
}

// once works on the next ticket, if there is one.
func (s *system) once() (worked bool, err error) {
	s.t.Helper()
	rows, err := s.next(s.t.Context())
	if err != nil || len(rows) == 0 {
		return false, err
	}
	return true, s.work(s.t.Context(), rows[0])
}

// idle says that no ticket may be worked on.
func (s *system) idle(why string) {
	s.t.Helper()
	s.outcome = nil
	worked, err := s.once()
	require.NoError(s.t, err)
	assert.False(s.t, worked, why)
}

// pass lets d pass for the ticket.
func (s *system) pass(id int64, d time.Duration) {
	s.t.Helper()
	dbtest.Exec(s.t, s.db, "UPDATE tickets SET retry_after = retry_after - $1 * {microsecond} WHERE id = $2", d.Microseconds(), id)
}

// record is a ticket in the database.
type record struct {
	state                 string
	retries               int
	wait                  time.Duration // until retry_after
	waits                 bool
	err, reason, vm       string
	strategy              string
	completed, hasUpdated bool
}

func (s *system) record(id int64) (r record) {
	s.t.Helper()
	var after, completed, updated, now shared.Instant
	require.NoError(s.t, s.db.QueryRowContext(s.t.Context(), s.db.SQL("SELECT state, retry_count, retry_after, {now}, "+
		"coalesce(error, ''), coalesce(hold_reason, ''), coalesce(vm_id, ''), coalesce(CAST(retry_strategy AS text), ''), "+
		"completed_at, updated_at FROM tickets WHERE id = $1"), id).
		Scan(&r.state, &r.retries, &after, &now, &r.err, &r.reason, &r.vm, &r.strategy, &completed, &updated))
	r.waits, r.completed, r.hasUpdated = !after.IsZero(), !completed.IsZero(), now.Sub(updated.Time) < 10*time.Second
	if r.waits {
		r.wait = after.Sub(now.Time)
	}
	return r
}

func (s *system) state(id int64) string { s.t.Helper(); return s.record(id).state }

// waitsFor says that the ticket is ready, but not for about d.
func (s *system) waitsFor(id int64, retries int, d time.Duration) {
	s.t.Helper()
	r := s.record(id)
	assert.Equal(s.t, ready, r.state)
	assert.Equal(s.t, retries, r.retries, "retry_count")
	assert.True(s.t, r.waits, "retry_after is set")
	assert.LessOrEqual(s.t, r.wait, d)
	assert.Greater(s.t, r.wait, d-10*time.Second)
}

// decisions are the activity of a ticket.
func (s *system) decisions(id int64) (all []decision) {
	s.t.Helper()
	all, err := shared.Query(s.t.Context(), s.db, func(rows *sql.Rows) (d decision, err error) {
		var text []byte
		if err = rows.Scan(&text); err == nil {
			err = json.Unmarshal(text, &d)
		}
		return d, err
	}, "SELECT CAST(details AS text) FROM activity WHERE ticket_id = $1 AND action = 'retry_decision' AND actor = 'system' ORDER BY id", id)
	require.NoError(s.t, err)
	return all
}

// Integration test of the document: simulate API timeout → verify retry with backoff.
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

// Integration test of the document: simulate syntax error → verify single retry then
// on_hold.
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

// Integration test of the document: simulate transient error → verify 3 retries then
// on_hold.
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
		require.NoError(t, s.metrics.serve(t.Context(), "127.0.0.1:0", s.log))
		assert.Zero(t, scrape(t, s.metrics.url)[`tickets_retry_exhausted_total{category="transient"}`])
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
			{Ticket: id, State: onHold, Category: codeError, Error: errSyntax.Error(), Reason: "Max retries exceeded: code_error"},
			{Ticket: other, State: ready, Category: transient, Error: errLimited.Error(), AttemptsRemaining: 3},
			{Ticket: other, State: needsReview},
		}, s.changes)
	})
}

// The ready query: by priority, then age, among those whose retry_after is NULL or
// past, retries too, and only those assigned to agents.
func TestReadyQueryRespectsRetryAfterAndPriority(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		s := newSystem(t, db)
		low, high, alsoHigh := s.add(1), s.add(9), s.add(9)
		human, err := add(t.Context(), db, "design", "definition", "human", 99)
		require.NoError(t, err)
		dbtest.Exec(t, db, "UPDATE tickets SET created_at = {now} - $1 * {microsecond} WHERE id = $2", time.Hour.Microseconds(), alsoHigh)
		var order []int64
		s.agent = func(_ context.Context, w ticket) error {
			order = append(order, w.ID)
			return s.outcome
		}
		s.attempt(errLimited) // alsoHigh, the older one
		s.attempt(nil)        // high: alsoHigh waits
		s.pass(alsoHigh, time.Hour)
		s.attempt(nil) // before low
		s.attempt(nil)
		assert.Equal(t, []int64{alsoHigh, high, alsoHigh, low}, order)
		s.idle("the other is for a human")
		assert.Equal(t, ready, s.state(human))
	})
}

// The agent is given the ticket with its design; the ticket may have none.
func TestTicketsWithAndWithoutDesign(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		s := newSystem(t, db)
		id := s.add(0)
		var got []ticket
		s.agent = func(_ context.Context, w ticket) error {
			assert.Equal(t, inProgress, s.state(w.ID))
			assert.Equal(t, "vm-7", s.record(w.ID).vm)
			got = append(got, w)
			return errSyntax
		}
		s.attempt(nil)
		dbtest.Exec(t, db, "UPDATE tickets SET design_id = NULL")
		s.attempt(nil)
		assert.Equal(t, []ticket{
			{ID: id, Design: "design", Definition: "definition"},
			{ID: id, Retries: 1},
		}, got)
	})
}

// Unit test of the document: state transition validation. Every action is tried on a
// ticket in every state, and does nothing where the diagram has no arrow.
func TestStateTransitionValidation(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		s := newSystem(t, db)
		actions := map[string]func(row retrytable.Row[int64]){
			"claim":   func(retrytable.Row[int64]) { _, _ = s.table.Claim(t.Context(), db, 1, "vm-8") },
			"success": func(row retrytable.Row[int64]) { _ = s.succeed(t.Context(), row) },
			"retry":   func(row retrytable.Row[int64]) { _ = s.retryOrFail(t.Context(), row, errLimited) },
			"fail": func(row retrytable.Row[int64]) {
				row.State.Failures = 3
				_ = s.retryOrFail(t.Context(), row, errLimited)
			},
			"release": func(row retrytable.Row[int64]) { _ = release(t.Context(), db, row.ID, "alice") },
		}
		arrows := map[[2]string]string{
			{ready, "claim"}:        inProgress,
			{inProgress, "success"}: needsReview,
			{inProgress, "retry"}:   ready,
			{inProgress, "fail"}:    onHold,
			{onHold, "release"}:     ready,
		}
		for _, from := range []string{ready, inProgress, needsReview, onHold} {
			for action, do := range actions {
				id := s.add(0)
				rows, err := s.table.Claim(t.Context(), db, 1, "vm-7")
				require.NoError(t, err)
				require.Len(t, rows, 1)
				dbtest.Exec(t, db, "UPDATE tickets SET state = $1 WHERE id = $2", from, id)
				do(rows[0])
				want, arrow := arrows[[2]string{from, action}]
				if !arrow {
					want = from
				}
				assert.Equal(t, want, s.state(id), "%s, %s", from, action)
				dbtest.Exec(t, db, "DELETE FROM activity")
				dbtest.Exec(t, db, "DELETE FROM tickets")
			}
		}
	})
}

// A human releases a ticket from on_hold, which then has all its retries again.
func TestReleaseByHuman(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		s := newSystem(t, db)
		id := s.add(0)
		assert.ErrorContains(t, release(t.Context(), db, id, "alice"), "release: -ticket: 1: must be on_hold")
		s.attempt(errSyntax)
		s.attempt(errSyntax)
		require.NoError(t, release(t.Context(), db, id, "alice"))
		r := s.record(id)
		assert.Equal(t, ready, r.state)
		assert.Zero(t, r.retries)
		assert.False(t, r.waits)
		assert.False(t, r.completed)
		assert.Empty(t, r.reason)
		assert.Equal(t, errSyntax.Error(), r.err, "still of interest")
		var by string
		require.NoError(t, db.QueryRowContext(t.Context(), "SELECT actor FROM activity WHERE action = 'released' AND ticket_id = $1", id).Scan(&by))
		assert.Equal(t, "alice", by)
		s.attempt(errSyntax)
		s.waitsFor(id, 1, 0)
		assert.Error(t, release(t.Context(), db, id, "alice"), "not twice")
	})
}

// A ticket whose VM is gone is a system_error, and one that kills every VM ends.
func TestDeadVM(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		s := newSystem(t, db)
		id := s.add(0)
		for range 3 {
			s.pass(id, time.Hour)
			_, err := s.table.Promote(t.Context(), db, 1)
			require.NoError(t, err)
			rows, err := s.table.Claim(t.Context(), db, 1, "vm-dead")
			require.NoError(t, err)
			require.Len(t, rows, 1)
			s.idle("its lease holds")
			dbtest.Exec(t, db, "UPDATE tickets SET lease_until = {now} WHERE id = $1", id)
			s.idle("swept, and waiting")
			assert.Equal(t, retrytable.ErrLeaseLost, s.succeed(t.Context(), rows[0]), "too late")
		}
		assert.Equal(t, "Max retries exceeded: system_error", s.record(id).reason)
		assert.Len(t, s.decisions(id), 3)
	})
}

// An agent that works for longer than a lease keeps it. One that has lost it is told
// to stop, and what it says has no effect.
func TestHeartbeat(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		s := newSystem(t, db)
		id := s.add(0)
		s.beat = 5 * time.Millisecond
		lease := func() (until shared.Instant) {
			assert.NoError(t, db.QueryRowContext(t.Context(), "SELECT lease_until FROM tickets").Scan(&until))
			return until
		}
		s.agent = func(ctx context.Context, _ ticket) error {
			for first := lease(); !lease().After(first.Time); time.Sleep(time.Millisecond) {
				assert.NoError(t, ctx.Err())
			}
			dbtest.Exec(t, db, "UPDATE tickets SET state = 'on_hold'") // by a person
			select {
			case <-ctx.Done():
			case <-time.After(limit):
			}
			return ctx.Err()
		}
		worked, err := s.once()
		assert.True(t, worked)
		assert.Equal(t, retrytable.ErrLeaseLost, err)
		assert.Equal(t, onHold, s.state(id))
		assert.Empty(t, s.decisions(id))
	})
}

// An engine that is told to stop gives back what it was working on, uncounted, unless
// the agent comes to an end after all.
func TestShutdown(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		s := newSystem(t, db)
		id := s.add(0)
		ctx, stop := context.WithTimeout(t.Context(), limit)
		s.agent = func(ctx context.Context, _ ticket) error {
			stop()
			return ctx.Err()
		}
		defer stop()
		s.serve(ctx, 1)
		r := s.record(id)
		assert.Equal(t, ready, r.state)
		assert.Zero(t, r.retries)
		assert.Empty(t, r.vm)
		assert.Empty(t, s.decisions(id))

		ctx, stop = context.WithTimeout(t.Context(), limit)
		s.agent = func(context.Context, ticket) error {
			stop()
			return nil
		}
		defer stop()
		s.serve(ctx, 1)
		assert.Equal(t, needsReview, s.state(id))
	})
}

// Several engines at once run each attempt once.
func TestSeveralEngines(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		s := newSystem(t, db)
		const tickets = 30
		for range tickets {
			s.add(0)
		}
		ctx, stop := context.WithTimeout(t.Context(), limit)
		defer stop()
		var runs, done atomic.Int64
		agent := func(_ context.Context, w ticket) error {
			runs.Add(1)
			if w.Retries == 0 {
				return errSyntax
			}
			if done.Add(1) == tickets {
				stop()
			}
			return nil
		}
		var wg sync.WaitGroup
		for range 3 {
			e := newTestEngine(t, dbtest.Reopen(t, db), agent)
			wg.Go(func() { e.serve(ctx, 2) })
		}
		wg.Wait()
		assert.Equal(t, int64(2*tickets), runs.Load())
		var n int
		require.NoError(t, db.QueryRowContext(t.Context(),
			"SELECT count(*) FROM tickets WHERE state = 'needs_review' AND retry_count = 1").Scan(&n))
		assert.Equal(t, tickets, n)
	})
}
