//nolint:thelper // what Each calls is the test itself
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/lab/systems/shared"
	"github.com/seed-5ff3c98e/retry/lab/systems/shared/dbtest"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// A ticket whose VM is gone is a system_error, and one that kills every VM ends.
func TestDeadVM(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		s := newSystem(t, db)
		id := s.add(0)
		for range 3 {
			s.pass(id, time.Hour)
			rows, err := s.table.Claim(t.Context(), db, 1, "vm-dead")
			require.NoError(t, err)
			require.Len(t, rows, 1)
			s.idle("its lease holds")
			s.set("lease_until", id, s.read("{now}", id))
			s.idle("swept, and waiting")
			assert.Equal(t, retrytable.ErrLeaseLost, s.table.Succeed(t.Context(), db, rows[0].Lease), "too late")
		}
		assert.Equal(t, "Max retries exceeded: system_error", s.record(id).reason)
		assert.Len(t, s.decisions(id), 3)
	})
}

// An agent that works for longer than a lease keeps it: the lease is a whole one again
// and again. One that has lost it is told to stop, and what it says has no effect.
func TestHeartbeat(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		s := newSystem(t, db)
		id := s.add(0)
		left := func() time.Duration { return s.read("lease_until", id).Sub(s.read("{now}", id)) }
		s.agent = func(ctx context.Context, _ ticket) error {
			for range 2 {
				s.set("lease_until", id, s.read("{now}", id).Add(30*time.Second))
				eventually(t, func() bool { return left() > 40*time.Second }, "a lease is a minute")
				assert.NoError(t, ctx.Err())
			}
			dbtest.Exec(t, db, "UPDATE tickets SET state = 'on_hold'") // by a person
			select {
			case <-ctx.Done():
			case <-time.After(limit):
			}
			return ctx.Err()
		}
		w := s.worker(1)
		w.Heartbeat = 5 * time.Millisecond
		n, err := w.Once(t.Context())
		assert.Equal(t, 1, n)
		assert.ErrorIs(t, err, retrytable.ErrLeaseLost)
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
		assert.Error(t, s.worker(1).Run(ctx))
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
		assert.Error(t, s.worker(1).Run(ctx))
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
			wg.Go(func() { assert.Error(t, e.worker(2).Run(ctx)) })
		}
		wg.Wait()
		assert.Equal(t, int64(2*tickets), runs.Load())
		n := dbtest.Get[int](t, db, "SELECT count(*) FROM tickets WHERE state = 'needs_review' AND retry_count = 1")
		assert.Equal(t, tickets, n)
	})
}

// An engine that is told to stop lets its agents finish, for as long as -grace says.
func TestGrace(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		migrate(t, db)
		for grace, want := range map[string]string{"20s": needsReview, "0s": ready} {
			begun := filepath.Join(t.TempDir(), "begun")
			id, err := add(t.Context(), db, "slow", "touch "+begun+"; sleep 1", "agent", 0)
			require.NoError(t, err)
			_, stop := dbtest.Start(t, program.Run, "work", "-dsn", db.DSN, "-grace", grace, "-interval", "10ms")
			// A ticket in progress may not have begun: its worker hands it back then.
			eventually(t, func() bool { _, err := os.Stat(begun); return err == nil }, "begun")
			require.ErrorIs(t, stop(), context.Canceled)
			assert.Equal(t, 1, count(t, db, "id = "+id+" AND state = '"+want+"'"), grace)
			dbtest.Exec(t, db, "DELETE FROM tickets WHERE state = 'ready'")
		}
	})
}

func TestMain(m *testing.M) { dbtest.Main(m, crashWorker) }

// crashWorker is an engine with short leases, whose agent notes every run.
func crashWorker(ctx context.Context, db *shared.DB) error {
	e := &engine{
		db: db, table: newTable(db), policy: newPolicy(10*time.Millisecond, time.Second), vm: "vm",
		metrics: newMetrics(), notify: func(change) {}, log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		interval: 10 * time.Millisecond,
		agent: func(ctx context.Context, w ticket) error {
			if _, err := db.ExecContext(ctx, "INSERT INTO runs (ticket_id) VALUES ($1)", w.ID); err != nil {
				return err
			}
			if w.Definition == "poison" {
				self, err := os.FindProcess(os.Getpid())
				if err == nil {
					err = self.Kill()
				}
				return err
			}
			if w.Design == "shell" {
				return shell(ctx, w)
			}
			time.Sleep(10*time.Millisecond + rand.N(30*time.Millisecond))
			return nil
		},
	}
	e.table.Lease = 600 * time.Millisecond
	return e.worker(2).Run(ctx)
}

// Engines are killed every 30 to 130 ms: no ticket is lost or run more often than its
// limit says, and those that kill their engine end on hold. Few of the others are as
// unlucky.
func TestCrash(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		migrate(t, db)
		dbtest.Exec(t, db, "CREATE TABLE runs (ticket_id bigint NOT NULL)")
		const tickets = 60
		for i := range tickets {
			definition := "work"
			if i%20 == 0 {
				definition = "poison"
			}
			_, err := add(t.Context(), db, fmt.Sprint("design ", i), definition, "agent", i)
			require.NoError(t, err)
		}
		count := func(query string) int {
			return dbtest.Get[int](t, db, query)
		}
		dbtest.Kill(t, db, 2, 20, func() bool {
			return count("SELECT count(*) FROM tickets WHERE state IN ('ready', 'in_progress')") == 0
		})
		assert.Equal(t, tickets, count("SELECT count(*) FROM tickets WHERE state IN ('needs_review', 'on_hold')"))
		// A slow machine has more of them meet with a kill in each run.
		assert.Greater(t, count("SELECT count(*) FROM tickets WHERE state = 'needs_review'"), tickets/3)
		assert.NotZero(t, count("SELECT count(*) FROM (SELECT ticket_id FROM runs JOIN tickets t ON t.id = ticket_id "+
			"WHERE t.state = 'needs_review' GROUP BY ticket_id HAVING count(*) > 1) AS again"), "the kills hit no work")
		assert.LessOrEqual(t, count("SELECT max(n) FROM (SELECT count(*) AS n FROM runs GROUP BY ticket_id) AS r"), 3,
			"a system_error has 2 retries")
		assert.Equal(t, 3, count("SELECT count(*) FROM tickets t JOIN designs d ON t.design_id = d.id "+
			"WHERE d.definition = 'poison' AND t.state = 'on_hold' AND t.hold_reason = 'Max retries exceeded: system_error'"))
		assert.Equal(t, count("SELECT count(*) FROM tickets WHERE state = 'on_hold'"),
			count("SELECT count(*) FROM activity WHERE CAST(details AS text) LIKE '%\"shouldRetry\":%false%'"))
	})
}
