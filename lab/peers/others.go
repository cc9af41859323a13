package peers

import (
	"context"
	"time"

	"github.com/eapache/go-resiliency/retrier"
	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"k8s.io/apimachinery/pkg/util/wait"
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

// A Backoff is a value that every call copies. The context is a parameter of the
// call and handed on. What to retry is not an error but "not done", and so is not
// returned in the end. A wait of 0 is a timer of 0. Results are captured.
var k8sWait = &Contestant{
	Name:      "k8s-wait",
	Module:    "k8s.io/apimachinery",
	new:       newK8sWait,
	markFinal: asItIs, // beside false
	delays: &delays{
		draw: drawK8sWait,
		bounds: func(i int) (lo, hi time.Duration) {
			d := min(initial<<i, limit)
			return d, 2 * d
		},
		note: "jitter of +0…100 %, which exceeds the cap",
	},
	differs: []*difference{timerForNothing, losesLast},
}

type policyOfK8sWait struct{ wait.Backoff }

func newK8sWait(p policy) caller {
	if p.wait == exponential {
		return policyOfK8sWait{exponentialK8s(p.attempts)}
	}
	return policyOfK8sWait{wait.Backoff{Steps: p.attempts, Duration: p.wait}}
}

func exponentialK8s(steps int) wait.Backoff {
	return wait.Backoff{Steps: steps, Duration: initial, Factor: 2, Jitter: 1, Cap: limit}
}

// doneOrFinal turns an error into what a condition returns.
func doneOrFinal(err error) (bool, error) {
	switch {
	case err == nil:
		return true, nil
	case isFinal(err):
		return false, err
	default:
		return false, nil
	}
}

func (p policyOfK8sWait) static(ctx context.Context, n int, o *op) (err error) {
	for range n {
		err = wait.ExponentialBackoffWithContext(ctx, p.Backoff, o.done)
	}
	return err
}

func (p policyOfK8sWait) value(ctx context.Context, n int, o *op) (v int, err error) {
	for range n {
		err = wait.ExponentialBackoffWithContext(ctx, p.Backoff, func(ctx context.Context) (bool, error) {
			var err error
			v, err = o.valueCtx(ctx)
			return doneOrFinal(err)
		})
	}
	return v, err
}

func (p policyOfK8sWait) closure(ctxs [2]context.Context, n int, s *script) (err error) {
	for i := range n {
		calls := 0
		err = wait.ExponentialBackoffWithContext(ctxs[i&1], p.Backoff, func(ctx context.Context) (bool, error) {
			calls++
			err := s.do(ctx, calls)
			if s.marked {
				return false, err
			}
			return doneOrFinal(err)
		})
	}
	return err
}

func drawK8sWait(n int, waits *[10]time.Duration) {
	for range n {
		b := exponentialK8s(len(waits))
		for i := range waits {
			waits[i] = b.Step()
		}
	}
}
