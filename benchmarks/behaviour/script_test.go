package behaviour_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	errOp    = errors.New("operation failed")
	errOther = errors.New("operation failed otherwise")
	errFinal = errors.New("operation will never succeed")
)

// run is what became of a call.
type run struct {
	calls   int
	at      []time.Duration // when each call began
	err     error
	elapsed time.Duration
}

func (r *run) waits() (waits []time.Duration) {
	for i := 1; i < len(r.at); i++ {
		waits = append(waits, r.at[i]-r.at[i-1])
	}
	return waits
}

// record calls c with an operation that is told the number of the call.
func record(ctx context.Context, c call, fn func(ctx context.Context, n int) error) (r run) {
	start := time.Now()
	r.err = c(ctx, func(ctx context.Context) error {
		r.calls++
		r.at = append(r.at, time.Since(start))
		return fn(ctx, r.calls)
	})
	r.elapsed = time.Since(start)
	return r
}

func always(err error) func(context.Context, int) error {
	return func(context.Context, int) error { return err }
}

// failing records a call whose operation always fails.
func failing(ctx context.Context, c call) run { return record(ctx, c, always(errOp)) }

// measure returns the waits of a call that always fails.
func measure(c call) []time.Duration {
	r := failing(context.Background(), c)
	return r.waits()
}

// tester is the test that a probe runs in.
type tester struct{ *testing.T }

// bubble runs f on the clock of a bubble, and returns what it returns.
func bubble[T any](t tester, f func(t tester) T) (v T) {
	t.Helper()
	synctest.Test(t.T, func(t *testing.T) { v = f(tester{t}) })
	return v
}

// bubbled counts the goroutines of the caller's bubble. Those of the process would
// sometimes be one more: the runtime's own, for finalizers, counts while it runs one.
func bubbled(t tester) int {
	t.Helper()
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	_, own, ok := bytes.Cut(stacks[:bytes.IndexByte(stacks, ']')], []byte(", synctest bubble "))
	require.True(t, ok, "%s", stacks)
	return bytes.Count(stacks, fmt.Appendf(nil, ", synctest bubble %s]:\n", own))
}

// sequence returns f(1) … f(n).
func sequence(n int, f func(int) time.Duration) []time.Duration {
	s := make([]time.Duration, n)
	for i := range s {
		s[i] = f(i + 1)
	}
	return s
}

// timerWaits returns what a timer was asked for by f.
func timerWaits(f func(skipTimer)) (waits []time.Duration) {
	f(func(d time.Duration) { waits = append(waits, d) })
	return waits
}

// count returns "1 call", "2 calls".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// short prints a duration without its zero parts.
func short(d time.Duration) string {
	s := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if len(s) > len(zero) && s[len(s)-len(zero):] == zero {
			s = s[:len(s)-2]
		}
	}
	return s
}

// protect returns what f panicked with.
func protect(f func()) (panicked any) {
	defer func() { panicked = recover() }()
	f()
	return nil
}
