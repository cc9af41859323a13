package retrygrpc_test

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrygrpc"
	"github.com/seed-5ff3c98e/retry/internal/test/provoke"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// echo is a stream that fails in its first calls, after some messages, and then answers
// the request two times.
func echo(calls, messages int, code codes.Code) func(int, grpc.ServerStream) error {
	return func(call int, stream grpc.ServerStream) error {
		var in wrapperspb.StringValue
		if err := stream.RecvMsg(&in); err != nil {
			return err
		}
		for n := range 2 {
			if call <= calls && n == messages {
				return status.Error(code, "no")
			}
			if err := stream.SendMsg(&in); err != nil {
				return err
			}
		}
		return nil
	}
}

// drain reads a stream to its end.
func drain(stream grpc.ClientStream) (got []string, err error) {
	for {
		message, err := receive(stream)
		if errors.Is(err, io.EOF) {
			return got, nil
		}
		if err != nil {
			return got, err
		}
		got = append(got, message)
	}
}

func TestStream(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, method string
		serve        func(int, grpc.ServerStream) error
		calls        int
		messages     []string
		code         codes.Code
	}{
		{"at once", watch, echo(0, 0, 0), 1, []string{"job", "job"}, codes.OK},
		{"opened again", watch, echo(2, 0, codes.Unavailable), 3, []string{"job", "job"}, codes.OK},
		{"not after a message", watch, echo(2, 1, codes.Unavailable), 1, []string{"job"}, codes.Unavailable},
		{"to no avail", watch, echo(9, 0, codes.Unavailable), 3, nil, codes.Unavailable},
		{"final", watch, echo(9, 0, codes.NotFound), 1, nil, codes.NotFound},
		{"not idempotent", follow, echo(2, 0, codes.Unavailable), 1, nil, codes.Unavailable},
		{"not idempotent, refused", follow, func(call int, stream grpc.ServerStream) error {
			if call <= 2 {
				return retrygrpc.Overloaded(stream.Context(), time.Second, "later")
			}
			return echo(0, 0, 0)(call, stream)
		}, 3, []string{"job", "job"}, codes.OK},
		{"pushback forbids", watch, func(_ int, stream grpc.ServerStream) error {
			stream.SetTrailer(metadata.Pairs("grpc-retry-pushback-ms", "-1"))
			return status.Error(codes.Unavailable, "no")
		}, 1, nil, codes.Unavailable},
		{"empty", watch, func(int, grpc.ServerStream) error { return nil }, 1, nil, codes.OK},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := (&server{stream: tt.serve}).start(t)
			retries, recorder := retrying(attempts)
			stream := testkit.Must(watching(t.Context(), dial(t, s.address, retries.DialOptions()...), tt.method, "job"))(t)
			got, err := drain(stream)
			assert.Equal(t, tt.code, status.Code(err))
			assert.Equal(t, tt.messages, got)
			assert.Equal(t, tt.calls, s.count())
			assert.Len(t, recorder.Waits(), tt.calls-1)
			assert.Len(t, recorder.Events(), tt.calls, "one event each, the end of the stream has none")

			_, err = receive(stream)
			require.Error(t, err, "what is over stays over")
			assert.Equal(t, tt.calls, s.count())
		})
	}
}

// TestStreamHeader has a server whose header the caller has read.
func TestStreamHeader(t *testing.T) {
	t.Parallel()
	s := (&server{stream: func(_ int, stream grpc.ServerStream) error {
		if err := stream.SendHeader(metadata.Pairs("x", "y")); err != nil {
			return err
		}
		return status.Error(codes.Unavailable, "no")
	}}).start(t)
	retries, _ := retrying(attempts)
	conn := dial(t, s.address, retries.DialOptions()...)
	stream := testkit.Must(watching(t.Context(), conn, watch, "job"))(t)
	assert.Equal(t, []string{"y"}, testkit.Must(stream.Header())(t)["x"])
	_, err := receive(stream)
	assert.Equal(t, codes.Unavailable, status.Code(err))
	assert.Equal(t, 1, s.count())

	// Who has not read it cannot tell.
	stream = testkit.Must(watching(t.Context(), conn, watch, "job"))(t)
	_, err = receive(stream)
	assert.Equal(t, codes.Unavailable, status.Code(err))
	assert.Equal(t, 1+attempts, s.count())
	assert.NotNil(t, stream.Trailer())
	assert.NotNil(t, stream.Context())
}

// TestStreamHeaderOfNone has a stream that fails before its header: RecvMsg opens another.
func TestStreamHeaderOfNone(t *testing.T) {
	t.Parallel()
	s := (&server{stream: echo(1, 0, codes.Unavailable)}).start(t)
	retries, _ := retrying(attempts)
	stream := testkit.Must(watching(t.Context(), dial(t, s.address, retries.DialOptions()...), watch, "job"))(t)
	assert.Nil(t, testkit.Must(stream.Header())(t))
	assert.Equal(t, []string{"job", "job"}, testkit.Must(drain(stream))(t))
}

// TestStreamHeaderBeside has callers that ask for the header beside the goroutine that
// receives. The end is told once, and both get what belongs to one stream.
func TestStreamHeaderBeside(t *testing.T) {
	t.Parallel()
	const streams = 500
	for _, failures := range []int{0, 1} {
		t.Run(strconv.Itoa(failures), func(t *testing.T) {
			t.Parallel()
			s := (&server{}).start(t)
			var succeeded, retried atomic.Int64
			retries := &retrygrpc.Interceptor{Budget: retrygrpc.NoBudget, Policy: &retry.Policy{
				MaxAttempts: 10, Backoff: retry.Constant(0),
				Observer: &retry.Observer{Event: func(_ context.Context, e retry.Event) {
					switch e.Kind {
					case retry.Succeeded:
						succeeded.Add(1)
					case retry.Retrying:
						retried.Add(1)
					default:
						t.Error(e)
					}
				}},
			}}
			s.stream = func(_ int, stream grpc.ServerStream) error {
				md, _ := metadata.FromIncomingContext(stream.Context())
				again := md.Get("grpc-previous-rpc-attempts")
				if len(again) == failures { // a failure has no header
					_ = stream.SetHeader(metadata.Pairs("again", strings.Join(again, "")))
				}
				return echo(failures, 0, codes.Unavailable)(len(again)+1, stream)
			}
			conn := dial(t, s.address, retries.DialOptions()...)
			for range streams {
				stream := testkit.Must(watching(t.Context(), conn, watch, "job"))(t)
				var both sync.WaitGroup
				both.Go(func() {
					testkit.Must(receive(stream))(t)
				})
				both.Go(func() {
					header := testkit.Must(stream.Header())(t)
					if header != nil { // else it failed, and receive opens another
						assert.Equal(t, []string{[]string{"", "1"}[failures]}, header["again"])
					}
				})
				both.Wait()
			}
			assert.EqualValues(t, streams, succeeded.Load())
			assert.EqualValues(t, streams*failures, retried.Load())
		})
	}
}

// TestStreamHeaderOfOne has streams that fail after their header, which one goroutine asks
// for while another receives: the header is that of the stream that was received.
func TestStreamHeaderOfOne(t *testing.T) {
	t.Parallel()
	s := (&server{stream: func(_ int, stream grpc.ServerStream) error {
		md, _ := metadata.FromIncomingContext(stream.Context())
		number := strconv.Itoa(1 + len(md.Get("grpc-previous-rpc-attempts")))
		if err := stream.SendHeader(metadata.Pairs("number", number)); err != nil || number == "1" {
			return status.Error(codes.Unavailable, "no")
		}
		return stream.SendMsg(wrapperspb.String(number))
	}}).start(t)
	retries, _ := retrying(attempts)
	conn := dial(t, s.address, retries.DialOptions()...)
	for range 2000 {
		stream := testkit.Must(watching(t.Context(), conn, watch, "job"))(t)
		var header metadata.MD
		var both sync.WaitGroup
		both.Go(func() { header, _ = stream.Header() })
		got, err := receive(stream)
		both.Wait()
		if err != nil {
			require.Equal(t, []string{"1"}, header["number"], err)
		} else {
			require.Equal(t, []string{got}, header["number"])
		}
	}
}

// TestStreamTimeoutCode has openings that take too long, with a connection and without one:
// the code is that of a unary call.
func TestStreamTimeoutCode(t *testing.T) {
	t.Parallel()
	s := (&server{
		unary:  func(ctx context.Context, _ int, _ string) (string, error) { <-ctx.Done(); return "", ctx.Err() },
		stream: func(_ int, stream grpc.ServerStream) error { <-stream.Context().Done(); return stream.Context().Err() },
	}).start(t)
	for name, test := range map[string]struct {
		address string
		state   connectivity.State // before the first call, because the text tells it
	}{
		"connected":     {s.address, connectivity.Ready},
		"not connected": {provoke.Serve(t, provoke.Ignore).Addr, connectivity.Connecting},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			retries := &retrygrpc.Interceptor{Policy: &retry.Policy{
				MaxAttempts: 2, AttemptTimeout: 50 * time.Millisecond, Backoff: retry.Constant(0),
			}}
			conn := dial(t, test.address, retries.DialOptions()...)
			conn.Connect()
			for state := conn.GetState(); state != test.state; state = conn.GetState() {
				require.True(t, conn.WaitForStateChange(t.Context(), state))
			}
			_, err := call(t.Context(), conn, get, "job")
			assert.Equal(t, codes.DeadlineExceeded, status.Code(err), err)
			require.ErrorIs(t, err, retry.StopAttempts)
			unary := err

			stream, err := watching(t.Context(), conn, watch, "job")
			if err == nil {
				_, err = receive(stream)
			}
			assert.Equal(t, codes.DeadlineExceeded, status.Code(err), err)
			require.ErrorIs(t, err, retry.StopAttempts)
			if name == "connected" { // a unary call may also be ended by the server, which knows of its deadline
				unary = errors.New("failed after 2 attempts: rpc error: code = DeadlineExceeded desc = context deadline exceeded")
			}
			assert.Equal(t, unary.Error(), err.Error())
		})
	}
}

// TestStreamTimeouts has a server that is silent first, and slow then: AttemptTimeout
// bounds the opening and not the stream.
func TestStreamTimeouts(t *testing.T) {
	t.Parallel()
	const timeout = 200 * time.Millisecond
	s := (&server{stream: func(call int, stream grpc.ServerStream) error {
		if call == 1 {
			<-stream.Context().Done()
			return stream.Context().Err()
		}
		var in wrapperspb.StringValue
		if err := stream.RecvMsg(&in); err != nil {
			return err
		}
		for range 2 {
			if err := stream.SendMsg(&in); err != nil {
				return err
			}
			time.Sleep(2 * timeout) // a real server that is slow
		}
		return nil
	}}).start(t)
	retries := &retrygrpc.Interceptor{Budget: retrygrpc.NoBudget, Policy: &retry.Policy{
		MaxAttempts: 20, AttemptTimeout: timeout, Backoff: retry.Constant(0), // 20 for a machine that is busy
	}}
	conn := dial(t, s.address, retries.DialOptions()...)
	stream := testkit.Must(watching(t.Context(), conn, watch, "job"))(t)
	assert.Equal(t, []string{"job", "job"}, testkit.Must(drain(stream))(t))
	assert.GreaterOrEqual(t, s.count(), 2)

	// The caller's context ends it all the same.
	ctx, cancel := context.WithCancel(t.Context())
	stream = testkit.Must(watching(ctx, conn, watch, "job"))(t)
	testkit.Must(receive(stream))(t)
	cancel()
	_, err := drain(stream)
	assert.Equal(t, codes.Canceled, status.Code(err))
}

// TestStreamAttempts has an Observer that gives attempts contexts of their own.
func TestStreamAttempts(t *testing.T) {
	t.Parallel()
	s := (&server{stream: func(call int, stream grpc.ServerStream) error {
		if md, _ := metadata.FromIncomingContext(stream.Context()); len(md["attempt"]) != 1 || md["attempt"][0] != string(rune('0'+call)) {
			return status.Error(codes.InvalidArgument, "wrong attempt")
		}
		return echo(1, 0, codes.Unavailable)(call, stream)
	}}).start(t)
	for _, timeout := range []time.Duration{0, time.Minute} {
		s.calls = 0
		retries := &retrygrpc.Interceptor{Policy: &retry.Policy{
			Observer: &retry.Observer{Attempt: tellNumber}, Clock: &retrytest.Clock{}, AttemptTimeout: timeout,
		}}
		stream := testkit.Must(watching(t.Context(), dial(t, s.address, retries.DialOptions()...), watch, "job"))(t)
		assert.Len(t, testkit.Must(drain(stream))(t), 2)
	}
}

// tellNumber tells the number of the attempt by its context.
func tellNumber(ctx context.Context, n int) (context.Context, func(error)) {
	return metadata.AppendToOutgoingContext(ctx, "attempt", string(rune('0'+n))), nil
}
