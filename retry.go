package retry

import (
	"context"
	"errors"

	"github.com/seed-5ff3c98e/retry/internal/done"
	"github.com/seed-5ff3c98e/retry/internal/known"
	"github.com/seed-5ff3c98e/retry/internal/sat"
)

var errNilFunc = errors.New("retry: fn is nil")

// Execute calls fn until it succeeds or p gives up. It blocks the caller, and
// starts no goroutine.
//
// fn gets ctx, or a child of ctx with AttemptTimeout, Timeout, or an Observer that derives
// one. fn is not called once ctx is done, not even when a wait ends at the same moment. A success is
// returned even if ctx ended meanwhile. A wait that would end at or after the deadline of ctx is not
// begun.
//
// Execute returns nil after a success. It returns the error of fn unchanged if that
// error is Final and ctx is not done, and an [*Error] otherwise. Panics and
// runtime.Goexit in fn pass through. A nil ctx is context.Background().
func (p *Policy) Execute(ctx context.Context, fn func(context.Context) error) error {
	p = p.orZero()
	// The usual call succeeds at once: nothing has to happen around its only
	// attempt. fn is called and never stored, here and below, so that a
	// closure stays on the stack of the caller.
	if p.timed() || p.Observer != nil || p.Quota != nil || ctx == nil || fn == nil {
		return p.run(ctx, fn, nil)
	}
	if done.Closed(ctx.Done()) { // inlined, where done.Is is not
		return p.run(ctx, fn, nil)
	}
	err := fn(ctx)
	if err != nil {
		return p.run(ctx, fn, err)
	}
	if p.Budget != nil {
		p.Budget.Deposit(p.now())
	}
	return nil
}

// run is the loop over a Call. If err is not nil, Execute has made the first attempt, and there is
// neither a Quota nor an Observer. This frame stays on the stack while the caller waits, and every
// byte counts: rare work with a large frame is in functions that are not inlined.
func (p *Policy) run(ctx context.Context, fn func(context.Context) error, err error) error {
	if fn == nil {
		return errNilFunc
	}
	c := Call{Policy: p}
	if err == nil {
		c.under(ctx)
	} else if c.first(ctx, err) {
		return err
	}
	for {
		// As in Call.Next, but a plain call, which has no Observer, is spared a frame.
		if c.Delay > 0 && (c.plain && c.wait(c.Delay) || !c.plain && c.pause()) {
			c.Waited = sat.Add(c.Waited, c.Delay)
		}
		if !c.plain {
			c.await()
		}
		if !c.begin() {
			return c.Last
		}
		if c.own != nil || c.Turn != 0 {
			c.try(fn)
		} else if err = fn(c.caller); err != nil {
			c.failed(err, nil, nil)
		} else {
			c.succeeded()
			return nil
		}
	}
}

// first ends a first attempt that was made without the Call. It returns true if the
// error is Final: then there is nothing else to do, and no event.
//
//go:noinline
func (c *Call) first(ctx context.Context, err error) (final bool) {
	var f known.Fact
	if !done.Is(ctx) {
		if f = c.Policy.classify(err, false, nil, Unknown); f.Class == known.Final {
			return true
		}
	}
	c.under(ctx)
	c.failed(err, &f, nil)
	return false
}

// Do is [Policy.Execute] for a function with a result. It returns the result of
// the last attempt with the error, or the zero value if there was no attempt. A
// nil p is the zero Policy.
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

// try makes an attempt that has a context of its own or a turn, and ends both if fn
// panics.
func (c *Call) try(fn func(context.Context) error) {
	defer c.Abort()
	if err := fn(c.Context()); err != nil {
		c.failed(err, nil, nil)
	} else {
		c.succeeded()
	}
}
