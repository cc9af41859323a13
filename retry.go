package retry

import (
	"context"
	"errors"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/sat"
)

var errNilFunc = errors.New("retry: fn is nil")

// Execute calls fn until it succeeds or p gives up. It blocks the caller, and
// starts no goroutine.
//
// fn gets ctx, or with AttemptTimeout a child of it. It is not called when ctx
// is done, and never again once ctx is done, not even when a wait ends at the
// same moment. A success is returned even if ctx ended meanwhile. A wait that
// would lead to or past the deadline of ctx is not begun.
//
// Execute returns nil after a success, the error of fn as it is if that is
// Final, and an [*Error] otherwise. Panics and runtime.Goexit in fn pass
// through. A nil ctx is context.Background().
func (p *Policy) Execute(ctx context.Context, fn func(context.Context) error) error {
	p = p.orZero()
	// The usual call succeeds at once: nothing has to happen around its only
	// attempt. fn is called and never stored, here and below, so that a
	// closure stays on the stack of the caller.
	if p.AttemptTimeout > 0 || p.MaxElapsed > 0 || p.Observer != nil || p.Budget != nil || ctx == nil || fn == nil {
		return p.run(ctx, fn, nil)
	}
	select {
	case <-ctx.Done():
		return p.run(ctx, fn, nil)
	default:
	}
	err := fn(ctx)
	if err == nil {
		return nil
	}
	return p.run(ctx, fn, err)
}

// Do is [Policy.Execute] for a function with a result. It returns the result of
// the last attempt beside the error; if there was no attempt, the zero value.
// A nil p is the zero Policy.
func Do[T any](ctx context.Context, p *Policy, fn func(context.Context) (T, error)) (T, error) {
	var v T
	if fn == nil {
		return v, errNilFunc
	}
	err := p.Execute(ctx, func(ctx context.Context) (err error) {
		v, err = fn(ctx)
		return err
	})
	return v, err
}

// call is what Execute knows about one call. It lives on the stack.
type call struct {
	p        *Policy
	attempts int
	waited   time.Duration
	decision Decision // of the last failure; its State is that of the call
	timer    *time.Timer
}

// run is the loop. If err is not nil, Execute has made the first attempt.
func (p *Policy) run(ctx context.Context, fn func(context.Context) error, err error) error {
	if fn == nil {
		return errNilFunc
	}
	if ctx == nil {
		ctx = context.Background()
	}
	c := call{p: p}
	if err != nil {
		c.attempts = 1
	}
	if p.MaxElapsed > 0 || p.Observer != nil {
		c.decision.State.First = p.now()
	}
	var timedOut bool
	for made := err != nil; ; made = false {
		if !made {
			if done(ctx) {
				return c.interrupted(ctx, err)
			}
			c.attempts++
			if err, timedOut = p.attempt(ctx, fn); err == nil {
				c.succeeded(ctx)
				return nil
			}
		}
		if done(ctx) {
			return c.interrupted(ctx, err)
		}
		if !c.retry(ctx, err, timedOut) {
			return c.gaveUp(ctx, err)
		}
		if delay := c.decision.Delay; delay > 0 && p.wait(ctx, delay, &c.timer) {
			c.waited = sat.Add(c.waited, delay)
		}
	}
}

// attempt calls fn once. It reports whether AttemptTimeout has ended the
// attempt while ctx lives on.
func (p *Policy) attempt(ctx context.Context, fn func(context.Context) error) (err error, timedOut bool) {
	if p.AttemptTimeout <= 0 {
		return fn(ctx), false
	}
	attemptCtx, cancel := p.withTimeout(ctx)
	defer cancel()
	err = fn(attemptCtx)
	return err, err != nil && done(attemptCtx) && !done(ctx)
}

// retry decides about the failure err, and announces the retry if there is one.
func (c *call) retry(ctx context.Context, err error, timedOut bool) bool {
	c.decision.Verdict = c.p.classify(err, timedOut)
	var now time.Time
	if c.p.MaxElapsed > 0 || c.p.Observer != nil || c.p.Budget != nil || hasDeadline(ctx) {
		now = c.p.now()
	}
	c.p.decideContext(ctx, &c.decision, now)
	if c.decision.Retry && c.p.Observer != nil {
		c.observe(ctx, Event{Kind: Retrying, Delay: c.decision.Delay, Verdict: c.decision.Verdict, Err: err}, now)
	}
	return c.decision.Retry
}

func hasDeadline(ctx context.Context) bool {
	_, ok := ctx.Deadline()
	return ok
}

// succeeded settles a success.
func (c *call) succeeded(ctx context.Context) {
	if c.p.Budget == nil && c.p.Observer == nil {
		return
	}
	now := c.p.now()
	if c.p.Budget != nil {
		c.p.Budget.Deposit(now)
	}
	if c.p.Observer != nil {
		c.observe(ctx, Event{Kind: Succeeded}, now)
	}
}

// gaveUp returns the error of a call that the decider ended.
func (c *call) gaveUp(ctx context.Context, err error) error {
	d := &c.decision
	err = c.p.failure(d, err)
	if e, ok := err.(*Error); ok && d.Stop != StopFinal {
		e.Attempts, e.Waited = c.attempts, c.waited
	}
	c.ended(ctx, d.Stop, d.Verdict, err)
	return err
}

// interrupted returns the error of a call whose context is done; err is the
// last failure, or nil if there was no attempt.
func (c *call) interrupted(ctx context.Context, err error) error {
	e := &Error{
		Policy:   c.p.Name,
		Attempts: c.attempts,
		Waited:   c.waited,
		Stop:     contextStop(ctx),
		Err:      err,
		Cause:    context.Cause(ctx),
	}
	c.ended(ctx, e.Stop, Verdict{}, e)
	return e
}

func (c *call) ended(ctx context.Context, why StopReason, v Verdict, err error) {
	if c.p.Observer != nil {
		c.observe(ctx, Event{Kind: GaveUp, Verdict: v, Stop: why, Err: err}, c.p.now())
	}
}

func (c *call) observe(ctx context.Context, e Event, now time.Time) {
	e.Policy, e.Attempt = c.p.Name, c.attempts
	e.Elapsed = max(now.Sub(c.decision.State.First), 0)
	c.p.Observer.Observe(ctx, e)
}
