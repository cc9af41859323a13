package peers

import (
	"context"
	"time"

	"github.com/sethvargo/go-retry"
)

// A Backoff counts the attempts and never starts anew, so every call builds one.
// The context is a parameter of the call and handed on. The operation marks what
// to retry, not what is final. A wait of 0 is a timer of 0.
var goRetry = &Contestant{
	Name:      "go-retry",
	Module:    "github.com/sethvargo/go-retry",
	new:       newGoRetry,
	retryable: retry.RetryableError,
	markFinal: asItIs,
	delays:    &delays{draw: drawGoRetry},
	differs:   []*difference{perCall, timerForNothing},
}

type policyOfGoRetry struct {
	policy
	constant retry.Backoff // the part without state
}

func newGoRetry(p policy) caller {
	// NewConstant refuses 0.
	return &policyOfGoRetry{p, retry.BackoffFunc(func() (time.Duration, bool) { return p.wait, false })}
}

func (p *policyOfGoRetry) backoff() retry.Backoff {
	b := p.constant
	if p.wait == exponential {
		b = retry.WithFullJitter(retry.WithCappedDuration(limit, retry.NewExponential(initial)))
	}
	return retry.WithMaxRetries(uint64(p.attempts-1), b)
}

func (p *policyOfGoRetry) static(ctx context.Context, n int, o *op) (err error) {
	for range n {
		err = retry.Do(ctx, p.backoff(), o.errCtx)
	}
	return err
}

func (p *policyOfGoRetry) value(ctx context.Context, n int, o *op) (v int, err error) {
	for range n {
		v, err = retry.DoValue(ctx, p.backoff(), o.valueCtx)
	}
	return v, err
}

func (p *policyOfGoRetry) closure(ctxs [2]context.Context, n int, s *script) (err error) {
	for i := range n {
		calls := 0
		err = retry.Do(ctxs[i&1], p.backoff(), func(ctx context.Context) error {
			calls++
			err := s.do(ctx, calls)
			if err == nil || s.marked || isFinal(err) {
				return err
			}
			return retry.RetryableError(err)
		})
	}
	return err
}

func drawGoRetry(n int, waits *[10]time.Duration) {
	for range n {
		b := retry.WithFullJitter(retry.WithCappedDuration(limit, retry.NewExponential(initial)))
		for i := range waits {
			waits[i], _ = b.Next()
		}
	}
}
