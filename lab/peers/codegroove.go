package peers

import (
	"context"
	"time"

	"github.com/codeGROOVE-dev/retry"
)

// A fork of retry-go v4: there is no policy but a list of options, from which every
// call builds a new one. The context is one of them, and is not handed on. A wait of
// 0 needs a timer, which can be a fake one.
var codegroove = &Contestant{
	Name:      "codegroove",
	Module:    "github.com/codeGROOVE-dev/retry",
	new:       newCodegroove,
	markFinal: retry.Unrecoverable,
	delays:    &delays{draw: drawCodegroove},
	differs:   []*difference{perCall, fakeTimer, startsTwice, keepsMark},
}

type policyOfCodegroove struct{ options retry.Option }

func newCodegroove(p policy) caller {
	options := []retry.Option{
		retry.Attempts(uint(p.attempts)),
		retry.LastErrorOnly(true), // what the others return
	}
	if !p.marked {
		options = append(options, retry.RetryIf(func(err error) bool { return !isFinal(err) }))
	}
	switch p.wait {
	case exponential:
		options = append(options, exponentialCodegroove)
	case 0:
		options = append(options, retry.Delay(0), retry.DelayType(retry.FixedDelay), retry.WithTimer(instant{}))
	default:
		options = append(options, retry.Delay(p.wait), retry.DelayType(retry.FixedDelay))
	}
	return policyOfCodegroove{all(options...)}
}

var exponentialCodegroove = all(
	retry.Delay(initial), retry.MaxDelay(limit), retry.DelayType(retry.FullJitterBackoffDelay))

func (p policyOfCodegroove) static(ctx context.Context, n int, o *op) (err error) {
	bound := retry.Context(ctx)
	for range n {
		err = retry.Do(o.err, p.options, bound)
	}
	return err
}

func (p policyOfCodegroove) value(ctx context.Context, n int, o *op) (v int, err error) {
	bound := retry.Context(ctx)
	for range n {
		v, err = retry.DoWithData(o.value, p.options, bound)
	}
	return v, err
}

func (p policyOfCodegroove) closure(ctxs [2]context.Context, n int, s *script) (err error) {
	for i := range n {
		ctx, calls := ctxs[i&1], 0
		err = retry.Do(func() error {
			calls++
			return s.do(ctx, calls)
		}, p.options, retry.Context(ctx))
	}
	return err
}

// drawCodegroove calls the delay function itself. The config that it takes is only
// handed to functions of that type. Do counts from 1, and so starts at twice the
// delay.
func drawCodegroove(n int, waits *[10]time.Duration) {
	var config *retry.Config
	_ = retry.Do(func() error { return errBoom }, retry.Attempts(2), exponentialCodegroove, retry.WithTimer(instant{}),
		retry.DelayType(func(_ uint, _ error, c *retry.Config) time.Duration {
			config = c
			return 0
		}))
	for range n {
		for i := range waits {
			waits[i] = retry.FullJitterBackoffDelay(uint(i), errBoom, config)
		}
	}
}
