package behaviour_test

import (
	"context"
	"errors"
	"math"
	"time"

	backoff5 "github.com/cenkalti/backoff/v5"
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

var backoffV5 = &contestant{
	name:     "backoff-v5",
	module:   "github.com/cenkalti/backoff/v5",
	pkg:      "github.com/cenkalti/backoff/v5",
	setup:    "as v7",
	prepare:  func(p policy) call { return backoff5Call(p, func() backoff5.BackOff { return backOff5(p) }) },
	inTurn:   true,
	defaults: func() call { return backoff5Run() },
	zero: func() call {
		return backoff5Run(backoff5.WithBackOff(&backoff5.ExponentialBackOff{}))
	},
	zeroName: "ExponentialBackOff{}",
	share: func(p policy) call {
		b := backOff5(p)
		return backoff5Call(p, func() backoff5.BackOff { return b })
	},
	waits: func(p policy, n int) []time.Duration {
		b := backOff5(p)
		return sequence(n, func(int) time.Duration { return b.NextBackOff() })
	},
	value: func(ctx context.Context, p policy, fn func() (int, error)) (int, error) {
		return backoff5.Retry(ctx, fn, backoff5.WithMaxTries(uint(p.attempts)), backoff5.WithBackOff(backOff5(p)))
	},
	elapsed: func(p policy, d time.Duration) call {
		return func(ctx context.Context, fn operation) error {
			return backoff5Run(backoff5.WithBackOff(backOff5(p)), backoff5.WithMaxElapsedTime(d))(ctx, fn)
		}
	},
	observe: func(p policy, tell func(event)) call {
		return backoff5Call(p, func() backoff5.BackOff { return backOff5(p) },
			backoff5.WithNotify(func(err error, d time.Duration) { tell(event{delay: d, err: err}) }))
	},
	mark: backoff5.Permanent,
	// It takes whole seconds, and no cause: the error is joined to it, so that
	// nothing is lost by the way it is called.
	hinted: func(err error, d time.Duration) error {
		return errors.Join(err, backoff5.RetryAfter(int(d/time.Second)))
	},
	longestHint: func(err error) error { return errors.Join(err, backoff5.RetryAfter(math.MaxInt)) },
}

func backOff5(p policy) backoff5.BackOff {
	if p.first == 0 || p.growth == 1 {
		return backoff5.NewConstantBackOff(p.first)
	}
	b := backoff5.NewExponentialBackOff()
	b.InitialInterval, b.Multiplier, b.MaxInterval = p.first, p.factor(), p.ceiling()
	if !p.jitter {
		b.RandomizationFactor = 0
	}
	return b
}

func backoff5Call(p policy, b func() backoff5.BackOff, opts ...backoff5.RetryOption) call {
	return func(ctx context.Context, fn operation) error {
		own := append([]backoff5.RetryOption{backoff5.WithBackOff(b()), backoff5.WithMaxTries(uint(p.attempts))}, opts...)
		if !p.hints {
			own = append(own, backoff5.WithMaxElapsedTime(0))
		}
		return backoff5Run(own...)(ctx, func(ctx context.Context) error {
			err := fn(ctx)
			if p.final != nil && errors.Is(err, p.final) {
				return backoff5.Permanent(err)
			}
			return err
		})
	}
}

func backoff5Run(opts ...backoff5.RetryOption) call {
	return func(ctx context.Context, fn operation) error {
		_, err := backoff5.Retry(ctx, func() (struct{}, error) { return struct{}{}, fn(noContext) }, opts...)
		return err
	}
}
