package behaviour_test

import (
	"context"
	"errors"
	"time"

	"github.com/googleapis/gax-go/v2"
)

var gaxGo = &contestant{
	name:   "gax",
	module: "github.com/googleapis/gax-go/v2",
	pkg:    "github.com/googleapis/gax-go/v2",
	setup:  "`Invoke` with `WithRetry(func() Retryer)` and `OnErrorFunc`. It has no limit of attempts and no waits without jitter, so a `Retryer` of our own, which its documentation invites, counts and, where exact waits are asked for, replaces them",
	prepare: func(p policy) call {
		return gaxRun(func() gax.Retryer { return gaxRetryer(p) })
	},
	defaults: func() call {
		return gaxRun(func() gax.Retryer {
			return gax.OnErrorFunc(gax.Backoff{}, func(error) bool { return true })
		})
	},
	waits: func(p policy, n int) []time.Duration {
		b := gaxBackoff(p)
		return sequence(n, func(int) time.Duration { return b.Pause() })
	},
	elapsed: func(p policy, d time.Duration) call {
		return gaxRun(func() gax.Retryer { return gaxRetryer(p) }, gax.WithTimeout(d))
	},
	hinted:  newHint,
	ownHint: true,
}

func gaxRun(r func() gax.Retryer, opts ...gax.CallOption) call {
	opts = append(opts, gax.WithRetry(r))
	return func(ctx context.Context, fn operation) error {
		return gax.Invoke(ctx, func(ctx context.Context, _ gax.CallSettings) error { return fn(ctx) }, opts...)
	}
}

func gaxBackoff(p policy) gax.Backoff {
	b := gax.Backoff{Initial: p.first, Multiplier: p.factor(), Max: p.ceiling()}
	if p.first == 0 {
		b.Initial, b.Max = 1, 1
	}
	return b
}

// limitedRetryer counts the failures for an own Retryer of gax.
type limitedRetryer struct {
	p        policy
	own      gax.Retryer
	failures int
}

func gaxRetryer(p policy) gax.Retryer {
	return &limitedRetryer{p: p, own: gax.OnErrorFunc(gaxBackoff(p), func(err error) bool {
		return p.final == nil || !errors.Is(err, p.final)
	})}
}

func (r *limitedRetryer) Retry(err error) (time.Duration, bool) {
	r.failures++
	pause, again := r.own.Retry(err)
	if r.p.attempts > 0 && r.failures >= r.p.attempts {
		return 0, false
	}
	if h, ok := errors.AsType[*hintError](err); ok && r.p.hints {
		pause = h.after
	} else if !r.p.jitter && r.p.first > 0 {
		pause = r.p.exact(r.failures)
	}
	return pause, again
}
