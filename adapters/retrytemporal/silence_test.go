package retrytemporal_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"google.golang.org/grpc"

	"github.com/seed-5ff3c98e/retry/adapters/retrytemporal"
	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

// watch tells when an attempt has ended.
type watch struct {
	interceptor.WorkerInterceptorBase
	over chan time.Time
}

func (w *watch) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	one := &watched{watch: w}
	one.Next = next
	return one
}

type watched struct {
	interceptor.ActivityInboundInterceptorBase
	watch *watch
}

func (w *watched) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	defer func() { w.watch.over <- time.Now() }()
	return w.Next.ExecuteActivity(ctx, in)
}

// An attempt ends in the time that the package comment says, also if the server is silent when it
// fails, with the client's own settings.
func TestSilence(t *testing.T) {
	t.Parallel()
	q, cable := open(t), enginetest.NewLink()
	options := client.Options{HostPort: q.server.address, Logger: quiet{}}
	options.ConnectionOptions.DialOptions = []grpc.DialOption{
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return cable.DialContext(ctx, "tcp", address)
		}),
	}
	c, err := client.Dial(options)
	require.NoError(t, err)
	settings := worker.Options{DisableWorkflowWorker: true}
	require.NoError(t, (&retrytemporal.Retries{}).Configure(&settings))
	watch := &watch{over: make(chan time.Time, 1)}
	settings.Interceptors = append([]interceptor.WorkerInterceptor{watch}, settings.Interceptors...)
	w := worker.New(c, "jobs", settings)
	var at time.Time
	var end func()
	w.RegisterActivityWithOptions(func(context.Context, string) error {
		end = cable.Silence()
		at = time.Now()
		return assert.AnError
	}, activity.RegisterOptions{Name: "kind-1"})
	require.NoError(t, w.Start())
	require.NoError(t, q.Submit(t.Context(), "kind-1", "a"))
	select {
	case over := <-watch.over:
		t.Logf("returned after %v", over.Sub(at).Round(time.Millisecond))
		assert.Less(t, over.Sub(at), 8*time.Second) // 5, and what a busy machine adds
	case <-time.After(time.Minute):
		assert.Fail(t, "the attempt has not ended")
	}
	end()
	w.Stop()
	c.Close()
}
