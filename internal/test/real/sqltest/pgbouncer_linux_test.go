package sqltest_test

import (
	"context"
	"io"
	"net"
	"net/url"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/real/sqltest/suite"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
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
			c := testkit.StartCluster(t, 100)
			db := openPG(t, driver, through(t, driver, clusterURL(t, c)))
			failures := 0
			p := &retry.Policy{
				MaxAttempts: 100, Backoff: retry.Constant(50 * time.Millisecond), NonIdempotent: true,
				Observer: &retry.Observer{Event: func(_ context.Context, e retry.Event) {
					t.Log(e.Verdict.Category, e.Err)
					if failures++; failures == 4 {
						c.Ctl(t, "start")
					}
				}},
			}
			insertTwice(t, db, p, func() { c.Ctl(t, "stop", "--mode=immediate") })
			assert.GreaterOrEqual(t, failures, 4)
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
			w := &testkit.Wire{}
			server := pgURL(t, settings{"search_path": newSchema(t)["search_path"]})
			server.Host = forward(t, w, server.Host)
			db := openPG(t, driver, through(t, driver, server))
			suite.Exec(t, db, "CREATE TABLE effect (name VARCHAR(80) NOT NULL)")
			for _, step := range []testkit.Step{testkit.PartlyWritten, testkit.Unanswered} {
				fault := testkit.Fault{Step: step, Message: "commit", Errno: syscall.ECONNRESET}
				assert.Equal(t, "unknown", testkit.TxOutcome(t, w, fault, failing(t, db, w, fault)))
			}
		})
	}
}

// forward returns an address whose connections are forwarded to the target through the wire.
func forward(t *testing.T, w *testkit.Wire, target string) string {
	t.Helper()
	listener := testkit.Must(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { assert.NoError(t, listener.Close()) })
	pass := func(to, from net.Conn) {
		_, _ = io.Copy(to, from)
		_ = to.Close()
		_ = from.Close()
	}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := w.DialContext(t.Context(), "tcp", target)
			if err != nil {
				_ = client.Close()
				continue
			}
			go pass(server, client)
			go pass(client, server)
		}
	}()
	return listener.Addr().String()
}
