package main

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	retryv4 "github.com/avast/retry-go/v4"
	retryv5 "github.com/avast/retry-go/v5"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	awsretry "github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go/middleware"
	backoffv5 "github.com/cenkalti/backoff/v5"
	backoffv7 "github.com/cenkalti/backoff/v7"
	codegroove "github.com/codeGROOVE-dev/retry"
	"github.com/eapache/go-resiliency/retrier"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/googleapis/gax-go/v2"
	goretry "github.com/sethvargo/go-retry"
	k8swait "k8s.io/apimachinery/pkg/util/wait"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrypool"
)

// operation is what is retried.
type operation func(context.Context) error

// call runs an operation, and once more if it fails. It is used by many goroutines
// at the same time.
type call func(context.Context, operation) error

// peer is a contestant. prepare makes what its API lets calls share; the rest is
// made by every call, as a user would have to.
type peer struct {
	name    string
	prepare func(wait time.Duration) call
}

var peers = []peer{
	{"hand", byHand},
	{"retry", byRetry},
	{"backoff-v5", byBackoffV5},
	{"backoff-v7", byBackoffV7},
	{"retry-go-v4", byRetryGoV4},
	{"retry-go-v5", byRetryGoV5},
	{"go-retry", byGoRetry},
	{"failsafe", byFailsafe},
	{"codegroove", byCodegroove},
	{"go-resiliency", byResiliency},
	{"k8s-wait", byK8sWait},
	{"gax", byGax},
	{"aws-sdk", byAWS},
}

func peerNames() []string {
	names := make([]string, len(peers))
	for i, p := range peers {
		names[i] = p.name
	}
	return names
}

func peerNamed(name string) (peer, error) {
	for _, p := range peers {
		if p.name == name {
			return p, nil
		}
	}
	return peer{}, fmt.Errorf("there is no contestant %q", name)
}

const attempts = 2

// all makes one option of those that do not depend on the call.
func all[Config any, Option ~func(Config)](options ...Option) Option {
	return func(c Config) {
		for _, option := range options {
			option(c)
		}
	}
}

// byHand asks its context before every attempt and during every wait.
func byHand(wait time.Duration) call {
	return func(ctx context.Context, fn operation) error {
		var timer *time.Timer
		for attempt := 1; ; attempt++ {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			default:
			}
			err := fn(ctx)
			if err == nil || attempt == attempts {
				return err
			}
			if timer == nil {
				timer = time.NewTimer(wait)
			} else {
				timer.Reset(wait)
			}
			select {
			case <-ctx.Done():
				timer.Stop()
				return context.Cause(ctx)
			case <-timer.C:
			}
		}
	}
}

func byRetry(wait time.Duration) call {
	p := &retry.Policy{MaxAttempts: attempts, Backoff: retry.Constant(wait), Jitter: retry.NoJitter}
	return func(ctx context.Context, fn operation) error { return p.Execute(ctx, fn) }
}

// A BackOff must not be shared. The library gives up after 15 minutes if it is not
// told otherwise.
func byBackoffV5(wait time.Duration) call {
	tries, forever := backoffv5.WithMaxTries(attempts), backoffv5.WithMaxElapsedTime(0)
	return func(ctx context.Context, fn operation) error {
		_, err := backoffv5.Retry(ctx, func() (struct{}, error) { return struct{}{}, fn(ctx) },
			backoffv5.WithBackOff(backoffv5.NewConstantBackOff(wait)), tries, forever)
		return err
	}
}

func byBackoffV7(wait time.Duration) call {
	tries, forever := backoffv7.WithMaxTries(attempts), backoffv7.WithMaxElapsedTime(0)
	return func(ctx context.Context, fn operation) error {
		_, err := backoffv7.Retry(ctx, func() (struct{}, error) { return struct{}{}, fn(ctx) },
			backoffv7.WithBackOff(backoffv7.NewConstantBackOff(wait)), tries, forever)
		return err
	}
}

func byRetryGoV4(wait time.Duration) call {
	options := all(retryv4.Attempts(attempts), retryv4.Delay(wait), retryv4.DelayType(retryv4.FixedDelay), retryv4.LastErrorOnly(true))
	return func(ctx context.Context, fn operation) error {
		return retryv4.Do(func() error { return fn(ctx) }, options, retryv4.Context(ctx))
	}
}

// A Retrier is bound to a context, so that every call needs its own.
func byRetryGoV5(wait time.Duration) call {
	options := all(retryv5.Attempts(attempts), retryv5.Delay(wait), retryv5.DelayType(retryv5.FixedDelay), retryv5.LastErrorOnly(true))
	return func(ctx context.Context, fn operation) error {
		return retryv5.New(options, retryv5.Context(ctx)).Do(func() error { return fn(ctx) })
	}
}

// A Backoff counts, and so must not be shared.
func byGoRetry(wait time.Duration) call {
	return func(ctx context.Context, fn operation) error {
		backoff := goretry.WithMaxRetries(attempts-1, goretry.NewConstant(wait))
		return goretry.Do(ctx, backoff, func(ctx context.Context) error { return goretry.RetryableError(fn(ctx)) })
	}
}

func byFailsafe(wait time.Duration) call {
	policy := retrypolicy.NewBuilder[any]().WithMaxAttempts(attempts).WithDelay(wait).Build()
	executor := failsafe.With(policy)
	return func(ctx context.Context, fn operation) error {
		return executor.WithContext(ctx).Run(func() error { return fn(ctx) })
	}
}

func byCodegroove(wait time.Duration) call {
	options := all(codegroove.Attempts(attempts), codegroove.Delay(wait), codegroove.DelayType(codegroove.FixedDelay), codegroove.LastErrorOnly(true))
	return func(ctx context.Context, fn operation) error {
		return codegroove.Do(func() error { return fn(ctx) }, options, codegroove.Context(ctx))
	}
}

func byResiliency(wait time.Duration) call {
	r := retrier.New(retrier.ConstantBackoff(attempts-1, wait), nil)
	return func(ctx context.Context, fn operation) error { return r.RunCtx(ctx, fn) }
}

func byK8sWait(wait time.Duration) call {
	backoff := k8swait.Backoff{Duration: wait, Steps: attempts}
	return func(ctx context.Context, fn operation) error {
		return k8swait.ExponentialBackoffWithContext(ctx, backoff, func(ctx context.Context) (bool, error) {
			return fn(ctx) == nil, nil // an error would end it
		})
	}
}

func byGax(wait time.Duration) call {
	option := gax.WithRetry(func() gax.Retryer { return &once{wait: wait} })
	return func(ctx context.Context, fn operation) error {
		return gax.Invoke(ctx, func(ctx context.Context, _ gax.CallSettings) error { return fn(ctx) }, option)
	}
}

// once is a Retryer, because those of gax count no attempts, and wait for a random
// time.
type once struct {
	wait time.Duration
	done bool
}

// Retry implements [gax.Retryer].
func (o *once) Retry(error) (time.Duration, bool) {
	again := !o.done
	o.done = true
	return o.wait, again
}

// byAWS runs the SDK's loop, which is a middleware of its clients, without the rest
// of a client.
func byAWS(wait time.Duration) call {
	retryer := awsretry.NewStandard(func(o *awsretry.StandardOptions) {
		o.MaxAttempts = attempts
		o.RateLimiter = ratelimit.None
		o.Backoff = awsretry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return wait, nil })
		o.Retryables = []awsretry.IsErrorRetryable{
			awsretry.IsErrorRetryableFunc(func(error) aws.Ternary { return aws.TrueTernary }),
		}
	})
	loop := awsretry.NewAttemptMiddleware(retryer, func(request any) any { return request })
	return func(ctx context.Context, fn operation) error {
		_, _, err := loop.HandleFinalize(ctx, middleware.FinalizeInput{}, middleware.FinalizeHandlerFunc(
			func(ctx context.Context, _ middleware.FinalizeInput) (
				out middleware.FinalizeOutput, meta middleware.Metadata, err error,
			) {
				return out, meta, fn(ctx)
			}))
		return err
	}
}

// onlyOurs is because the others have no pool.
func onlyOurs() []string { return []string{"retry"} }

// poolUnder measures the memory of n tasks that wait for their retry, each with the
// context that next makes of their parent.
func poolUnder(next func(parent context.Context) context.Context) func(string, int) ([]figure, error) {
	return func(_ string, n int) ([]figure, error) {
		parent, cancel := context.WithCancel(context.Background())
		defer cancel()
		contexts := make([]context.Context, n)
		for i := range contexts {
			contexts[i] = next(parent) //nolint:fatcontext // not nested
			_ = contexts[i].Done()     // made when it is asked for
		}
		bytes, err := pool(contexts)
		return []figure{{bytes, "B/task"}}, err
	}
}

func noContext(context.Context) context.Context { return context.Background() }

func sharedContext(parent context.Context) context.Context { return parent }

func ownContext(parent context.Context) context.Context {
	ctx, cancel := context.WithCancel(parent)
	_ = cancel // it ends with its parent
	return ctx
}

var hourly = &retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(time.Hour), Jitter: retry.NoJitter}

// pool returns the bytes of a task under each of the contexts.
func pool(contexts []context.Context) (float64, error) {
	before, _ := memory()
	p := &retrypool.Pool{Policy: hourly}
	var calls atomic.Int64
	fail := func(context.Context) error { calls.Add(1); return errFailed }
	for _, ctx := range contexts {
		if _, err := p.Submit(ctx, fail); err != nil {
			return 0, err
		}
	}
	if err := settlePool(p); err != nil {
		return 0, err
	}
	after, _ := memory()
	n := len(contexts)
	left, err := p.Close(context.Background())
	if err != nil {
		return 0, err
	}
	runtime.KeepAlive(contexts)
	if calls.Load() != int64(n) || len(left) != n {
		return 0, fmt.Errorf("%d calls of %d, of which %d waited", calls.Load(), n, len(left))
	}
	return (after - before) / float64(n), nil
}

// settlePool returns when everything that was submitted has been run: as many more
// tasks as there are workers have, and each came after all of those.
func settlePool(p *retrypool.Pool) error {
	for range runtime.GOMAXPROCS(0) {
		t, err := p.Submit(context.Background(), func(context.Context) error { return nil })
		if err != nil {
			return err
		}
		if err := t.Wait(context.Background()); err != nil {
			return err
		}
	}
	return nil
}
