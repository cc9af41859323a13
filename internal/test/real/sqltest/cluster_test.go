//go:build unix

package sqltest_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/real/sqltest/suite"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrysql"
)

// clusterURL returns the address of a server of the test's own.
func clusterURL(t *testing.T, c *testkit.Cluster) *url.URL {
	t.Helper()
	u := pgURL(t, nil)
	u.Host, u.Path, u.User = c.Address, "/postgres", url.User("postgres")
	return u
}

// insertTwice is a transaction of two statements. In the first attempt, something happens to
// the server between them.
func insertTwice(t *testing.T, db *sql.DB, p *retry.Policy, happens func()) (attempts int) {
	t.Helper()
	suite.Exec(t, db, "DROP TABLE IF EXISTS item", "CREATE TABLE item (id INT PRIMARY KEY)")
	suite.Idle(t, db, 5, "SELECT 1")
	require.NoError(t, retrysql.InTx(t.Context(), db, p, nil, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "INSERT INTO item VALUES (1)"); err != nil {
			return err
		}
		if attempts++; attempts == 1 {
			happens()
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO item VALUES (2)")
		return err
	}))
	assert.Equal(t, 2, suite.Count(t, db, "item"))
	return attempts
}

// TestRestart restarts the server in the middle of a transaction, and leaves the
// pool full of connections that are dead.
func TestRestart(t *testing.T) {
	t.Parallel()
	c := testkit.StartCluster(t, 100)
	for _, driver := range pgDrivers {
		for _, mode := range []string{"fast", "immediate"} {
			db := openPG(t, driver, clusterURL(t, c))
			failures := 0
			p := &retry.Policy{
				Backoff: retry.Constant(10 * time.Millisecond), NonIdempotent: true,
				Observer: &retry.Observer{Event: func(_ context.Context, e retry.Event) {
					t.Log(driver, mode, e.Verdict.Category, e.Err)
					if e.Err != nil {
						failures++
					}
				}},
			}
			assert.Equal(t, 2, insertTwice(t, db, p, func() { c.Ctl(t, "restart", "--mode="+mode) }))
			assert.Equal(t, 1, failures, "stale connections cost no attempts")
		}
	}
}

// TestStandby finds the server demoted, and then promoted. lib/pq begins every transaction
// with READ WRITE, which a standby refuses with another error than it has for a write.
func TestStandby(t *testing.T) {
	t.Parallel()
	for _, driver := range pgDrivers {
		for _, isolation := range []sql.IsolationLevel{sql.LevelDefault, sql.LevelSerializable} {
			t.Run(fmt.Sprintf("%s %v", driver, isolation), func(t *testing.T) {
				t.Parallel()
				c := testkit.StartCluster(t, 100)
				db := openPG(t, driver, clusterURL(t, c))
				suite.Exec(t, db, "CREATE TABLE item (id INT PRIMARY KEY)")
				c.Ctl(t, "stop", "--mode=fast")
				require.NoError(t, os.WriteFile(filepath.Join(c.Data, "standby.signal"), nil, 0o644)) //nolint:gosec // its user reads it
				c.Ctl(t, "start")
				failures := 0
				p := &retry.Policy{
					MaxAttempts: 20, Backoff: retry.Constant(100 * time.Millisecond), NonIdempotent: true,
					Observer: &retry.Observer{Event: func(_ context.Context, e retry.Event) {
						t.Log(e.Verdict.Category, e.Err)
						if failures++; failures == 2 {
							c.Ctl(t, "promote")
						}
					}},
				}
				require.NoError(t, retrysql.InTx(t.Context(), db, p, &retrysql.TxOptions{Isolation: isolation}, insert))
				assert.GreaterOrEqual(t, failures, 3)
				assert.Equal(t, 1, suite.Count(t, db, "item"))
			})
		}
	}
}
