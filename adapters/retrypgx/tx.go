package retrypgx

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrysql"
)

// rollbackGrace bounds how long a rollback may take, because the context does not.
const rollbackGrace = 5 * time.Second

// DB is what begins transactions: a [*pgxpool.Pool], a [*pgxpool.Conn] or a [*pgx.Conn].
// With a Conn, the loss of the connection ends the call.
type DB interface {
	BeginTx(ctx context.Context, opts pgx.TxOptions) (pgx.Tx, error)
}

// Options say how InTx begins a transaction, and what it may do with it.
type Options struct {
	// Tx are the options for BeginTx. With AccessMode pgx.ReadOnly, an attempt to write is
	// Final, and a commit whose outcome is unknown is retried. Without it, the error of a
	// read-only server is retried on another connection.
	Tx pgx.TxOptions

	// Idempotent says that the transaction may be repeated after a commit whose outcome
	// is unknown, because to do it twice has the effect of doing it once.
	Idempotent bool
}

// ErrCommitUnknown is what errors.Is finds in the error of a transaction whose commit
// failed in a way that leaves open whether it took effect. It is
// retrysql.ErrCommitUnknown.
var ErrCommitUnknown = retrysql.ErrCommitUnknown

var (
	errNilDB   = errors.New("retrypgx: db is nil")
	errNilFunc = errors.New("retrypgx: fn is nil")
	errEnded   = errors.New("retrypgx: fn ended its transaction itself")
)

// InTx runs fn in a transaction and commits it, and repeats both as p says. Each
// attempt is a transaction of its own, so fn starts from the beginning and must not rely on
// what an earlier attempt has read. A nil p is the zero Policy; nil opts are the zero
// Options.
//
// fn gets the context of the attempt and should hand it to every statement. It must
// neither commit nor roll back, nor have effects outside the transaction. If fn fails,
// panics, or calls [runtime.Goexit], the transaction is rolled back; panics pass through.
//
// Marks, p.Classifier, the attempt's timeout and retrysql.Classify decide, in this order,
// what is retried. Every other error is Retryable if the rollback finds the connection gone,
// and otherwise Final and returned as fn returned it. A failure
// before the commit had no effect, so it is retried under NonIdempotent too. A commit
// that may have taken effect fails with [ErrCommitUnknown]. No classifier can change
// that: it is Final, unless opts say Idempotent or read-only.
//
// A broken connection does not go back to its pool. If BEGIN fails on one, InTx uses
// another one at once, as many times as there were idle ones. If the server has become
// read-only, all connections of the pool are replaced. A rollback gets 5 seconds, whatever
// the context; then the connection is closed.
//
// InTx blocks the caller. It is as safe for concurrent use as db.
func InTx(
	ctx context.Context, db DB, p *retry.Policy, opts *Options,
	fn func(ctx context.Context, tx pgx.Tx) error,
) error {
	switch {
	case db == nil:
		return errNilDB
	case fn == nil:
		return errNilFunc
	}
	t := transaction{db: db, fn: fn}
	if opts != nil {
		t.opts = *opts
	}
	// An error that no classifier knows may well be a mistake in a statement.
	call := retry.Call{Policy: p, Protocol: t.classify, Unknown: retry.Final}
	defer call.Abort()
	for call.Next(ctx) {
		err := t.run(call.Context())
		v := call.Verdict(err)
		v.NotApplied = v.NotApplied || !t.open // it was rolled back, or never began
		if t.demoted(v) {
			t.replaceAll()
		}
		call.EndVerdict(err, v)
	}
	return call.Err()
}

// transaction is one call of InTx.
type transaction struct {
	db   DB
	opts Options
	fn   func(context.Context, pgx.Tx) error

	open bool // the last attempt may have taken effect
	gone bool // the rollback of the last attempt found the connection gone
}

// run runs the transaction once.
func (t *transaction) run(ctx context.Context) error {
	t.open, t.gone = false, false
	tx, err := t.begin(ctx)
	if err != nil {
		return err
	}
	over := false
	defer func() { // on panics and Goexit too
		if !over {
			_ = rollback(ctx, tx)
		}
	}()
	err = t.fn(ctx, tx)
	over = true
	switch {
	case err == nil && ctx.Err() == nil:
		return t.commit(ctx, tx)
	case err == nil:
		err = context.Cause(ctx)
	}
	failed := rollback(ctx, tx)
	v := retrysql.Classify(failed)
	t.gone = v.Class == retry.Retryable && v.Category != "timeout"
	if errors.Is(failed, pgx.ErrTxClosed) {
		t.open = true // it may have been a commit
		return retry.MarkFinal(fmt.Errorf("%w: %w", errEnded, err))
	}
	return err
}

// begin begins a transaction. BEGIN has no effect, so a broken connection is replaced at
// once and costs no attempt.
func (t *transaction) begin(ctx context.Context) (pgx.Tx, error) {
	idle := 0
	if pool, ok := t.db.(interface{ Stat() *pgxpool.Stat }); ok { // a Pool, or what embeds one
		idle = int(pool.Stat().IdleConns())
	}
	for ; ; idle-- {
		tx, err := t.db.BeginTx(ctx, t.opts.Tx)
		if err == nil || idle <= 0 || ctx.Err() != nil || !broken(err) {
			return tx, err
		}
	}
}

// broken reports whether a connection was lost, in contrast to a connection that could
// not be made.
func broken(err error) bool {
	var connect *pgconn.ConnectError
	if errors.As(err, &connect) {
		return false
	}
	var answer *pgconn.PgError
	return !errors.As(err, &answer) || slices.Contains([]string{"08", "57"}, class(answer.Code))
}

func class(sqlstate string) string { return sqlstate[:min(2, len(sqlstate))] }

// rollback ends a transaction. pgx closes the connection if that fails.
func rollback(ctx context.Context, tx pgx.Tx) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackGrace)
	defer cancel()
	return tx.Rollback(ctx)
}

// commit commits.
func (t *transaction) commit(ctx context.Context, tx pgx.Tx) error {
	err := tx.Commit(ctx)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, pgx.ErrTxClosed):
		t.open = true // it may have been a commit
		return retry.MarkFinal(errEnded)
	case errors.Is(err, pgx.ErrTxCommitRollback): // fn ignored the error of a statement
		return retry.MarkFinal(err)
	case rolledBack(err):
		return err
	}
	t.open = true
	v := retry.Verdict{Class: retry.Final, Category: "commit_unknown"}
	if t.opts.Idempotent || t.readOnly() {
		v.Class, v.NotApplied = retry.Retryable, true // as good as
	}
	return retry.Mark(&commitError{err}, v)
}

// commitError is the error of a commit whose outcome is unknown.
type commitError struct{ err error }

func (e *commitError) Error() string { return ErrCommitUnknown.Error() + ": " + e.err.Error() }

func (e *commitError) Unwrap() error { return e.err }

func (e *commitError) Is(target error) bool { return target == ErrCommitUnknown }

// rolledBack reports whether the error of a commit proves that it had no effect. Only an
// answer of the server does: pgx says SafeToRetry also if the connection ends before the
// answer comes.
func rolledBack(err error) bool {
	var answer *pgconn.PgError
	if !errors.As(err, &answer) || answer.Code == "40003" { // "statement completion unknown"
		return false
	}
	certain := []string{
		"40",                                     // rolled back
		"0A", "21", "22", "23", "42", "44", "P0", // by a deferred constraint or its trigger
		"25", "26", "53", "54", "55",
	}
	return slices.Contains(certain, class(answer.Code))
}

func (t *transaction) readOnly() bool { return t.opts.Tx.AccessMode == pgx.ReadOnly }

const readOnlyTx = "sql_25006"

// classify is retrysql.Classify for this transaction.
func (t *transaction) classify(err error) retry.Verdict {
	v := retrysql.Classify(err)
	switch {
	case v.Category == readOnlyTx && t.readOnly(), t.lost(): // it was not to write
		v.Class = retry.Final
	case t.gone && v.Class == retry.Unknown:
		v.Class, v.Category = retry.Retryable, "conn"
	}
	return v
}

// demoted reports whether the server takes no transactions such as this one any more: it
// is read-only now, or a standby that refused BEGIN.
func (t *transaction) demoted(v retry.Verdict) bool {
	switch v.Category {
	case readOnlyTx:
		return !t.readOnly()
	case "sql_0A000":
		return v.Class == retry.Retryable
	default:
		return false
	}
}

// replaceAll closes the connections of a pool to a server that was demoted.
func (t *transaction) replaceAll() {
	if pool, ok := t.db.(interface{ Reset() }); ok {
		pool.Reset()
	}
}

// lost reports whether the only connection was closed.
func (t *transaction) lost() bool {
	switch db := t.db.(type) {
	case *pgx.Conn:
		return db.IsClosed()
	case *pgxpool.Conn:
		return db.Conn().IsClosed()
	default:
		return false
	}
}
