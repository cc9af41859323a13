package peers

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

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
