package retrykube_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
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

// TestRootKnowsAPIErrors checks that retry.Classify, which does not import Kubernetes,
// knows the errors of an API server.
func TestRootKnowsAPIErrors(t *testing.T) {
	t.Parallel()
	pods := schema.GroupResource{Resource: "pods"}
	for _, tt := range []struct {
		err  error
		want retry.Verdict
	}{
		{apierrors.NewNotFound(pods, "x"), retry.Verdict{Class: retry.Final, Category: "http_404"}},
		{apierrors.NewConflict(pods, "x", errors.New("y")), retry.Verdict{Class: retry.Final, Category: "http_409"}},
		{apierrors.NewForbidden(pods, "x", errors.New("y")), retry.Verdict{Class: retry.Final, Category: "http_403"}},
		{apierrors.NewInternalError(errors.New("y")), retry.Verdict{Class: retry.Retryable, Category: "http_500"}},
		{apierrors.NewServiceUnavailable("y"), retry.Verdict{Class: retry.Retryable, Category: "http_503"}},
		{apierrors.NewTooManyRequests("y", 7), retry.Verdict{
			Class: retry.RateLimited, NotApplied: true, After: 7 * time.Second, Category: "http_429",
		}},
	} {
		assert.Equal(t, tt.want, retry.Classify(fmt.Errorf("x: %w", tt.err)), "%v", tt.err)
	}
}

var secrets = schema.GroupResource{Resource: "secrets"}

// answers are what an API server says, and whether a controller tries again.
var answers = []struct {
	name  string
	err   error
	again bool
	hint  time.Duration
}{
	{"conflict", apierrors.NewConflict(secrets, "s", errors.New("modified")), true, 0},
	{"apply conflict", apierrors.NewApplyConflict(nil, "owned by x"), true, 0},
	{"not found", apierrors.NewNotFound(secrets, "s"), true, 0},
	{"already exists", apierrors.NewAlreadyExists(secrets, "s"), true, 0},
	{"generate name conflict", apierrors.NewGenerateNameConflict(secrets, "s", 1), true, time.Second},
	{"quota", apierrors.NewForbidden(secrets, "s", errors.New("exceeded quota: q")), true, 0},
	{"terminating namespace", status(403, metav1.StatusReasonForbidden, corev1.NamespaceTerminatingCause), true, 0},
	{"expired", apierrors.NewResourceExpired("too old resource version"), true, 0},
	{"gone", status(410, metav1.StatusReasonGone), true, 0},
	{"unauthorized", apierrors.NewUnauthorized("x"), true, 0},
	{"timeout", apierrors.NewTimeoutError("x", 30), true, 30 * time.Second},
	{"server timeout", apierrors.NewServerTimeout(secrets, "get", 3), true, 3 * time.Second},
	{"too many requests", apierrors.NewTooManyRequests("x", 7), true, 7 * time.Second},
	{"too many requests without a hint", apierrors.NewTooManyRequestsError("x"), true, 0},
	{"a disruption budget", status(429, metav1.StatusReasonTooManyRequests, "DisruptionBudget"), true, 0},
	{"internal error: a webhook does not answer", apierrors.NewInternalError(errors.New("failed calling webhook")), true, 0},
	{"service unavailable", apierrors.NewServiceUnavailable("x"), true, 0},
	{"storage", status(500, metav1.StatusReasonStoreReadError), true, 0},
	{"a reason without a code", status(0, metav1.StatusReasonConflict), true, 0},
	{"a code without a reason", status(http.StatusConflict, ""), true, 0},
	{"a status without a reason of ours", status(http.StatusLocked, "Locked"), true, 0},
	{"a reason of a webhook's", status(http.StatusForbidden, "no more than three"), true, 0},
	{"a proxy", apierrors.NewGenericServerResponse(502, "get", secrets, "s", "bad gateway", 2, true), true, 2 * time.Second},

	{"invalid", apierrors.NewInvalid(schema.GroupKind{Kind: "Secret"}, "s", nil), false, 0},
	{"bad request", apierrors.NewBadRequest("x"), false, 0},
	{"method not allowed", apierrors.NewMethodNotSupported(secrets, "patch"), false, 0},
	{"not acceptable", status(406, metav1.StatusReasonNotAcceptable), false, 0},
	{"unsupported media type", status(415, metav1.StatusReasonUnsupportedMediaType), false, 0},
	{"too large", apierrors.NewRequestEntityTooLargeError("x"), false, 0},
	{"invalid without a code", status(0, metav1.StatusReasonInvalid), false, 0},
	{"a denial of a webhook's without a reason", status(http.StatusBadRequest, ""), false, 0},
}

func status(code int32, reason metav1.StatusReason, causes ...metav1.CauseType) error {
	s := metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason}
	for _, cause := range causes {
		s.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: cause}}}
	}
	return &apierrors.StatusError{ErrStatus: s}
}

// short has waits that are shorter than all hints.
func short() *retry.Policy {
	return &retry.Policy{Backoff: retry.Constant(time.Millisecond), Jitter: retry.NoJitter, MaxRetryAfter: time.Hour}
}

func again(t *testing.T, p *retry.Policy, err error) (again bool, wait time.Duration) {
	t.Helper()
	retries := &retrykube.Retries[string]{Policy: p}
	again, got := retries.Try(t.Context(), "x", func(context.Context) error { return err })
	require.Error(t, got)
	return again, retries.When("x")
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	for _, tt := range answers {
		for form, err := range map[string]error{
			"alone":      tt.err,
			"wrapped":    fmt.Errorf("update: %w", tt.err),
			"joined":     errors.Join(errors.New("x"), tt.err),
			"aggregated": fmt.Errorf("all: %w", utilerrors.NewAggregate([]error{utilerrors.NewAggregate([]error{errors.New("x"), tt.err})})),
		} {
			got, wait := again(t, short(), err)
			assert.Equal(t, tt.again, got, "%s, %s", tt.name, form)
			if tt.again {
				assert.Equal(t, max(tt.hint, time.Millisecond), wait, "%s, %s", tt.name, form)
			}
		}
	}
}

// TestAnswersTogether: the policy is asked before the table, one answer that goes away is enough,
// and a reconciler that must not be repeated is not, because an earlier request may have had
// an effect.
func TestAnswersTogether(t *testing.T) {
	t.Parallel()
	conflict, invalid := answers[0].err, status(422, metav1.StatusReasonInvalid)
	asked, once, free := short(), short(), short()
	asked.Classifier = func(err error) retry.Verdict {
		return retry.Verdict{Class: map[bool]retry.Class{true: retry.Final, false: retry.Retryable}[apierrors.IsConflict(err)]}
	}
	once.NonIdempotent = true
	free.MaxAttempts, free.FreeRateLimits = 1, 1
	for _, tt := range []struct {
		name   string
		policy *retry.Policy
		err    error
		again  bool
	}{
		{"both", short(), utilerrors.NewAggregate([]error{invalid, conflict}), true},
		{"a mark: final", short(), retry.MarkFinal(conflict), false},
		{"a mark: again", short(), fmt.Errorf("x: %w", retry.MarkRetryable(invalid)), true},
		{"a mark in an Aggregate", short(), utilerrors.NewAggregate([]error{conflict, retry.MarkFinal(errors.New("x"))}), false},
		{"the Classifier: final", asked, conflict, false},
		{"the Classifier: again", asked, invalid, true},
		{"a mark before the Classifier", asked, retry.MarkRetryable(conflict), true},
		{"not idempotent", once, apierrors.NewTooManyRequests("x", 7), false},
		{"not idempotent: a refused dial", once, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, false},
		{"not idempotent: a mark", once, retry.Mark(conflict, retry.Verdict{Class: retry.Retryable, NotApplied: true}), true},
		{"a rate limit is free", free, apierrors.NewTooManyRequests("x", 7), true},
	} {
		got, _ := again(t, tt.policy, tt.err)
		assert.Equal(t, tt.again, got, tt.name)
	}
}

// A Status that says nothing is an error as any other.
func TestOddAnswers(t *testing.T) {
	t.Parallel()
	self := &aggregate{}
	self.errs = []error{self, fmt.Errorf("x: %w", self), self}
	many := &aggregate{errs: slices.Repeat([]error{status(422, metav1.StatusReasonInvalid)}, 600)}
	for name, err := range map[string]error{
		"empty":                       &apierrors.StatusError{},
		"a success":                   &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusSuccess, Code: 200}},
		"an odd code":                 status(-1, "odd"),
		"nil":                         (*apierrors.StatusError)(nil),
		"a nil in an Aggregate":       utilerrors.NewAggregate([]error{(*apierrors.StatusError)(nil)}),
		"nil Aggregate":               (*aggregate)(nil),
		"an Aggregate of nothing":     &aggregate{},
		"an Aggregate of nil":         &aggregate{errs: []error{nil}},
		"an Aggregate of itself":      self,
		"Aggregates of a multitude":   &aggregate{errs: []error{many, many}},
		"an Aggregate of a multitude": &aggregate{errs: make([]error, 100_000)},
		"in the past": &apierrors.StatusError{ErrStatus: metav1.Status{
			Reason: metav1.StatusReasonTimeout, Details: &metav1.StatusDetails{RetryAfterSeconds: -1 << 31},
		}},
	} {
		got, wait := again(t, short(), shown{err})
		assert.True(t, got, name)
		assert.Equal(t, time.Millisecond, wait, name)
	}
	eternal, _ := again(t, short(), apierrors.NewTimeoutError("x", 1<<31-1))
	assert.False(t, eternal, "longer than MaxRetryAfter")
}

// shown is an error whose text can be read although that of the error in it cannot.
type shown struct{ err error }

func (e shown) Error() string { return "shown" }
func (e shown) Unwrap() error { return e.err }

type aggregate struct{ errs []error }

func (*aggregate) Error() string     { return "several" }
func (e *aggregate) Errors() []error { return e.errs }

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
