package retrytemporal_test

import (
	"context"
	"crypto/rand"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrytemporal"
)

// realServer has one activity, and a workflow with it.
type realServer struct {
	client          client.Client
	namespace, name string
}

// onServer starts a worker for them, or skips the test.
func onServer(t *testing.T, p *retry.Policy, act, wf any) *realServer {
	t.Helper()
	dial := serverOptions(t)
	c, err := client.Dial(dial)
	require.NoError(t, err)
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
	run, err := s.client.ExecuteWorkflow(t.Context(), options, "workflow")
	require.NoError(t, err)
	return run
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
