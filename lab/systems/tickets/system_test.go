//nolint:thelper // what Each calls is the test itself
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/lab/systems/shared"
	"github.com/seed-5ff3c98e/retry/lab/systems/shared/dbtest"
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
	migrate(t, db)
	s := &system{t: t}
	s.engine = newTestEngine(t, db, func(context.Context, ticket) error { return s.outcome })
	s.notify = func(c change) { s.changes = append(s.changes, c) }
	return s
}

// migrate makes the tables.
func migrate(t *testing.T, db *shared.DB) {
	t.Helper()
	require.NoError(t, db.Migrate(t.Context(), io.Discard, newTestEngine(t, db, nil).schema(), false))
}

func newTestEngine(t *testing.T, db *shared.DB, agent func(context.Context, ticket) error) *engine {
	t.Helper()
	return &engine{
		db: db, table: newTable(db), policy: newPolicy(30*time.Second, time.Hour), agent: agent, vm: "vm-7",
		metrics: newMetrics(), notify: func(change) {}, log: slog.New(slog.NewTextHandler(t.Output(), nil)),
		interval: 5 * time.Millisecond,
	}
}

func (s *system) add(priority int) string {
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
	n, err := s.worker(1).Once(s.t.Context())
	return n > 0, err
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
func (s *system) pass(id string, d time.Duration) {
	s.t.Helper()
	if at := s.read("retry_after", id); !at.IsZero() {
		s.set("retry_after", id, at.Add(-d))
	}
}

// read returns the instant of an expression in a ticket.
func (s *system) read(expression, id string) time.Time {
	s.t.Helper()
	at := dbtest.Get[shared.Instant](s.t, s.db, s.db.SQL("SELECT "+expression+" FROM tickets WHERE id = $1"), id)
	return at.Time
}

// set sets a column of a ticket.
func (s *system) set(column, id string, at time.Time) {
	s.t.Helper()
	dbtest.Exec(s.t, s.db, "UPDATE tickets SET "+column+" = $1 WHERE id = $2", shared.Instant{Time: at, As: s.db.Instants}, id)
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

func (s *system) record(id string) (r record) {
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

func (s *system) state(id string) string { s.t.Helper(); return s.record(id).state }

// waitsFor says that the ticket is ready, but not for about d.
func (s *system) waitsFor(id string, retries int, d time.Duration) {
	s.t.Helper()
	r := s.record(id)
	assert.Equal(s.t, ready, r.state)
	assert.Equal(s.t, retries, r.retries, "retry_count")
	assert.True(s.t, r.waits, "retry_after is set")
	assert.LessOrEqual(s.t, r.wait, d)
	assert.Greater(s.t, r.wait, d-10*time.Second)
}

// decision is what the activity has to say of every failure.
type decision struct {
	ErrorCategory  string `json:"errorCategory"`
	CurrentAttempt int    `json:"currentAttempt"`
	MaxRetries     int    `json:"maxRetries"`
	ShouldRetry    bool   `json:"shouldRetry"`
	NextDelayMs    int64  `json:"nextDelayMs"`
	Error          string `json:"error"`
}

// decisions are the activity of a ticket.
func (s *system) decisions(id string) (all []decision) {
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

// The ready query: by priority, then age, among those whose retry_after is NULL or
// past, retries too, and only those assigned to agents.
func TestReadyQueryRespectsRetryAfterAndPriority(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		s := newSystem(t, db)
		low, high, alsoHigh := s.add(1), s.add(9), s.add(9)
		human, err := add(t.Context(), db, "design", "definition", "human", 99)
		require.NoError(t, err)
		s.set("created_at", alsoHigh, s.read("{now}", alsoHigh).Add(-time.Hour))
		var order []string
		s.agent = func(_ context.Context, w ticket) error {
			order = append(order, w.ID)
			return s.outcome
		}
		s.attempt(errLimited) // alsoHigh, the older one
		s.attempt(nil)        // high: alsoHigh waits
		s.pass(alsoHigh, time.Hour)
		s.attempt(nil) // before low
		s.attempt(nil)
		assert.Equal(t, []string{alsoHigh, high, alsoHigh, low}, order)
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
			assert.Equal(t, w.Retries, s.record(w.ID).retries, "raised when a retry is decided")
			got = append(got, w)
			return errSyntax
		}
		s.attempt(nil)
		dbtest.Exec(t, db, "UPDATE tickets SET design_id = NULL, rejection_count = 2")
		s.attempt(nil)
		assert.Equal(t, []ticket{
			{ID: id, Design: "design", Definition: "definition"},
			{ID: id, Retries: 1, Rejections: 2},
		}, got)
	})
}

// State transition validation. Every action is tried on a
// ticket in every state, and does nothing where the diagram has no arrow.
func TestStateTransitionValidation(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		s := newSystem(t, db)
		fail := func(row retrytable.Row[string]) {
			o := &retrytable.Outcome[string]{Job: &retrytable.Job[string]{Row: row}, Err: errLimited}
			o.Decision = s.policy.Next(row.State, o.Err, row.Now())
			args := s.decided(o)
			_ = s.table.FailWith(t.Context(), db, row.Lease, o.Decision, o.Err, args...)
		}
		actions := map[string]func(row retrytable.Row[string]){
			"claim":   func(retrytable.Row[string]) { _, _ = s.table.Claim(t.Context(), db, 1, "vm-8") },
			"success": func(row retrytable.Row[string]) { _ = s.table.Succeed(t.Context(), db, row.Lease) },
			"retry":   fail,
			"fail": func(row retrytable.Row[string]) {
				row.State.Failures = 3
				fail(row)
			},
			"release": func(row retrytable.Row[string]) { _ = release(t.Context(), db, row.ID, "alice") },
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
		assert.ErrorContains(t, release(t.Context(), db, id, "alice"), `release: -ticket: "1": must be on_hold`)
		s.attempt(errSyntax)
		s.attempt(errSyntax)
		require.NoError(t, release(t.Context(), db, id, "alice"))
		r := s.record(id)
		assert.Equal(t, ready, r.state)
		assert.Zero(t, r.retries)
		assert.LessOrEqual(t, r.wait, time.Duration(0), "due at once")
		assert.False(t, r.completed)
		assert.Empty(t, r.reason)
		assert.Equal(t, errSyntax.Error(), r.err, "still of interest")
		by := dbtest.Get[string](t, db, "SELECT actor FROM activity WHERE action = 'released' AND ticket_id = $1", id)
		assert.Equal(t, "alice", by)
		s.attempt(errSyntax)
		s.waitsFor(id, 1, 0)
		assert.Error(t, release(t.Context(), db, id, "alice"), "not twice")
	})
}
