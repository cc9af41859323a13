package tabletest_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"net"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytable"
	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

// newDatabase makes a database of its own, and returns its address and what makes it
// refuse connections for a while.
func newDatabase(t *testing.T) (dsn string, refuse func(time.Duration)) {
	t.Helper()
	testkit.Needs(t, "PostgreSQL")
	outer := cmp.Or(os.Getenv("RETRY_TEST_POSTGRES"), "postgres://postgres@127.0.0.1:5432/test?sslmode=disable")
	name := "retry_" + strings.ToLower(rand.Text()[:16])
	db := openDB(t, "pgx", outer)
	exec := func(statement string) {
		_, err := db.ExecContext(context.WithoutCancel(t.Context()), statement)
		assert.NoError(t, err, statement)
	}
	exec("CREATE DATABASE " + name)
	t.Cleanup(func() { exec("DROP DATABASE " + name + " WITH (FORCE)") })
	u, err := url.Parse(outer)
	require.NoError(t, err)
	u.Path = "/" + name
	return u.String(), func(d time.Duration) {
		exec("ALTER DATABASE " + name + " ALLOW_CONNECTIONS false")
		exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '" + name + "'")
		time.AfterFunc(d, func() { exec("ALTER DATABASE " + name + " ALLOW_CONNECTIONS true") })
	}
}

// refusing returns a place of its own in a database of the kind, and what makes it cut
// all connections and refuse others for a while.
func refusing(t *testing.T, k kind) (s *store, refuse func(time.Duration)) {
	t.Helper()
	if k.dialect == retrytable.PostgreSQL {
		dsn, refuse := newDatabase(t)
		return &store{k, openDB(t, k.driver, dsn), dsn}, refuse
	}
	var cable atomic.Pointer[enginetest.Cable] // nil while the server is away
	cable.Store(new(enginetest.Cable))
	dsn := newMariaDB(t, k.settings)
	db := sql.OpenDB(dollarConnector{dsn: dsn, dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		if c := cable.Load(); c != nil {
			return c.DialContext(ctx, network, address)
		}
		return new(net.Dialer).DialContext(ctx, network, "127.0.0.1:1")
	}})
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	return &store{k, db, dsn}, func(d time.Duration) {
		cable.Swap(nil).Cut()
		time.AfterFunc(d, func() { cable.Store(new(enginetest.Cable)) })
	}
}

// A server that is away for two seconds when the work is done, or in the middle of what
// the work has to write, does not have it done again.
func TestWorkerServerAway(t *testing.T) {
	t.Parallel()
	for _, k := range []kind{databases[0], databases[1], databases[3]} {
		for _, when := range []string{"at the end", "in the transaction", "after a failure"} {
			t.Run(k.name+" "+when, func(t *testing.T) {
				t.Parallel()
				s, refuse := refusing(t, k)
				table := jobs()
				s.create(t, table, 1)
				runs, effects := 0, 0
				w := &retrytable.Worker[int64]{
					Table: table, DB: s.db, Policy: hourly,
					Work: func(_ context.Context, job *retrytable.Job[int64]) error {
						runs++
						job.InTx(func(ctx context.Context, tx *sql.Tx) error {
							if effects++; effects == 1 && when == "in the transaction" {
								refuse(2 * time.Second)
							}
							return effect(job)(ctx, tx)
						})
						if when != "in the transaction" {
							refuse(2 * time.Second)
						}
						if when == "after a failure" {
							return retry.MarkRetryable(errWork)
						}
						return nil
					},
				}
				began := time.Now()
				n, err := w.Once(t.Context())
				require.NoError(t, err)
				assert.Equal(t, 1, n)
				assert.Greater(t, time.Since(began), 1500*time.Millisecond, "the server was away")
				assert.Equal(t, 1, runs)
				got := s.record(t, s.db, 1)
				if when == "after a failure" {
					assert.Equal(t, record{status: "waiting", attempts: 1, fence: 1, due: got.due}, got)
				} else {
					assert.Equal(t, record{status: "done", attempts: 1, fence: 1, note: "effect"}, got)
				}
			})
		}
	}
}
