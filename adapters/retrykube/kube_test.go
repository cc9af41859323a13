package retrykube_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrykube"
	"github.com/seed-5ff3c98e/retry/internal/test/enginekit"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

var _ workqueue.TypedRateLimiter[object] = (*retrykube.Retries[object])(nil)

// object is an item of the queues: a job, and its kind.
type object struct{ kind, job string }

// cannot has what happens when counts are gone: an attempt is the first again.
var cannot = map[string]enginetest.Instead{
	"crash":                 forgets("1: boom: retry in 50ms", "2: succeeded"),
	"crash: poison":         forgets(tooMany(1)),
	"crash: not idempotent": forgets(tooMany(1)),
	"success not stored":    forgets("1: succeeded", "1: succeeded"), // a success is stored nowhere
	"crash after a failure": forgets("1: boom: retry in 50ms", tooMany(1)),
	"shutdown":              forgets("1: boom: retry in 50ms", "1: boom: retry in 50ms", tooMany(2)),
	"policy change: fewer attempts": forgets(
		"1: boom: retry in 500ms", "1: boom: retry in 50ms", tooMany(2)),
	"policy change: more attempts, other waits": forgets(
		"1: boom: retry in 500ms", "1: boom: retry in 200ms", "2: boom: retry in 200ms", "3: succeeded"),
	"context ignored for ever": {Why: "a queue is in memory, and gives an object to one worker", Endless: true},
	"largest message":          noMessage,
	"headers":                  noMessage,
	"bad queue":                {Why: "a queue is in memory, and refuses nothing"},
	"refused dead letter":      {Why: "the end of an object is an error, which is stored nowhere"},
}

var noMessage = enginetest.Instead{Why: "an object is read, not delivered: there is no message"}

func forgets(told ...string) enginetest.Instead {
	return enginetest.Instead{Why: "counts are in memory", Told: told}
}

func tooMany(n int) string { return fmt.Sprintf("%d: gave up (final): an attempt too many", n) }

// TestController is for a real controller with controller-runtime's queue.
func TestController(t *testing.T) {
	t.Parallel()
	conform(t, func(q *queue, retries *retrykube.Retries[object], handle enginetest.Handler) (enginetest.Workers, error) {
		skip := true
		w := &workers{done: make(chan struct{})}
		c, err := controller.NewTypedUnmanaged("enginetest", controller.TypedOptions[object]{
			RateLimiter: retries, SkipNameValidation: &skip, MaxConcurrentReconciles: 10,
			Reconciler: q.watch(retries.Reconciler(reconcile.TypedFunc[object](
				func(ctx context.Context, o object) (reconcile.Result, error) {
					return reconcile.Result{}, handle(ctx, o.job)
				}))),
		})
		if err != nil {
			return nil, err
		}
		err = c.Watch(source.TypedFunc[object](func(_ context.Context, queue workqueue.TypedRateLimitingInterface[object]) error {
			q.list(queue)
			return nil
		}))
		ctx, cancel := context.WithCancel(context.Background())
		w.cancel = cancel
		go func() {
			defer close(w.done)
			assert.NoError(q.t, c.Start(ctx))
		}()
		return w, err
	})
}

// TestWorkqueue is for a loop over a queue of client-go.
func TestWorkqueue(t *testing.T) {
	t.Parallel()
	conform(t, func(q *queue, retries *retrykube.Retries[object], handle enginetest.Handler) (enginetest.Workers, error) {
		w := &workers{done: make(chan struct{})}
		queue := workqueue.NewTypedRateLimitingQueue[object](retries)
		ctx, cancel := context.WithCancel(context.Background())
		w.cancel = func() {
			cancel()
			queue.ShutDown()
		}
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				for o, over := queue.Get(); !over; o, over = queue.Get() {
					again, err := retries.Try(ctx, o, func(ctx context.Context) error { return handle(ctx, o.job) })
					if again {
						queue.AddRateLimited(o)
					} else {
						q.ended(o, err)
					}
					queue.Done(o)
				}
			})
		}
		go func() {
			wg.Wait()
			close(w.done)
		}()
		q.list(queue)
		return w, nil
	})
}

type start func(*queue, *retrykube.Retries[object], enginetest.Handler) (enginetest.Workers, error)

func conform(t *testing.T, start start) {
	t.Helper()
	enginetest.Run(t, &enginetest.Engine{
		Open: func(t testing.TB) enginetest.Queue {
			t.Helper()
			return &queue{t: t, start: start}
		},
		Grain: 5 * time.Second, Cannot: cannot,
	})
}

// queue is a list of objects, of which controllers get events.
type queue struct {
	enginekit.Ends

	t     testing.TB
	start start

	mu      sync.Mutex
	objects []object
	events  workqueue.TypedInterface[object] // of the controller that runs
}

// list gives all objects to a controller that starts.
func (q *queue) list(events workqueue.TypedInterface[object]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.events = events
	for _, object := range q.objects {
		events.Add(object)
	}
}

func (q *queue) Submit(_ context.Context, kind, job string) error {
	deadline := time.Now().Add(5 * time.Second)
	for {
		q.mu.Lock()
		ready := q.events != nil
		if ready {
			q.objects = append(q.objects, object{kind, job})
			q.events.Add(object{kind, job})
		}
		q.mu.Unlock()
		if ready {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.New("the controller does not start")
		}
		time.Sleep(time.Millisecond)
	}
}

func (q *queue) Start(p enginetest.Policies, handle enginetest.Handler) (enginetest.Workers, error) {
	retries := &retrykube.Retries[object]{Policy: p.Policy}
	if p.PolicyFor != nil {
		retries.PolicyFor = func(o object) (*retry.Policy, error) { return p.PolicyFor(o.kind) }
	}
	return q.start(q, retries, handle)
}

// watch notes what the controller is told.
func (q *queue) watch(next reconcile.TypedReconciler[object]) reconcile.TypedReconciler[object] {
	return reconcile.TypedFunc[object](func(ctx context.Context, o object) (reconcile.Result, error) {
		result, err := next.Reconcile(ctx, o)
		if err == nil || errors.Is(err, reconcile.TerminalError(nil)) {
			q.ended(o, err)
		}
		return result, err
	})
}

func (q *queue) ended(o object, err error) {
	if err != nil {
		q.GiveUp(o.job, err.Error(), nil)
	} else {
		q.Succeed(o.job)
	}
}

type workers struct {
	cancel context.CancelFunc
	done   chan struct{}
}

func (w *workers) Stop(context.Context) error {
	w.cancel()
	<-w.done
	return nil
}

// Kill forgets the process. Its worker still waits in the handler.
func (w *workers) Kill() error {
	w.cancel()
	return nil
}

// TestStopped: an attempt that the end of the manager keeps from beginning is no end of the
// item, and so the Observer is not told one.
func TestStopped(t *testing.T) {
	t.Parallel()
	retries := &retrykube.Retries[string]{Policy: &retry.Policy{
		Observer: &retry.Observer{Event: func(_ context.Context, e retry.Event) { t.Error(e.Kind, e.Err) }},
	}}
	again, err := retries.Try(testkit.Canceled(t.Context()), "item", func(context.Context) error {
		t.Error("was run")
		return nil
	})
	assert.True(t, again)
	require.ErrorIs(t, err, context.Canceled)
	assert.Zero(t, retries.NumRequeues("item"))
}

// An exchanged policy decides about the next attempt, and one that is missing keeps an item
// from being tried, for a second.
func TestPolicyFor(t *testing.T) {
	t.Parallel()
	policies := map[string]*retry.Policy{"x": {MaxAttempts: 5, Backoff: retry.Constant(time.Hour), Jitter: retry.NoJitter}}
	missing := errors.New("missing")
	retries := &retrykube.Retries[string]{PolicyFor: func(item string) (*retry.Policy, error) {
		if p := policies[item]; p != nil {
			return p, nil
		}
		return nil, missing
	}}
	fail := func(context.Context) error { return assert.AnError }
	assert.Equal(t, time.Hour, retries.When("x"), "has not failed")
	again, err := retries.Try(t.Context(), "x", fail)
	assert.True(t, again)
	require.ErrorIs(t, err, assert.AnError)
	assert.Equal(t, time.Hour, retries.When("x"))

	delete(policies, "x")
	again, err = retries.Try(t.Context(), "x", func(context.Context) error {
		t.Error("was run")
		return nil
	})
	assert.True(t, again)
	require.ErrorIs(t, err, missing)
	require.ErrorContains(t, err, `"x"`)
	assert.Equal(t, time.Second, retries.When("x"))
	assert.Equal(t, 1, retries.NumRequeues("x"))

	policies["x"] = &retry.Policy{MaxAttempts: 2}
	again, err = retries.Try(t.Context(), "x", fail)
	assert.False(t, again)
	require.ErrorIs(t, err, retry.StopAttempts)
	assert.Zero(t, retries.NumRequeues("x"))
	assert.Positive(t, retries.When("y"), "the zero Policy's")
}

// The zero Retries has the zero Policy, and no items.
func TestZero(t *testing.T) {
	t.Parallel()
	var retries retrykube.Retries[string]
	assert.Zero(t, retries.NumRequeues("x"))
	retries.Forget("x")
	for attempt := 1; attempt <= 3; attempt++ {
		again, err := retries.Try(t.Context(), "x", func(context.Context) error { return assert.AnError })
		require.ErrorIs(t, err, assert.AnError)
		assert.Equal(t, attempt < 3, again)
	}
}

// What a Result says is not lost.
func TestResults(t *testing.T) {
	t.Parallel()
	retries := &retrykube.Retries[string]{
		Policy: &retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(time.Hour), Jitter: retry.NoJitter},
	}
	own := reconcile.TerminalError(assert.AnError)
	var result reconcile.Result
	var failure error
	r := retries.Reconciler(reconcile.TypedFunc[string](func(context.Context, string) (reconcile.Result, error) {
		return result, failure
	}))

	result = reconcile.Result{RequeueAfter: time.Minute}
	got, err := r.Reconcile(t.Context(), "x")
	require.NoError(t, err)
	assert.Equal(t, result, got)

	result = reconcile.Result{Requeue: true} //nolint:staticcheck // see Reconciler
	for range 5 {
		got = testkit.Must(r.Reconcile(t.Context(), "x"))(t)
		assert.Equal(t, result, got)
		assert.Equal(t, time.Hour, retries.When("x"))
		assert.Zero(t, retries.NumRequeues("x"))
	}

	result, failure = reconcile.Result{}, assert.AnError
	_, err = r.Reconcile(t.Context(), "x")
	require.ErrorIs(t, err, assert.AnError)
	require.NotErrorIs(t, err, reconcile.TerminalError(nil))
	assert.Equal(t, 1, retries.NumRequeues("x"))
	_, err = r.Reconcile(t.Context(), "x")
	require.ErrorIs(t, err, reconcile.TerminalError(nil))
	require.ErrorIs(t, err, retry.StopAttempts)
	assert.Zero(t, retries.NumRequeues("x"))

	failure = own
	_, err = r.Reconcile(t.Context(), "x")
	require.ErrorIs(t, err, reconcile.TerminalError(nil))
	assert.EqualError(t, err, own.Error())
}

// A Requeue ends when the policy has given up.
func TestRequeueGivenUp(t *testing.T) {
	t.Parallel()
	retries := &retrykube.Retries[string]{Policy: &retry.Policy{
		Overrides: map[string]retry.Override{"pending": {MaxAttempts: 2}}, Backoff: retry.Constant(time.Hour),
	}}
	r := retries.Reconciler(reconcile.TypedFunc[string](func(context.Context, string) (reconcile.Result, error) {
		return reconcile.Result{Requeue: true}, nil //nolint:staticcheck // see Reconciler
	}))
	got := testkit.Must(r.Reconcile(t.Context(), "x"))(t)
	assert.True(t, got.Requeue) //nolint:staticcheck // see Reconciler
	got, err := r.Reconcile(t.Context(), "x")
	require.ErrorIs(t, err, reconcile.TerminalError(nil))
	assert.True(t, got.IsZero())
}

// The ReconciliationTimeout of a controller is a deadline of each attempt.
func TestReconciliationTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		retries := &retrykube.Retries[string]{Policy: &retry.Policy{
			MaxAttempts: 3, Backoff: retry.Constant(time.Hour), MaxDelay: time.Hour,
		}}
		for i := range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			again, err := retries.Try(ctx, "x", func(ctx context.Context) error {
				if i > 0 {
					<-ctx.Done()
					return ctx.Err()
				}
				return assert.AnError
			})
			cancel()
			require.Error(t, err)
			assert.Equal(t, i < 2, again, "%d: %v", i, err)
		}
	})
}
