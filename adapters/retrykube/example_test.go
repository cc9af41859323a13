package retrykube_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrykube"
)

func ExampleRetries() { //nolint:testableexamples // it needs a cluster
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{})
	if err != nil {
		panic(err)
	}
	policy := &retry.Policy{Name: "pods", MaxAttempts: 8, Backoff: retry.Exponential{Initial: time.Second}}
	reconciler := reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		return reconcile.Result{}, nil // an error is classified, and the object comes again when the policy says
	})

	retries := &retrykube.Retries[reconcile.Request]{Policy: policy}
	err = ctrl.NewControllerManagedBy(mgr).
		For(&corev1.Pod{}).
		WithOptions(controller.Options{RateLimiter: retries}).
		Complete(retries.Reconciler(reconciler))
	if err != nil {
		panic(err)
	}
	if err := mgr.Start(ctrl.SetupSignalHandler()); err != nil {
		panic(err)
	}
}

// conflicting stands for a client: its first Update meets a newer version.
type conflicting struct {
	client.Client
	updates int
}

func (*conflicting) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return nil
}

func (s *conflicting) Update(context.Context, client.Object, ...client.UpdateOption) error {
	if s.updates++; s.updates == 1 {
		return apierrors.NewConflict(corev1.Resource("configmaps"), "limits", errors.New("it has been modified"))
	}
	return nil
}

// A Get and an Update are one attempt: after a conflict, both are made again.
func ExampleRetries_conflict() {
	var c client.Client = &conflicting{}
	policy := &retry.Policy{Backoff: retry.Exponential{Initial: 10 * time.Millisecond}}
	err := policy.Execute(context.Background(), func(ctx context.Context) error {
		var limits corev1.ConfigMap
		if err := c.Get(ctx, client.ObjectKey{Namespace: "default", Name: "limits"}, &limits); err != nil {
			return err
		}
		limits.Data = map[string]string{"requests": "100"}
		err := c.Update(ctx, &limits)
		if apierrors.IsConflict(err) {
			return retry.MarkRetryable(err)
		}
		return err
	})
	fmt.Println(err)
	// Output: <nil>
}

// Without a manager: a loop of your own over a queue.
func ExampleRetries_Try() {
	retries := &retrykube.Retries[string]{Policy: &retry.Policy{
		Backoff: retry.Constant(10 * time.Millisecond), Jitter: retry.NoJitter,
	}}
	queue := priorityqueue.New("example", func(o *priorityqueue.Opts[string]) { o.RateLimiter = retries })
	queue.Add("default/web")

	attempts := 0
	reconcile := func(context.Context) error {
		if attempts++; attempts < 3 {
			return errors.New("the object has been modified")
		}
		queue.ShutDown() // the example ends here
		return nil
	}
	for {
		item, shutdown := queue.Get()
		if shutdown {
			break
		}
		again, err := retries.Try(context.Background(), item, reconcile)
		fmt.Println(item, again, err)
		if again {
			queue.AddRateLimited(item)
		}
		queue.Done(item)
	}
	// Output:
	// default/web true the object has been modified
	// default/web true the object has been modified
	// default/web false <nil>
}
