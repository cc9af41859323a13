package peers

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v7"
)

// A BackOff has state, and its documentation forbids sharing it between calls. The
// context is a parameter of the call, but is not handed on. A final error is marked
// by the operation. A wait of 0 is a timer of 0, and timers cannot be injected.
var backoffV7 = &Contestant{
	Name:      "backoff-v7",
	Module:    "github.com/cenkalti/backoff/v7",
	new:       newBackoffV7,
	markFinal: backoff.Permanent,
	delays:    &delays{draw: drawBackoffV7},
	differs:   []*difference{perCall, callsDead, timerForNothing, wrapsFinal, wrapsLast},
}

type policyOfBackoffV7 struct {
	policy
	options backoff.RetryOption // those that can be shared
}

func newBackoffV7(p policy) caller {
	return &policyOfBackoffV7{p, all(
		backoff.WithMaxTries(uint(p.attempts)),
		backoff.WithMaxElapsedTime(0), // the default is 15 minutes
	)}
}

// backOff returns a new one. A jitter of ±100 % of the half is full jitter.
func (p *policyOfBackoffV7) backOff() backoff.RetryOption {
	switch p.wait {
	case exponential:
		return backoff.WithBackOff(&backoff.ExponentialBackOff{
			InitialInterval: initial / 2, RandomizationFactor: 1, Multiplier: 2, MaxInterval: limit / 2,
		})
	case 0:
		return backoff.WithBackOff(&backoff.ZeroBackOff{})
	default:
		return backoff.WithBackOff(backoff.NewConstantBackOff(p.wait))
	}
}

func (p *policyOfBackoffV7) static(ctx context.Context, n int, o *op) error {
	_, err := p.value(ctx, n, o) // every operation has a value
	return err
}

func (p *policyOfBackoffV7) value(ctx context.Context, n int, o *op) (v int, err error) {
	for range n {
		v, err = backoff.Retry(ctx, o.value, p.backOff(), p.options)
	}
	return v, err
}

func (p *policyOfBackoffV7) closure(ctxs [2]context.Context, n int, s *script) (err error) {
	for i := range n {
		ctx, calls := ctxs[i&1], 0
		_, err = backoff.Retry(ctx, func() (struct{}, error) {
			calls++
			err := s.do(ctx, calls)
			if !s.marked && isFinal(err) {
				err = backoff.Permanent(err)
			}
			return struct{}{}, err
		}, p.backOff(), p.options)
	}
	return err
}

func drawBackoffV7(n int, waits *[10]time.Duration) {
	b := backoff.ExponentialBackOff{
		InitialInterval: initial / 2, RandomizationFactor: 1, Multiplier: 2, MaxInterval: limit / 2,
	}
	for range n {
		b.Reset()
		for i := range waits {
			waits[i] = b.NextBackOff()
		}
	}
}
