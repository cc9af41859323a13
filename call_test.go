package retry_test

import (
	"context"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// decideInCall returns what a Call decides about a failure with verdict v at the
// instant now, after the failures s, if its context has become ctx by then.
func decideInCall(p *retry.Policy, ctx context.Context, s retry.State, v retry.Verdict, now time.Time) retry.Decision {
	var q retry.Policy
	if p != nil {
		q = *p
	}
	q.Clock = &countingClock{now: now}
	call := retry.Call{Policy: &q}
	caller := lateContext{ctx, make(chan struct{})}
	call.Begin(caller)
	call.State = s
	select {
	case <-ctx.Done():
		close(caller.done)
	default:
	}
	d := call.EndVerdict(errBoom, v)
	if d.Retry != (d.Err == nil) || d.Err != call.Err() || d.State != call.State {
		panic("Decision and Call disagree")
	}
	d.Err = nil
	return d
}

// lateContext is a context whose end is noticed later.
type lateContext struct {
	context.Context
	done chan struct{}
}

func (c lateContext) Done() <-chan struct{} { return c.done }
