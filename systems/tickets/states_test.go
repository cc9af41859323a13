//nolint:thelper // what Each calls is the test itself
package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/retrytable"
	"github.com/seed-5ff3c98e/retry/systems/shared"
	"github.com/seed-5ff3c98e/retry/systems/shared/dbtest"
)

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
		assert.False(t, r.waits)
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
