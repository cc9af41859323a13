package retrysql

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/done"
	"github.com/seed-5ff3c98e/retry/internal/sqlerr"
)

// rollbackGrace bounds how long a rollback may take after the context has
// ended.
const rollbackGrace = 5 * time.Second

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
	lost  bool // the rollback found the connection gone
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
		v := Classify(err)
		s.evict, s.lost = true, v.Class == retry.Retryable && v.Category != "timeout"
	}
	return false
}

// sqliteNoTx is also the category of "cannot rollback - no transaction is
// active".
const sqliteNoTx = "sqlite_1"

// blame notes what an error means for this connection and the idle ones.
func (t *transaction) blame(s *session, v retry.Verdict) {
	if sqlerr.Elsewhere(v) && !t.writes(v) {
		s.evict, s.drain = true, true
	}
	s.evict = s.evict || sqlerr.Stale(v)
}

// close gives the connection back, or closes it.
func (s *session) close() {
	if !s.over && s.tx != nil {
		s.rollback()
	}
	if s.evict {
		sqlerr.Discard(s.conn)
	}
	_ = s.conn.Close() // returned, or closed already
	s.cancel(nil)
	if s.drain {
		sqlerr.Drain(s.ctx, s.db)
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
