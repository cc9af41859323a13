//nolint:thelper // what Each calls is the test itself
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/systems/shared"
	"github.com/seed-5ff3c98e/retry/systems/shared/dbtest"
)

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
