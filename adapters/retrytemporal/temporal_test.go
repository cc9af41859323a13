package retrytemporal_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"net"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/seed-5ff3c98e/retry/adapters/retrytemporal"
	"github.com/seed-5ff3c98e/retry/internal/test/enginekit"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

var storedLater = enginetest.Instead{
	Why: "the server stores the outcome after the interceptor", Told: []string{"1: succeeded", "2: succeeded"},
}

// TestConformance has real workers of the SDK, and a server that stands for Temporal's.
func TestConformance(t *testing.T) {
	t.Parallel()
	enginetest.Run(t, &enginetest.Engine{
		Unit: 500 * time.Millisecond, Grain: 10 * time.Second, Recovery: 20 * time.Second, Repeat: repeat, InPlace: true,
		Cannot: map[string]enginetest.Instead{"success not stored": storedLater},
		Open:   enginekit.Opens(open),
		OpenTwo: func(t testing.TB) (enginetest.Queue, func() (func() error, error)) {
			t.Helper()
			q := open(t)
			return q, func() (func() error, error) {
				q.server.refuse("kind-1")
				return func() error { q.server.refuse(""); return nil }, nil
			}
		},
	})
}

func TestMain(m *testing.M) { testkit.AtOnce(m, 10) }

// TestOutage has workers lose the server again and again.
func TestOutage(t *testing.T) {
	t.Parallel()
	outage := &enginetest.Outage{Open: func(t testing.TB, cable *enginetest.Cable) enginetest.Queue {
		t.Helper()
		return &queue{t: t, cable: cable, server: startServer(t, 8*time.Second, &commonpb.RetryPolicy{
			InitialInterval: durationpb.New(50 * time.Millisecond), BackoffCoefficient: 2,
		})}
	}}
	outage.Run(t)
}

type queue struct {
	t      testing.TB
	server *server
	cable  *enginetest.Cable // of all workers, which connect again when it is lost
}

func open(t testing.TB) *queue {
	t.Helper()
	return &queue{t: t, server: startServer(t, 8*time.Second, &commonpb.RetryPolicy{
		InitialInterval: durationpb.New(50 * time.Millisecond), BackoffCoefficient: 2,
	})}
}

// repeat has an attempt time out at once.
func repeat(_ context.Context, q enginetest.Queue, job string) error {
	q.(*queue).server.timeOut(job) //nolint:forcetypeassert // see TestConformance
	return nil
}

func (q *queue) Submit(_ context.Context, kind, job string) error {
	q.server.submit(kind, job)
	return nil
}

func (q *queue) Outcome(_ context.Context, job string) (enginetest.Outcome, error) {
	q.server.mu.Lock()
	defer q.server.mu.Unlock()
	switch j := q.server.jobs[job]; j.status {
	case completed:
		return enginetest.Outcome{Status: enginetest.Succeeded}, nil
	case failed, canceled:
		return enginetest.Outcome{Status: enginetest.GaveUp, Err: j.failure}, nil
	case waiting, running:
	}
	return enginetest.Outcome{}, nil
}

func (q *queue) Start(p enginetest.Policies, handle enginetest.Handler) (enginetest.Workers, error) {
	w := &workers{server: q.server}
	w.cable = q.cable
	err := w.start(client.Options{HostPort: q.server.address, Logger: quiet{}}, "jobs", p, handle)
	return w, err
}

// sdkWorker is a worker of the SDK, on a cable of its own.
type sdkWorker struct {
	cable    *enginetest.Cable
	identity string
	client   client.Client
	worker   worker.Worker
	killed   bool
	stopped  bool
}

// ofSessions is the name of one of the SDK's own activities.
const ofSessions = "internalSessionCreationActivity"

// start starts the worker for a task queue under p.
func (w *sdkWorker) start(options client.Options, tasks string, p enginetest.Policies, handle enginetest.Handler) (err error) {
	settings := worker.Options{DisableWorkflowWorker: true}
	if err := (&retrytemporal.Retries{Policy: p.Policy, PolicyFor: p.PolicyFor}).Configure(&settings); err != nil {
		return err
	}
	w.identity = rand.Text()
	w.cable = cmp.Or(w.cable, &enginetest.Cable{})
	options.Identity = w.identity
	options.ConnectionOptions.DialOptions = []grpc.DialOption{
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return w.cable.DialContext(ctx, "tcp", address)
		}),
	}
	if w.client, err = client.Dial(options); err != nil {
		return err
	}
	w.worker = worker.New(w.client, tasks, settings)
	for _, kind := range []string{"kind-1", "kind-2", "kind-3", ofSessions} {
		w.worker.RegisterActivityWithOptions(func(ctx context.Context, job string) error { return handle(ctx, job) },
			activity.RegisterOptions{Name: kind})
	}
	return w.worker.Start()
}

// Kill cuts the cable.
func (w *sdkWorker) Kill() error {
	w.killed = true
	w.cable.Cut()
	return nil
}

type workers struct {
	sdkWorker

	server *server
}

func (w *workers) Stop(context.Context) error {
	if w.stopped {
		return nil
	}
	w.stopped = true
	w.worker.Stop()
	for !w.killed && w.server.busy(w.identity) {
		time.Sleep(10 * time.Millisecond)
	}
	w.client.Close()
	return nil
}

// quiet is a logger for nobody.
type quiet struct{}

func (quiet) Debug(string, ...any) {}
func (quiet) Info(string, ...any)  {}
func (quiet) Warn(string, ...any)  {}
func (quiet) Error(string, ...any) {}
