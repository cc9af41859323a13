package retrykube_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrykube"
)

var key = client.ObjectKey{Namespace: "x", Name: "x"}

func seconds(n int) *retry.Policy {
	return &retry.Policy{Backoff: retry.Constant(time.Duration(n) * time.Second), Jitter: retry.NoJitter, MaxRetryAfter: time.Hour}
}

// reconciles runs a controller for two minutes, with one event about key and others at the given
// times, and returns when its reconciler was called.
func reconciles(t *testing.T, p *retry.Policy, priority bool, next reconcile.Func, events ...time.Duration) (at []time.Duration) {
	t.Helper()
	begin, skip, request := time.Now(), true, reconcile.Request{NamespacedName: key}
	retries := &retrykube.Retries[reconcile.Request]{Policy: p}
	c, err := controller.NewTypedUnmanaged("x", controller.TypedOptions[reconcile.Request]{
		SkipNameValidation: &skip, RateLimiter: retries, UsePriorityQueue: &priority,
		Reconciler: retries.Reconciler(reconcile.Func(func(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
			at = append(at, time.Since(begin))
			return next(ctx, r)
		})),
	})
	require.NoError(t, err)
	require.NoError(t, c.Watch(source.TypedFunc[reconcile.Request](
		func(_ context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			queue.Add(request)
			for _, event := range events {
				time.AfterFunc(event, func() { queue.Add(request) })
			}
			return nil
		})))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	require.NoError(t, c.Start(ctx))
	return at
}

// store returns a client of which one ConfigMap is there, and the first write fails.
func store(failure error) client.Client {
	return fake.NewClientBuilder().
		WithObjects(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}).
		WithInterceptorFuncs(interceptor.Funcs{
			Update: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption) error {
				if err := failure; err != nil {
					failure = nil
					return err
				}
				return c.Update(ctx, o, options...)
			},
		}).Build()
}

// label is a reconciler that reads an object and writes it.
func label(api client.Client, read func(context.Context, *corev1.ConfigMap) error) reconcile.Func {
	return func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
		var o corev1.ConfigMap
		if err := read(ctx, &o); err != nil {
			return reconcile.Result{}, err
		}
		o.Labels = map[string]string{"done": "yes"}
		if err := api.Update(ctx, &o); err != nil {
			return reconcile.Result{}, fmt.Errorf("label: %w", err)
		}
		return reconcile.Result{}, nil
	}
}

// TestControllerAgain: the controller comes back when the server says, or the policy, and
// the next pass succeeds; or the object waits for an event.
func TestControllerAgain(t *testing.T) {
	t.Parallel()
	for _, tt := range answers {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				api := store(tt.err)
				at := reconciles(t, seconds(1), true, label(api, func(ctx context.Context, o *corev1.ConfigMap) error {
					return api.Get(ctx, key, o)
				}))
				want := []time.Duration{0}
				if tt.again {
					want = append(want, max(tt.hint, time.Second))
				}
				assert.Equal(t, want, at)
				var o corev1.ConfigMap
				require.NoError(t, api.Get(t.Context(), key, &o))
				assert.Equal(t, tt.again, o.Labels["done"] == "yes")
			})
		})
	}
}

// TestControllerBehind: caches of controllers are a moment behind, and so the write conflicts.
func TestControllerBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		api := store(nil)
		var cached, other corev1.ConfigMap
		require.NoError(t, api.Get(t.Context(), key, &cached))
		cached.DeepCopyInto(&other)
		other.Data = map[string]string{"other": "was first"}
		require.NoError(t, api.Update(t.Context(), &other))
		at := reconciles(t, seconds(1), true, label(api, func(ctx context.Context, o *corev1.ConfigMap) error {
			cached.DeepCopyInto(o)
			return api.Get(ctx, key, &cached)
		}))
		assert.Equal(t, []time.Duration{0, time.Second}, at)
	})
}

// TestEventDuringWait: an event ends the wait, and the next wait begins. Only a queue of client-go
// keeps the old entry too, as doc.go says.
func TestEventDuringWait(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		priority bool
		limit    int
		want     []time.Duration
	}{
		"priority queue":           {true, 3, []time.Duration{0, 2 * time.Second, 6 * time.Second}},
		"priority queue, given up": {true, 2, []time.Duration{0, 2 * time.Second}},
		"client-go":                {false, 3, []time.Duration{0, 2 * time.Second, 4 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := seconds(4)
				p.MaxAttempts = tt.limit
				at := reconciles(t, p, tt.priority, func(context.Context, reconcile.Request) (reconcile.Result, error) {
					return reconcile.Result{}, errors.New("boom")
				}, 2*time.Second)
				assert.Equal(t, tt.want, at)
			})
		})
	}
}
