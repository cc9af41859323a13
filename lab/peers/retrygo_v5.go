package peers

import (
	"context"
	"time"

	"github.com/avast/retry-go/v5"
)

// A Retrier can be shared, but it holds a context: who has one for every call,
// builds one for every call. The context is not handed on. A wait of 0 needs a
// timer, which can be a fake one.
var retryGoV5 = &Contestant{
	Name:      "retry-go-v5",
	Module:    "github.com/avast/retry-go/v5",
	new:       newRetryGoV5,
	markFinal: retry.Unrecoverable,
	delays:    &delays{draw: drawRetryGoV5},
	differs:   []*difference{perContext, callsCanceled, fakeTimer, startsTwice},
}

type policyOfRetryGoV5 struct{ options retry.Option }

func newRetryGoV5(p policy) caller {
	options := []retry.Option{
		retry.Attempts(uint(p.attempts)),
		retry.LastErrorOnly(true), // what the others return
	}
	if !p.marked {
		options = append(options, retry.RetryIf(func(err error) bool { return !isFinal(err) }))
	}
	switch p.wait {
	case exponential:
		options = append(options, exponentialV5)
	case 0:
		options = append(options, retry.Delay(0), retry.DelayType(retry.FixedDelay), retry.WithTimer(instant{}))
	default:
		options = append(options, retry.Delay(p.wait), retry.DelayType(retry.FixedDelay))
	}
	return policyOfRetryGoV5{all(options...)}
}

var exponentialV5 = all(
	retry.Delay(initial), retry.MaxDelay(limit), retry.DelayType(retry.FullJitterBackoffDelay))

func (p policyOfRetryGoV5) static(ctx context.Context, n int, o *op) (err error) {
	r := retry.New(p.options, retry.Context(ctx))
	for range n {
		err = r.Do(o.err)
	}
	return err
}

func (p policyOfRetryGoV5) value(ctx context.Context, n int, o *op) (v int, err error) {
	r := retry.NewWithData[int](p.options, retry.Context(ctx))
	for range n {
		v, err = r.Do(o.value)
	}
	return v, err
}

func (p policyOfRetryGoV5) closure(ctxs [2]context.Context, n int, s *script) (err error) {
	for i := range n {
		ctx, calls := ctxs[i&1], 0
		err = retry.New(p.options, retry.Context(ctx)).Do(func() error {
			calls++
			return s.do(ctx, calls)
		})
	}
	return err
}

// drawRetryGoV5 calls the delay function itself. Do counts from 1, and so starts at
// twice the delay.
func drawRetryGoV5(n int, waits *[10]time.Duration) {
	var config retry.DelayContext
	_ = retry.New(retry.Attempts(2), exponentialV5, retry.WithTimer(instant{}),
		retry.DelayType(func(_ uint, _ error, c retry.DelayContext) time.Duration {
			config = c
			return 0
		})).Do(func() error { return errBoom })
	for range n {
		for i := range waits {
			waits[i] = retry.FullJitterBackoffDelay(uint(i), errBoom, config)
		}
	}
}
