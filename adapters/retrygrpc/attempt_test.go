package retrygrpc_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrygrpc"
	"github.com/seed-5ff3c98e/retry/internal/test/provoke"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

// obey is a stream that does what its caller asks for in the metadata.
func obey(_ int, stream grpc.ServerStream) error {
	md, _ := metadata.FromIncomingContext(stream.Context())
	switch md.Get("do")[0] {
	case "fail":
		return status.Error(codes.NotFound, "no")
	case "again":
		return status.Error(codes.Unavailable, "no")
	case "answer":
		return stream.SendMsg(wrapperspb.String("job"))
	case "header":
		if err := stream.SendHeader(nil); err != nil {
			return err
		}
	}
	<-stream.Context().Done()
	return stream.Context().Err()
}

// streamEnds are the ways in which a stream ends for grpc, which documents the first four.
var streamEnds = []struct {
	name, do string
	end      func(conn *grpc.ClientConn, cancel func(), stream grpc.ClientStream)
}{
	{"Close", "wait", func(conn *grpc.ClientConn, _ func(), _ grpc.ClientStream) { _ = conn.Close() }},
	{"Close after the header", "header", func(conn *grpc.ClientConn, _ func(), stream grpc.ClientStream) {
		_, _ = stream.Header()
		_ = conn.Close()
	}},
	{"Close beside RecvMsg", "header", func(conn *grpc.ClientConn, _ func(), stream grpc.ClientStream) {
		go func() { _ = conn.Close() }()
		_, _ = receive(stream)
	}},
	{"cancel", "wait", func(_ *grpc.ClientConn, cancel func(), _ grpc.ClientStream) { cancel() }},
	{"cancel after the header", "header", func(_ *grpc.ClientConn, cancel func(), stream grpc.ClientStream) {
		_, _ = stream.Header()
		cancel()
	}},
	{"cancel after CloseSend", "fail", func(_ *grpc.ClientConn, cancel func(), stream grpc.ClientStream) {
		_ = stream.CloseSend()
		cancel()
	}},
	{"RecvMsg", "answer", func(_ *grpc.ClientConn, _ func(), stream grpc.ClientStream) { _, _ = drain(stream) }},
	{"RecvMsg fails", "again", func(_ *grpc.ClientConn, _ func(), stream grpc.ClientStream) { _, _ = receive(stream) }},
	{"SendMsg fails", "wait", func(_ *grpc.ClientConn, _ func(), stream grpc.ClientStream) {
		_ = stream.CloseSend()
		_ = stream.SendMsg(wrapperspb.String("too late"))
	}},
	{"SendMsg fails after the header", "header", func(_ *grpc.ClientConn, _ func(), stream grpc.ClientStream) {
		_, _ = stream.Header()
		_ = stream.CloseSend()
		_ = stream.SendMsg(wrapperspb.String("too late"))
	}},
	{"no header", "fail", func(_ *grpc.ClientConn, _ func(), stream grpc.ClientStream) { _, _ = stream.Header() }},
	{"no header, may be repeated", "again", func(_ *grpc.ClientConn, _ func(), stream grpc.ClientStream) { _, _ = stream.Header() }},
}

// open opens a stream that shall do something, and sends a request.
func open(ctx context.Context, conn *grpc.ClientConn, method, do string) (grpc.ClientStream, error) {
	desc := &grpc.StreamDesc{ServerStreams: method != upload, ClientStreams: method != watch}
	stream, err := conn.NewStream(metadata.AppendToOutgoingContext(ctx, "do", do), desc, method)
	if err != nil {
		return nil, err
	}
	return stream, stream.SendMsg(wrapperspb.String("job"))
}

// TestStreamEnds has streams that end in every way. The Observer hears the end of each attempt
// once, and nothing is left that waits for the end of the caller's context.
func TestStreamEnds(t *testing.T) {
	t.Parallel()
	s := (&server{stream: obey}).start(t)
	for _, tt := range streamEnds {
		for _, method := range []string{watch, talk, upload} {
			for _, timeout := range []time.Duration{0, time.Minute} {
				t.Run(tt.name+method+timeout.String(), func(t *testing.T) {
					t.Parallel()
					var told testkit.Ledger
					retries := &retrygrpc.Interceptor{Policy: &retry.Policy{
						Backoff: retry.Constant(0), AttemptTimeout: timeout, Observer: told.Observer(),
					}}
					conn := dial(t, s.address, retries.DialOptions()...)
					canceled, cancel := context.WithCancel(t.Context())
					defer cancel()
					ctx := &testkit.Waited{Context: canceled}
					tt.end(conn, cancel, testkit.Must(open(ctx, conn, method, tt.do))(t))
					over := func() bool {
						begun := told.Begun.Load()
						return begun == told.Ended.Load() && begun == told.Events.Load() && (canceled.Err() != nil || ctx.Waiters.Load() == 0)
					}
					assert.Eventually(t, over, 10*time.Second, time.Millisecond)
				})
			}
		}
	}
}

// TestStreamTimeoutWhileLeft has a caller who is elsewhere when AttemptTimeout ends the
// attempt: another one follows when the caller receives.
func TestStreamTimeoutWhileLeft(t *testing.T) {
	t.Parallel()
	s := (&server{stream: func(call int, stream grpc.ServerStream) error {
		if call == 1 {
			<-stream.Context().Done()
			return stream.Context().Err()
		}
		return echo(0, 0, 0)(call, stream)
	}}).start(t)
	events := make(chan retry.Event, 9)
	retries := &retrygrpc.Interceptor{Policy: &retry.Policy{
		Backoff: retry.Constant(0), AttemptTimeout: time.Second,
		Observer: &retry.Observer{Event: func(_ context.Context, e retry.Event) { events <- e }},
	}}
	stream := testkit.Must(watching(t.Context(), dial(t, s.address, retries.DialOptions()...), watch, "job"))(t)
	e := <-events
	assert.Equal(t, retry.Retrying, e.Kind)
	assert.Equal(t, codes.DeadlineExceeded, status.Code(e.Err))
	assert.Equal(t, []string{"job", "job"}, testkit.Must(drain(stream))(t))
	assert.Equal(t, retry.Succeeded, (<-events).Kind)
}

// TestStreamOpenedBehind has an interceptor behind this one that opens another stream when one
// has ended, such as one that renews a token: the attempt goes on.
func TestStreamOpenedBehind(t *testing.T) {
	t.Parallel()
	s := (&server{stream: func(call int, stream grpc.ServerStream) error {
		if call%2 == 1 {
			return status.Error(codes.Unauthenticated, "renew")
		}
		return echo(0, 0, 0)(call, stream)
	}}).start(t)
	retries, recorder := retrying(attempts)
	conn := dial(t, s.address, append(retries.DialOptions(), grpc.WithChainStreamInterceptor(
		func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			open := func() (grpc.ClientStream, error) { return streamer(ctx, desc, cc, method, opts...) }
			stream, err := open()
			return &renewing{ClientStream: stream, open: open}, err
		}))...)
	for range 50 {
		stream := testkit.Must(watching(t.Context(), conn, watch, "job"))(t)
		testkit.Must(receive(stream))(t)
		for range 100 {
			runtime.Gosched() // to what would end the attempt
		}
		require.NoError(t, stream.Context().Err())
		testkit.Must(drain(stream))(t)
	}
	assert.Len(t, recorder.Events(), 50)
}

// renewing is a stream that is opened again when it fails.
type renewing struct {
	grpc.ClientStream

	open func() (grpc.ClientStream, error)
}

// RecvMsg implements [grpc.ClientStream].
func (r *renewing) RecvMsg(m any) error {
	err := r.ClientStream.RecvMsg(m)
	if status.Code(err) != codes.Unauthenticated {
		return err
	}
	if r.ClientStream, err = r.open(); err != nil {
		return err
	}
	if err := r.SendMsg(wrapperspb.String("job")); err != nil {
		return err
	}
	return r.ClientStream.RecvMsg(m)
}

// TestStreamOptionsDropped has an interceptor behind this one that drops the options, with which
// grpc would tell the end.
func TestStreamOptionsDropped(t *testing.T) {
	t.Parallel()
	s := (&server{stream: obey}).start(t)
	var told testkit.Ledger
	retries := &retrygrpc.Interceptor{Policy: &retry.Policy{Observer: told.Observer()}}
	conn := dial(t, s.address, append(retries.DialOptions(), grpc.WithChainStreamInterceptor(
		func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, _ ...grpc.CallOption) (grpc.ClientStream, error) {
			return streamer(ctx, desc, cc, method)
		}))...)
	ctx, cancel := context.WithCancel(t.Context())
	testkit.Must(open(ctx, conn, watch, "wait"))(t)
	cancel()
	assert.Eventually(t, func() bool { return told.Ended.Load() == 1 }, 10*time.Second, time.Millisecond)
}

// TestStreamPanics has an interceptor behind this one that panics.
func TestStreamPanics(t *testing.T) {
	t.Parallel()
	var told testkit.Ledger
	retries := &retrygrpc.Interceptor{Policy: &retry.Policy{AttemptTimeout: time.Minute, Observer: told.Observer()}}
	ctx := &testkit.Waited{Context: t.Context()}
	assert.Panics(t, func() {
		_, _ = retries.Stream(ctx, &grpc.StreamDesc{ServerStreams: true}, nil, watch,
			func(context.Context, *grpc.StreamDesc, *grpc.ClientConn, string, ...grpc.CallOption) (grpc.ClientStream, error) {
				panic("x")
			})
	})
	assert.EqualValues(t, 1, told.Ended.Load())
	assert.Zero(t, ctx.Waiters.Load())
}

// TestStreamSoak opens streams, and leaves them in every way, under a context that lives on.
//
//nolint:paralleltest // It measures.
func TestStreamSoak(t *testing.T) {
	var told testkit.Ledger
	var serving atomic.Int64
	s := (&server{quiet: true, stream: func(n int, stream grpc.ServerStream) error {
		serving.Add(1)
		defer serving.Add(-1)
		return obey(n, stream)
	}}).start(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	retries := &retrygrpc.Interceptor{Budget: retrygrpc.NoBudget, Policy: &retry.Policy{
		Backoff: retry.Constant(0), AttemptTimeout: time.Minute, Observer: told.Observer(),
	}}
	conn := dial(t, s.address, retries.DialOptions()...)
	testkit.Soak(t, func() {
		for n := range streamEnds {
			for _, method := range []string{watch, talk, upload} {
				own := conn
				if strings.HasPrefix(streamEnds[n].name, "Close") {
					own = connect(t, s.address, retries.DialOptions()...)
				}
				leave(ctx, t, own, method, n)
			}
		}
	}, func() bool { return told.Begun.Load() == told.Ended.Load() && serving.Load() == 0 })
	assert.Equal(t, told.Begun.Load(), told.Events.Load())
}

// leave leaves some streams in a way.
func leave(ctx context.Context, t *testing.T, conn *grpc.ClientConn, method string, way int) {
	t.Helper()
	cancel := func() {}
	if strings.HasPrefix(streamEnds[way].name, "cancel") {
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
	}
	var left [10]grpc.ClientStream
	for n := range left {
		var err error
		left[n], err = open(ctx, conn, method, streamEnds[way].do)
		require.NoError(t, err)
	}
	for _, stream := range left {
		streamEnds[way].end(conn, cancel, stream)
	}
}

// rawServer speaks HTTP/2 by hand, because servers of grpc do not do what it does.
type rawServer struct {
	// react is what it does when a call has come in whole. The calls of all connections
	// have one number. It reports whether the connection goes on.
	react func(f *http2.Framer, stream uint32, call int) bool

	calls atomic.Int32
}

func (s *rawServer) start(t *testing.T) string {
	t.Helper()
	return provoke.Serve(t, s.serve).Addr
}

func (s *rawServer) serve(conn net.Conn) {
	if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	f := http2.NewFramer(conn, conn)
	if f.WriteSettings() != nil {
		return
	}
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return
		}
		switch frame := frame.(type) {
		case *http2.SettingsFrame:
			if !frame.IsAck() {
				_ = f.WriteSettingsAck()
			}
		case *http2.DataFrame:
			if frame.StreamEnded() && !s.react(f, frame.StreamID, int(s.calls.Add(1))) {
				return
			}
		}
	}
}

// answer answers a call with a text.
func answer(f *http2.Framer, stream uint32, text string) bool {
	message, _ := proto.Marshal(wrapperspb.String(text))
	data := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...)
	return header(f, stream, false, ":status", "200", "content-type", "application/grpc") &&
		f.WriteData(stream, false, data) == nil && header(f, stream, true, "grpc-status", "0")
}

func header(f *http2.Framer, stream uint32, end bool, fields ...string) bool {
	var b bytes.Buffer
	encoder := hpack.NewEncoder(&b)
	for i := 0; i < len(fields); i += 2 {
		_ = encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return f.WriteHeaders(http2.HeadersFrameParam{
		StreamID: stream, BlockFragment: b.Bytes(), EndStream: end, EndHeaders: true,
	}) == nil
}

// TestTransport has what happens below a status: the server or something on the way to it
// ends a stream or a connection.
func TestTransport(t *testing.T) {
	t.Parallel()
	reset := func(code http2.ErrCode) func(*http2.Framer, uint32, int) bool {
		return func(f *http2.Framer, stream uint32, _ int) bool { return f.WriteRSTStream(stream, code) == nil }
	}
	for _, tt := range []struct {
		name  string
		react func(f *http2.Framer, stream uint32, call int) bool
		code  codes.Code
		want  [2]int // calls seen: of an idempotent method, and of another one
	}{
		{"reset", reset(http2.ErrCodeInternal), codes.Internal, [2]int{attempts, 1}},
		{"reset for a protocol error", reset(http2.ErrCodeProtocol), codes.Internal, [2]int{attempts, 1}},
		{"canceled", reset(http2.ErrCodeCancel), codes.Canceled, [2]int{1, 1}},
		{"enhance your calm", reset(http2.ErrCodeEnhanceYourCalm), codes.ResourceExhausted, [2]int{attempts, 1}},
		// grpc itself sends it once more, for every attempt of ours.
		{"refused", reset(http2.ErrCodeRefusedStream), codes.Unavailable, [2]int{2 * attempts, 2}},
		{"connection lost", func(*http2.Framer, uint32, int) bool { return false }, codes.Unavailable, [2]int{attempts, 1}},
		{"goaway that has seen the call, and lost", func(f *http2.Framer, stream uint32, _ int) bool {
			_ = f.WriteGoAway(stream, http2.ErrCodeNo, nil)
			return false
		}, codes.Unavailable, [2]int{attempts, 1}},
		{"goaway before the call", func(f *http2.Framer, stream uint32, call int) bool {
			if call == 1 {
				return f.WriteGoAway(0, http2.ErrCodeNo, nil) == nil
			}
			return answer(f, stream, "job")
		}, codes.OK, [2]int{2, 2}}, // by grpc: no server has seen it
		{"http 503 of a proxy", func(f *http2.Framer, stream uint32, _ int) bool {
			return header(f, stream, true, ":status", "503", "content-type", "text/html")
		}, codes.Unavailable, [2]int{attempts, 1}},
		{"http 404 of a proxy", func(f *http2.Framer, stream uint32, _ int) bool {
			return header(f, stream, true, ":status", "404", "content-type", "text/html")
		}, codes.Unimplemented, [2]int{1, 1}},
		{"no status", func(f *http2.Framer, stream uint32, _ int) bool {
			return header(f, stream, false, ":status", "200", "content-type", "application/grpc") &&
				f.WriteData(stream, true, nil) == nil
		}, codes.Internal, [2]int{attempts, 1}},
		{"internal of a server", func(f *http2.Framer, stream uint32, _ int) bool {
			return header(f, stream, true, ":status", "200", "content-type", "application/grpc",
				"grpc-status", "13", "grpc-message", "nil pointer")
		}, codes.Internal, [2]int{1, 1}},
		{"a code that is no number", func(f *http2.Framer, stream uint32, _ int) bool {
			return header(f, stream, true, ":status", "200", "content-type", "application/grpc", "grpc-status", "x")
		}, codes.Unknown, [2]int{1, 1}},
	} {
		for i, method := range []string{get, submit} {
			t.Run(tt.name+", "+method, func(t *testing.T) {
				t.Parallel()
				s := &rawServer{react: tt.react}
				retries, recorder := retrying(attempts)
				conn := dial(t, s.start(t), retries.DialOptions()...)
				_, err := call(context.Background(), conn, method, "job")
				assert.Equal(t, tt.code, status.Code(err), err)
				assert.EqualValues(t, tt.want[i], s.calls.Load(), recorder.Timeline())
			})
		}
	}
}
