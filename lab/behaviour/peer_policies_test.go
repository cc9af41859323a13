package behaviour_test

import (
	"context"
	"errors"
	"time"

	"github.com/eapache/go-resiliency/retrier"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/budget"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/failsafe-go/failsafe-go/timeout"
)

var failsafeGo = &contestant{
	name:   "failsafe",
	module: "github.com/failsafe-go/failsafe-go",
	pkg:    "github.com/failsafe-go/failsafe-go/retrypolicy",
	setup:  "`retrypolicy.NewBuilder` with `WithMaxAttempts`, `WithBackoffFactor`, `WithJitterFactor(0.5)`, `AbortOnErrors` for what is final; run by `failsafe.With(policy).WithContext(ctx)`",
	prepare: func(p policy) call {
		return failsafeRun(failsafePolicy(p).Build())
	},
	defaults: func() call { return failsafeRun(retrypolicy.NewWithDefaults[any]()) },
	waits: func(p policy, n int) (waits []time.Duration) {
		// It tells a wait when it begins: the last is not waited for.
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		p.attempts = 0
		b := failsafePolicy(p).OnRetryScheduled(func(e failsafe.ExecutionScheduledEvent[any]) {
			if waits = append(waits, e.Delay); len(waits) == n {
				cancel()
			}
		})
		_ = failsafeRun(b.Build())(ctx, func(context.Context) error { return errOp })
		return waits
	},
	// Fast enough to come to the largest duration within the years of a bubble.
	overflowGrowth: 10,
	value: func(ctx context.Context, p policy, fn func() (int, error)) (int, error) {
		pol := retrypolicy.NewBuilder[int]().WithMaxAttempts(p.attempts).Build()
		return failsafe.With[int](pol).WithContext(ctx).Get(fn)
	},
	timeout: func(p policy, d time.Duration) call {
		return failsafeRun(failsafePolicy(p).Build(), timeout.New[any](d))
	},
	elapsed: func(p policy, d time.Duration) call {
		return failsafeRun(failsafePolicy(p).WithMaxDuration(d).Build())
	},
	whole: func(p policy, d time.Duration) call {
		return failsafeRun(timeout.New[any](d), failsafePolicy(p).Build())
	},
	reason: func(err error) string {
		if retrypolicy.IsExceededError(err) {
			return "exceeded"
		}
		return "the error itself"
	},
	budget: func(p policy) call {
		return failsafeRun(failsafePolicy(p).WithBudget(budget.New()).Build())
	},
	perError: func(limits map[error]int) call {
		var policies []failsafe.Policy[any]
		for err, n := range limits {
			policies = append(policies, retrypolicy.NewBuilder[any]().HandleErrors(err).
				AbortOnErrors(retrypolicy.ErrExceeded).WithMaxAttempts(n).Build())
		}
		return failsafeRun(policies...)
	},
	observe: func(p policy, tell func(event)) call {
		return failsafeRun(failsafePolicy(p).
			OnRetryScheduled(func(e failsafe.ExecutionScheduledEvent[any]) {
				tell(event{attempt: e.Attempts(), delay: e.Delay, err: e.LastError()})
			}).
			OnRetriesExceeded(func(e failsafe.ExecutionEvent[any]) {
				tell(event{attempt: e.Attempts(), err: e.LastError(), end: true})
			}).Build())
	},
	hinted:  newHint,
	ownHint: true,
}

func failsafeRun(policies ...failsafe.Policy[any]) call {
	executor := failsafe.With(policies...)
	return func(ctx context.Context, fn operation) error {
		return executor.WithContext(ctx).RunWithExecution(func(e failsafe.Execution[any]) error {
			return fn(e.Context())
		})
	}
}

func failsafePolicy(p policy) retrypolicy.Builder[any] {
	b := retrypolicy.NewBuilder[any]().WithMaxAttempts(p.attempts)
	if p.attempts == 0 {
		b = b.WithMaxAttempts(-1)
	}
	switch {
	case p.first == 0:
	case p.growth == 1:
		b = b.WithDelay(p.first)
	default:
		b = b.WithBackoffFactor(p.first, p.ceiling(), p.factor())
	}
	if p.jitter {
		b = b.WithJitterFactor(0.5)
	}
	if p.final != nil {
		b = b.AbortOnErrors(p.final)
	}
	if p.hints {
		b = b.WithDelayFunc(func(e failsafe.ExecutionAttempt[any]) time.Duration {
			if h, ok := errors.AsType[*hintError](e.LastError()); ok {
				return h.after
			}
			return -1
		})
	}
	return b
}

var goResiliency = &contestant{
	name:   "go-resiliency",
	module: "github.com/eapache/go-resiliency",
	pkg:    "github.com/eapache/go-resiliency/retrier",
	setup:  "`retrier.New` with `LimitedExponentialBackoff` or `ExponentialBackoff`, `SetJitter(0.5)`, a `BlacklistClassifier` for what is final; `RunCtx`. `WithSurfaceWorkErrors` where the operation's error is asked for",
	prepare: func(p policy) call {
		return resiliencyRetrier(p).runCtx
	},
	waits: func(p policy, n int) []time.Duration {
		if p.jitter {
			p.attempts = n + 1
			return measure(resiliencyRetrier(p).runCtx)
		}
		return resiliencyWaits(p, n)
	},
}

type resiliency struct{ *retrier.Retrier }

func (r resiliency) runCtx(ctx context.Context, fn operation) error { return r.RunCtx(ctx, fn) }

func resiliencyRetrier(p policy) resiliency {
	n := p.attempts - 1
	if p.attempts == 0 {
		n = 20
	}
	var class retrier.Classifier
	if p.final != nil {
		class = retrier.BlacklistClassifier{p.final}
	}
	r := retrier.New(resiliencyWaits(p, n), class)
	if p.attempts == 0 {
		r = r.WithInfiniteRetry()
	}
	if p.surface {
		r = r.WithSurfaceWorkErrors()
	}
	if p.jitter {
		r.SetJitter(0.5)
	}
	return resiliency{r}
}

func resiliencyWaits(p policy, n int) []time.Duration {
	switch {
	case p.first == 0 || p.growth == 1:
		return retrier.ConstantBackoff(n, p.first)
	case p.limit == 0:
		return retrier.ExponentialBackoff(n, p.first)
	default:
		return retrier.LimitedExponentialBackoff(n, p.first, p.limit)
	}
}
