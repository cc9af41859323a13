package retrykube

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/engine"
	"github.com/seed-5ff3c98e/retry/retryjob"
)

var errRequeue = retry.MarkPending(errors.New("retrykube: Result.Requeue"))

// Retries is the rate limiter of a queue that follows a policy. It implements
// workqueue.TypedRateLimiter. The zero Retries is ready to use, by one controller. It is
// safe for concurrent use, and must be neither changed nor copied after its first use.
type Retries[T comparable] struct {
	// Policy decides. nil means the zero Policy. Validate it when the program starts.
	Policy *retry.Policy

	// PolicyFor, if not nil, returns the policy for an item: see [retryjob.PolicyFor]. An item
	// without a policy is tried again after a second.
	PolicyFor func(item T) (*retry.Policy, error)

	items sync.Map // the retry.Decision about the last failure of each T
}

func (r *Retries[T]) decided(item T) (d retry.Decision) {
	v, _ := r.items.Load(item)
	d, _ = v.(retry.Decision) // zero if there is none
	return d
}

func (r *Retries[T]) stored(item T) retryjob.Stored {
	s := retryjob.Stored{Policy: r.Policy, Kind: fmt.Sprint(item), Protocol: classify, State: r.decided(item).State}
	if r.PolicyFor != nil {
		s.PolicyFor = func(string) (*retry.Policy, error) { return r.PolicyFor(item) }
	}
	return s
}

// When returns the wait that was decided for the item. AddRateLimited calls it.
// An item that has not failed waits as after a first failure.
func (r *Retries[T]) When(item T) time.Duration {
	if d := r.decided(item); d.Retry {
		return d.Delay
	}
	s := r.stored(item)
	p, _ := retryjob.PolicyFor(s.Kind, s.Policy, s.PolicyFor) // nil after an error
	return p.Delay(retry.State{Failures: 1})
}

// Forget ends the count of an item.
func (r *Retries[T]) Forget(item T) { r.items.Delete(item) }

// NumRequeues returns how many failures of the item were counted.
func (r *Retries[T]) NumRequeues(item T) int { return r.decided(item).State.Failures }

// Try runs fn for an item, see [retryjob.Stored.Attempt]. If again is true, call
// AddRateLimited with the item. If not, it has ended: with success if err is nil, else it was
// given up. err is the error of fn if again is true or err is Final. If fn was not called
// because ctx is done or PolicyFor has none, again is true, and err is the reason.
func (r *Retries[T]) Try(ctx context.Context, item T, fn func(context.Context) error) (again bool, err error) {
	s := r.stored(item)
	defer engine.Tell(ctx, &s)
	switch s.Attempt(ctx, fn) {
	case retryjob.Done, retryjob.Ended:
		r.Forget(item)
		return false, s.Decision.Err
	default: // Again, Handed and Refused
		r.items.Store(item, s.Decision)
		return true, s.Err
	}
}

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
		if err == nil || again && errors.Is(err, errRequeue) {
			return result, nil
		}
		if again && errors.As(err, new(*retryjob.HeldError)) { // nothing has failed
			return reconcile.Result{Requeue: true, Priority: result.Priority}, nil //nolint:staticcheck // deprecated, and keeps the State
		}
		if !again && !errors.Is(err, reconcile.TerminalError(nil)) {
			err = reconcile.TerminalError(err)
		}
		return reconcile.Result{Priority: result.Priority}, err
	})
}
