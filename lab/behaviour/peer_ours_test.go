package behaviour_test

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

var ours = &contestant{
	name:   "retry",
	module: "github.com/seed-5ff3c98e/retry",
	pkg:    "github.com/seed-5ff3c98e/retry",
	setup:  "`Policy` literal with `Exponential`, or `Constant`, and `FullJitter`, or `NoJitter`",
	prepare: func(p policy) call {
		return executor(ourPolicy(p))
	},
	defaults: func() call { return executor(&retry.Policy{}) },
	zero:     func() call { return executor(&retry.Policy{}) },
	zeroName: "Policy{}",
	waits: func(p policy, n int) []time.Duration {
		pol := ourPolicy(p)
		return sequence(n, func(i int) time.Duration { return pol.Delay(retry.State{Failures: i}) })
	},
	value: func(ctx context.Context, p policy, fn func() (int, error)) (int, error) {
		return retry.Do(ctx, ourPolicy(p), func(context.Context) (int, error) { return fn() })
	},
	timeout: func(p policy, d time.Duration) call {
		pol := ourPolicy(p)
		pol.AttemptTimeout = d
		return executor(pol)
	},
	elapsed: func(p policy, d time.Duration) call {
		pol := ourPolicy(p)
		pol.MaxElapsed = d
		return executor(pol)
	},
	whole: func(p policy, d time.Duration) call {
		pol := ourPolicy(p)
		pol.Timeout = d
		return executor(pol)
	},
	reason: func(err error) string {
		if e, ok := errors.AsType[*retry.Error](err); ok {
			return e.Stop.Error()
		}
		return "the error itself"
	},
	budget: func(p policy) call {
		pol := ourPolicy(p)
		pol.Budget = &retry.Budget{}
		return executor(pol)
	},
	perError: func(limits map[error]int) call {
		pol := ourPolicy(policy{attempts: 10})
		pol.Overrides = map[string]retry.Override{}
		for err, n := range limits {
			pol.Overrides[err.Error()] = retry.Override{MaxAttempts: n}
		}
		pol.Classifier = func(err error) retry.Verdict { return retry.Verdict{Category: err.Error()} }
		return executor(pol)
	},
	observe: func(p policy, tell func(event)) call {
		pol := ourPolicy(p)
		pol.Observer = &retry.Observer{Event: func(_ context.Context, e retry.Event) {
			tell(event{attempt: e.Attempt, delay: e.Delay, err: e.Err, end: e.Kind != retry.Retrying})
		}}
		return executor(pol)
	},
	decide: func(p policy) (func(int, error) (time.Duration, bool), string) {
		pol := ourPolicy(p)
		return func(failures int, err error) (time.Duration, bool) {
			d := pol.Next(retry.State{Failures: failures - 1}, err, time.Now())
			return d.Delay, d.Retry
		}, "Policy.Next(state, err, now)"
	},
	clock: func(p policy, waited func(time.Duration)) call {
		pol, clock := ourPolicy(p), &retrytest.Clock{}
		pol.Clock = clock
		return func(ctx context.Context, fn operation) error {
			start := clock.Now()
			err := pol.Execute(ctx, fn)
			waited(clock.Now().Sub(start))
			return err
		}
	},
	mark:   retry.MarkFinal,
	hinted: retry.MarkRateLimited,
}

func executor(p *retry.Policy) call {
	return func(ctx context.Context, fn operation) error { return p.Execute(ctx, fn) }
}

func ourPolicy(p policy) *retry.Policy {
	pol := &retry.Policy{
		MaxAttempts: p.attempts,
		MaxDelay:    p.ceiling(),
		Jitter:      retry.NoJitter,
		Backoff:     retry.Exponential{Initial: p.first, Multiplier: p.factor()},
	}
	if p.attempts == 0 {
		pol.MaxAttempts = retry.Unlimited
	}
	if p.limit == 0 {
		pol.MaxDelay = math.MaxInt64
		pol.MaxRetryAfter = time.Minute
	}
	if p.first == 0 || p.growth == 1 {
		pol.Backoff = retry.Constant(p.first)
	}
	if p.jitter {
		pol.Jitter = retry.FullJitter
	}
	if p.final != nil {
		pol.Classifier = retry.On(retry.Final, p.final)
	}
	return pol
}
