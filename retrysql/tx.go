package retrysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/aftercommit"
	"github.com/seed-5ff3c98e/retry/internal/sqlerr"
)

// TxOptions are the options of a transaction of InTx.
type TxOptions struct {
	// Isolation is the isolation level; 0 is the default of the database. A
	// driver that does not know the level fails, and that error is Final.
	Isolation sql.IsolationLevel

	// ReadOnly asks the database for a read-only transaction. An attempt to
	// write in it is then Final. Without ReadOnly, the error of a read-only
	// server is retried on another connection.
	ReadOnly bool

	// Idempotent says that the transaction may be repeated after a commit whose
	// outcome is unknown, because repeating it has no further effect: it sets
	// values, or it inserts under a key that the caller chose. Without
	// Idempotent such a failure is Final.
	Idempotent bool
}

// ErrCommitUnknown is the error of a commit that may have taken effect: the
// connection was lost, the context ended during the commit, or the server said
// so. errors.Is finds it in the error of InTx.
var ErrCommitUnknown = errors.New("retrysql: the outcome of the commit is unknown")

var (
	errNilDB   = errors.New("retrysql: db is nil")
	errNilFunc = errors.New("retrysql: fn is nil")
	errEnded   = errors.New("retrysql: fn ended its transaction itself")
)

// InTx runs fn in a transaction, commits it, and retries both under p. Each
// attempt is a transaction of its own, so fn starts from the beginning and must
// not rely on data that an earlier attempt has read. A nil p is the zero Policy;
// nil opts are the zero TxOptions.
//
// fn gets the context of the attempt and should pass it to every statement. It
// must neither commit nor roll back, nor have effects outside the transaction,
// because those are not undone. (In MySQL, statements like CREATE TABLE commit
// the statements before them.) If fn fails, panics, or calls [runtime.Goexit],
// the transaction is rolled back; panics pass through. No transaction is left
// open, and each connection goes back to the pool or is closed.
//
// The first of these with an opinion decides: a mark of package retry,
// p.Classifier, the attempt's timeout, [Classify]. Any other error is Retryable if the
// rollback finds the connection gone, and otherwise Final and returned as fn returned it. A failure before the commit had no effect, so it
// is retried under NonIdempotent too.
//
// If the server answers a commit with an error, that error is classified in the
// same way. A commit that may have taken effect fails with [ErrCommitUnknown],
// and no classifier is asked: it is Final, unless opts say Idempotent or
// ReadOnly; then it is Retryable.
//
// A connection that the error shows to be unusable (it broke, its server shuts
// down or became read-only, its prepared statements are stale) is closed, not
// reused. If the other connections probably have the same fault (a read-only
// server, stale statements, a connection that was gone before the commit), the idle
// connections are closed too, so that the next attempt has a new one. Connections that fail to
// begin a transaction are replaced at once, as many times as there were idle connections.
//
// fn may give [AfterCommit] a function that is called after the commit, for example to
// call webhooks.
//
// A rollback may take 5 seconds, also after the context has ended, if the driver
// can interrupt it. Then the connection is closed, and the server rolls back when
// it notices.
//
// InTx blocks the caller. It is safe for concurrent use.
func InTx(
	ctx context.Context, db *sql.DB, p *retry.Policy, opts *TxOptions,
	fn func(ctx context.Context, tx *sql.Tx) error,
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
	// An unknown error is as likely to be a mistake in a statement.
	call := retry.Call{Policy: p, Protocol: t.classify, Unknown: retry.Final}
	defer call.Abort()
	for call.Next(ctx) {
		err := t.run(call.Context())
		v := call.Verdict(err)
		v.NotApplied = v.NotApplied || !t.open // rolled back, or never begun
		call.EndVerdict(err, v)
	}
	err := call.Err()
	if err == nil {
		t.hooks.Call(ctx)
	}
	return err
}

// transaction is one call of InTx.
type transaction struct {
	db   *sql.DB
	opts TxOptions
	fn   func(context.Context, *sql.Tx) error

	open  bool               // the last attempt may have taken effect
	lost  bool               // the rollback of the last attempt found the connection gone
	hooks *aftercommit.Hooks // of the last attempt
}

// run runs the transaction once.
func (t *transaction) run(ctx context.Context) error {
	t.open, t.lost = false, false
	s, err := t.begin(ctx)
	if err != nil {
		return err
	}
	// On panics and Goexit too.
	defer s.close()
	t.hooks, ctx = aftercommit.New(ctx)
	if err := t.fn(ctx, s.tx); err != nil {
		return t.failed(s, err)
	}
	return t.commit(ctx, s)
}

// failed rolls back after an error of fn.
func (t *transaction) failed(s *session, err error) error {
	if s.rollback() {
		t.open = true // it may have been a commit
		return retry.MarkFinal(fmt.Errorf("%w: %w", errEnded, err))
	}
	t.lost, s.drain = s.lost, s.lost
	t.blame(s, Classify(err))
	return err
}

// classify is Classify for this transaction.
func (t *transaction) classify(err error) retry.Verdict {
	v := Classify(err)
	switch {
	case t.writes(v):
		v.Class = retry.Final
	case t.lost && v.Class == retry.Unknown:
		v.Class, v.Category = retry.Retryable, "conn"
	}
	return v
}

// writes reports whether a read-only transaction has tried to write.
func (t *transaction) writes(v retry.Verdict) bool { return t.opts.ReadOnly && sqlerr.ReadOnly(v) }

// AfterCommit registers do, which [InTx] calls once its transaction is committed. ctx is
// the context that InTx has given to fn, or a child of it; AfterCommit panics with any
// other context.
//
// After a successful commit, InTx calls the functions that the attempt has registered, in
// that order, on its own goroutine, before it returns nil; the connection is free by then.
// do gets the context of InTx, which may have ended. The error of InTx does not depend on
// do: do handles its own failures, with its own retries if necessary. A panic of do passes
// through, and the functions after it are not called.
//
// A rollback drops the functions that its attempt has registered, and the next attempt
// begins without functions. If the outcome of the commit is unknown, no function is called
// either: InTx returns [ErrCommitUnknown], or repeats fn if [TxOptions] has Idempotent. So
// do is called at most once, and not at all if the process ends right after the commit. If
// a step must not be lost, store it in the same transaction, as a job of package
// retrytable.
//
// It works with the context of Worker.InTx and Job.InTx of package retrytable too: there, do
// is called once the outcome of the job is stored.
//
// AfterCommit is safe for concurrent use while fn runs.
func AfterCommit(ctx context.Context, do func(ctx context.Context)) {
	h := aftercommit.Of(ctx)
	if h == nil {
		panic("retrysql: AfterCommit: the context is not that of a function of InTx")
	}
	h.Add(do)
}
