package behaviour_test

import (
	"context"
	"math"
	"slices"
	"time"
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
