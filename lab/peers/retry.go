package peers

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// This library: one Policy for all goroutines, the context is a parameter of the
// call and handed on to the operation.
var ours = &Contestant{
	Name:      "retry",
	Module:    "github.com/seed-5ff3c98e/retry",
	new:       newOurs,
	markFinal: retry.MarkFinal,
	delays:    &delays{draw: drawOurs},
	differs:   []*difference{wrapsLast, keepsMark},
}

type policyOfOurs struct{ *retry.Policy }

func newOurs(p policy) caller {
	ours := &retry.Policy{MaxAttempts: p.attempts}
	if !p.marked {
		ours.Classifier = finalOrRetryable
	}
	if p.wait == exponential {
		ours.Backoff, ours.MaxDelay = retry.Exponential{Initial: initial}, limit
	} else {
		ours.Backoff, ours.Jitter = retry.Constant(p.wait), retry.NoJitter
	}
	return policyOfOurs{ours}
}

// finalOrRetryable has an opinion on every error, as the classifiers of the others
// have. Without an opinion, the library would look through the whole error.
func finalOrRetryable(err error) retry.Verdict {
	if isFinal(err) {
		return retry.Verdict{Class: retry.Final}
	}
	return retry.Verdict{Class: retry.Retryable}
}

func (p policyOfOurs) static(ctx context.Context, n int, o *op) (err error) {
	for range n {
		err = p.Execute(ctx, o.errCtx)
	}
	return err
}

func (p policyOfOurs) value(ctx context.Context, n int, o *op) (v int, err error) {
	for range n {
		v, err = retry.Do(ctx, p.Policy, o.valueCtx)
	}
	return v, err
}

func (p policyOfOurs) closure(ctxs [2]context.Context, n int, s *script) (err error) {
	for i := range n {
		calls := 0
		err = p.Execute(ctxs[i&1], func(ctx context.Context) error {
			calls++
			return s.do(ctx, calls)
		})
	}
	return err
}

// drawOurs uses the parts that a Policy draws its waits with, as the functions of
// the others are parts. Policy.Delay adds the defaults of a policy to them.
func drawOurs(n int, waits *[10]time.Duration) {
	backoff := retry.Exponential{Initial: initial}
	for range n {
		for i := range waits {
			d := min(backoff.Delay(i+1), limit)
			waits[i] = retry.FullJitter.Apply(d, limit, rand.Uint64())
		}
	}
}
