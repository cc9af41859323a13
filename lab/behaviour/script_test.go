package behaviour_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// policy is what a probe asks for, in the words of none of the libraries.
type policy struct {
	attempts int           // calls in all; 0: without limit
	first    time.Duration // the first wait; 0: none
	growth   float64       // of the waits; 0: twofold, 1: constant
	limit    time.Duration // the longest wait; 0: none
	jitter   bool          // as the library has it
	final    error         // not worth a retry, wherever it occurs
	marked   bool          // the operation speaks the library's language already
	hints    bool          // the operation tells how long to wait
	surface  bool          // the operation's error matters more than the context's
}

// factor returns the growth of the waits.
func (p *policy) factor() float64 {
	if p.growth == 0 {
		return 2
	}
	return p.growth
}

// ceiling returns the longest wait, for libraries that want to know one.
func (p *policy) ceiling() time.Duration {
	if p.limit == 0 {
		return math.MaxInt64
	}
	return p.limit
}

// exact returns wait n without jitter, for libraries that take a function.
func (p *policy) exact(n int) time.Duration {
	d := float64(p.first) * math.Pow(p.factor(), float64(n-1))
	if d >= float64(p.ceiling()) {
		return p.ceiling()
	}
	return time.Duration(d)
}

type (
	operation func(context.Context) error
	// call runs an operation until it succeeds or the library gives up.
	call func(context.Context, operation) error
)

// contestant is a library, and how to do with it what the probes ask. What is
// nil it has no notion of.
type contestant struct {
	name   string // as in the benchmarks
	module string
	pkg    string // the package that a caller imports
	setup  string // how it is set up, in a sentence

	// prepare sets up a policy as the documentation says, to be used by one call
	// at a time.
	prepare func(policy) call
	// share sets up what the library has for a policy, once, and uses it for
	// every call. nil means prepare.
	share func(policy) call
	// inTurn says that the documentation forbids to use that concurrently.
	inTurn bool
	// shareNote says what sharing costs otherwise.
	shareNote string
	// defaults sets as little as the library allows.
	defaults func() call
	// zero uses the zero value of its configuration type, named zeroName.
	zero     func() call
	zeroName string
	// mark is what an operation wraps its error in to have its say: that it is
	// final, or with go-retry that it is not.
	mark func(error) error
	// again makes an error one that the library retries, where it must be told.
	again func(error) error
	// waits returns the first waits of a policy, from the exported function that
	// computes them where there is one, otherwise from a call.
	waits func(policy, int) []time.Duration
	// overflowGrowth is the growth with which the waits of a policy without a
	// limit are asked for; 0: twofold.
	overflowGrowth float64

	value    func(context.Context, policy, func() (int, error)) (int, error)
	timeout  func(policy, time.Duration) call // of an attempt
	elapsed  func(policy, time.Duration) call // of all attempts
	whole    func(policy, time.Duration) call // the same, where another one interrupts attempts
	reason   func(error) string               // why it stopped
	budget   func(policy) call
	perError func(limits map[error]int) call
	observe  func(policy, func(event)) call
	decide   func(policy) (decide func(failures int, err error) (time.Duration, bool), how string)
	clock    func(p policy, waited func(time.Duration)) call

	hinted func(error, time.Duration) error // an error that says when to come back
	// ownHint says that this takes a delay function of one's own.
	ownHint bool
}

// event is what a hook was told.
type event struct {
	attempt int           // 0: not told
	delay   time.Duration // negative: not told
	err     error
	end     bool // the call has ended
}

func (c *contestant) shared(p policy) call {
	if c.share != nil {
		return c.share(p)
	}
	return c.prepare(p)
}

func (c *contestant) retryable(err error) error {
	if c.again != nil {
		return c.again(err)
	}
	return err
}

// contestants are the libraries for any operation, ours first.
var contestants = slices.Concat(
	[]*contestant{ours},
	[]*contestant{backoffV7, retryGoV5, goRetry, failsafeGo},
	[]*contestant{codegroove, goResiliency, k8sWait, gaxGo, awsSDK},
)

// noContext is what an operation gets where the library gives it none.
var noContext = context.WithValue(context.Background(), noContextKey{}, true)

type noContextKey struct{}

// hintError is an error that says when to come back, for libraries that take a
// function of the error.
type hintError struct {
	error
	after time.Duration
}

func (e *hintError) Unwrap() error { return e.error }

func newHint(err error, after time.Duration) error { return &hintError{err, after} }

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

// played records a call on the clock of a bubble.
func played(t tester, c call, fn func(ctx context.Context, n int) error) run {
	t.Helper()
	return bubble(t, func(t tester) run { return record(t.Context(), c, fn) })
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

// panicsInSecond is an operation whose second attempt panics.
func panicsInSecond(_ context.Context, n int) error {
	if n == 2 {
		panic("boom")
	}
	return errOp
}

// protect returns what f panicked with.
func protect(f func()) (panicked any) {
	defer func() { panicked = recover() }()
	f()
	return nil
}
