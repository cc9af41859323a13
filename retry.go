package retry

import (
	"context"
	"errors"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/done"
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
	if done.Is(ctx) {
		return p.run(ctx, fn, nil)
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

// call is what Execute knows about one call. It lives on the stack, where every
// byte counts: with less than about 450 bytes in the frames below the wait, a
// sleeping caller keeps to the 2 KB that a goroutine starts with. Hence the
// rare things that need large frames are not inlined into retry.
type call struct {
	p        *Policy
	attempts int
	waited   time.Duration
	state    State
	timer    *time.Timer
}

// run is the loop. If err is not nil, Execute has made the first attempt.
func (p *Policy) run(ctx context.Context, fn func(context.Context) error, err error) error {
	if fn == nil {
		return errNilFunc
	}
	ctx = orBackground(ctx)
	c := call{p: p}
	if p.MaxElapsed > 0 || p.Observer != nil {
		c.state.First = p.now()
	}
	ended := ctx.Done()
	for timedOut := false; ; {
		if err == nil || c.attempts > 0 {
			if done.Closed(ended) {
				return c.interrupted(ctx, err)
			}
			if p.AttemptTimeout > 0 {
				timedOut, err = p.attempt(ctx, fn)
			} else {
				err = fn(ctx)
			}
			if err == nil {
				c.succeeded(ctx)
				return nil
			}
		}
		c.attempts++
		if done.Closed(ended) {
			return c.interrupted(ctx, err)
		}
		delay, end := c.retry(ctx, err, p.classify(err, timedOut))
		if end != nil {
			return end
		}
		if delay > 0 {
			c.timer = p.start(c.timer, delay)
			if p.wait(ctx, delay, c.timer) {
				c.waited = sat.Add(c.waited, delay)
			}
		}
	}
}

// attempt calls fn once under AttemptTimeout. It reports whether that has ended
// the attempt while ctx lives on.
func (p *Policy) attempt(ctx context.Context, fn func(context.Context) error) (timedOut bool, err error) {
	attemptCtx, cancel := p.withTimeout(ctx)
	defer cancel()
	err = fn(attemptCtx)
	return err != nil && done.Is(attemptCtx) && !done.Is(ctx), err
}

// retry decides about the failure err. It returns the wait before the next
// attempt, or the error that ends the call.
func (c *call) retry(ctx context.Context, err error, v Verdict) (time.Duration, error) {
	var j judgment // not a literal, which would be built aside and copied
	j.verdict = v
	now, room := time.Time{}, sat.Max
	if deadline, ok := ctx.Deadline(); ok || c.p.MaxElapsed > 0 || c.p.Observer != nil || c.p.Budget != nil {
		now, room = c.p.timeUntil(deadline)
	}
	c.p.judge(&j, &c.state, now, room)
	if c.p.Budget != nil {
		c.p.withdraw(&j, now)
	}
	if !j.retry && j.stop != StopFinal {
		err = c.giveUp(&j, err)
	}
	if c.p.Observer != nil {
		c.announce(ctx, &j, err, now)
	}
	if j.retry {
		return j.delay, nil
	}
	return 0, err
}

// timeUntil returns the current time and what is left of it before deadline; a
// zero deadline means none.
func (p *Policy) timeUntil(deadline time.Time) (now time.Time, room time.Duration) {
	now = p.now()
	if deadline.IsZero() {
		return now, sat.Max
	}
	return now, deadline.Sub(now) // saturates
}

// giveUp returns the error of a call that the decider ended.
//
//go:noinline
func (c *call) giveUp(j *judgment, err error) error {
	e := c.p.giveUp(j, &c.state, err)
	e.Attempts, e.Waited = c.attempts, c.waited
	return e
}

// announce tells the Observer what was decided.
//
//go:noinline
func (c *call) announce(ctx context.Context, j *judgment, err error, now time.Time) {
	e := Event{Kind: Retrying, Delay: j.delay, Verdict: j.verdict, Err: err}
	if !j.retry {
		e.Kind, e.Delay, e.Stop = GaveUp, 0, j.stop
	}
	c.observe(ctx, e, now)
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
		c.attempts++
		c.observe(ctx, Event{Kind: Succeeded}, now)
	}
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
	if c.p.Observer != nil {
		c.observe(ctx, Event{Kind: GaveUp, Stop: e.Stop, Err: e}, c.p.now())
	}
	return e
}

func (c *call) observe(ctx context.Context, e Event, now time.Time) {
	e.Policy, e.Attempt = c.p.Name, c.attempts
	e.Elapsed = max(now.Sub(c.state.First), 0)
	c.p.Observer.Observe(ctx, e)
}
