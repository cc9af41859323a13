package retrykube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/seed-5ff3c98e/retry"
)

var errRequeue = retry.MarkPending(errors.New("retrykube: Result.Requeue"))

// Retries is the rate limiter of a queue that follows a policy. It implements
// workqueue.TypedRateLimiter. Make one with [New], for one controller. It is safe for
// concurrent use.
type Retries[T comparable] struct {
	policy *retry.Policy

	mu    sync.Mutex
	items map[T]entry
}

// entry is an item that has failed.
type entry struct {
	state retry.State
	delay time.Duration // decided
}

// New returns the Retries of p; nil means the zero Policy. The error says what is wrong
// with p.
func New[T comparable](p *retry.Policy) (*Retries[T], error) {
	if p == nil {
		p = &retry.Policy{}
	}
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("retrykube: %w", err)
	}
	return &Retries[T]{policy: p, items: map[T]entry{}}, nil
}

// When returns the wait that was decided for the item. It is asked by AddRateLimited.
// An item that has not failed waits as after a first failure.
func (r *Retries[T]) When(item T) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e, failed := r.items[item]; failed {
		return e.delay
	}
	return r.policy.Delay(retry.State{Failures: 1})
}

// Forget ends the count of an item.
func (r *Retries[T]) Forget(item T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.items, item)
}

// NumRequeues returns how many failures of the item were counted.
func (r *Retries[T]) NumRequeues(item T) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.items[item].state.Failures
}

// Try runs fn for an item. If again is true, call AddRateLimited with the item, else it
// has ended: well if err is nil, and given up otherwise. err is that of fn if again is
// true or it is Final. What a canceled ctx has ended is not counted, with the exceptions
// of [retry.Call.Interrupted]: a deadline of ctx is one of the attempt, which has failed.
func (r *Retries[T]) Try(ctx context.Context, item T, fn func(context.Context) error) (again bool, err error) {
	defer func() {
		if v := recover(); v != nil { // of a function of the policy
			r.Forget(item)
			again, err = false, retry.MarkFinal(panicked(v))
		}
	}()
	r.mu.Lock()
	call := retry.Call{Policy: r.policy, State: r.items[item].state, Stored: true}
	r.mu.Unlock()
	if d, exhausted := call.Exhausted(ctx); exhausted {
		r.Forget(item)
		return false, d.Err
	}
	if !call.Begin(ctx) {
		return true, cmp.Or(call.Err(), context.Cause(ctx))
	}
	err = run(call.Context(), fn) //nolint:contextcheck // of the attempt, a child of ctx
	if call.Interrupted(err) {
		return true, err
	}
	d := call.End(err)
	if !d.Retry {
		r.Forget(item)
		return false, d.Err
	}
	r.mu.Lock()
	r.items[item] = entry{d.State, d.Delay}
	r.mu.Unlock()
	return true, err
}

// run runs fn. A panic is an error that ends the item.
func run(ctx context.Context, fn func(context.Context) error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = retry.MarkFinal(panicked(r))
		}
	}()
	return fn(ctx)
}

// panicked returns the error of a panic.
func panicked(r any) error { return fmt.Errorf("panic: %v\n\n%s", r, debug.Stack()) }

// Reconciler returns a reconciler that runs next under the policy.
func (r *Retries[T]) Reconciler(next reconcile.TypedReconciler[T]) reconcile.TypedReconciler[T] {
	return reconcile.TypedFunc[T](func(ctx context.Context, item T) (result reconcile.Result, err error) {
		again, err := r.Try(ctx, item, func(ctx context.Context) error {
			result, err = next.Reconcile(ctx, item)
			switch {
			case errors.Is(err, reconcile.TerminalError(nil)):
				return retry.MarkFinal(err)
			case err == nil && result.Requeue && result.RequeueAfter == 0: //nolint:staticcheck // deprecated, and used
				return errRequeue
			default:
				return err
			}
		})
		switch {
		case err == nil || again && errors.Is(err, errRequeue):
			return result, nil
		case again || errors.Is(err, reconcile.TerminalError(nil)):
			return reconcile.Result{Priority: result.Priority}, err
		default:
			return reconcile.Result{Priority: result.Priority}, reconcile.TerminalError(err)
		}
	})
}
