// Package testkit has what tests of several packages need: stand-ins for operations and servers,
// the statistics of random numbers, and random trees of errors with what every classification of
// a tree keeps to.
package testkit

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"os"
	"strconv"
	"testing"
	"time"
)

// ErrPeer is a failure that nothing is known about.
var ErrPeer = errors.New("peer refused")

// Drain takes all that is left out of a budget, and returns how much it was.
func Drain(b interface{ TryWithdraw(now time.Time) bool }, now time.Time) (left int) {
	for b.TryWithdraw(now) {
		left++
	}
	return left
}

// Isolated calls fn on a goroutine of its own, and survives a panic and a Goexit in it.
func Isolated(fn func()) {
	over := make(chan struct{})
	go func() {
		defer close(over)
		defer func() { _ = recover() }()
		fn()
	}()
	<-over
}

// Failing returns an operation that always fails, and its number of calls.
func Failing(err error) (fn func(context.Context) error, calls *int) {
	calls = new(int)
	return func(context.Context) error {
		*calls++
		return err
	}, calls
}

// FailingFirst returns an operation that fails with these errors, and succeeds then.
func FailingFirst(errs ...error) func(context.Context) error {
	return func(context.Context) error {
		if len(errs) == 0 {
			return nil
		}
		err := errs[0]
		errs = errs[1:]
		return err
	}
}

// Must returns what a call has returned, or ends the test with its error: v := Must(f())(t).
func Must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatalf("unexpected error: %v", err)
		}
		return v
	}
}

// Soon returns what comes next from a channel, or ends the test when nothing has come for so long that
// no busy machine is the reason.
func Soon[T any](t testing.TB, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(2 * time.Minute):
		t.Fatal("nothing has come for two minutes")
	}
	return v
}

// As returns the error of type E in the tree of err, which must have one.
func As[E error](t *testing.T, err error) (e E) {
	t.Helper()
	if !errors.As(err, &e) {
		t.Fatalf("%v is not and does not wrap a %T", err, e)
	}
	return e
}

// Canceled returns a context that is canceled already.
func Canceled(parent context.Context) context.Context {
	ctx, cancel := context.WithCancel(parent)
	cancel()
	return ctx
}

// Key is the key of a value in a context.
type Key struct{}

// AtOnce runs the tests of a package, so many at a time: tests that mostly wait, for the engine
// of an adapter, need no processor of their own. It is for TestMain.
func AtOnce(m *testing.M, n int) {
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// Needs skips a test that needs a server where the tests are to run without any: if
// RETRY_TEST_SERVERS is "none", as `make test` has it. Otherwise a server that is missing
// is a failure.
func Needs(t testing.TB, server string) {
	t.Helper()
	if os.Getenv("RETRY_TEST_SERVERS") == "none" {
		t.Skip("needs " + server)
	}
}

// AtEnd has a statement run when the test has ended.
func AtEnd(t testing.TB, db *sql.DB, statement string) {
	t.Helper()
	t.Cleanup(func() {
		if _, err := db.ExecContext(context.WithoutCancel(t.Context()), statement); err != nil {
			t.Error(err)
		}
	})
}

// Warm opens so many connections of a pool, and leaves them idle.
func Warm(t testing.TB, db *sql.DB, n int) {
	t.Helper()
	db.SetMaxIdleConns(n)
	for range n {
		conn := Must(db.Conn(t.Context()))(t)
		if err := conn.PingContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }() // once all are open
	}
}

// Idle checks that no connection of a database is in use. Package sql gives one back on a
// goroutine of its own after a context has ended, so Idle waits for up to ten seconds.
func Idle(t testing.TB, db interface{ Stats() sql.DBStats }) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); db.Stats().InUse > 0; {
		if time.Now().After(end) {
			t.Errorf("%d connections are in use", db.Stats().InUse)
			return
		}
		time.Sleep(time.Millisecond)
	}
}
