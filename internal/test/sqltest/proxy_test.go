package sqltest_test

import (
	"bytes"
	"context"
	"database/sql"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/sqltest/suite"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrysql"
)

// fate is what a proxy does with the next COMMIT.
type fate int32

const (
	passOn      fate = iota
	beforeIt         // cut: the server never sees it
	afterIt          // cut when the server has answered: the client never sees that
	nothingMore      // pass it on, and let no answer through
)

// proxy stands between a client and a server.
type proxy struct {
	net.Listener

	target string
	next   atomic.Int32 // a fate
	group  sync.WaitGroup
	mu     sync.Mutex
	open   []net.Conn
}

func startProxy(t *testing.T, target string) *proxy {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{Listener: listener, target: target}
	p.group.Go(p.serve)
	t.Cleanup(func() {
		assert.NoError(t, listener.Close())
		p.mu.Lock()
		for _, conn := range p.open {
			_ = conn.Close()
		}
		p.mu.Unlock()
		p.group.Wait()
	})
	return p
}

func (p *proxy) serve() {
	for {
		client, err := p.Accept()
		if err != nil {
			return
		}
		server, err := new(net.Dialer).DialContext(context.Background(), "tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.open = append(p.open, client, server)
		p.mu.Unlock()
		var cut atomic.Int32
		p.group.Go(func() { p.toServer(client, server, &cut) })
		p.group.Go(func() { toClient(client, server, &cut) })
	}
}

// toServer passes on what the client says, up to a COMMIT that has another fate.
func (p *proxy) toServer(client, server net.Conn, cut *atomic.Int32) {
	defer func() { _ = server.Close() }()
	buffer := make([]byte, 1<<16)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		if bytes.Contains(bytes.ToLower(buffer[:n]), []byte("commit")) {
			switch f := fate(p.next.Swap(int32(passOn))); f {
			case beforeIt:
				_ = client.Close()
				return
			case afterIt, nothingMore:
				cut.Store(int32(f))
			case passOn:
			}
		}
		if _, err := server.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func toClient(client, server net.Conn, cut *atomic.Int32) {
	defer func() { _ = client.Close() }()
	buffer := make([]byte, 1<<16)
	for {
		n, err := server.Read(buffer)
		if err != nil {
			return
		}
		switch fate(cut.Load()) {
		case afterIt:
			return
		case nothingMore:
			_, _ = io.Copy(io.Discard, server)
			return
		case passOn, beforeIt:
		}
		if _, err := client.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// TestCommitLost cuts the connection around a COMMIT.
func TestCommitLost(t *testing.T) {
	t.Parallel()
	for _, driver := range pgDrivers {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			u := pgURL(t, newSchema(t))
			p := startProxy(t, u.Host)
			u.Host = p.Addr().String()
			testCommitLost(t, p, openPG(t, driver, u))
		})
	}
	t.Run("mysql", func(t *testing.T) {
		t.Parallel()
		config := newMariaDB(t)
		p := startProxy(t, config.Addr)
		config.Addr = p.Addr().String()
		testCommitLost(t, p, openMariaDB(t, config))
	})
}

func testCommitLost(t *testing.T, p *proxy, db *sql.DB) {
	t.Helper()
	suite.Exec(t, db, "CREATE TABLE account (id INT PRIMARY KEY, balance INT NOT NULL)", "CREATE TABLE journal (id INT PRIMARY KEY)")
	policy := &retry.Policy{Backoff: retry.Constant(0), Classifier: retrysql.Classify}
	for id, tt := range []struct {
		name       string
		fate       fate
		idempotent bool
		booked     bool
	}{
		{"before", beforeIt, false, false},
		{"after", afterIt, false, true},
		{"before, idempotent", beforeIt, true, true},
		{"after, idempotent", afterIt, true, true},
	} {
		suite.Exec(t, db, "DELETE FROM account", "INSERT INTO account VALUES (1, 100)", "DELETE FROM journal")
		attempts := 0
		p.next.Store(int32(tt.fate))
		err := retrysql.InTx(t.Context(), db, policy, &retrysql.TxOptions{Idempotent: tt.idempotent},
			func(ctx context.Context, tx *sql.Tx) error {
				attempts++
				return deposit(ctx, tx, tt.idempotent)
			})
		if tt.idempotent {
			require.NoError(t, err, tt.name)
			assert.Equal(t, 2, attempts, tt.name)
		} else {
			require.ErrorIs(t, err, retrysql.ErrCommitUnknown, tt.name)
			assert.Equal(t, 1, attempts, tt.name)
			t.Logf("%s: %v", tt.name, err)
		}
		assert.EqualValues(t, passOn, p.next.Load(), "%d: nobody sent COMMIT", id)
		assertBooked(t, db, tt.name, tt.booked)
	}
}

// deposit books 10. What is idempotent asks first whether it has done so.
func deposit(ctx context.Context, tx *sql.Tx, idempotent bool) error {
	if idempotent {
		var n int
		if err := tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM journal WHERE id = 1").Scan(&n); err != nil || n > 0 {
			return err
		}
	}
	if _, err := tx.ExecContext(ctx, "INSERT INTO journal VALUES (1)"); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "UPDATE account SET balance = balance + 10 WHERE id = 1")
	return err
}

// assertBooked looks at the books, which a server closes a moment after it has
// lost its client.
func assertBooked(t *testing.T, db *sql.DB, name string, booked bool) {
	t.Helper()
	want, balance := 100, 0
	if booked {
		want = 110
	}
	require.NoError(t, db.QueryRowContext(t.Context(), "SELECT balance FROM account").Scan(&balance))
	assert.Equal(t, want, balance, name)
	n := 0
	if booked {
		n = 1
	}
	assert.Equal(t, n, suite.Count(t, db, "journal"), name)
	testkit.Idle(t, db)
}

// TestCommitUnanswered waits for the answer to a COMMIT no longer than the
// attempt may take, and does not take that for a timeout like others.
func TestCommitUnanswered(t *testing.T) {
	t.Parallel()
	u := pgURL(t, newSchema(t))
	p := startProxy(t, u.Host)
	u.Host = p.Addr().String()
	db := openPG(t, "pgx", u)
	suite.Exec(t, db, "CREATE TABLE account (id INT PRIMARY KEY, balance INT NOT NULL)", "CREATE TABLE journal (id INT PRIMARY KEY)",
		"INSERT INTO account VALUES (1, 100)")
	p.next.Store(int32(nothingMore))
	policy := &retry.Policy{AttemptTimeout: 300 * time.Millisecond}
	err := retrysql.InTx(t.Context(), db, policy, nil, func(ctx context.Context, tx *sql.Tx) error { return deposit(ctx, tx, false) })
	require.ErrorIs(t, err, retrysql.ErrCommitUnknown)
	assertBooked(t, db, "unanswered", true)
}
