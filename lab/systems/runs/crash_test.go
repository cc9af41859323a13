//nolint:thelper // what Each calls is the test itself
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/lab/systems/shared"
	"github.com/seed-5ff3c98e/retry/lab/systems/shared/dbtest"
)

func TestMain(m *testing.M) { dbtest.Main(m, crashWorker) }

const (
	crashRuns     = 200
	crashAttempts = 8
)

// poison says whether a run kills its worker, busy whether it is told to wait the
// first time, and flaky how often it fails.
func poison(n int) bool { return n%40 == 7 }
func busy(n int) bool   { return n%40 == 12 }
func flaky(n int) int   { return n % 3 }

// crashWorker works until it is killed.
func crashWorker(ctx context.Context, db *shared.DB) error {
	p := &processor{
		store:  newStore(db, 400*time.Millisecond, ""),
		policy: (&RetryConfig{crashAttempts, 20 * time.Millisecond, 20 * time.Millisecond, 1}).policy(),
		poll:   5 * time.Millisecond, log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError + 1})),
		replay: func(ctx context.Context, r *request) (outcome, error) { return crashReplay(ctx, db, r) },
	}
	return p.worker(1).Run(ctx)
}

func crashReplay(ctx context.Context, db *shared.DB, r *request) (outcome, error) {
	n, err := strconv.Atoi(r.ID)
	if err != nil {
		return "", err
	}
	var executions int
	if _, err := db.ExecContext(ctx, "INSERT INTO executions (run) VALUES ($1)", n); err != nil {
		return "", err
	}
	if err := db.QueryRowContext(ctx, "SELECT count(*) FROM executions WHERE run = $1", n).Scan(&executions); err != nil {
		return "", err
	}
	time.Sleep(5*time.Millisecond + rand.N(20*time.Millisecond))
	switch {
	case poison(n):
		self, err := os.FindProcess(os.Getpid())
		if err == nil {
			err = self.Kill()
		}
		return "", errors.Join(err, errors.New("still alive"))
	case busy(n) && executions == 1:
		return "", limited(10 * time.Millisecond)
	case r.State.Failures < flaky(n):
		return "", retry.MarkRetryable(errors.New("flaky"))
	default:
		return passed, nil
	}
}

// Two workers are killed every 30 to 130 ms, 25 times, and by some of the runs. No
// run is lost, none is run more often than it may, and those that kill their
// worker end.
func TestCrash(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		newTestStore(t, db)
		dbtest.Exec(t, db, "CREATE TABLE executions (run bigint)")
		for n := range crashRuns {
			dbtest.Exec(t, db, "INSERT INTO runs (id, category, url) VALUES ($1, 'web', '')", fmt.Sprintf("%03d", n))
		}
		dbtest.Kill(t, db, 2, 25, func() bool {
			return dbtest.Get[bool](t, db, "SELECT NOT EXISTS (SELECT 1 FROM runs "+
				"WHERE status IN ('discovered', 'processing') OR next_retry_at IS NOT NULL)")
		})
		again := 0
		for n := range crashRuns {
			executions := dbtest.Get[int](t, db, "SELECT count(*) FROM executions WHERE run = $1", n)
			got, limit := read(t, db, fmt.Sprintf("%03d", n)), crashAttempts
			if poison(n) {
				assert.Equal(t, record{"error", crashAttempts - 1, "retryable", 0, false}, got, "run %d", n)
				assert.NotZero(t, executions, "run %d", n)
			} else {
				assert.Equal(t, record{status: "passed"}, got, "run %d", n)
				expected := flaky(n) + 1
				if busy(n) { // the first one is free
					expected++
					limit++
				}
				if executions > expected {
					again++
				}
			}
			assert.LessOrEqual(t, executions, limit, "run %d", n)
		}
		assert.NotZero(t, again, "the kills hit no work")
		t.Logf("%d runs lost a worker that they had not killed", again)
	})
}
