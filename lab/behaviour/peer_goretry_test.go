package behaviour_test

import (
	"context"
	"errors"
	"time"

	"github.com/sethvargo/go-retry"
)

var goRetry = &contestant{
	name:   "go-retry",
	module: "github.com/sethvargo/go-retry",
	pkg:    "github.com/sethvargo/go-retry",
	setup:  "`Do` with `NewExponential`, `WithCappedDuration`, `WithFullJitter`, `WithMaxRetries`, built for every call; all errors but the final one are `RetryableError`",
	prepare: func(p policy) call {
		return goRetryRun(p, func() retry.Backoff { return goRetryBackoff(p) })
	},
	share: func(p policy) call {
		b := goRetryBackoff(p)
		return goRetryRun(p, func() retry.Backoff { return b })
	},
	defaults: func() call {
		return func(ctx context.Context, fn operation) error {
			return retry.Exponential(ctx, time.Second, func(ctx context.Context) error {
				return retry.RetryableError(fn(ctx))
			})
		}
	},
	mark:  retry.RetryableError,
	again: retry.RetryableError,
	waits: func(p policy, n int) []time.Duration {
		p.attempts = n + 1
		b := goRetryBackoff(p)
		return sequence(n, func(int) time.Duration { d, _ := b.Next(); return d })
	},
	value: func(ctx context.Context, p policy, fn func() (int, error)) (int, error) {
		return retry.DoValue(ctx, goRetryBackoff(p), func(context.Context) (int, error) {
			v, err := fn()
			return v, retry.RetryableError(err)
		})
	},
	elapsed: func(p policy, d time.Duration) call {
		return goRetryRun(p, func() retry.Backoff { return retry.WithMaxDuration(d, goRetryBackoff(p)) })
	},
}

func goRetryRun(p policy, b func() retry.Backoff) call {
	return func(ctx context.Context, fn operation) error {
		return retry.Do(ctx, b(), func(ctx context.Context) error {
			err := fn(ctx)
			if p.marked || p.final != nil && errors.Is(err, p.final) {
				return err
			}
			return retry.RetryableError(err)
		})
	}
}

func goRetryBackoff(p policy) retry.Backoff {
	var b retry.Backoff
	switch {
	case p.first == 0:
		b = retry.BackoffFunc(func() (time.Duration, bool) { return 0, false })
	case p.growth == 1:
		b = retry.NewConstant(p.first)
	default:
		b = retry.NewExponential(p.first)
	}
	if p.limit > 0 {
		b = retry.WithCappedDuration(p.limit, b)
	}
	if p.jitter {
		b = retry.WithFullJitter(b)
	}
	if p.attempts > 0 {
		b = retry.WithMaxRetries(uint64(p.attempts-1), b)
	}
	return b
}
