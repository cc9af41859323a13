package retryconnect_test

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retryconnect"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// TestErrnos fails the connection of a call at every step and with every errno that package
// known knows. A call that must not be repeated is sent again only if there was no connection.
func TestErrnos(t *testing.T) {
	t.Parallel()
	for step, want := range map[testkit.Step]string{ // of an idempotent call, and of another one
		testkit.Dial: "again, again", testkit.Unwritten: "again, once", testkit.PartlyWritten: "again, once",
		testkit.Written: "again, once", testkit.Unanswered: "again, once",
	} {
		for _, http2 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, HTTP/2 %v", step, http2), func(t *testing.T) {
				t.Parallel()
				got := testkit.Outcomes(t, func(_ string, errno syscall.Errno) string {
					return outcome(t, step, errno, connect.IdempotencyIdempotent, http2) + ", " +
						outcome(t, step, errno, connect.IdempotencyUnknown, http2)
				})
				assert.Equal(t, "    "+want+": all\n", got)
			})
		}
	}
}

// outcome makes a call, of which the first connection fails.
func outcome(t *testing.T, step testkit.Step, errno syscall.Errno, level connect.IdempotencyLevel, http2 bool) string {
	t.Helper()
	const job = "the job that is to be done" // in the request, and in nothing that is written before
	var handled atomic.Bool
	s := serve(t, func(context.Context, int) error {
		handled.Store(true)
		return nil
	})
	defer s.Close()
	wire := &testkit.Wire{}
	wire.Fail(testkit.Fault{Step: step, Message: job, Errno: errno, Handled: handled.Load})
	transport := &http.Transport{DialContext: wire.DialContext, Protocols: new(http.Protocols)}
	transport.Protocols.SetHTTP1(!http2)
	transport.Protocols.SetUnencryptedHTTP2(http2)
	defer transport.CloseIdleConnections()
	recorder := &retrytest.Recorder{}
	retries := &retryconnect.Interceptor{Policy: &retry.Policy{Backoff: retry.Constant(0), Observer: recorder.Observer()}}
	_, err := connect.NewClient[text, text](&http.Client{Transport: transport}, s.URL+procedure,
		connect.WithInterceptors(retries), connect.WithIdempotency(level)).
		CallUnary(t.Context(), connect.NewRequest(wrapperspb.String(job)))
	require.True(t, wire.Failed())
	if level == connect.IdempotencyUnknown {
		require.LessOrEqual(t, s.count(), 1, "handled twice")
	}
	if len(recorder.Waits()) == 0 {
		require.Error(t, err)
		return "once"
	}
	require.NoError(t, err)
	return "again"
}
