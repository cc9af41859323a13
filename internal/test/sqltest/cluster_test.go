//go:build unix

package sqltest_test

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/sqltest/suite"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrysql"
)

// cluster is a PostgreSQL server of one test, which may restart it.
type cluster struct {
	dir     string
	addr    string
	options []string // of a start
}

// startCluster starts a server in a folder that is removed at the end.
func startCluster(t *testing.T) *cluster {
	t.Helper()
	testkit.Needs(t, "PostgreSQL")
	// Not t.TempDir, which is below a folder of this user's alone, while the
	// server runs as another if this user is root.
	dir, err := os.MkdirTemp("", "retry-postgres-") //nolint:usetesting // see above
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(dir)) })
	if credential := unprivileged(t); credential != nil {
		require.NoError(t, os.Chown(dir, int(credential.Uid), int(credential.Gid)))
	}
	c := &cluster{dir: filepath.Join(dir, "data"), addr: closedAddress(t)}
	run(t.Context(), t, "initdb", "--auth=trust", "--username=postgres", "--no-sync", "--pgdata="+c.dir)
	_, port, err := net.SplitHostPort(c.addr)
	require.NoError(t, err)
	c.options = []string{
		"-l", filepath.Join(dir, "log"), "-o",
		"-p " + port + " -c listen_addresses=127.0.0.1 -c fsync=off -c unix_socket_directories=" + dir,
	}
	c.ctl(t.Context(), t, "start", c.options...)
	t.Cleanup(func() { c.ctl(context.WithoutCancel(t.Context()), t, "stop", "-m", "immediate") })
	return c
}

func (c *cluster) ctl(ctx context.Context, t *testing.T, action string, args ...string) {
	t.Helper()
	run(ctx, t, "pg_ctl", append([]string{action, "--wait", "--silent", "--pgdata=" + c.dir}, args...)...)
}

func (c *cluster) url(t *testing.T) *url.URL {
	t.Helper()
	u := pgURL(t, nil)
	u.Host, u.Path, u.User = c.addr, "/postgres", url.User("postgres")
	return u
}

func (c *cluster) open(t *testing.T, driver string) *sql.DB {
	t.Helper()
	return openPG(t, driver, c.url(t))
}

// run runs a program of PostgreSQL.
func run(ctx context.Context, t *testing.T, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(ctx, program(t, name), args...)
	cmd.Dir = os.TempDir() // one that its user may enter
	if credential := unprivileged(t); credential != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
	}
	// To a file, because the server keeps what it inherits open.
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	require.NoError(t, err)
	defer func() { _ = out.Close() }()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		said, _ := os.ReadFile(out.Name())
		require.NoError(t, err, "%s: %s", cmd, said)
	}
}

// program finds a program that Debian does not put in the path.
func program(t *testing.T, name string) string {
	t.Helper()
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	require.NoError(t, err)
	require.NotEmpty(t, found, "%s is not installed", name)
	return found[len(found)-1]
}

// unprivileged returns the user to run a server as, or nil for this one: the
// server refuses to run as root.
func unprivileged(t *testing.T) *syscall.Credential {
	t.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	require.NoError(t, err)
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	require.NoError(t, err)
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	require.NoError(t, err)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// TestRestart restarts the server in the middle of a transaction, and leaves the
// pool full of connections that are dead.
func TestRestart(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	for _, driver := range pgDrivers {
		for _, mode := range []string{"fast", "immediate"} {
			t.Log(driver, mode)
			testRestart(t, c, driver, mode)
		}
	}
}

func testRestart(t *testing.T, c *cluster, driver, mode string) {
	t.Helper()
	db := c.open(t, driver)
	table := randomName()
	suite.Exec(t, db, "CREATE TABLE "+table+" (id INT PRIMARY KEY)")
	suite.Idle(t, db, 5, "SELECT 1")
	attempts := 0
	var seen []string
	p := &retry.Policy{
		Backoff: retry.Constant(10 * time.Millisecond), NonIdempotent: true,
		Observer: retry.ObserverFunc(func(_ context.Context, e retry.Event) {
			seen = append(seen, strings.TrimSpace(fmt.Sprint(e.Verdict.Category, " ", e.Err)))
		}),
	}
	require.NoError(t, retrysql.InTx(t.Context(), db, p, nil, func(ctx context.Context, tx *sql.Tx) error {
		if _, err := tx.ExecContext(ctx, "INSERT INTO "+table+" VALUES (1)"); err != nil {
			return err
		}
		if attempts++; attempts == 1 {
			c.ctl(ctx, t, "restart", "-m", mode)
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO "+table+" VALUES (2)")
		return err
	}))
	t.Log(seen)
	assert.Equal(t, 2, attempts)
	assert.Len(t, slices.DeleteFunc(seen, func(s string) bool { return s == "<nil>" }), 1, "stale connections cost no attempts")
	assert.Equal(t, 2, suite.Count(t, db, table))
}

// TestStandby finds the server demoted, and then promoted. lib/pq begins every transaction
// with READ WRITE, which a standby refuses with another error than it has for a write.
func TestStandby(t *testing.T) {
	t.Parallel()
	for _, driver := range pgDrivers {
		for _, isolation := range []sql.IsolationLevel{sql.LevelDefault, sql.LevelSerializable} {
			t.Run(fmt.Sprintf("%s %v", driver, isolation), func(t *testing.T) {
				t.Parallel()
				c := startCluster(t)
				db := c.open(t, driver)
				suite.Exec(t, db, "CREATE TABLE item (id INT PRIMARY KEY)")
				c.ctl(t.Context(), t, "stop", "-m", "fast")
				require.NoError(t, os.WriteFile(filepath.Join(c.dir, "standby.signal"), nil, 0o644)) //nolint:gosec // its user reads it
				c.ctl(t.Context(), t, "start", c.options...)
				failures := 0
				p := &retry.Policy{
					MaxAttempts: 20, Backoff: retry.Constant(100 * time.Millisecond), NonIdempotent: true,
					Observer: retry.ObserverFunc(func(ctx context.Context, e retry.Event) {
						t.Log(e.Verdict.Category, e.Err)
						if failures++; failures == 2 {
							c.ctl(ctx, t, "promote")
						}
					}),
				}
				opts := &retrysql.TxOptions{Isolation: isolation}
				require.NoError(t, retrysql.InTx(t.Context(), db, p, opts, func(ctx context.Context, tx *sql.Tx) error {
					_, err := tx.ExecContext(ctx, "INSERT INTO item VALUES (1)")
					return err
				}))
				assert.GreaterOrEqual(t, failures, 3)
				assert.Equal(t, 1, suite.Count(t, db, "item"))
			})
		}
	}
}
