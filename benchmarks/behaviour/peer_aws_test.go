package behaviour_test

import (
	"context"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go/middleware"
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
