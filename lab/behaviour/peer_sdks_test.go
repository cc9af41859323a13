package behaviour_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go/middleware"
	"github.com/googleapis/gax-go/v2"
	"k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
)

var awsSDK = &contestant{
	name:   "aws-sdk",
	module: "github.com/aws/aws-sdk-go-v2",
	pkg:    "github.com/aws/aws-sdk-go-v2/aws/retry",
	setup:  "`NewAttemptMiddleware` around the operation, with `NewStandard`: `MaxAttempts`, `MaxBackoff`, a `Retryables` that takes any error; where exact waits are asked for, a `BackoffDelayerFunc`. The quota is off (`ratelimit.None`) but where it is asked for",
	prepare: func(p policy) call {
		return awsRun(awsRetryer(p, true))
	},
	defaults: func() call {
		return awsRun(retry.NewStandard(func(o *retry.StandardOptions) { retryAll(o, nil) }))
	},
	waits: func(p policy, n int) []time.Duration {
		p.jitter = true // otherwise they were ours
		r := awsRetryer(p, true)
		return sequence(n, func(i int) time.Duration {
			d, _ := r.RetryDelay(i, errOp)
			return d
		})
	},
	reason: func(err error) string {
		if _, ok := errors.AsType[*retry.MaxAttemptsError](err); ok {
			return "MaxAttemptsError"
		}
		if _, ok := errors.AsType[*aws.RequestCanceledError](err); ok {
			return "RequestCanceledError"
		}
		return "the error itself"
	},
	budget: func(p policy) call { return awsRun(awsRetryer(p, false)) },
	decide: func(p policy) (func(int, error) (time.Duration, bool), string) {
		r := awsRetryer(p, true)
		return func(failures int, err error) (time.Duration, bool) {
			d, _ := r.RetryDelay(failures, err)
			return d, r.IsErrorRetryable(err) && failures < r.MaxAttempts()
		}, "MaxAttempts, IsErrorRetryable(err) and RetryDelay(attempt, err)"
	},
	observe: func(p policy, tell func(event)) call {
		// The results of the attempts are handed over when the call has ended.
		attempt := retry.NewAttemptMiddleware(awsRetryer(p, true), sameRequest)
		return func(ctx context.Context, fn operation) error {
			_, metadata, err := attempt.HandleFinalize(ctx, middleware.FinalizeInput{}, finalizer(fn))
			results, _ := retry.GetAttemptResults(metadata)
			for i, r := range results.Results {
				tell(event{attempt: i + 1, delay: -1, err: r.Err, end: !r.Retried})
			}
			return err
		}
	},
	hinted:  newHint,
	ownHint: true,
}

func sameRequest(r any) any { return r }

func finalizer(fn operation) middleware.FinalizeHandlerFunc {
	return func(ctx context.Context, _ middleware.FinalizeInput) (out middleware.FinalizeOutput, md middleware.Metadata, err error) {
		return out, md, fn(ctx)
	}
}

func awsRun(r aws.Retryer) call {
	attempt := retry.NewAttemptMiddleware(r, sameRequest)
	return func(ctx context.Context, fn operation) error {
		_, _, err := attempt.HandleFinalize(ctx, middleware.FinalizeInput{}, finalizer(fn))
		return err
	}
}

// retryAll makes every error but one retryable.
func retryAll(o *retry.StandardOptions, final error) {
	o.Retryables = []retry.IsErrorRetryable{retry.IsErrorRetryableFunc(func(err error) aws.Ternary {
		return aws.BoolTernary(final == nil || !errors.Is(err, final))
	})}
}

func awsRetryer(p policy, noQuota bool) aws.Retryer {
	s := retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts = p.attempts
		o.MaxBackoff = p.ceiling()
		if noQuota {
			o.RateLimiter = ratelimit.None
		}
		retryAll(o, p.final)
		if p.jitter && !p.hints {
			return
		}
		o.Backoff = retry.BackoffDelayerFunc(func(attempt int, err error) (time.Duration, error) {
			if h, ok := errors.AsType[*hintError](err); ok && p.hints {
				return h.after, nil
			}
			if p.first == 0 {
				return 0, nil
			}
			return p.exact(attempt), nil
		})
	})
	if p.attempts == 0 {
		return retry.AddWithMaxAttempts(s, 0)
	}
	return s
}

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

var k8sWait = &contestant{
	name:   "k8s-wait",
	module: "k8s.io/apimachinery",
	pkg:    "k8s.io/apimachinery/pkg/util/wait",
	setup:  "`ExponentialBackoffWithContext` with a `Backoff` of `Steps`, `Duration`, `Factor`, `Cap`, `Jitter: 0.5`; a retryable failure is `false, nil`, and as in client-go's `retry.OnError` its error is kept by the caller and returned when the steps are used up",
	prepare: func(p policy) call {
		return k8sRun(p, k8sBackoff(p))
	},
	zero:     func() call { return k8sRun(policy{}, wait.Backoff{}) },
	zeroName: "Backoff{}",
	waits: func(p policy, n int) []time.Duration {
		b := k8sBackoff(p)
		return sequence(n, func(int) time.Duration { return b.Step() })
	},
}

// k8sRun is the loop of client-go's retry.OnError, with a context.
func k8sRun(p policy, b wait.Backoff) call {
	return func(ctx context.Context, fn operation) error {
		var last error
		err := wait.ExponentialBackoffWithContext(ctx, b, func(ctx context.Context) (bool, error) {
			err := fn(ctx)
			if p.final != nil && errors.Is(err, p.final) {
				return false, err
			}
			last = err
			return err == nil, nil
		})
		if wait.Interrupted(err) && ctx.Err() == nil && last != nil {
			return last
		}
		return err
	}
}

func k8sBackoff(p policy) wait.Backoff {
	b := wait.Backoff{Duration: p.first, Factor: p.factor(), Cap: p.limit, Steps: p.attempts}
	if p.attempts == 0 {
		b.Steps = math.MaxInt32
	}
	if p.jitter {
		b.Jitter = 0.5
	}
	return b
}

// quietKubernetes keeps apimachinery from logging the panics that it passes on.
func quietKubernetes(t *testing.T) {
	t.Helper()
	handlers := runtime.PanicHandlers
	runtime.PanicHandlers = nil
	t.Cleanup(func() { runtime.PanicHandlers = handlers })
}
