package behaviour_test

import (
	"context"
	"errors"
	"time"

	"github.com/avast/retry-go/v5"
)

// skipTimer is a timer that fires at once and adds up.
type skipTimer func(time.Duration)

func (t skipTimer) After(d time.Duration) <-chan time.Time {
	t(d)
	ch := make(chan time.Time, 1)
	ch <- time.Time{}
	return ch
}

var retryGoV5 = &contestant{
	name:   "retry-go-v5",
	module: "github.com/avast/retry-go/v5",
	pkg:    "github.com/avast/retry-go/v5",
	setup:  "`New` with `Attempts`, `Delay`, `MaxDelay`, `Context`, all errors kept (the default); jitter is `FullJitterBackoffDelay`; `RetryIf` for what is final",
	prepare: func(p policy) call {
		opts := retryGo5(p)
		return func(ctx context.Context, fn operation) error {
			// The context is an option, so a Retrier serves one context.
			return retry.New(append(opts, retry.Context(ctx))...).Do(func() error { return fn(noContext) })
		}
	},
	share: func(p policy) call {
		return retryGo5Share(retry.New(retryGo5(p)...))
	},
	shareNote: "a Retrier has its context built in, so only calls of one context can share it",
	defaults:  func() call { return retryGo5Run() },
	waits: func(p policy, n int) []time.Duration {
		p.attempts = n + 1
		return timerWaits(func(t skipTimer) {
			_ = retry.New(append(retryGo5(p), retry.WithTimer(t))...).Do(func() error { return errOp })
		})
	},
	value: func(ctx context.Context, p policy, fn func() (int, error)) (int, error) {
		return retry.NewWithData[int](append(retryGo5(p), retry.Context(ctx))...).Do(fn)
	},
	budget: func(p policy) call {
		return retryGo5Share(retry.New(append(retryGo5(p), retry.WithFixedTokenBucketThrottle(retry.FixedTokenBucketThrottleConfig{}))...))
	},
	perError: func(limits map[error]int) call {
		opts := retryGo5(policy{attempts: 10})
		for err, n := range limits {
			opts = append(opts, retry.AttemptsForError(uint(n), err))
		}
		return retryGo5Run(opts...)
	},
	observe: func(p policy, tell func(event)) call {
		return retryGo5Run(append(retryGo5(p), retry.OnRetry(func(n uint, err error) {
			tell(event{attempt: int(n) + 1, delay: -1, err: err})
		}))...)
	},
	clock: func(p policy, waited func(time.Duration)) call {
		return retryGo5Run(append(retryGo5(p), retry.WithTimer(skipTimer(waited)))...)
	},
	mark:    retry.Unrecoverable,
	hinted:  newHint,
	ownHint: true,
}

// retryGo5Run has a new Retrier for every call.
func retryGo5Run(opts ...retry.Option) call {
	return func(ctx context.Context, fn operation) error { return retryGo5Share(retry.New(opts...))(ctx, fn) }
}

func retryGo5Share(r *retry.Retrier) call {
	return func(_ context.Context, fn operation) error { return r.Do(func() error { return fn(noContext) }) }
}

func retryGo5(p policy) []retry.Option {
	kind := retry.BackOffDelay
	switch {
	case p.growth == 1:
		kind = retry.FixedDelay
	case p.jitter:
		kind = retry.FullJitterBackoffDelay
	}
	opts := []retry.Option{retry.Attempts(uint(p.attempts)), retry.Delay(p.first), retry.DelayType(kind)}
	if p.limit > 0 {
		opts = append(opts, retry.MaxDelay(p.limit))
	}
	if p.attempts == 0 {
		opts = append(opts, retry.WrapContextErrorWithLastError(true))
	}
	if p.final != nil {
		opts = append(opts, retry.RetryIf(func(err error) bool { return !errors.Is(err, p.final) }))
	}
	if p.hints {
		opts = append(opts, retry.DelayType(func(n uint, err error, c retry.DelayContext) time.Duration {
			if h, ok := errors.AsType[*hintError](err); ok {
				return h.after
			}
			return kind(n, err, c)
		}))
	}
	return opts
}
