package retrytemporal_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	namespacepb "go.temporal.io/api/namespace/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// server does what a Temporal server does with activities, as far as retries go: it
// counts attempts, waits for NextRetryDelay or by the retry policy, hands the details of
// the last heartbeat to the next attempt, and has an attempt time out.
type server struct {
	workflowservice.UnimplementedWorkflowServiceServer

	address string
	timeout time.Duration // StartToCloseTimeout
	policy  *commonpb.RetryPolicy
	due     chan *job
	first   *commonpb.Payloads // details that jobs begin with

	mu      sync.Mutex
	jobs    map[string]*job
	refuses string // the kind of jobs about which it takes nothing from workers
}

// job is an activity.
type job struct {
	kind      string
	name      string
	scheduled time.Time
	attempt   int32
	worker    string // that runs it
	details   *commonpb.Payloads
	status    status
	failure   string
	sent      int  // the size of the last failure, in bytes
	paused    bool // as a heartbeat hears
	timer     *time.Timer
}

type status int

const (
	waiting status = iota
	running
	completed
	failed
	canceled
)

const jobsMost = 100_000

func startServer(t testing.TB, timeout time.Duration, policy *commonpb.RetryPolicy) *server {
	t.Helper()
	s := &server{timeout: timeout, policy: policy, due: make(chan *job, jobsMost), jobs: map[string]*job{}}
	var config net.ListenConfig
	listener, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.address = listener.Addr().String()
	g := grpc.NewServer()
	workflowservice.RegisterWorkflowServiceServer(g, s)
	go func() { _ = g.Serve(listener) }()
	t.Cleanup(g.Stop)
	return s
}

// submit schedules an activity.
func (s *server) submit(kind, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := &job{kind: kind, name: name, scheduled: time.Now(), attempt: 1, details: s.first}
	s.jobs[name] = j
	s.due <- j
}

// again schedules the next attempt. The mutex is held.
func (s *server) again(j *job, delay time.Duration) {
	j.timer.Stop()
	j.status, j.worker = waiting, ""
	j.attempt++
	time.AfterFunc(delay, func() { s.due <- j })
}

// backoff returns the wait of the retry policy.
func (s *server) backoff() time.Duration { return s.policy.GetInitialInterval().AsDuration() }

// busy reports whether a worker has an attempt that it has not reported.
func (s *server) busy(worker string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, j := range s.jobs {
		if j.worker == worker {
			return true
		}
	}
	return false
}

// failureOf returns the last failure of a job.
func (s *server) failureOf(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.jobs[name].failure
}

// reset begins the count of a job anew, which waits for its next attempt.
func (s *server) reset(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jobs[name].attempt = 1
}

// refuse has the server take nothing about jobs of a kind.
func (s *server) refuse(kind string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuses = kind
}

// find returns the job of a token, with the mutex held, unless the attempt is over.
func (s *server) find(token []byte) (*job, error) {
	var name string
	var attempt int32
	_, _ = fmt.Sscanf(string(token), "%s %d", &name, &attempt)
	s.mu.Lock()
	j := s.jobs[name]
	if j == nil || j.attempt != attempt || j.status != running {
		s.mu.Unlock()
		return nil, serviceerror.NewNotFound("the attempt is over")
	}
	return j, nil
}

// told is find for what a worker says of an attempt.
func (s *server) told(token []byte) (*job, error) {
	j, err := s.find(token)
	if err == nil && s.refuses == j.kind {
		s.mu.Unlock()
		return nil, serviceerror.NewPermissionDenied("refused", "")
	}
	return j, err
}

func (s *server) end(token []byte, now status, failure string) error {
	j, err := s.told(token)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	j.timer.Stop()
	j.status, j.worker, j.failure = now, "", failure
	return nil
}

func (s *server) GetSystemInfo(
	context.Context, *workflowservice.GetSystemInfoRequest,
) (*workflowservice.GetSystemInfoResponse, error) {
	return &workflowservice.GetSystemInfoResponse{Capabilities: &workflowservice.GetSystemInfoResponse_Capabilities{}}, nil
}

func (s *server) DescribeNamespace(
	context.Context, *workflowservice.DescribeNamespaceRequest,
) (*workflowservice.DescribeNamespaceResponse, error) {
	return &workflowservice.DescribeNamespaceResponse{NamespaceInfo: &namespacepb.NamespaceInfo{Name: "default"}}, nil
}

func (s *server) PollActivityTaskQueue(
	ctx context.Context, request *workflowservice.PollActivityTaskQueueRequest,
) (*workflowservice.PollActivityTaskQueueResponse, error) {
	var j *job
	select {
	case j = <-s.due:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if ctx.Err() != nil {
		s.due <- j
		return nil, ctx.Err()
	}
	input, err := converter.GetDefaultDataConverter().ToPayloads(j.name)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	token := j.token()
	j.status, j.worker = running, request.GetIdentity()
	j.timer = time.AfterFunc(s.timeout, func() { s.lose(token) })
	now := timestamppb.Now()
	return &workflowservice.PollActivityTaskQueueResponse{
		TaskToken: []byte(token), ActivityId: j.name, ActivityType: &commonpb.ActivityType{Name: j.kind}, Input: input,
		ScheduledTime: timestamppb.New(j.scheduled), CurrentAttemptScheduledTime: now, StartedTime: now, Attempt: j.attempt,
		StartToCloseTimeout: durationpb.New(s.timeout), HeartbeatDetails: j.details, RetryPolicy: s.policy,
		WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: j.name, RunId: j.name},
		WorkflowType:      &commonpb.WorkflowType{Name: "workflow"}, WorkflowNamespace: "default",
	}, nil
}

// token names the attempt in progress.
func (j *job) token() string { return fmt.Sprintf("%s %d", j.name, j.attempt) }

// timeOut ends the attempt at a job that is in progress.
func (s *server) timeOut(name string) {
	s.mu.Lock()
	token := s.jobs[name].token()
	s.mu.Unlock()
	s.lose(token)
}

// lose ends an attempt that its worker has not reported in time.
func (s *server) lose(token string) {
	j, err := s.find([]byte(token))
	if err != nil {
		return
	}
	defer s.mu.Unlock()
	s.again(j, s.backoff())
}

func (s *server) RecordActivityTaskHeartbeat(
	_ context.Context, request *workflowservice.RecordActivityTaskHeartbeatRequest,
) (*workflowservice.RecordActivityTaskHeartbeatResponse, error) {
	j, err := s.told(request.GetTaskToken())
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	j.details = request.GetDetails()
	return &workflowservice.RecordActivityTaskHeartbeatResponse{ActivityPaused: j.paused}, nil
}

func (s *server) RespondActivityTaskCompleted(
	_ context.Context, request *workflowservice.RespondActivityTaskCompletedRequest,
) (*workflowservice.RespondActivityTaskCompletedResponse, error) {
	return &workflowservice.RespondActivityTaskCompletedResponse{}, s.end(request.GetTaskToken(), completed, "")
}

func (s *server) RespondActivityTaskCanceled(
	_ context.Context, request *workflowservice.RespondActivityTaskCanceledRequest,
) (*workflowservice.RespondActivityTaskCanceledResponse, error) {
	return &workflowservice.RespondActivityTaskCanceledResponse{}, s.end(request.GetTaskToken(), canceled, "")
}

func (s *server) RespondActivityTaskFailed(
	_ context.Context, request *workflowservice.RespondActivityTaskFailedRequest,
) (*workflowservice.RespondActivityTaskFailedResponse, error) {
	response := &workflowservice.RespondActivityTaskFailedResponse{}
	if j, err := s.find(request.GetTaskToken()); err == nil {
		j.sent = proto.Size(request.GetFailure())
		s.mu.Unlock()
	}
	info := request.GetFailure().GetApplicationFailureInfo()
	if info.GetNonRetryable() {
		return response, s.end(request.GetTaskToken(), failed, request.GetFailure().GetMessage())
	}
	j, err := s.told(request.GetTaskToken())
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	j.failure = request.GetFailure().GetMessage()
	delay := info.GetNextRetryDelay().AsDuration()
	if delay == 0 {
		delay = s.backoff()
	}
	s.again(j, delay)
	return response, nil
}
