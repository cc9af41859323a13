package peers

import (
	"context"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go/middleware"
	"github.com/googleapis/gax-go/v2"
)

// The loop is a middleware of the SDK's clients, which is shared; it is run here
// without the rest of the stack, and with whatever can be switched off switched
// off. The context is a parameter of the call and handed on. A wait of 0 is a
// timer of 0.
var awsSDK = &Contestant{
	Name:      "aws-sdk",
	Module:    "github.com/aws/aws-sdk-go-v2",
	new:       newAWS,
	markFinal: func(err error) error { return markedError{err} },
	delays: &delays{
		draw: drawAWS,
		bounds: func(i int) (lo, hi time.Duration) {
			if d := time.Second << i; d < limit {
				return 0, d
			}
			return limit, limit
		},
		note: "starts at 1 s; no jitter at the cap; cryptographic randomness",
	},
	differs: []*difference{timerForNothing, wrapsLast, keepsMark},
}

// markedError says that it is final to the stock check, retry.RetryableError.
type markedError struct{ error }

func (markedError) RetryableError() bool { return false }
func (e markedError) Unwrap() error      { return e.error }

type policyOfAWS struct{ *retry.Attempt }

func newAWS(p policy) caller {
	retryer := retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts = p.attempts
		o.Retryables = []retry.IsErrorRetryable{retry.IsErrorRetryableFunc(func(err error) aws.Ternary {
			return aws.BoolTernary(p.marked || !isFinal(err))
		})}
		if p.marked {
			o.Retryables = slices.Insert(o.Retryables, 0, retry.IsErrorRetryable(retry.RetryableError{}))
		}
		o.Throttles = nil
		o.BaseDelay = time.Second // as for throttles; others wait 50 ms at first
		o.RateLimiter = ratelimit.None
		o.MaxBackoff = limit
		if p.wait != exponential {
			o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return p.wait, nil })
		}
	})
	same := func(request any) any { return request }
	return policyOfAWS{retry.NewAttemptMiddleware(retryer, same, func(a *retry.Attempt) {
		a.DisableClockSkewCorrection = true
	})}
}

// operation is what the middleware calls.
type operation = middleware.FinalizeHandlerFunc

func (p policyOfAWS) static(ctx context.Context, n int, o *op) (err error) {
	call := operation(func(ctx context.Context, _ middleware.FinalizeInput) (
		out middleware.FinalizeOutput, meta middleware.Metadata, err error,
	) {
		return out, meta, o.errCtx(ctx)
	})
	for range n {
		_, _, err = p.HandleFinalize(ctx, middleware.FinalizeInput{}, call)
	}
	return err
}

func (p policyOfAWS) value(ctx context.Context, n int, o *op) (v int, err error) {
	call := operation(func(ctx context.Context, _ middleware.FinalizeInput) (
		out middleware.FinalizeOutput, meta middleware.Metadata, err error,
	) {
		out.Result, err = o.valueCtx(ctx)
		return out, meta, err
	})
	for range n {
		var out middleware.FinalizeOutput
		out, _, err = p.HandleFinalize(ctx, middleware.FinalizeInput{}, call)
		v, _ = out.Result.(int)
	}
	return v, err
}

func (p policyOfAWS) closure(ctxs [2]context.Context, n int, s *script) (err error) {
	for i := range n {
		calls := 0
		call := operation(func(ctx context.Context, _ middleware.FinalizeInput) (
			out middleware.FinalizeOutput, meta middleware.Metadata, err error,
		) {
			calls++
			return out, meta, s.do(ctx, calls)
		})
		_, _, err = p.HandleFinalize(ctxs[i&1], middleware.FinalizeInput{}, call)
	}
	return err
}

func drawAWS(n int, waits *[10]time.Duration) {
	b := retry.NewExponentialJitterBackoff(limit)
	for range n {
		for i := range waits {
			waits[i], _ = b.BackoffDelay(i, errBoom) // crypto/rand does not fail
		}
	}
}

// Every call that fails makes a Retryer. The stock ones know no limit of attempts
// and no wait without jitter, so there is one here. The context is a parameter of
// the call and handed on. A wait of 0 is a timer of 0. Results are captured.
var gaxGo = &Contestant{
	Name:    "gax",
	Module:  "github.com/googleapis/gax-go/v2",
	new:     newGax,
	delays:  &delays{draw: drawGax},
	differs: []*difference{countsItself, callsDead, callsCanceled, timerForNothing},
}

type policyOfGax struct{ options []gax.CallOption }

func newGax(p policy) caller {
	return policyOfGax{[]gax.CallOption{gax.WithRetry(func() gax.Retryer {
		return &countingRetryer{policy: p, left: p.attempts, backoff: exponentialGax}
	})}}
}

var exponentialGax = gax.Backoff{Initial: initial, Max: limit, Multiplier: 2}

type countingRetryer struct {
	policy
	left    int
	backoff gax.Backoff
}

// Retry implements gax.Retryer.
func (r *countingRetryer) Retry(err error) (time.Duration, bool) {
	r.left--
	if r.left == 0 || isFinal(err) {
		return 0, false
	}
	if r.wait == exponential {
		return r.backoff.Pause(), true
	}
	return r.wait, true
}

func (p policyOfGax) static(ctx context.Context, n int, o *op) (err error) {
	call := func(ctx context.Context, _ gax.CallSettings) error { return o.errCtx(ctx) }
	for range n {
		err = gax.Invoke(ctx, call, p.options...)
	}
	return err
}

func (p policyOfGax) value(ctx context.Context, n int, o *op) (v int, err error) {
	for range n {
		err = gax.Invoke(ctx, func(ctx context.Context, _ gax.CallSettings) (err error) {
			v, err = o.valueCtx(ctx)
			return err
		}, p.options...)
	}
	return v, err
}

func (p policyOfGax) closure(ctxs [2]context.Context, n int, s *script) (err error) {
	for i := range n {
		calls := 0
		err = gax.Invoke(ctxs[i&1], func(ctx context.Context, _ gax.CallSettings) error {
			calls++
			return s.do(ctx, calls)
		}, p.options...)
	}
	return err
}

func drawGax(n int, waits *[10]time.Duration) {
	for range n {
		b := exponentialGax
		for i := range waits {
			waits[i] = b.Pause()
		}
	}
}
