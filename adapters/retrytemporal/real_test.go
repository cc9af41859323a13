package retrytemporal_test

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrytemporal"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
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
	c := testkit.Must(client.Dial(options))(t)
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

// realServer has one activity, and a workflow with it.
type realServer struct {
	client          client.Client
	namespace, name string
}

// onServer starts a worker for them, or skips the test.
func onServer(t *testing.T, p *retry.Policy, act, wf any) *realServer {
	t.Helper()
	dial := serverOptions(t)
	c := testkit.Must(client.Dial(dial))(t)
	t.Cleanup(c.Close)
	s := &realServer{c, dial.Namespace, "q-" + rand.Text()}
	options := worker.Options{}
	require.NoError(t, (&retrytemporal.Retries{Policy: p}).Configure(&options))
	w := worker.New(c, s.name, options)
	w.RegisterActivityWithOptions(act, activity.RegisterOptions{Name: "activity"})
	w.RegisterWorkflowWithOptions(wf, workflow.RegisterOptions{Name: "workflow"})
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)
	return s
}

// begin begins the workflow.
func (s *realServer) begin(t *testing.T) client.WorkflowRun {
	t.Helper()
	options := client.StartWorkflowOptions{ID: s.name, TaskQueue: s.name, WorkflowExecutionTimeout: 2 * time.Minute}
	return testkit.Must(s.client.ExecuteWorkflow(t.Context(), options, "workflow"))(t)
}

// workflowOf is a workflow with the activity.
func workflowOf(options workflow.ActivityOptions) func(workflow.Context) error { //nolint:gocritic // as the SDK has it
	options.ActivityID = "act"
	return func(ctx workflow.Context) error {
		return workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, options), "activity").Get(ctx, nil)
	}
}

// A workflow reads the last heartbeat of its activity as it was.
func TestTemporalLastHeartbeat(t *testing.T) {
	t.Parallel()
	slow := func(ctx context.Context) error {
		activity.RecordHeartbeat(ctx, "page", 7)
		<-ctx.Done()
		return ctx.Err()
	}
	s := onServer(t, &retry.Policy{}, slow, func(ctx workflow.Context) (int, error) {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			ScheduleToCloseTimeout: 3 * time.Second, StartToCloseTimeout: 3 * time.Second, HeartbeatTimeout: time.Second,
		})
		err := workflow.ExecuteActivity(ctx, "activity").Get(ctx, nil)
		timeout, _ := errors.AsType[*temporal.TimeoutError](err)
		var word string
		var number int
		err = timeout.LastHeartbeatDetails(&word, &number)
		return number, err
	})
	var number int
	require.NoError(t, s.begin(t).Get(t.Context(), &number))
	assert.Equal(t, 7, number)
}

func TestTemporalReset(t *testing.T) {
	t.Parallel()
	for _, heartbeat := range []bool{false, true} {
		var attempts atomic.Int32
		fails := func(context.Context) error {
			attempts.Add(1)
			return assert.AnError
		}
		s := onServer(t, &retry.Policy{MaxAttempts: 4, Backoff: retry.Constant(2 * time.Second), Jitter: retry.NoJitter}, fails,
			workflowOf(workflow.ActivityOptions{StartToCloseTimeout: time.Minute}))
		run := s.begin(t)
		require.Eventually(t, func() bool { return attempts.Load() == 3 }, time.Minute, 20*time.Millisecond)
		time.Sleep(500 * time.Millisecond) // until it waits
		_, err := s.client.WorkflowService().ResetActivity(t.Context(), &workflowservice.ResetActivityRequest{
			Namespace: s.namespace, Execution: &commonpb.WorkflowExecution{WorkflowId: run.GetID(), RunId: run.GetRunID()},
			Activity: &workflowservice.ResetActivityRequest_Id{Id: "act"}, ResetHeartbeat: heartbeat,
		})
		require.NoError(t, err)
		require.ErrorContains(t, run.Get(t.Context(), nil), "failed after 4 attempts")
		assert.EqualValues(t, 7, attempts.Load())
	}
}

func TestTemporalPause(t *testing.T) {
	t.Parallel()
	var attempts atomic.Int32
	s := onServer(t, &retry.Policy{MaxAttempts: 3, Backoff: retry.Constant(100 * time.Millisecond)}, func(ctx context.Context) error {
		if attempts.Add(1) > 2 {
			return assert.AnError
		}
		for ctx.Err() == nil {
			activity.RecordHeartbeat(ctx, 1)
			time.Sleep(50 * time.Millisecond)
		}
		return ctx.Err()
	}, workflowOf(workflow.ActivityOptions{StartToCloseTimeout: time.Minute, HeartbeatTimeout: time.Second}))
	run := s.begin(t)
	execution := &commonpb.WorkflowExecution{WorkflowId: run.GetID(), RunId: run.GetRunID()}
	for n := range int32(2) {
		require.Eventually(t, func() bool { return attempts.Load() == n+1 }, time.Minute, 20*time.Millisecond)
		_, err := s.client.WorkflowService().PauseActivity(t.Context(), &workflowservice.PauseActivityRequest{
			Namespace: s.namespace, Execution: execution, Activity: &workflowservice.PauseActivityRequest_Id{Id: "act"},
		})
		require.NoError(t, err)
		time.Sleep(4 * time.Second) // until the attempt has heard of it, and ended
		_, err = s.client.WorkflowService().UnpauseActivity(t.Context(), &workflowservice.UnpauseActivityRequest{
			Namespace: s.namespace, Execution: execution, Activity: &workflowservice.UnpauseActivityRequest_Id{Id: "act"},
		})
		require.NoError(t, err)
	}
	require.ErrorContains(t, run.Get(t.Context(), nil), "failed after 3 attempts")
	assert.EqualValues(t, 5, attempts.Load())
}
