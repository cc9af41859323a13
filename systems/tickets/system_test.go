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

	"github.com/seed-5ff3c98e/retry/retrytable"
	"github.com/seed-5ff3c98e/retry/systems/shared"
	"github.com/seed-5ff3c98e/retry/systems/shared/dbtest"
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
	at := dbtest.Get[shared.Instant](s.t, s.db, statement(s.db, "SELECT "+expression+" FROM tickets WHERE id = $1"), id)
	return at.Time
}

// set sets a column of a ticket.
func (s *system) set(column, id string, at time.Time) {
	s.t.Helper()
	as := instants(s.db)
	if s.db.Dialect == retrytable.PostgreSQL {
		as = retrytable.Timestamptz
	}
	dbtest.Exec(s.t, s.db, "UPDATE tickets SET "+column+" = $1 WHERE id = $2", shared.Instant{Time: at, As: as}, id)
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
	require.NoError(s.t, s.db.QueryRowContext(s.t.Context(), statement(s.db, "SELECT state, retry_count, retry_after, {now}, "+
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
