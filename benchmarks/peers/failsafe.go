package peers

import (
	"context"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
)

// A policy is shared, and is made for one type of result. The context is put into a
// copy of its executor, and is handed on only inside an Execution, which costs more
// than to capture it. A wait of 0 is a timer of 0. Waits are computed inside a call
// only.
var failsafeGo = &Contestant{
	Name:    "failsafe",
	Module:  "github.com/failsafe-go/failsafe-go",
	new:     newFailsafe,
	differs: []*difference{callsDead, timerForNothing},
}

type policyOfFailsafe struct {
	errs   failsafe.Executor[any]
	values failsafe.Executor[int]
}

func newFailsafe(p policy) caller {
	return policyOfFailsafe{newExecutor[any](p), newExecutor[int](p)}
}

func newExecutor[R any](p policy) failsafe.Executor[R] {
	b := retrypolicy.NewBuilder[R]().
		WithMaxAttempts(p.attempts).
		AbortIf(func(_ R, err error) bool { return isFinal(err) }).
		ReturnLastFailure() // what the others return
	if p.wait == exponential {
		b.WithBackoff(initial/2, limit/2).WithJitterFactor(1) // ±100 % of the half is full jitter
	} else {
		b.WithDelay(p.wait)
	}
	return failsafe.With(b.Build())
}

func (p policyOfFailsafe) static(ctx context.Context, n int, o *op) (err error) {
	errs := p.errs.WithContext(ctx)
	for range n {
		err = errs.Run(o.err)
	}
	return err
}

func (p policyOfFailsafe) value(ctx context.Context, n int, o *op) (v int, err error) {
	values := p.values.WithContext(ctx)
	for range n {
		v, err = values.Get(o.value)
	}
	return v, err
}

func (p policyOfFailsafe) closure(ctxs [2]context.Context, n int, s *script) (err error) {
	for i := range n {
		ctx, calls := ctxs[i&1], 0
		err = p.errs.WithContext(ctx).Run(func() error {
			calls++
			return s.do(ctx, calls)
		})
	}
	return err
}
