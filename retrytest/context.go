package retrytest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// WithTimeout is [context.WithTimeout] on this clock; see [Clock.WithDeadline].
func (c *Clock) WithTimeout(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return c.WithDeadline(parent, c.Now().Add(d))
}

// AttemptContext is WithTimeout, with the name that a [retry.Policy] looks for.
func (c *Clock) AttemptContext(parent context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return c.WithTimeout(parent, d)
}

// WithDeadline is [context.WithDeadline] on this clock: the context ends when
// the clock reaches t, with context.DeadlineExceeded as error and as cause, and
// its Deadline is in the time of this clock.
//
// A child of it made by package context ends together with it and with the same
// cause. Err of such a child is context.Canceled, because package context knows
// only its own deadlines.
func (c *Clock) WithDeadline(parent context.Context, t time.Time) (context.Context, context.CancelFunc) {
	child, cancel := context.WithCancelCause(parent)
	ctx := &deadlineContext{child, t}
	if earlier, ok := parent.Deadline(); ok && earlier.Before(t) {
		ctx.deadline = earlier
	}
	expire := func() { cancel(context.DeadlineExceeded) }
	e := c.schedule(t, expire)
	if e == nil {
		expire()
	}
	return ctx, func() {
		c.remove(e)
		cancel(nil)
	}
}

// deadlineContext adds a deadline to a context that can be canceled. It keeps
// the Done of that context, so that package context links children to it
// without a goroutine, and they end in the same instant.
type deadlineContext struct {
	context.Context
	deadline time.Time
}

// Deadline implements [context.Context].
func (c *deadlineContext) Deadline() (time.Time, bool) { return c.deadline, true }

// Err implements [context.Context]. It is derived from the cause, because the
// cause also comes from the deadline of a parent, through any contexts between.
func (c *deadlineContext) Err() error {
	err := c.Context.Err()
	if err != nil && context.Cause(c.Context) == context.DeadlineExceeded { //nolint:errorlint // itself, not one that wraps it
		return context.DeadlineExceeded
	}
	return err
}

func isDone(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return true
	default:
		return false
	}
}

// Nesting sees retries inside of retries: an attempt of one policy
// that ran the attempts of another one. Their numbers multiply: three attempts at three
// layers are 27 calls. Give all policies of a program or a test the [Nesting.Observer] of one
// Nesting, and ask for [Nesting.Attempts] or [Nesting.Product] at the end.
//
// A policy without the Nesting, such as one inside of a library, is seen only by its error:
// if an attempt of a policy with the Nesting fails with the [*retry.Error] of an inner one.
// Then the inner one is not seen if it succeeds, if its error is Final, or if it returns a
// response. So give the Nesting to the policy of a retryhttp.Transport too. An inner policy
// whose context is not derived from the context of the attempt is seen by its error alone,
// and loops of other libraries are not seen.
//
// A Nesting puts a value into the context of each attempt. The zero value is ready; a Nesting
// must not be copied after its first use. It is safe for concurrent use.
type Nesting struct {
	mu       sync.Mutex
	attempts []int
	product  int
}

// Observer returns the Observer of the policies.
func (n *Nesting) Observer() *retry.Observer {
	return &retry.Observer{Event: n.event, Attempt: n.attempt}
}

// attempt notes an attempt, and marks its context.
func (n *Nesting) attempt(ctx context.Context, attempt int) (context.Context, func(error)) {
	attempts := append(n.around(ctx), attempt)
	n.note(attempts)
	return context.WithValue(ctx, n, attempts), nil
}

func (n *Nesting) event(ctx context.Context, e retry.Event) {
	attempts := append(n.around(ctx), e.Attempt)
	var inner *retry.Error
	for err := failure(e); errors.As(err, &inner); err = inner.Err {
		attempts = append(attempts, inner.Attempts)
	}
	n.note(attempts)
}

// Attempts returns the numbers of the attempts that ran inside each other, from the outermost
// policy to the innermost: [3 3 3]. Of several it returns the ones with the largest product.
// It returns nil if no policy ran inside another one.
func (n *Nesting) Attempts() []int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.attempts)
}

// Product returns the product of [Nesting.Attempts]: how many calls of the innermost operation
// one call of the outermost policy becomes, if each layer fails as often each time. It
// returns 0 if no policy ran inside another one.
func (n *Nesting) Product() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.product
}

// around returns the numbers of the attempts that a call with this context is part of.
func (n *Nesting) around(ctx context.Context) []int {
	attempts, _ := ctx.Value(n).([]int)
	return slices.Clip(attempts) // others share it
}

func (n *Nesting) note(attempts []int) {
	if len(attempts) < 2 {
		return
	}
	product := 1
	for _, attempt := range attempts {
		product *= attempt
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if product > n.product || product == n.product && len(attempts) > len(n.attempts) {
		n.attempts, n.product = attempts, product
	}
}
