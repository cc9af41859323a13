package retrygrpc_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrygrpc"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

// collector is a server that reads all requests and answers them in one, or refuses.
type collector struct {
	server

	refuse func(call int, stream grpc.ServerStream) error // instead of reading on; nil once that is over

	got sync.Map // what each call has read, by its number
}

func (c *collector) serve(call int, stream grpc.ServerStream) error {
	if c.refuse != nil {
		if err := c.refuse(call, stream); err != nil {
			return err
		}
	}
	var all []string
	for {
		var in wrapperspb.StringValue
		err := stream.RecvMsg(&in)
		if errors.Is(err, io.EOF) {
			c.got.Store(call, all)
			return stream.SendMsg(wrapperspb.String(strings.Join(all, "+")))
		}
		if err != nil {
			return err
		}
		all = append(all, in.GetValue())
	}
}

// talking opens a stream of requests.
func talking(ctx context.Context, conn *grpc.ClientConn, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: method != upload, ClientStreams: true}, method, opts...)
}

// say sends requests in one message that is filled anew, as many callers do, and receives
// the answer.
func say(t *testing.T, stream grpc.ClientStream, texts ...string) (string, error) {
	t.Helper()
	var m wrapperspb.StringValue
	for _, text := range texts {
		m.Value = text
		if err := stream.SendMsg(&m); err != nil {
			require.ErrorIs(t, err, io.EOF)
			break
		}
	}
	require.NoError(t, stream.CloseSend())
	return receive(stream)
}

// TestRequestStream has streams of requests that fail: they are sent again as long as that
// is allowed, and there was neither a header nor a response.
func TestRequestStream(t *testing.T) {
	t.Parallel()
	read := func(stream grpc.ServerStream) {
		var in wrapperspb.StringValue
		_ = stream.RecvMsg(&in)
	}
	refuses := func(_ int, stream grpc.ServerStream) error {
		return retrygrpc.Overloaded(stream.Context(), time.Second, "later")
	}
	fails := func(_ int, stream grpc.ServerStream) error {
		read(stream)
		return status.Error(codes.Unavailable, "no")
	}
	afterHeader := func(call int, stream grpc.ServerStream) error {
		read(stream)
		_ = stream.SendHeader(metadata.Pairs("x", "y"))
		return refuses(call, stream)
	}
	afterMessage := func(call int, stream grpc.ServerStream) error {
		read(stream)
		_ = stream.SendMsg(wrapperspb.String("a"))
		return refuses(call, stream)
	}
	half := strings.Repeat("x", 128<<10)
	few := []string{"a", "b", "c"}
	for _, tt := range []struct {
		name, method string
		refuse       func(int, grpc.ServerStream) error
		requests     []string
		opts         []grpc.CallOption
		again        bool
	}{
		{"refused", chat, refuses, few, nil, true},
		{"refused", upload, refuses, few, nil, true},
		{"refused", talk, refuses, few, nil, true},
		{"no requests", chat, refuses, nil, nil, true},
		{"failed", talk, fails, few, nil, true},
		{"may have had an effect", chat, fails, few, nil, false},
		{"may have had an effect", upload, fails, few, nil, false},
		{"refused after a header", chat, afterHeader, few, nil, false},
		{"refused after a header", talk, afterHeader, few, nil, false},
		{"refused after a message", talk, afterMessage, few, nil, false},
		{"as many as fit", upload, refuses, []string{half, half[:127<<10]}, nil, true},
		{"more than fit", upload, refuses, []string{half, half}, nil, false},
		{"more than the caller allows", upload, refuses, few, []grpc.CallOption{grpc.MaxRetryRPCBufferSize(8)}, false},
		{"as many as the caller allows", upload, refuses, []string{half, half}, []grpc.CallOption{grpc.MaxRetryRPCBufferSize(1 << 20)}, true},
	} {
		t.Run(tt.name+", "+tt.method, func(t *testing.T) {
			t.Parallel()
			c := &collector{refuse: func(call int, stream grpc.ServerStream) error {
				if call == attempts {
					return nil
				}
				return tt.refuse(call, stream)
			}}
			c.stream = c.serve
			c.start(t)
			retries, recorder := retrying(attempts)
			stream := testkit.Must(talking(t.Context(), dial(t, c.address, retries.DialOptions()...), tt.method, tt.opts...))(t)
			answer, err := say(t, stream, tt.requests...)
			if err == nil && tt.method != upload && !tt.again {
				_, err = receive(stream)
			}
			assert.Len(t, recorder.Events(), c.count(), "one event each")
			if !tt.again {
				assert.Equal(t, codes.Unavailable, status.Code(err))
				assert.Equal(t, 1, c.count(), recorder.Timeline())
				return
			}
			require.NoError(t, err)
			assert.Equal(t, attempts, c.count())
			assert.True(t, strings.Join(tt.requests, "+") == answer, "all of them, in their order")
			assert.Equal(t, [][]string{nil, {"1"}, {"2"}}, c.previous)
		})
	}
}

// TestRequestStreamGoesOn has a caller that sends before and after the server has refused
// the stream, and does not receive meanwhile: nothing of it is lost.
func TestRequestStreamGoesOn(t *testing.T) {
	t.Parallel()
	refused := make(chan struct{})
	c := &collector{refuse: func(call int, stream grpc.ServerStream) error {
		if call > 1 {
			return nil
		}
		defer close(refused)
		return retrygrpc.Overloaded(stream.Context(), time.Second, "later")
	}}
	c.stream = c.serve
	c.start(t)
	retries, _ := retrying(attempts)
	stream := testkit.Must(talking(t.Context(), dial(t, c.address, retries.DialOptions()...), upload))(t)
	require.NoError(t, stream.SendMsg(wrapperspb.String("a")))
	<-refused
	for _, text := range []string{"b", "c", "d"} {
		time.Sleep(5 * time.Millisecond) // so that grpc gets to know of it at one of them
		require.NoError(t, stream.SendMsg(wrapperspb.String(text)), "RecvMsg has the reason")
	}
	assert.Equal(t, "a+b+c+d+e", testkit.Must(say(t, stream, "e"))(t))
}

// TestRequestStreamBoth has one goroutine that sends and one that receives while the
// server refuses the stream.
func TestRequestStreamBoth(t *testing.T) {
	t.Parallel()
	for range 50 {
		c := &collector{refuse: func(call int, stream grpc.ServerStream) error {
			if call > 2 {
				return nil
			}
			return retrygrpc.Overloaded(stream.Context(), time.Second, "later")
		}}
		c.stream = c.serve
		c.start(t)
		retries, _ := retrying(attempts)
		stream := testkit.Must(talking(t.Context(), dial(t, c.address, retries.DialOptions()...), chat))(t)
		var sender sync.WaitGroup
		sender.Go(func() {
			for text := range strings.SplitSeq("abcdefghijklmnopqrstuvwxyz", "") {
				assert.NoError(t, stream.SendMsg(wrapperspb.String(text)))
			}
			assert.NoError(t, stream.CloseSend())
		})
		answer, err := receive(stream)
		sender.Wait()
		require.NoError(t, err)
		assert.Equal(t, "abcdefghijklmnopqrstuvwxyz", strings.ReplaceAll(answer, "+", ""))
	}
}

// TestRequestStreamFlow has a server that answers every request before it reads the next:
// the requests are sent again while the answers are received.
func TestRequestStreamFlow(t *testing.T) {
	t.Parallel()
	const requests, window = 15, 64 << 10 // grpc makes others larger as it goes
	part := strings.Repeat("x", 16<<10)
	s := (&server{stream: func(call int, stream grpc.ServerStream) error {
		var in wrapperspb.StringValue
		if call == 1 {
			for range requests {
				if err := stream.RecvMsg(&in); err != nil {
					return err
				}
			}
			return retrygrpc.Overloaded(stream.Context(), time.Second, "later")
		}
		for range requests {
			if err := stream.RecvMsg(&in); err != nil {
				return err
			}
			for range 16 {
				if err := stream.SendMsg(&in); err != nil {
					return err
				}
			}
		}
		return nil
	}}).start(t, grpc.InitialWindowSize(window), grpc.InitialConnWindowSize(window))
	retries, _ := retrying(attempts)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	conn := dial(t, s.address, append(retries.DialOptions(),
		grpc.WithInitialWindowSize(window), grpc.WithInitialConnWindowSize(window))...)
	stream := testkit.Must(talking(ctx, conn, chat))(t)
	for range requests {
		require.NoError(t, stream.SendMsg(wrapperspb.String(part)))
	}
	assert.Len(t, testkit.Must(drain(stream))(t), 16*requests)
}

// TestRequestStreamTimeout has a caller who takes longer than AttemptTimeout, which is for
// the time until there is a stream, and a server that refuses after that.
func TestRequestStreamTimeout(t *testing.T) {
	t.Parallel()
	const timeout = time.Second
	c := &collector{refuse: func(call int, stream grpc.ServerStream) error {
		if call > 1 {
			return nil
		}
		var in wrapperspb.StringValue
		_ = stream.RecvMsg(&in)
		return retrygrpc.Overloaded(stream.Context(), time.Millisecond, "later")
	}}
	c.stream = c.serve
	c.start(t)
	retries := &retrygrpc.Interceptor{Policy: &retry.Policy{AttemptTimeout: timeout}}
	stream := testkit.Must(talking(t.Context(), dial(t, c.address, retries.DialOptions()...), upload))(t)
	time.Sleep(timeout + timeout/10) // a caller that is slow
	assert.Equal(t, "a+b", testkit.Must(say(t, stream, "a", "b"))(t))
	assert.Equal(t, 2, c.count())
}

// TestRequestStreamReset has a server that refuses streams below a status. grpc itself sends
// each once more. That the second was refused too is known from a text only, which is no
// proof.
func TestRequestStreamReset(t *testing.T) {
	t.Parallel()
	for method, want := range map[string]int{talk: 2 * attempts, chat: 2} {
		s := &rawServer{react: func(f *http2.Framer, stream uint32, _ int) bool {
			return f.WriteRSTStream(stream, http2.ErrCodeRefusedStream) == nil
		}}
		retries, recorder := retrying(attempts)
		stream := testkit.Must(talking(t.Context(), dial(t, s.start(t), retries.DialOptions()...), method))(t)
		_, err := say(t, stream, "a")
		assert.Equal(t, codes.Unavailable, status.Code(err))
		assert.EqualValues(t, want, s.calls.Load(), recorder.Timeline())
	}
}
