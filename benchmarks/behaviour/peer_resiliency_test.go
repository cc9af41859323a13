package behaviour_test

import (
	"context"
	"time"

	"github.com/eapache/go-resiliency/retrier"
)

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
