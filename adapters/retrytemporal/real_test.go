package retrytemporal_test

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

// TestTemporal is for a server of Temporal's own, which takes minutes to compile.
func TestTemporal(t *testing.T) {
	t.Parallel()
	options := serverOptions(t)
	enginetest.Run(t, &enginetest.Engine{
		InPlace: true, Jobs: 300, Unit: time.Second, Grain: 10 * time.Second, Recovery: 30 * time.Second,
		Cannot: map[string]enginetest.Instead{
			"bad queue": {Why: "this server refuses nothing: TestConformance"}, "success not stored": storedLater,
		},
		Open: func(t testing.TB) enginetest.Queue {
			t.Helper()
			return openReal(t, options)
		},
	})
}

// serverOptions are those of a client of the server, or the test is skipped.
func serverOptions(t *testing.T) client.Options {
	t.Helper()
	address, namespace, _ := strings.Cut(os.Getenv("RETRY_TEST_TEMPORAL"), "/")
	if address == "" {
		t.Skip("takes minutes: make temporal")
	}
	return client.Options{HostPort: address, Namespace: namespace, Logger: quiet{}}
}

// realQueue is a task queue of the server. Each job is a workflow that has one activity.
type realQueue struct {
	t       testing.TB
	options client.Options
	client  client.Client
	name    string
}

func openReal(t testing.TB, options client.Options) *realQueue {
	t.Helper()
	c, err := client.Dial(options)
	require.NoError(t, err)
	q := &realQueue{t: t, options: options, client: c, name: "retry-" + rand.Text()}
	workflows := worker.New(c, q.name, worker.Options{LocalActivityWorkerOnly: true})
	workflows.RegisterWorkflowWithOptions(func(ctx workflow.Context, kind, job string) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			StartToCloseTimeout: 8 * time.Second,
			RetryPolicy:         &temporal.RetryPolicy{InitialInterval: 50 * time.Millisecond, BackoffCoefficient: 2},
		})
		return workflow.ExecuteActivity(ctx, kind, job).Get(ctx, nil)
	}, workflow.RegisterOptions{Name: "jobs"})
	require.NoError(t, workflows.Start())
	t.Cleanup(func() {
		workflows.Stop()
		c.Close()
	})
	return q
}

func (q *realQueue) id(job string) string { return q.name + "-" + job }

func (q *realQueue) Submit(ctx context.Context, kind, job string) error {
	_, err := q.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: q.id(job), TaskQueue: q.name}, "jobs", kind, job)
	return err
}

func (q *realQueue) Outcome(ctx context.Context, job string) (enginetest.Outcome, error) {
	d, err := q.client.DescribeWorkflow(ctx, q.id(job), "")
	if err != nil {
		return enginetest.Outcome{}, err
	}
	switch d.RawResponse.GetWorkflowExecutionInfo().GetStatus() {
	case enums.WORKFLOW_EXECUTION_STATUS_COMPLETED:
		return enginetest.Outcome{Status: enginetest.Succeeded}, nil
	case enums.WORKFLOW_EXECUTION_STATUS_FAILED:
		var why *temporal.ApplicationError
		err := q.client.GetWorkflow(ctx, q.id(job), "").Get(ctx, nil)
		if !errors.As(err, &why) {
			return enginetest.Outcome{}, err
		}
		return enginetest.Outcome{Status: enginetest.GaveUp, Err: why.Message()}, nil
	default:
		return enginetest.Outcome{}, nil
	}
}

func (q *realQueue) Start(p enginetest.Policies, handle enginetest.Handler) (enginetest.Workers, error) {
	w := &realWorkers{queue: q, ended: map[string]time.Time{}}
	err := w.start(q.options, q.name, p, func(ctx context.Context, job string) error {
		w.note(job, time.Time{})
		defer func() { w.note(job, time.Now()) }()
		return handle(ctx, job)
	})
	return w, err
}

type realWorkers struct {
	sdkWorker

	queue *realQueue
	mu    sync.Mutex
	ended map[string]time.Time // when the handler of a job has returned; zero while it runs
}

func (w *realWorkers) note(job string, ended time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended[job] = ended
}

// recent returns the jobs whose end the server may not know yet.
func (w *realWorkers) recent() (jobs []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for job, ended := range w.ended {
		if ended.IsZero() || time.Since(ended) < time.Second {
			jobs = append(jobs, job)
		}
	}
	return jobs
}

// Stop waits until the server knows how the attempts have ended: the worker does not.
func (w *realWorkers) Stop(ctx context.Context) error {
	if w.stopped {
		return nil
	}
	w.stopped = true
	jobs := w.recent()
	w.worker.Stop()
	for _, job := range jobs {
		for !w.killed && w.runs(ctx, job) {
			time.Sleep(10 * time.Millisecond)
		}
	}
	w.client.Close()
	return nil
}

// runs reports whether the server waits for the end of an attempt of this worker.
func (w *realWorkers) runs(ctx context.Context, job string) bool {
	d, err := w.queue.client.DescribeWorkflow(ctx, w.queue.id(job), "")
	if err != nil {
		return false
	}
	for _, a := range d.RawResponse.GetPendingActivities() {
		if a.GetState() == enums.PENDING_ACTIVITY_STATE_STARTED && a.GetLastWorkerIdentity() == w.identity {
			return true
		}
	}
	return false
}
