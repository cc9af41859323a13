package retrysql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrysql"
)

// server is a database with scripted results. Its log holds what happened and
// on which connection: "open 1", "begin 1", "exec 1 UPDATE", "commit 1",
// "rollback 1", "close 1".
type server struct {
	mu      sync.Mutex
	log     []string
	opened  int
	open    int
	inTx    int
	scripts map[string][]step
}

// step is the end of one operation. The context is the operation's, or the
// context of BeginTx for a commit and a rollback.
type step func(ctx context.Context) error

// newServer returns a server and a database on it, which is closed at the end,
// when nothing may be left open.
func newServer(t *testing.T) (*server, *sql.DB) {
	t.Helper()
	s := &server{scripts: map[string][]step{}}
	db := sql.OpenDB(s)
	t.Cleanup(func() {
		testkit.Idle(t, db)
		assert.NoError(t, db.Close())
		s.mu.Lock()
		defer s.mu.Unlock()
		assert.Zero(t, s.open, "open connections")
		assert.Zero(t, s.inTx, "open transactions")
	})
	return s, db
}

// on sets the ends of the next operations of a kind, nil for success. Further
// ones succeed.
func (s *server) on(op string, errs ...error) {
	for _, err := range errs {
		s.does(op, func(context.Context) error { return err })
	}
}

func (s *server) does(op string, steps ...step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scripts[op] = append(s.scripts[op], steps...)
}

// events returns the log and clears it.
func (s *server) events() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	log := s.log
	s.log = nil
	return log
}

func (s *server) connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opened
}

func (s *server) next(op string) step {
	s.mu.Lock()
	defer s.mu.Unlock()
	steps := s.scripts[op]
	if len(steps) == 0 {
		return func(context.Context) error { return nil }
	}
	s.scripts[op] = slices.Clone(steps[1:])
	return steps[0]
}

func (s *server) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, fmt.Sprintf(format, args...))
}

func (s *server) count(counter *int, by int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	*counter += by
}

// Connect implements [driver.Connector].
func (s *server) Connect(ctx context.Context) (driver.Conn, error) {
	if err := s.next("open")(ctx); err != nil {
		s.note("refuse")
		return nil, err
	}
	s.count(&s.opened, 1)
	s.count(&s.open, 1)
	c := &conn{s: s, id: s.connections()}
	s.note("open %d", c.id)
	return c, nil
}

// Driver implements [driver.Connector].
func (s *server) Driver() driver.Driver { return nil }

type conn struct {
	s    *server
	id   int
	inTx bool
}

func (c *conn) Prepare(string) (driver.Stmt, error) { panic("not used") }
func (c *conn) Begin() (driver.Tx, error)           { panic("not used") }

func (c *conn) Close() error {
	c.s.note("close %d", c.id)
	_ = c.s.next("close")(context.Background())
	c.s.count(&c.s.open, -1)
	c.end()
	return nil
}

// end ends the transaction, if there is one.
func (c *conn) end() {
	if c.inTx {
		c.inTx = false
		c.s.count(&c.s.inTx, -1)
	}
}

func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	c.s.note("begin %d", c.id)
	if opts != (driver.TxOptions{}) {
		c.s.note("as %v %v", sql.IsolationLevel(opts.Isolation), opts.ReadOnly)
	}
	if c.inTx {
		return nil, fmt.Errorf("connection %d is in a transaction", c.id)
	}
	if err := c.s.next("begin")(ctx); err != nil {
		return nil, err
	}
	c.inTx = true
	c.s.count(&c.s.inTx, 1)
	return &tx{c, ctx}, nil
}

// ResetSession implements [driver.SessionResetter]: package sql asks before it
// uses a connection again.
func (c *conn) ResetSession(ctx context.Context) error { return c.s.next("reset")(ctx) }

// ExecContext implements [driver.ExecerContext].
func (c *conn) ExecContext(ctx context.Context, query string, _ []driver.NamedValue) (driver.Result, error) {
	c.s.note("exec %d %s", c.id, query)
	if query == "ROLLBACK" {
		c.end()
	}
	return driver.RowsAffected(1), c.s.next("exec")(ctx)
}

type tx struct {
	c   *conn
	ctx context.Context
}

func (t *tx) Commit() error {
	t.c.s.note("commit %d", t.c.id)
	err := t.c.s.next("commit")(t.ctx)
	if err == nil || t.c.s.scripted("commit keeps open") == 0 {
		t.c.end()
	}
	return err
}

func (t *tx) Rollback() error {
	t.c.s.note("rollback %d", t.c.id)
	err := t.c.s.next("rollback")(t.ctx)
	if err == nil || retrysql.Classify(err) == final("sqlite_1") { // no transaction is active
		t.c.end()
	}
	return err
}

func (s *server) scripted(op string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.scripts[op])
}
