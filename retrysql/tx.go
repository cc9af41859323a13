package retrysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/seed-5ff3c98e/retry"
)

// TxOptions say how InTx begins a transaction, and what it may do with it.
type TxOptions struct {
	// Isolation is the isolation level; 0 is the default of the database. A
	// driver that does not know it fails, and that is Final.
	Isolation sql.IsolationLevel

	// ReadOnly asks the database for a read-only transaction. An attempt to
	// write in it is Final then, while an error of a read-only server is
	// otherwise retried on another connection.
	ReadOnly bool

	// Idempotent says that the transaction may be repeated after a commit whose
	// outcome is unknown, because to do it twice has the effect of doing it
	// once: it sets values, or it inserts under a key of the caller's choice.
	// Without it such a failure is Final.
	Idempotent bool
}

// ErrCommitUnknown is what errors.Is finds in the error of a transaction whose
// commit failed in a way that leaves open whether it took effect: the connection
// was lost, the context ended during the commit, or the server said so.
var ErrCommitUnknown = errors.New("retrysql: the outcome of the commit is unknown")

var (
	errNilDB   = errors.New("retrysql: db is nil")
	errNilFunc = errors.New("retrysql: fn is nil")
	errEnded   = errors.New("retrysql: fn ended its transaction itself")
)

// InTx runs fn in a transaction and commits it, and does both again as p says.
// Each attempt is a transaction of its own, so fn starts from the beginning and
// must not rely on what an earlier attempt has read. A nil p is the zero Policy;
// nil opts are the zero TxOptions.
//
// fn gets the context of the attempt and should hand it to every statement. It
// must neither commit nor roll back, nor have effects outside the transaction:
// they are not undone. (In MySQL, statements like CREATE TABLE commit what came
// before them.) If fn fails, panics, or calls [runtime.Goexit], the transaction
// is rolled back; panics pass through. No transaction is left open, and each
// connection goes back to the pool or is closed.
//
// What is retried, by the first that has an opinion: a mark of package retry;
// p.Classifier; the attempt's timeout; [Classify]. Everything else is Final and
// returned as fn returned it. Whatever fails before the commit had no effect, so
// it is retried under NonIdempotent too.
//
// A commit that the server answered with an error is judged in the same way. One
// that may have taken effect fails with [ErrCommitUnknown], and no classifier
// has a say in that: it is Final, unless opts say Idempotent or ReadOnly; then
// it is Retryable.
//
// A connection that the error speaks against (it broke, its server shuts down or
// became read-only, its prepared statements are stale) is closed, not reused.
// Where the others are likely to be like it (a read-only server, stale
// statements), those that are idle are closed too. Connections that fail to begin
// a transaction are replaced at once, as many times as there were idle ones.
//
// A rollback gets 5 seconds, whatever the context, as far as the driver lets it
// be interrupted; then the connection is given up, and the server rolls back when
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
	// What nobody knows is as likely to be a mistake in a statement.
	call := retry.Call{Policy: p, Classify: t.classify, Unknown: retry.Final}
	defer call.Abort()
	for call.Next(ctx) {
		err := t.run(call.Context()) //nolint:contextcheck // ctx or a child of it
		v := call.Verdict(err)
		v.NotApplied = v.NotApplied || !t.open // it was rolled back, or never began
		call.EndVerdict(err, v)
	}
	return call.Err()
}

// transaction is one call of InTx.
type transaction struct {
	db   *sql.DB
	opts TxOptions
	fn   func(context.Context, *sql.Tx) error

	open bool // the last attempt may have taken effect
}

// run runs the transaction once.
func (t *transaction) run(ctx context.Context) error {
	t.open = false
	s, err := t.begin(ctx)
	if err != nil {
		return err
	}
	// On panics and Goexit too.
	defer s.close()
	if err := t.fn(ctx, s.tx); err != nil {
		return t.failed(s, err)
	}
	return t.commit(ctx, s)
}

// failed rolls back after an error of fn.
func (t *transaction) failed(s *session, err error) error {
	if s.rollback() {
		// It may have been a commit.
		return retry.MarkFinal(fmt.Errorf("%w: %w", errEnded, err))
	}
	t.blame(s, Classify(err))
	return err
}

// classify is Classify for this transaction.
func (t *transaction) classify(err error) retry.Verdict {
	v := Classify(err)
	if t.writes(v) {
		v.Class = retry.Final
	}
	return v
}

// writes says that a transaction that was to be read-only has tried to write.
func (t *transaction) writes(v retry.Verdict) bool { return t.opts.ReadOnly && readOnly(v) }
