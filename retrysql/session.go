package retrysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"strings"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/done"
	"github.com/seed-5ff3c98e/retry/internal/sqlerr"
)

const (
	// rollbackGrace bounds how long a rollback may take after the context has
	// ended.
	rollbackGrace = 5 * time.Second

	// drainTime bounds how long the closing of idle connections may take. It
	// blocks only if another goroutine takes them first.
	drainTime = 100 * time.Millisecond
)

// session is one transaction on one connection.
type session struct {
	db   *sql.DB
	conn *sql.Conn
	tx   *sql.Tx

	// ctx is the context of the transaction. It does not end with the attempt's:
	// package sql would roll back while fn runs. The statements of fn would then
	// fail with an error that hides the cause, and InTx could not tell whether
	// fn has ended the transaction. It has to end while a statement waits for
	// the server, or the call would outlive its context.
	ctx    context.Context
	cancel context.CancelCauseFunc

	over  bool // committed or rolled back
	evict bool // the connection must not be used again
	drain bool // nor must the idle ones
}

// begin begins a transaction. BEGIN has no effect, so a broken connection is
// replaced at once and costs no attempt, as in package sql's own BeginTx.
func (t *transaction) begin(ctx context.Context) (*session, error) {
	for idle := t.db.Stats().Idle; ; idle-- {
		conn, err := t.db.Conn(ctx)
		if err != nil {
			return nil, err
		}
		s := &session{db: t.db, conn: conn}
		err = t.beginOn(ctx, s)
		if err == nil {
			return s, nil
		}
		s.close()
		if idle <= 0 || !s.evict || done.Is(ctx) || Classify(err).Category == "timeout" {
			return nil, err
		}
	}
}

func (t *transaction) beginOn(ctx context.Context, s *session) (err error) {
	s.ctx, s.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	opts := &sql.TxOptions{Isolation: t.opts.Isolation, ReadOnly: t.opts.ReadOnly}
	interrupted := s.during(ctx, func() {
		s.tx, err = s.conn.BeginTx(s.ctx, opts)
	})
	switch {
	case interrupted:
		s.evict = true
		return context.Cause(ctx)
	case err != nil:
		v := Classify(err)
		t.blame(s, v)
		s.evict = s.evict || broken(v)
	}
	return err
}

// during calls fn, and ends s.ctx if ctx ends meanwhile. It reports whether ctx
// did.
func (s *session) during(ctx context.Context, fn func()) (interrupted bool) {
	stop := context.AfterFunc(ctx, func() { s.cancel(context.Cause(ctx)) })
	fn()
	return !stop()
}

// rollback reports whether there was nothing to roll back, because fn has ended
// the transaction.
func (s *session) rollback() (already bool) {
	s.over = true
	timer := time.AfterFunc(rollbackGrace, func() { s.cancel(context.DeadlineExceeded) })
	defer timer.Stop()
	err := s.tx.Rollback()
	switch {
	case err == nil:
	case err == sql.ErrTxDone: //nolint:errorlint // of package sql, not of the driver
		return true
	case Classify(err).Category == sqliteNoTx:
		// SQLite rolls back by itself after some errors.
	default:
		s.evict = true
	}
	return false
}

// sqliteNoTx is also the category of "cannot rollback - no transaction is
// active".
const sqliteNoTx = "sqlite_1"

// blame notes what an error means for this connection and the idle ones.
func (t *transaction) blame(s *session, v retry.Verdict) {
	if v.Category == sqlerr.NotHere && v.Class == retry.Retryable || refused(v) || readOnly(v) && !t.writes(v) {
		s.evict, s.drain = true, true
	}
	s.evict = s.evict || stale(v)
}

// close gives the connection back, or closes it.
func (s *session) close() {
	if !s.over && s.tx != nil {
		s.rollback()
	}
	if s.evict {
		discard(s.conn)
	}
	_ = s.conn.Close() // returned, or closed already
	s.cancel(nil)
	if s.drain {
		drain(s.ctx, s.db)
	}
}

// discard closes a connection for good.
func discard(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
}

// drain closes the connections that are idle now, and leaves those in use alone.
func drain(ctx context.Context, db *sql.DB) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	for range db.Stats().Idle {
		if db.Stats().Idle == 0 {
			return // another goroutine has it
		}
		conn, err := db.Conn(ctx)
		if err != nil {
			return
		}
		discard(conn)
		_ = conn.Close()
	}
}

// readOnly reports whether the server takes no writes, usually because it was
// demoted.
func readOnly(v retry.Verdict) bool {
	switch v.Category {
	case sqlerr.ReadOnlyTx, "mysql_1290", "mysql_1836", "mysql_1792", "mysql_1209", "mssql_3906":
		return true
	default:
		return false
	}
}

// refused reports whether the server takes no statements, because it has left its cluster
// or has no role in it.
func refused(v retry.Verdict) bool {
	switch v.Category {
	case "mysql_1047", "mysql_3796", "mysql_3797", "mysql_3798", "mysql_3799",
		"mssql_976", "mssql_978", "mssql_982", "mssql_983":
		return true
	default:
		return false
	}
}

// stale reports whether the connection is no longer usable, or soon will not
// be, or has kept what a rollback does not undo.
func stale(v retry.Verdict) bool {
	switch v.Category {
	case sqlerr.BadConn, sqlerr.InvalidConn, "sql_26000", "sql_25P03",
		"mysql_1053", "mysql_1080", "mysql_1152", "mysql_1184", "mysql_2006", "mysql_2013",
		"mysql_1158", "mysql_1159", "mysql_1160", "mysql_1161", "mysql_1927", "mysql_4031",
		"mysql_3058", "mysql_3132", // it still has the locks
		"mssql_596", "mssql_6005":
		return true
	default:
		return strings.HasPrefix(v.Category, "sql_08") || strings.HasPrefix(v.Category, "sql_57P")
	}
}

// broken reports whether the network failed: there was no answer from a server.
func broken(v retry.Verdict) bool {
	return v.Class == retry.Retryable && !answered(v)
}

// answered reports whether the error is an answer of the server.
func answered(v retry.Verdict) bool {
	for _, prefix := range []string{"sql_", "mysql_", "sqlite_", "mssql_"} {
		if strings.HasPrefix(v.Category, prefix) {
			return true
		}
	}
	return false
}
