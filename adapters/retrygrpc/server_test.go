package retrygrpc_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrygrpc"
)

// TestRefusals looks at what a bare client gets.
func TestRefusals(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		refuse func(context.Context, time.Duration, string) error
		after  time.Duration
		code   codes.Code
		ms     int // the least of the pushback
	}{
		{"overloaded", retrygrpc.Overloaded, 2 * time.Second, codes.Unavailable, 2000},
		{"rate limited", retrygrpc.RateLimited, 2 * time.Second, codes.ResourceExhausted, 2000},
		{"rounded up", retrygrpc.Overloaded, 1, codes.Unavailable, 1},
		{"not to come back", retrygrpc.Overloaded, 0, codes.Unavailable, -1},
		{"longer than a trailer can say", retrygrpc.Overloaded, 1 << 62, codes.Unavailable, 1<<31 - 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := (&server{unary: func(ctx context.Context, _ int, _ string) (string, error) {
				return "", tt.refuse(ctx, tt.after, "later")
			}}).start(t)
			var trailer metadata.MD
			_, err := call(t.Context(), dial(t, s.address), submit, "", grpc.Trailer(&trailer))
			assert.Equal(t, tt.code, status.Code(err))
			assert.Equal(t, "later", status.Convert(err).Message())
			require.Len(t, trailer["grpc-retry-pushback-ms"], 1)
			ms, err2 := strconv.Atoi(trailer["grpc-retry-pushback-ms"][0])
			require.NoError(t, err2)
			assert.GreaterOrEqual(t, ms, tt.ms)
			assert.LessOrEqual(t, float64(ms), float64(tt.ms)*1.1+1)
			if tt.after <= 0 {
				assert.Empty(t, status.Convert(err).Details())
				return
			}
			require.Len(t, status.Convert(err).Details(), 1)
			assert.Equal(t, tt.after, status.Convert(err).Details()[0].(*errdetails.RetryInfo).GetRetryDelay().AsDuration())
		})
	}
	assert.Equal(t, codes.Unavailable, status.Code(retrygrpc.Overloaded(t.Context(), 1, "")), "without a call")
}

// TestRefusalsOfOurs has this package on both sides.
func TestRefusalsOfOurs(t *testing.T) {
	t.Parallel()
	s := (&server{unary: func(ctx context.Context, call int, in string) (string, error) {
		if call == 1 {
			return "", retrygrpc.Overloaded(ctx, 2*time.Second, "later")
		}
		return in, nil
	}}).start(t)
	retries, recorder := retrying(attempts)
	_, err := call(t.Context(), dial(t, s.address, retries.DialOptions()...), submit, "")
	require.NoError(t, err)
	require.Len(t, recorder.Waits(), 1)
	assert.GreaterOrEqual(t, recorder.Waits()[0], 2*time.Second)
	assert.LessOrEqual(t, recorder.Waits()[0], 2200*time.Millisecond)

	// A client that has only the retries of grpc itself.
	s.calls = 0
	conn := dial(t, s.address, grpc.WithDefaultServiceConfig(`{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 4,
		"initialBackoff": "100s", "maxBackoff": "100s", "backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE"]}}]}`))
	s.unary = func(ctx context.Context, call int, in string) (string, error) {
		if call == 1 {
			return "", retrygrpc.Overloaded(ctx, time.Millisecond, "later")
		}
		return in, nil
	}
	_, err = call(t.Context(), conn, submit, "")
	require.NoError(t, err)
}

// refusedElsewhere is what a handler may get from another server.
type refusedElsewhere struct{}

func (refusedElsewhere) Error() string             { return "429 Too Many Requests" }
func (refusedElsewhere) HTTPStatusCode() int       { return 429 }
func (refusedElsewhere) RetryAfter() time.Duration { return time.Second }

// TestServerInterceptors has handlers that return errors of package retry.
func TestServerInterceptors(t *testing.T) {
	t.Parallel()
	limited := retry.MarkRateLimited(errors.New("too many jobs"), 3*time.Second)
	tests := []struct {
		name string
		err  error
		code codes.Code
		info bool
	}{
		{"rate limited", limited, codes.ResourceExhausted, true},
		{"rate limited without a time", retry.MarkRateLimited(errors.New("no"), 0), codes.Unknown, false},
		{"other", errors.New("no"), codes.Unknown, false},
		{"may have had an effect", retry.Mark(errors.New("no"), retry.Verdict{Class: retry.RateLimited, After: 1}), codes.Unknown, false},
		{"another server's refusal", refusedElsewhere{}, codes.Unknown, false},
		{"status", status.Error(codes.NotFound, "no"), codes.NotFound, false},
		{"success", nil, codes.OK, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			sends := false
			s := (&server{
				unary: func(context.Context, int, string) (string, error) { return "", tt.err },
				stream: func(_ int, stream grpc.ServerStream) error {
					if sends {
						_ = stream.SendMsg(wrapperspb.String("x"))
					}
					return tt.err
				},
			}).start(t, grpc.UnaryInterceptor(retrygrpc.UnaryServer), grpc.StreamInterceptor(retrygrpc.StreamServer))
			conn := dial(t, s.address)
			_, err := call(t.Context(), conn, submit, "")
			assert.Equal(t, tt.code, status.Code(err))
			assert.Equal(t, tt.info, len(status.Convert(err).Details()) == 1)

			stream, err := watching(t.Context(), conn, watch, "")
			require.NoError(t, err)
			_, err = drain(stream)
			assert.Equal(t, tt.code, status.Code(err))
			assert.Equal(t, tt.info, len(status.Convert(err).Details()) == 1)

			sends = true
			stream, err = watching(t.Context(), conn, watch, "")
			require.NoError(t, err)
			_, err = drain(stream)
			assert.Empty(t, status.Convert(err).Details(), "after a message")
		})
	}
}
