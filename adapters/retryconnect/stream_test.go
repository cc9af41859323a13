package retryconnect_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retryconnect"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

const (
	watch = "/retryconnect.test.Jobs/Watch"
	send  = "/retryconnect.test.Jobs/Send"
)

// serveStreams starts a server with a stream of responses, and a stream of requests that fails.
func serveStreams(t *testing.T, fn func(ctx context.Context, call int, out *connect.ServerStream[text]) error) *server {
	t.Helper()
	s := &server{}
	return s.start(t, map[string]http.Handler{
		watch: connect.NewServerStreamHandler(watch, func(ctx context.Context, req *connect.Request[text], out *connect.ServerStream[text]) error {
			if req.Msg.GetValue() != "job" {
				return connect.NewError(connect.CodeInvalidArgument, errors.New("another request"))
			}
			return fn(ctx, s.began(req.Header()), out)
		}),
		send: connect.NewClientStreamHandler(send, func(_ context.Context, in *connect.ClientStream[text]) (*connect.Response[text], error) {
			s.began(in.RequestHeader())
			in.Receive() // else the client may fail to send
			return nil, connect.NewError(connect.CodeUnavailable, errors.New("no"))
		}),
	})
}

// streaming returns a client of the stream of responses, which has no side effects.
func streaming(t *testing.T, s *server, i connect.Interceptor, opts ...connect.ClientOption) *connect.Client[text, text] {
	t.Helper()
	return client(t, s.URL+watch, i, connect.IdempotencyNoSideEffects, opts...)
}

// watching opens the stream of responses.
func watching(t *testing.T, s *server, i connect.Interceptor) *connect.ServerStreamForClient[text] {
	t.Helper()
	return testkit.Must(streaming(t, s, i).CallServerStream(t.Context(), request()))(t)
}

// drain reads a stream to its end.
func drain(ctx context.Context, client *connect.Client[text, text]) (got []string, err error) {
	req := request()
	req.Header().Set("Caller", "me")
	stream, err := client.CallServerStream(ctx, req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = stream.Close() }()
	for stream.Receive() {
		got = append(got, stream.Msg().GetValue())
	}
	return got, stream.Err()
}

// failingStream fails the first calls after some messages, and then sends two.
func failingStream(calls, messages int, failure func() error) func(context.Context, int, *connect.ServerStream[text]) error {
	return func(_ context.Context, call int, out *connect.ServerStream[text]) error {
		for n := range 2 {
			if call <= calls && n == messages {
				return failure()
			}
			if err := out.Send(wrapperspb.String("job")); err != nil {
				return err
			}
		}
		return nil
	}
}

func fails(code connect.Code) func() error {
	return func() error { return connect.NewError(code, errors.New("no")) }
}

func TestStream(t *testing.T) {
	t.Parallel()
	info := testkit.Must(connect.NewErrorDetail(&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)}))(t)
	hinted := func() error {
		e := connect.NewError(connect.CodeUnavailable, errors.New("later"))
		e.AddDetail(info)
		return e
	}
	forbidden := func() error {
		e := connect.NewError(connect.CodeUnavailable, errors.New("no"))
		e.Meta().Set("grpc-retry-pushback-ms", "-1")
		return e
	}
	idempotent, unknown := connect.IdempotencyNoSideEffects, connect.IdempotencyUnknown
	two := []string{"job", "job"}
	for _, tt := range []struct {
		name     string
		level    connect.IdempotencyLevel
		serve    func(context.Context, int, *connect.ServerStream[text]) error
		calls    int
		messages []string
		code     connect.Code // 0: none
	}{
		{"at once", idempotent, failingStream(0, 0, nil), 1, two, 0},
		{"opened again", idempotent, failingStream(2, 0, fails(connect.CodeUnavailable)), 3, two, 0},
		{"not after a message", idempotent, failingStream(2, 1, fails(connect.CodeUnavailable)), 1, two[:1], connect.CodeUnavailable},
		{"to no avail", idempotent, failingStream(9, 0, fails(connect.CodeUnavailable)), 3, nil, connect.CodeUnavailable},
		{"final", idempotent, failingStream(9, 0, fails(connect.CodeNotFound)), 1, nil, connect.CodeNotFound},
		{"not idempotent", unknown, failingStream(9, 0, fails(connect.CodeUnavailable)), 1, nil, connect.CodeUnavailable},
		{"not idempotent, refused", unknown, failingStream(2, 0, hinted), 3, two, 0},
		{"pushback forbids", idempotent, failingStream(9, 0, forbidden), 1, nil, connect.CodeUnavailable},
		{"empty", idempotent, func(context.Context, int, *connect.ServerStream[text]) error { return nil }, 1, nil, 0},
	} {
		for protocol, opts := range protocols {
			t.Run(tt.name+", "+protocol, func(t *testing.T) {
				t.Parallel()
				s := serveStreams(t, tt.serve)
				retries, recorder := retrying(attempts)
				got, err := drain(t.Context(), client(t, s.URL+watch, retries, tt.level, opts...))
				assert.Equal(t, tt.messages, got)
				assert.Equal(t, tt.code != 0, err != nil, err)
				if err != nil {
					assert.Equal(t, tt.code, connect.CodeOf(err))
				}
				assert.Equal(t, tt.calls, s.count(), recorder.Timeline())
				assert.Len(t, recorder.Events(), tt.calls, "one event each")
				assert.Equal(t, []string{"", "1", "2"}[:tt.calls], s.previous)
				assert.Equal(t, []string{"me", "me", "me"}[:tt.calls], s.callers, "headers of the caller are sent again")
			})
		}
	}
}

// TestStreamUnsent has a server that is not there: even a stream that may not be repeated
// is opened again.
func TestStreamUnsent(t *testing.T) {
	t.Parallel()
	for protocol, opts := range protocols {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			retries, recorder := retrying(attempts)
			_, err := drain(t.Context(), client(t, refused+watch, retries, connect.IdempotencyUnknown, opts...))
			require.ErrorIs(t, err, retry.StopAttempts)
			assert.Len(t, recorder.Waits(), attempts-1)
		})
	}
}

// TestStreamHeader has a caller that reads the header before the first message.
func TestStreamHeader(t *testing.T) {
	t.Parallel()
	s := serveStreams(t, func(_ context.Context, _ int, out *connect.ServerStream[text]) error {
		out.ResponseHeader().Set("x", "y")
		return fails(connect.CodeUnavailable)()
	})
	retries, _ := retrying(attempts)
	stream := watching(t, s, retries)
	assert.Equal(t, "y", stream.ResponseHeader().Get("x"))
	assert.False(t, stream.Receive())
	assert.Equal(t, connect.CodeUnavailable, connect.CodeOf(stream.Err()))
	assert.NotNil(t, stream.ResponseTrailer())
	require.NoError(t, stream.Close())
	assert.Equal(t, 1, s.count())
}

// TestStreamHeaderBeside has callers that ask for the header beside the goroutine that
// receives. The end is told once, and the header is that of the stream that was received.
func TestStreamHeaderBeside(t *testing.T) {
	t.Parallel()
	const callers = 300
	var s *server
	s = serveStreams(t, func(_ context.Context, call int, out *connect.ServerStream[text]) error {
		s.mu.Lock()
		number := "1" + s.previous[call-1]
		s.mu.Unlock()
		out.ResponseHeader().Set("Number", number)
		if number == "1" {
			return fails(connect.CodeUnavailable)()
		}
		return out.Send(wrapperspb.String(number))
	})
	retries, recorder := retrying(attempts)
	client := streaming(t, s, retries)
	for range callers {
		stream := testkit.Must(client.CallServerStream(t.Context(), request()))(t)
		var number string
		var both sync.WaitGroup
		both.Go(func() { number = stream.ResponseHeader().Get("Number") })
		received := stream.Receive()
		both.Wait()
		require.Equal(t, map[bool]string{true: "11", false: "1"}[received], number)
		require.NoError(t, stream.Close())
	}
	told := 0
	for _, e := range recorder.Events() {
		if e.Kind != retry.Retrying {
			told++
		}
	}
	assert.Equal(t, callers, told)
}

// TestStreamTimeoutCode has openings that take too long: the code is that of a unary call.
func TestStreamTimeoutCode(t *testing.T) {
	t.Parallel()
	s := serveStreams(t, func(ctx context.Context, _ int, _ *connect.ServerStream[text]) error {
		<-ctx.Done()
		return ctx.Err()
	})
	for protocol, opts := range protocols {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			retries := &retryconnect.Interceptor{Policy: &retry.Policy{
				MaxAttempts: 2, AttemptTimeout: 50 * time.Millisecond, Backoff: retry.Constant(0),
			}}
			_, err := drain(t.Context(), streaming(t, s, retries, opts...))
			assert.Equal(t, connect.CodeDeadlineExceeded, connect.CodeOf(err), err)
			require.ErrorIs(t, err, retry.StopAttempts)
		})
	}
}

// TestStreamRequest has a caller that fills its request anew before it receives.
func TestStreamRequest(t *testing.T) {
	t.Parallel()
	s := serveStreams(t, failingStream(2, 0, fails(connect.CodeUnavailable)))
	retries, _ := retrying(attempts)
	request := wrapperspb.String("job")
	stream := testkit.Must(streaming(t, s, retries).CallServerStream(t.Context(), connect.NewRequest(request)))(t)
	request.Value = "another"
	assert.True(t, stream.Receive(), stream.Err())
	require.NoError(t, stream.Close())
}

// TestStreamClosed has a caller that does not want the messages.
func TestStreamClosed(t *testing.T) {
	t.Parallel()
	s := serveStreams(t, failingStream(0, 0, nil))
	retries, recorder := retrying(attempts)
	stream := watching(t, s, retries)
	require.NoError(t, stream.Close())
	conn := testkit.Must(stream.Conn())(t)
	assert.Equal(t, watch, conn.Spec().Procedure)
	assert.NotEmpty(t, conn.Peer().Addr)
	assert.Empty(t, recorder.Events())
}

// TestRequestStream has requests on which the server may have acted.
func TestRequestStream(t *testing.T) {
	t.Parallel()
	s := serveStreams(t, nil)
	retries, _ := retrying(attempts)
	stream := client(t, s.URL+send, retries, connect.IdempotencyIdempotent).CallClientStream(t.Context())
	require.NoError(t, stream.Send(wrapperspb.String("job")))
	_, err := stream.CloseAndReceive()
	assert.Equal(t, connect.CodeUnavailable, connect.CodeOf(err))
	assert.Equal(t, 1, s.count())
}

// TestStreamTimeouts has a server that is silent first, and slow then: AttemptTimeout
// bounds the opening and not the stream.
func TestStreamTimeouts(t *testing.T) {
	t.Parallel()
	const timeout = 200 * time.Millisecond
	s := serveStreams(t, func(ctx context.Context, call int, out *connect.ServerStream[text]) error {
		if call == 1 {
			<-ctx.Done()
			return ctx.Err()
		}
		for range 2 {
			if err := out.Send(wrapperspb.String("job")); err != nil {
				return err
			}
			time.Sleep(2 * timeout) // a real server that is slow
		}
		return nil
	})
	retries := &retryconnect.Interceptor{Policy: &retry.Policy{
		// Many attempts, because a machine may be busy.
		MaxAttempts: 20, AttemptTimeout: timeout, Backoff: retry.Constant(0), Budget: &retry.Budget{Reserve: 20},
	}}
	client := streaming(t, s, retries)
	assert.Equal(t, []string{"job", "job"}, testkit.Must(drain(t.Context(), client))(t))
	assert.GreaterOrEqual(t, s.count(), 2)

	// The caller's context ends it all the same.
	ctx, cancel := context.WithCancel(t.Context())
	stream := testkit.Must(client.CallServerStream(ctx, request()))(t)
	assert.True(t, stream.Receive())
	cancel()
	for stream.Receive() {
	}
	assert.Equal(t, connect.CodeCanceled, connect.CodeOf(stream.Err()))
	_, err := drain(ctx, client)
	assert.Equal(t, connect.CodeCanceled, connect.CodeOf(err), "canceled before")
}
