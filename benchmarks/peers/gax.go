package peers

import (
	"context"
	"time"

	"github.com/googleapis/gax-go/v2"
)

// Every call that fails makes a Retryer. The stock ones know no limit of attempts
// and no wait without jitter, so there is one here. The context is a parameter of
// the call and handed on. A wait of 0 is a timer of 0. Results are captured.
var gaxGo = &Contestant{
	Name:    "gax",
	Module:  "github.com/googleapis/gax-go/v2",
	new:     newGax,
	delays:  &delays{draw: drawGax},
	differs: []*difference{countsItself, callsDead, callsCanceled, timerForNothing},
}

type policyOfGax struct{ options []gax.CallOption }

func newGax(p policy) caller {
	return policyOfGax{[]gax.CallOption{gax.WithRetry(func() gax.Retryer {
		return &countingRetryer{policy: p, left: p.attempts, backoff: exponentialGax}
	})}}
}

var exponentialGax = gax.Backoff{Initial: initial, Max: limit, Multiplier: 2}

type countingRetryer struct {
	policy
	left    int
	backoff gax.Backoff
}

// Retry implements gax.Retryer.
func (r *countingRetryer) Retry(err error) (time.Duration, bool) {
	r.left--
	if r.left == 0 || isFinal(err) {
		return 0, false
	}
	if r.wait == exponential {
		return r.backoff.Pause(), true
	}
	return r.wait, true
}

func (p policyOfGax) static(ctx context.Context, n int, o *op) (err error) {
	call := func(ctx context.Context, _ gax.CallSettings) error { return o.errCtx(ctx) }
	for range n {
		err = gax.Invoke(ctx, call, p.options...)
	}
	return err
}

func (p policyOfGax) value(ctx context.Context, n int, o *op) (v int, err error) {
	for range n {
		err = gax.Invoke(ctx, func(ctx context.Context, _ gax.CallSettings) (err error) {
			v, err = o.valueCtx(ctx)
			return err
		}, p.options...)
	}
	return v, err
}

func (p policyOfGax) closure(ctxs [2]context.Context, n int, s *script) (err error) {
	for i := range n {
		calls := 0
		err = gax.Invoke(ctxs[i&1], func(ctx context.Context, _ gax.CallSettings) error {
			calls++
			return s.do(ctx, calls)
		}, p.options...)
	}
	return err
}

func drawGax(n int, waits *[10]time.Duration) {
	for range n {
		b := exponentialGax
		for i := range waits {
			waits[i] = b.Pause()
		}
	}
}
