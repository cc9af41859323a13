package retrygrpc_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrygrpc"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// A RetryInfo that one call gets holds all calls with the Quota, also streams. None of them is
// sent before, and who has no time for that is told at once.
func TestQuota(t *testing.T) {
	t.Parallel()
	clock := &retrytest.Clock{}
	start := clock.Now()
	exhausted, err := status.New(codes.ResourceExhausted, "quota").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(30 * time.Second)})
	require.NoError(t, err)
	var mu sync.Mutex
	var came []time.Duration
	note := func() {
		mu.Lock()
		defer mu.Unlock()
		came = append(came, clock.Now().Sub(start))
	}
	s := (&server{
		unary: func(_ context.Context, n int, in string) (string, error) {
			if note(); n == 1 {
				return "", exhausted.Err()
			}
			return in, nil
		},
		stream: func(n int, stream grpc.ServerStream) error {
			note()
			return echo(0, 0, codes.OK)(n, stream)
		},
	}).start(t)
	quota := &retry.Quota{}
	with := func(p retry.Policy) *grpc.ClientConn {
		p.Quota, p.Clock, p.Jitter = quota, clock, retry.NoJitter
		i := &retrygrpc.Interceptor{Policy: &p, Budget: retrygrpc.NoBudget}
		return dial(t, s.address, i.DialOptions()...)
	}

	_, err = call(t.Context(), with(retry.Policy{MaxAttempts: 1}), get, "first")
	assert.Equal(t, codes.ResourceExhausted, status.Code(err))
	_, err = call(t.Context(), with(retry.Policy{Timeout: 10 * time.Second}), get, "hasty")
	var gaveUp *retry.Error
	require.ErrorAs(t, err, &gaveUp)
	assert.Equal(t, 30*time.Second, gaveUp.RetryAfter)
	require.ErrorIs(t, err, retry.StopTimeout)
	assert.Equal(t, []time.Duration{0}, came)

	out, err := call(t.Context(), with(retry.Policy{}), submit, "second")
	require.NoError(t, err)
	assert.Equal(t, "second", out)
	stream, err := watching(t.Context(), with(retry.Policy{}), watch, "event")
	require.NoError(t, err)
	events, err := drain(stream)
	require.NoError(t, err)
	assert.Equal(t, []string{"event", "event"}, events)
	assert.Equal(t, 30*time.Second, came[1])
	assert.Equal(t, 30*time.Second, came[2], "the first has come back")
}
