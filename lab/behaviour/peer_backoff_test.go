package behaviour_test

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v7"
)

var backoffV7 = &contestant{
	name:     "backoff-v7",
	module:   "github.com/cenkalti/backoff/v7",
	pkg:      "github.com/cenkalti/backoff/v7",
	setup:    "`Retry` with `WithBackOff` (a new `ExponentialBackOff` for every call), `WithMaxTries`, `WithMaxElapsedTime(0)` but with hints, where its default of 15 minutes helps; `Permanent` for what is final",
	prepare:  func(p policy) call { return backoff7Call(p, func() backoff.BackOff { return backOff7(p) }) },
	inTurn:   true,
	defaults: func() call { return backoff7Run() },
	zero: func() call {
		return backoff7Run(backoff.WithBackOff(&backoff.ExponentialBackOff{}))
	},
	zeroName: "ExponentialBackOff{}",
	share: func(p policy) call {
		b := backOff7(p)
		return backoff7Call(p, func() backoff.BackOff { return b })
	},
	waits: func(p policy, n int) []time.Duration {
		b := backOff7(p)
		return sequence(n, func(int) time.Duration { return b.NextBackOff() })
	},
	value: func(ctx context.Context, p policy, fn func() (int, error)) (int, error) {
		return backoff.Retry(ctx, fn, backoff.WithMaxTries(uint(p.attempts)), backoff.WithBackOff(backOff7(p)))
	},
	elapsed: func(p policy, d time.Duration) call {
		return func(ctx context.Context, fn operation) error {
			return backoff7Run(backoff.WithBackOff(backOff7(p)), backoff.WithMaxElapsedTime(d))(ctx, fn)
		}
	},
	reason: func(err error) string {
		if e := backoff.AsRetryError(err); e != nil {
			return e.Cause.Error()
		}
		return "none"
	},
	observe: func(p policy, tell func(event)) call {
		return backoff7Call(p, func() backoff.BackOff { return backOff7(p) },
			backoff.WithNotify(func(err error, d time.Duration) { tell(event{delay: d, err: err}) }))
	},
	mark:   backoff.Permanent,
	hinted: func(err error, d time.Duration) error { return backoff.RetryAfter(d, err) },
}

func backOff7(p policy) backoff.BackOff {
	if p.first == 0 || p.growth == 1 {
		return backoff.NewConstantBackOff(p.first)
	}
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.Multiplier, b.MaxInterval = p.first, p.factor(), p.ceiling()
	if !p.jitter {
		b.RandomizationFactor = 0
	}
	return b
}

func backoff7Call(p policy, b func() backoff.BackOff, opts ...backoff.RetryOption) call {
	return func(ctx context.Context, fn operation) error {
		own := append([]backoff.RetryOption{backoff.WithBackOff(b()), backoff.WithMaxTries(uint(p.attempts))}, opts...)
		if !p.hints {
			own = append(own, backoff.WithMaxElapsedTime(0))
		}
		return backoff7Run(own...)(ctx, func(ctx context.Context) error {
			err := fn(ctx)
			if p.final != nil && errors.Is(err, p.final) {
				return backoff.Permanent(err)
			}
			return err
		})
	}
}

func backoff7Run(opts ...backoff.RetryOption) call {
	return func(ctx context.Context, fn operation) error {
		_, err := backoff.Retry(ctx, func() (struct{}, error) { return struct{}{}, fn(noContext) }, opts...)
		return err
	}
}
