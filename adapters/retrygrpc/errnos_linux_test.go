package retrygrpc_test

import (
	"context"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrygrpc"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// TestErrnos fails the connection of a call that must not be repeated, at every step and with
// every errno that package known knows. Only a call that had no connection is sent again.
func TestErrnos(t *testing.T) {
	t.Parallel()
	for step, want := range map[testkit.Step]string{
		testkit.Dial: "again", testkit.PartlyWritten: "once", testkit.Written: "once", testkit.Unanswered: "once",
	} {
		t.Run(string(step), func(t *testing.T) {
			t.Parallel()
			got := testkit.Outcomes(t, func(_ string, errno syscall.Errno) string { return outcome(t, step, errno) })
			assert.Equal(t, "    "+want+": all\n", got)
		})
	}
}

// outcome makes a call that must not be repeated, and whose connection fails once.
func outcome(t *testing.T, step testkit.Step, errno syscall.Errno) string {
	t.Helper()
	const job = "the job that is to be done"
	var handled atomic.Bool
	s := (&server{unary: func(_ context.Context, _ int, in string) (string, error) {
		handled.Store(true)
		return in, nil
	}}).start(t)
	wire, recorder := &testkit.Wire{}, &retrytest.Recorder{}
	fault := testkit.Fault{Step: step, Message: job, Errno: errno, Handled: handled.Load}
	wire.Fail(fault)
	dialer := func(ctx context.Context, address string) (net.Conn, error) {
		if step == testkit.Dial && len(recorder.Waits()) == 0 { // grpc may try again before the call has failed
			wire.Fail(fault)
		}
		return wire.DialContext(ctx, "tcp", address)
	}
	retries := &retrygrpc.Interceptor{Budget: retrygrpc.NoBudget, Policy: &retry.Policy{
		MaxAttempts: 1000, Backoff: retry.Constant(time.Millisecond), Observer: recorder.Observer(),
	}}
	conn := dial(t, s.address, append(retries.DialOptions(), grpc.WithContextDialer(dialer))...)
	_, err := call(t.Context(), conn, submit, job)
	require.True(t, wire.Failed())
	require.LessOrEqual(t, s.count(), 1, "handled twice")
	if err == nil {
		require.NotEmpty(t, recorder.Waits())
		return "again"
	}
	require.ErrorIs(t, err, retry.StopMaybeApplied)
	require.Equal(t, codes.Unavailable, status.Code(err))
	return "once"
}
