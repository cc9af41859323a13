package retrykube_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrykube"
)

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
