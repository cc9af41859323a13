package retrytemporal_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrytemporal"
	"github.com/seed-5ff3c98e/retry/internal/test/enginekit"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

// environment returns a workflow environment of the SDK's test suite under a policy.
func environment(t *testing.T, p *retry.Policy) *testsuite.TestWorkflowEnvironment {
	t.Helper()
	options := worker.Options{DeadlockDetectionTimeout: time.Minute} // on a busy machine
	require.NoError(t, (&retrytemporal.Retries{Policy: p}).Configure(&options))
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(quiet{})
	env := suite.NewTestWorkflowEnvironment()
	env.SetWorkerOptions(options)
	return env
}

// once runs one activity in a workflow of the SDK's test suite, which skips waits.
func once(t *testing.T, p *retry.Policy, fn func(context.Context) (string, error)) (result string, err error) {
	t.Helper()
	env := environment(t, p)
	env.SetTestTimeout(time.Minute)
	env.RegisterActivityWithOptions(fn, activity.RegisterOptions{Name: "activity"})
	env.ExecuteWorkflow(func(ctx workflow.Context) (string, error) {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
		var s string
		err := workflow.ExecuteActivity(ctx, "activity").Get(ctx, &s)
		return s, err
	})
	if err := env.GetWorkflowError(); err != nil {
		return "", err
	}
	require.NoError(t, env.GetWorkflowResult(&result))
	return result, nil
}

func TestErrors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		err   error
		kind  string
		says  string
		calls int
	}{
		{"exhausted", errors.New("boom"), "unknown", "failed after 2 attempts: boom", 2},
		{"category", retry.Mark(errors.New("boom"), retry.Verdict{Class: retry.Retryable, Category: "busy"}), "busy", "boom", 2},
		{"final", retry.MarkFinal(errors.New("bad input")), "final", "bad input", 1},
		{"type", temporal.NewApplicationError("boom", "Busy"), "Busy", "boom", 2},
		{"not retryable", temporal.NewNonRetryableApplicationError("bad input", "Invalid", nil), "Invalid", "bad input", 1},
		{"hint too long", temporal.NewApplicationErrorWithOptions("later", "Busy",
			temporal.ApplicationErrorOptions{NextRetryDelay: 25 * time.Hour}), "Busy", "later", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			calls := 0
			_, err := once(t, &retry.Policy{MaxAttempts: 2}, func(context.Context) (string, error) {
				calls++
				return "", test.err
			})
			e := testkit.As[*temporal.ApplicationError](t, err)
			assert.True(t, e.NonRetryable())
			assert.Equal(t, test.kind, e.Type())
			assert.Contains(t, e.Error(), test.says)
			assert.Equal(t, test.calls, calls)
		})
	}
}

// Under a NonIdempotent policy, an activity is run again after the errors after which Execute
// repeats an operation.
func TestNotIdempotent(t *testing.T) {
	t.Parallel()
	dial := &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
	require.True(t, retry.Classify(dial).NotApplied)
	limited := temporal.NewApplicationErrorWithOptions("later", "Busy", temporal.ApplicationErrorOptions{
		NextRetryDelay: time.Second, Cause: dial,
	})
	for _, test := range []struct {
		name string
		err  error
		want int
	}{
		{"a refused dial, perhaps after other steps", dial, 1},
		{"a hint", limited, 1},
		{"a mark", retry.MarkRetryable(dial), 2},
		{"another mark", fmt.Errorf("x: %w", retry.MarkPending(dial)), 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := retry.Policy{NonIdempotent: true, MaxAttempts: 2, Backoff: retry.Constant(time.Millisecond)}
			calls := 0
			twice := func(context.Context) (string, error) {
				if calls++; calls == 2 {
					return "", retry.MarkFinal(test.err)
				}
				return "", test.err
			}
			_, err := retry.Do(t.Context(), &p, twice)
			require.Error(t, err)
			assert.Equal(t, test.want, calls, "by Execute")
			calls = 0
			_, err = once(t, &p, twice)
			require.Error(t, err)
			assert.Equal(t, test.want, calls)
		})
	}
}

// What the activity says in its error is for the workflow.
func TestDetails(t *testing.T) {
	t.Parallel()
	for _, give := range [][]any{nil, {"balance", 7}, {"balance", nil}} {
		_, err := once(t, &retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(time.Second)}, func(context.Context) (string, error) {
			return "", temporal.NewApplicationErrorWithOptions("no funds", "NoFunds", temporal.ApplicationErrorOptions{
				Details: give, Category: temporal.ApplicationErrorCategoryBenign,
			})
		})
		e := testkit.As[*temporal.ApplicationError](t, err)
		assert.Equal(t, temporal.ApplicationErrorCategoryBenign, e.Category())
		var word string
		var number int
		switch {
		case give == nil:
			assert.False(t, e.HasDetails())
		case give[1] == nil:
			require.NoError(t, e.Details(&word))
			assert.Equal(t, "balance", word)
		default:
			require.NoError(t, e.Details(&word, &number))
			assert.Equal(t, "balance 7", fmt.Sprint(word, " ", number))
		}
	}
}

// The activity's own heartbeats come to the next attempt without ours.
func TestHeartbeats(t *testing.T) {
	t.Parallel()
	p := &retry.Policy{MaxAttempts: 4, Backoff: retry.Constant(time.Second)}
	var seen []string
	result := testkit.Must(once(t, p, func(ctx context.Context) (string, error) {
		var word string
		var number int
		err := activity.GetHeartbeatDetails(ctx, &word, &number)
		if !activity.HasHeartbeatDetails(ctx) {
			require.ErrorIs(t, err, temporal.ErrNoData)
		} else {
			require.NoError(t, err)
		}
		seen = append(seen, fmt.Sprint(word, number))
		switch activity.GetInfo(ctx).Attempt {
		case 1:
			return "", errors.New("boom") // without a heartbeat
		case 2:
			activity.RecordHeartbeat(ctx, "page", 7)
			return "", errors.New("boom")
		case 3:
			return "", errors.New("boom") // what was there is kept
		default:
			return "done", nil
		}
	}))(t)
	assert.Equal(t, "done", result)
	assert.Equal(t, []string{"0", "0", "page7", "page7"}, seen)
}

// begin starts a worker for one job on a server.
func begin(t *testing.T, s *server, kind string, p *retry.Policy, handle enginetest.Handler) *queue {
	t.Helper()
	q := &queue{t: t, server: s}
	w := testkit.Must(q.Start(enginetest.Policies{Policy: p}, handle))(t)
	t.Cleanup(func() { assert.NoError(t, w.Stop(context.Background())) })
	require.NoError(t, q.Submit(t.Context(), kind, "job"))
	return q
}

// ended returns how the job ended.
func (q *queue) ended(t *testing.T) enginetest.Outcome {
	t.Helper()
	return enginekit.Await(t, q, "job")
}

// Who reads the details of the user's finds them where they were without a policy.
func TestStateIsBehindTheDetails(t *testing.T) {
	t.Parallel()
	s := startServer(t, time.Minute, nil)
	q := begin(t, s, "kind-1", &retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(0)}, func(ctx context.Context, _ string) error {
		activity.RecordHeartbeat(ctx, "page", 7)
		return assert.AnError
	})
	assert.Equal(t, enginetest.GaveUp, q.ended(t).Status)
	s.mu.Lock()
	defer s.mu.Unlock()
	var texts []string
	for _, p := range s.jobs["job"].details.GetPayloads() {
		texts = append(texts, string(p.GetData()))
	}
	require.Len(t, texts, 3)
	assert.Equal(t, []string{`"page"`, `7`}, texts[:2])
	assert.Contains(t, texts[2], `"failures":1`)
}

// The details of a worker without a policy, however many, are the activity's.
func TestDetailsOfAWorkerWithoutPolicy(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 3, 4, 5, 17} {
		s := startServer(t, time.Minute, nil)
		var details, found []any
		for i := range n {
			details = append(details, i)
		}
		s.first = testkit.Must(converter.GetDefaultDataConverter().ToPayloads(details...))(t)
		q := begin(t, s, "kind-1", &retry.Policy{}, func(ctx context.Context, _ string) error {
			all := make([]int, n+2)
			into := make([]any, n+2)
			for i := range all {
				into[i] = &all[i]
			}
			if activity.HasHeartbeatDetails(ctx) {
				assert.NoError(t, activity.GetHeartbeatDetails(ctx, into...))
			}
			for _, number := range all[:n] {
				found = append(found, number)
			}
			return nil
		})
		assert.Equal(t, enginetest.Succeeded, q.ended(t).Status)
		assert.Equal(t, details, found)
	}
}

// An activity that somebody resets has all its attempts again, and a lost one is one of them.
func TestReset(t *testing.T) {
	t.Parallel()
	s := startServer(t, time.Minute, &commonpb.RetryPolicy{InitialInterval: durationpb.New(time.Millisecond)})
	attempts := 0
	q := begin(t, s, "kind-1", &retry.Policy{MaxAttempts: 3, Backoff: retry.Constant(300 * time.Millisecond)}, func(context.Context, string) error {
		switch attempts++; attempts {
		case 2:
			time.AfterFunc(100*time.Millisecond, func() { s.reset("job") }) // it waits then
		case 3:
			s.timeOut("job")
		}
		return assert.AnError
	})
	assert.Contains(t, q.ended(t).Err, "failed after 3 attempts")
	assert.Equal(t, 5, attempts)
}

// A pause costs no attempt, although the SDK drops the last heartbeat.
func TestPause(t *testing.T) {
	t.Parallel()
	s := startServer(t, time.Minute, nil)
	attempts := 0
	q := begin(t, s, "kind-1", &retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(0)}, func(ctx context.Context, _ string) error {
		attempts++
		s.mu.Lock()
		s.jobs["job"].paused = attempts < 3
		s.mu.Unlock()
		if activity.RecordHeartbeat(ctx, attempts); attempts < 3 {
			<-ctx.Done()
			assert.ErrorIs(t, context.Cause(ctx), activity.ErrActivityPaused)
			return ctx.Err()
		}
		return assert.AnError
	})
	assert.Contains(t, q.ended(t).Err, "failed after 2 attempts")
	assert.Equal(t, 4, attempts)
}

// The server refuses what is too large, and ends the activity.
func TestLongText(t *testing.T) {
	t.Parallel()
	s := startServer(t, time.Minute, nil)
	long := fmt.Errorf("%sé: %w", strings.Repeat("x", 8<<10-1), assert.AnError)
	q := begin(t, s, "kind-1", &retry.Policy{}, func(context.Context, string) error { return retry.MarkFinal(long) })
	assert.Len(t, q.ended(t).Err, 8<<10-1, "without half a character")
	s.mu.Lock()
	defer s.mu.Unlock()
	assert.Less(t, s.jobs["job"].sent, 9<<10)
}

// The SDK's own activities are as they were without a policy.
func TestSessions(t *testing.T) {
	t.Parallel()
	s := startServer(t, time.Minute, &commonpb.RetryPolicy{NonRetryableErrorTypes: []string{"Bad"}})
	q := begin(t, s, ofSessions, &retry.Policy{AttemptTimeout: time.Millisecond}, func(ctx context.Context, _ string) error {
		deadline, _ := ctx.Deadline()
		assert.Greater(t, time.Until(deadline), 30*time.Second)
		return nil
	})
	assert.Equal(t, enginetest.Outcome{Status: enginetest.Succeeded}, q.ended(t))
}

// A RetryPolicy that would end the activity before the policy does is refused.
func TestConflicts(t *testing.T) {
	t.Parallel()
	tests := []struct {
		policy retry.Policy
		server commonpb.RetryPolicy
		want   string
	}{
		{retry.Policy{}, commonpb.RetryPolicy{}, ""},
		{retry.Policy{}, commonpb.RetryPolicy{MaximumAttempts: 3}, "RetryPolicy.MaximumAttempts is 3: must be 0"},
		{
			retry.Policy{MaxAttempts: retry.Unlimited},
			commonpb.RetryPolicy{MaximumAttempts: 99},
			"RetryPolicy.MaximumAttempts is 99: must be 0",
		},
		{
			retry.Policy{},
			commonpb.RetryPolicy{NonRetryableErrorTypes: []string{"Bad"}},
			`RetryPolicy.NonRetryableErrorTypes is ["Bad"]: must be empty`,
		},
	}
	for i := range tests {
		test := &tests[i]
		t.Run(test.want, func(t *testing.T) {
			t.Parallel()
			test.server.InitialInterval = durationpb.New(time.Second)
			q := begin(t, startServer(t, time.Minute, &test.server), "kind-1", &test.policy, func(context.Context, string) error { return nil })
			o := q.ended(t)
			assert.Contains(t, o.Err, test.want)
			assert.Equal(t, test.want == "", o.Err == "")
		})
	}
}

func TestConfigureRefuses(t *testing.T) {
	t.Parallel()
	var retries retrytemporal.Retries
	require.EqualError(t, retries.Configure(nil), "retrytemporal: options is nil")
	retries.Policy = &retry.Policy{MaxDelay: -time.Second}
	err := retries.Configure(&worker.Options{})
	require.ErrorContains(t, err, "retrytemporal: ")
	assert.ErrorContains(t, err, "-1s")
}

func TestNoPolicy(t *testing.T) {
	t.Parallel()
	q := open(t)
	enginekit.NoPolicy(t, q, false, func() string { return q.server.failureOf("job") })
}

// A workflow that cancels its activity ends it as before.
func TestCancel(t *testing.T) {
	t.Parallel()
	env := environment(t, &retry.Policy{MaxAttempts: 5})
	calls := 0
	env.RegisterActivityWithOptions(func(ctx context.Context) error {
		calls++
		return temporal.NewApplicationErrorWithOptions("later", "", temporal.ApplicationErrorOptions{NextRetryDelay: 10 * time.Second})
	}, activity.RegisterOptions{Name: "activity"})
	env.RegisterDelayedCallback(env.CancelWorkflow, 5*time.Second)
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
		return workflow.ExecuteActivity(ctx, "activity").Get(ctx, nil)
	})
	require.ErrorContains(t, env.GetWorkflowError(), "canceled")
	assert.Equal(t, 1, calls)
}

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
	c := testkit.Must(client.Dial(options))(t)
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
	took := testkit.Soon(t, watch.over).Sub(at)
	t.Logf("returned after %v", took.Round(time.Millisecond))
	assert.Less(t, took, 8*time.Second) // 5, and what a busy machine adds
	end()
	w.Stop()
	c.Close()
}
