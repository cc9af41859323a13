package peers

import (
	"context"

	"github.com/eapache/go-resiliency/retrier"
)

// A Retrier is shared; its jitter takes a lock. The context is a parameter of the
// call and handed on. A wait of 0 is a timer of 0. Results are captured. Waits are
// a list, and the jitter is drawn inside a call only.
var goResiliency = &Contestant{
	Name:    "go-resiliency",
	Module:  "github.com/eapache/go-resiliency",
	new:     newGoResiliency,
	differs: []*difference{callsDead, callsCanceled, timerForNothing},
}

type policyOfGoResiliency struct{ *retrier.Retrier }

func newGoResiliency(p policy) caller {
	waits := retrier.ConstantBackoff(p.attempts-1, p.wait)
	if p.wait == exponential {
		waits = retrier.LimitedExponentialBackoff(p.attempts-1, initial/2, limit/2)
	}
	r := retrier.New(waits, retrier.BlacklistClassifier{errFinal})
	if p.wait == exponential {
		r.SetJitter(1) // ±100 % of the half is full jitter
	}
	return policyOfGoResiliency{r}
}

func (p policyOfGoResiliency) static(ctx context.Context, n int, o *op) (err error) {
	for range n {
		err = p.RunCtx(ctx, o.errCtx)
	}
	return err
}

func (p policyOfGoResiliency) value(ctx context.Context, n int, o *op) (v int, err error) {
	for range n {
		err = p.RunCtx(ctx, func(ctx context.Context) (err error) {
			v, err = o.valueCtx(ctx)
			return err
		})
	}
	return v, err
}

func (p policyOfGoResiliency) closure(ctxs [2]context.Context, n int, s *script) (err error) {
	for i := range n {
		calls := 0
		err = p.RunCtx(ctxs[i&1], func(ctx context.Context) error {
			calls++
			return s.do(ctx, calls)
		})
	}
	return err
}
