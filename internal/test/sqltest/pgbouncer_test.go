//go:build unix

package sqltest_test

import (
	"context"
	"database/sql"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/sqltest/suite"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrysql"
)

// through returns the address of a pooler in front of a server. A pooler for transactions
// knows no prepared statements of a connection.
func through(t *testing.T, driver string, server *url.URL) *url.URL {
	t.Helper()
	u := testkit.PgBouncer(t, server)
	if driver == "pgx" {
		query := u.Query()
		query.Set("default_query_exec_mode", "exec")
		u.RawQuery = query.Encode()
	}
	return u
}

// TestPgBouncer stops the server behind a pooler: in the middle of a transaction, and so
// that the next transaction cannot begin for a while.
func TestPgBouncer(t *testing.T) {
	t.Parallel()
	for _, driver := range pgDrivers {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			c := startCluster(t)
			db := openPG(t, driver, through(t, driver, c.url(t)))
			suite.Exec(t, db, "CREATE TABLE item (id INT PRIMARY KEY)")
			suite.Idle(t, db, 3, "SELECT 1")
			attempts, failures := 0, 0
			p := &retry.Policy{
				MaxAttempts: 100, Backoff: retry.Constant(50 * time.Millisecond), NonIdempotent: true,
				Observer: retry.ObserverFunc(func(ctx context.Context, e retry.Event) {
					t.Log(e.Verdict.Category, e.Err)
					if failures++; failures == 4 {
						c.ctl(ctx, t, "start", c.options...)
					}
				}),
			}
			require.NoError(t, retrysql.InTx(t.Context(), db, p, nil, func(ctx context.Context, tx *sql.Tx) error {
				if _, err := tx.ExecContext(ctx, "INSERT INTO item VALUES (1)"); err != nil {
					return err
				}
				if attempts++; attempts == 1 {
					c.ctl(ctx, t, "stop", "-m", "immediate")
				}
				_, err := tx.ExecContext(ctx, "INSERT INTO item VALUES (2)")
				return err
			}))
			assert.GreaterOrEqual(t, failures, 4)
			assert.Equal(t, 2, suite.Count(t, db, "item"))
		})
	}
}

// TestPgBouncerCommit loses the server of a pooler around a COMMIT. The pooler answers
// then, but its answer says nothing about the transaction.
func TestPgBouncerCommit(t *testing.T) {
	t.Parallel()
	for _, driver := range pgDrivers {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			server := pgURL(t, settings{"search_path": newSchema(t)["search_path"]})
			p := startProxy(t, server.Host)
			server.Host = p.Addr().String()
			testCommitLost(t, p, openPG(t, driver, through(t, driver, server)))
		})
	}
}
