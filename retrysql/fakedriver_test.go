package retrysql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
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
	mu        sync.Mutex
	log       []string
	opened    int
	open      int
	inTx      int
	scripts   map[string][]step
	keepsOpen bool // a transaction whose commit fails
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

func (s *server) connections() int { return s.count(&s.opened, 0) }

// end notes an operation, and ends it as its script says.
func (s *server) end(ctx context.Context, op, note string) error {
	s.mu.Lock()
	if note != "" {
		s.log = append(s.log, note)
	}
	next := func(context.Context) error { return nil }
	if steps := s.scripts[op]; len(steps) > 0 {
		next, s.scripts[op] = steps[0], steps[1:]
	}
	s.mu.Unlock()
	return next(ctx)
}

func (s *server) count(counter *int, by int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	*counter += by
	return *counter
}

// Connect implements [driver.Connector].
func (s *server) Connect(ctx context.Context) (driver.Conn, error) {
	if err := s.end(ctx, "open", ""); err != nil {
		_ = s.end(ctx, "", "refuse")
		return nil, err
	}
	s.count(&s.open, 1)
	c := &conn{s: s, id: s.count(&s.opened, 1)}
	return c, s.end(ctx, "", c.named("open"))
}

// Driver implements [driver.Connector].
func (s *server) Driver() driver.Driver { return nil }

type conn struct {
	s    *server
	id   int
	inTx bool
}

// named is what the log has of an operation.
func (c *conn) named(op string) string { return fmt.Sprint(op, " ", c.id) }

func (c *conn) Prepare(string) (driver.Stmt, error) { panic("not used") }
func (c *conn) Begin() (driver.Tx, error)           { panic("not used") }

func (c *conn) Close() error {
	_ = c.s.end(context.Background(), "close", c.named("close"))
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
	if c.inTx {
		return nil, fmt.Errorf("connection %d is in a transaction", c.id)
	}
	note := c.named("begin")
	if opts != (driver.TxOptions{}) {
		note += fmt.Sprintf(" as %v %v", sql.IsolationLevel(opts.Isolation), opts.ReadOnly)
	}
	if err := c.s.end(ctx, "begin", note); err != nil {
		return nil, err
	}
	c.inTx = true
	c.s.count(&c.s.inTx, 1)
	return &tx{c, ctx}, nil
}

// ResetSession implements [driver.SessionResetter]: package sql asks before it
// uses a connection again.
func (c *conn) ResetSession(ctx context.Context) error { return c.s.end(ctx, "reset", "") }

// ExecContext implements [driver.ExecerContext].
func (c *conn) ExecContext(ctx context.Context, query string, _ []driver.NamedValue) (driver.Result, error) {
	if query == "ROLLBACK" {
		c.end()
	}
	return driver.RowsAffected(1), c.s.end(ctx, "exec", c.named("exec")+" "+query)
}

type tx struct {
	c   *conn
	ctx context.Context
}

func (t *tx) Commit() error {
	err := t.c.s.end(t.ctx, "commit", t.c.named("commit"))
	if err == nil || !t.c.s.keepsOpen {
		t.c.end()
	}
	return err
}

func (t *tx) Rollback() error {
	err := t.c.s.end(t.ctx, "rollback", t.c.named("rollback"))
	if err == nil || retrysql.Classify(err) == final("sqlite_1") { // no transaction is active
		t.c.end()
	}
	return err
}
