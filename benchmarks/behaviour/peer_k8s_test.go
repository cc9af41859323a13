package behaviour_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
)

var k8sWait = &contestant{
	name:   "k8s-wait",
	module: "k8s.io/apimachinery",
	pkg:    "k8s.io/apimachinery/pkg/util/wait",
	setup:  "`ExponentialBackoffWithContext` with a `Backoff` of `Steps`, `Duration`, `Factor`, `Cap`, `Jitter: 0.5`; a retryable failure is `false, nil`, and as in client-go's `retry.OnError` its error is kept by the caller and returned when the steps are used up",
	prepare: func(p policy) call {
		return k8sRun(p, k8sBackoff(p))
	},
	zero:     func() call { return k8sRun(policy{}, wait.Backoff{}) },
	zeroName: "Backoff{}",
	waits: func(p policy, n int) []time.Duration {
		b := k8sBackoff(p)
		return sequence(n, func(int) time.Duration { return b.Step() })
	},
}

// k8sRun is the loop of client-go's retry.OnError, with a context.
func k8sRun(p policy, b wait.Backoff) call {
	return func(ctx context.Context, fn operation) error {
		var last error
		err := wait.ExponentialBackoffWithContext(ctx, b, func(ctx context.Context) (bool, error) {
			err := fn(ctx)
			if p.final != nil && errors.Is(err, p.final) {
				return false, err
			}
			last = err
			return err == nil, nil
		})
		if wait.Interrupted(err) && ctx.Err() == nil && last != nil {
			return last
		}
		return err
	}
}

func k8sBackoff(p policy) wait.Backoff {
	b := wait.Backoff{Duration: p.first, Factor: p.factor(), Cap: p.limit, Steps: p.attempts}
	if p.attempts == 0 {
		b.Steps = math.MaxInt32
	}
	if p.jitter {
		b.Jitter = 0.5
	}
	return b
}

// quietKubernetes keeps apimachinery from logging the panics that it passes on.
func quietKubernetes(t *testing.T) {
	t.Helper()
	handlers := runtime.PanicHandlers
	runtime.PanicHandlers = nil
	t.Cleanup(func() { runtime.PanicHandlers = handlers })
}
