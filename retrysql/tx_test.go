package retrysql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrysql"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// update is a transaction of one statement.
func update(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, "UPDATE")
	return err
}

// quick is a policy whose waits cost nothing.
func quick() *retry.Policy { return &retry.Policy{Clock: &retrytest.Clock{}} }

func TestInTx(t *testing.T) {
	t.Parallel()
	s, db := newServer(t)
	s.on("exec", pg("40001"), pg("40P01"))
	clock := &retrytest.Clock{}
	p := &retry.Policy{Clock: clock, Jitter: retry.NoJitter}
	require.NoError(t, retrysql.InTx(t.Context(), db, p, nil, update))
	assert.Equal(t, []string{
		"open 1", "begin 1", "exec 1 UPDATE", "rollback 1",
		"begin 1", "exec 1 UPDATE", "rollback 1",
		"begin 1", "exec 1 UPDATE", "commit 1",
	}, s.events())
	assert.Equal(t, []time.Duration{2 * time.Second, 4 * time.Second}, clock.Sleeps())
	assert.Nil(t, p.Classifier, "the policy of the caller")
}

// TestInTxVerdicts judges errors of fn.
func TestInTxVerdicts(t *testing.T) {
	t.Parallel()
	mine := func(v retry.Verdict) retry.Classifier {
		return func(error) retry.Verdict { return v }
	}
	for _, tt := range []struct {
		name    string
		err     error
		policy  retry.Policy
		opts    retrysql.TxOptions
		retried bool
		gone    bool // the rollback finds no connection
	}{
		{name: "known", err: my(1213), retried: true},
		{name: "final", err: my(1062)},
		{name: "nobody knows", err: errBusiness},
		{name: "wrapped", err: fmt.Errorf("x: %w", errBusiness)},
		{name: "named, but not known", err: my(1105)},
		{name: "no rows", err: sql.ErrNoRows},
		{name: "mark", err: retry.MarkRetryable(errBusiness), retried: true},
		{name: "mark before the class", err: retry.MarkFinal(my(1213))},
		{name: "mark before the classifier", err: retry.MarkRetryable(errBusiness), policy: retry.Policy{Classifier: mine(final("mine"))}, retried: true},
		{name: "mark that is not sure", err: retry.Mark(errBusiness, again("mine")), policy: retry.Policy{NonIdempotent: true}, retried: true},
		{name: "classifier", err: errBusiness, policy: retry.Policy{Classifier: mine(again("mine"))}, retried: true},
		{name: "classifier before the class", err: my(1213), policy: retry.Policy{Classifier: mine(final("mine"))}},
		{name: "classifier that abstains", err: my(1213), policy: retry.Policy{Classifier: mine(retry.Verdict{})}, retried: true},
		{name: "classifier that does not know", err: errBusiness, policy: retry.Policy{Classifier: mine(named("mine"))}, retried: true},
		{name: "lost before the commit", err: syscall.ECONNRESET, policy: retry.Policy{NonIdempotent: true}, retried: true},
		{name: "unknown to the server, but before the commit", err: pg("40003"), policy: retry.Policy{NonIdempotent: true}, retried: true},
		{name: "read-only server", err: pg("25006"), retried: true},
		{name: "read-only on purpose", err: pg("25006"), opts: retrysql.TxOptions{ReadOnly: true}},
		{name: "read-only on purpose, MySQL", err: my(1792), opts: retrysql.TxOptions{ReadOnly: true}},
		{name: "read-only on purpose, other error", err: pg("40001"), opts: retrysql.TxOptions{ReadOnly: true}, retried: true},
		{name: "inner policy", err: &retry.Error{Stop: retry.StopAttempts, Err: my(1213)}},
		{name: "rate limit", err: my(1226), retried: true},
		{name: "nobody knows, but the connection is gone", err: errBusiness, gone: true, retried: true},
		{name: "final, and the connection is gone", err: my(1062), gone: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, db := newServer(t)
			tt.policy.Clock = &retrytest.Clock{}
			if tt.gone {
				s.on("rollback", driver.ErrBadConn)
			}
			calls := 0
			err := retrysql.InTx(t.Context(), db, &tt.policy, &tt.opts, func(context.Context, *sql.Tx) error {
				if calls++; calls > 1 {
					return nil
				}
				return tt.err
			})
			events := s.events()
			assert.Contains(t, events, "rollback 1")
			if tt.retried {
				require.NoError(t, err)
				assert.Equal(t, 2, calls)
				return
			}
			assert.Equal(t, 1, calls)
			assert.True(t, err == tt.err, "the error as it was returned, not %#v", err)
			assert.NotContains(t, events, "commit 1")
		})
	}
}

// TestInTxVerdictIsSeen shows the verdict to an observer.
func TestInTxVerdictIsSeen(t *testing.T) {
	t.Parallel()
	s, db := newServer(t)
	s.on("exec", pg("57P01"), errBusiness)
	p, recorder := quick(), &retrytest.Recorder{}
	p.Observer = recorder.Observer()
	require.Equal(t, errBusiness, retrysql.InTx(t.Context(), db, p, nil, update))
	events := recorder.Events()
	require.Len(t, events, 2)
	assert.Equal(t, anew("sql_57P01"), events[0].Verdict)
	assert.Equal(t, retry.Verdict{Class: retry.Final, NotApplied: true}, events[1].Verdict)
}

func TestInTxBeginFails(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		op      string
		err     error
		retried bool
	}{
		{"refused", "open", &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}, true},
		{"starting", "open", pg("57P03"), true},
		{"too many", "open", pg("53300"), true},
		{"password", "open", pg("28P01"), false},
		{"locked", "begin", codes(5)["sqlite_5"], true},
		{"isolation", "begin", errors.New("unsupported isolation: Linearizable"), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, db := newServer(t)
			s.on(tt.op, tt.err)
			p := quick()
			p.NonIdempotent = true
			err := retrysql.InTx(t.Context(), db, p, nil, update)
			if tt.retried {
				assert.NoError(t, err)
			} else {
				assert.Equal(t, tt.err, err)
			}
		})
	}
}

// TestInTxElsewhere has an fn that dials another service and fails. That proves nothing about
// the transaction; its rollback does, and an fn that has committed before has none.
func TestInTxElsewhere(t *testing.T) {
	t.Parallel()
	dial := &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	for name, end := range map[string]func(*sql.Tx) error{
		"rolled back": func(*sql.Tx) error { return nil }, "committed": (*sql.Tx).Commit,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, db := newServer(t)
			p := quick()
			p.NonIdempotent, p.MaxAttempts = true, 2
			err := retrysql.InTx(t.Context(), db, p, nil, func(ctx context.Context, tx *sql.Tx) error {
				return errors.Join(update(ctx, tx), end(tx), dial)
			})
			require.ErrorIs(t, err, syscall.ECONNREFUSED)
			once := []string{"begin 1", "exec 1 UPDATE", "rollback 1"}
			if name == "committed" {
				assert.Equal(t, []string{"open 1", "begin 1", "exec 1 UPDATE", "commit 1"}, s.events())
			} else {
				assert.Equal(t, slices.Concat([]string{"open 1"}, once, once), s.events())
			}
		})
	}
}

func TestInTxOptions(t *testing.T) {
	t.Parallel()
	s, db := newServer(t)
	opts := &retrysql.TxOptions{Isolation: sql.LevelSerializable, ReadOnly: true}
	require.NoError(t, retrysql.InTx(t.Context(), db, nil, opts, update))
	assert.Equal(t, []string{"open 1", "begin 1 as Serializable true", "exec 1 UPDATE", "commit 1"}, s.events())
}

func TestInTxBadInput(t *testing.T) {
	t.Parallel()
	s, db := newServer(t)
	require.EqualError(t, retrysql.InTx(t.Context(), nil, nil, nil, update), "retrysql: db is nil")
	require.EqualError(t, retrysql.InTx(t.Context(), db, nil, nil, nil), "retrysql: fn is nil")
	assert.Empty(t, s.events())
	var none context.Context
	require.NoError(t, retrysql.InTx(none, db, nil, nil, update))
	require.NoError(t, db.Close())
	assert.EqualError(t, retrysql.InTx(t.Context(), db, quick(), nil, update), "sql: database is closed")
}

// TestInTxFnEndsIt says so when fn commits or rolls back, and never repeats it.
func TestInTxFnEndsIt(t *testing.T) {
	t.Parallel()
	ends := map[string]func(*sql.Tx) error{"commit": (*sql.Tx).Commit, "rollback": (*sql.Tx).Rollback}
	for name, end := range ends {
		for _, result := range []error{nil, my(1213), retry.MarkRetryable(errBusiness)} {
			t.Run(fmt.Sprintf("%s, %v", name, result), func(t *testing.T) {
				t.Parallel()
				s, db := newServer(t)
				p, recorder := quick(), &retrytest.Recorder{}
				p.Observer = recorder.Observer()
				err := retrysql.InTx(t.Context(), db, p, &retrysql.TxOptions{Idempotent: true}, func(_ context.Context, tx *sql.Tx) error {
					return errors.Join(end(tx), result)
				})
				require.ErrorContains(t, err, "retrysql: fn ended its transaction itself")
				require.NotErrorIs(t, err, retrysql.ErrCommitUnknown)
				if result != nil {
					require.ErrorContains(t, err, result.Error())
				}
				assert.Equal(t, []string{"open 1", "begin 1", name + " 1"}, s.events())
				assert.False(t, recorder.Events()[0].Verdict.NotApplied)
			})
		}
	}
}

func explode(context.Context, *sql.Tx) error { panic(errBusiness) }

func leave(context.Context, *sql.Tx) error {
	runtime.Goexit()
	return nil
}

func explodingClassifier(error) retry.Verdict { panic("classifier") }

// TestInTxUnwinds has panics and a Goexit pass through. The transaction is over by then, and
// the connection can be used.
func TestInTxUnwinds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name       string // of the function in the stack
		fn         func(context.Context, *sql.Tx) error
		classifier retry.Classifier
		panics     any
	}{
		{"explode", explode, nil, errBusiness},
		{"leave", leave, nil, nil},
		{"explodingClassifier", func(context.Context, *sql.Tx) error { return errBusiness }, explodingClassifier, "classifier"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, db := newServer(t)
			over := make(chan struct{})
			go func() {
				defer close(over)
				defer func() {
					assert.Equal(t, tt.panics, recover())
					assert.Contains(t, string(debug.Stack()), "retrysql_test."+tt.name)
				}()
				_ = retrysql.InTx(t.Context(), db, &retry.Policy{Classifier: tt.classifier}, nil, tt.fn)
				t.Error("went on")
			}()
			<-over
			assert.Equal(t, []string{"open 1", "begin 1", "rollback 1"}, s.events())
			require.NoError(t, retrysql.InTx(t.Context(), db, nil, nil, update))
		})
	}
}

func TestInTxAttemptTimeoutAtBegin(t *testing.T) {
	t.Parallel()
	for _, late := range []error{nil, context.Canceled, errBusiness} {
		t.Run(fmt.Sprint(late), func(t *testing.T) {
			t.Parallel()
			s, db := newServer(t)
			clock := &retrytest.Clock{}
			s.does("begin", func(ctx context.Context) error {
				clock.Advance(2 * time.Second)
				<-ctx.Done()
				return late
			})
			p := &retry.Policy{Clock: clock, AttemptTimeout: time.Second, MaxAttempts: 1}
			err := retrysql.InTx(t.Context(), db, p, nil, update)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, retry.StopAttempts)
			p.MaxAttempts = 2
			require.NoError(t, retrysql.InTx(t.Context(), db, p, nil, update))
			assert.Contains(t, s.events(), "close 1", "nobody knows what is open there")
		})
	}
}

// TestInTxCanceled ends the caller's context at different times.
func TestInTxCanceled(t *testing.T) {
	t.Parallel()
	errWhy := errors.New("the user left")
	for _, tt := range []struct {
		name string
		at   string
		want []string
	}{
		{"before", "", nil},
		{"while it connects", "open", []string{"refuse"}},
		{"in fn", "fn", []string{"open 1", "begin 1", "exec 1 UPDATE", "rollback 1"}},
		{"in a statement", "exec", []string{"open 1", "begin 1", "exec 1 UPDATE", "rollback 1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, db := newServer(t)
			ctx, cancel := context.WithCancelCause(t.Context())
			if tt.at == "" {
				cancel(errWhy)
			}
			s.does(tt.at, func(ctx context.Context) error {
				cancel(errWhy)
				<-ctx.Done()
				return ctx.Err()
			})
			err := retrysql.InTx(ctx, db, quick(), nil, func(ctx context.Context, tx *sql.Tx) error {
				err := update(ctx, tx)
				cancel(errWhy)
				return err
			})
			gaveUp := testkit.As[*retry.Error](t, err)
			assert.Equal(t, retry.StopCanceled, gaveUp.Stop)
			require.ErrorIs(t, err, errWhy)
			require.NotErrorIs(t, err, retrysql.ErrCommitUnknown)
			assert.Equal(t, tt.want, s.events())
		})
	}
}

// TestInTxLeaks has everything go wrong that can. At the end of a bubble, no
// goroutine may be left.
func TestInTxLeaks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, db := newServer(t)
		p := &retry.Policy{AttemptTimeout: time.Hour}
		s.on("exec", pg("40001"), pg("57P01"), nil, pg("25006"))
		s.on("rollback", nil, errBusiness)
		s.on("commit", syscall.ECONNRESET)
		require.ErrorIs(t, retrysql.InTx(t.Context(), db, p, nil, update), retrysql.ErrCommitUnknown)
		require.Panics(t, func() { _ = retrysql.InTx(t.Context(), db, p, nil, explode) })
		require.NoError(t, retrysql.InTx(t.Context(), db, p, nil, update))
		s.does("commit", func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
		require.ErrorIs(t, retrysql.InTx(t.Context(), db, p, nil, update), retrysql.ErrCommitUnknown)
		testkit.Idle(t, db)
	})
}
