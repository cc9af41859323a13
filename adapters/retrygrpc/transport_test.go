package retrygrpc_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/seed-5ff3c98e/retry/internal/test/provoke"
)

// rawServer speaks HTTP/2 by hand, because servers of grpc do not do what it does.
type rawServer struct {
	// react is what it does when a call has come in whole. The calls of all connections
	// have one number. It reports whether the connection goes on.
	react func(f *http2.Framer, stream uint32, call int) bool

	mu    sync.Mutex
	calls int
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
			if frame.StreamEnded() && !s.call(f, frame.StreamID) {
				return
			}
		}
	}
}

func (s *rawServer) call(f *http2.Framer, stream uint32) bool {
	s.mu.Lock()
	s.calls++
	call := s.calls
	s.mu.Unlock()
	return s.react(f, stream, call)
}

func (s *rawServer) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
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
	tests := []struct {
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
	}
	for _, tt := range tests {
		for i, method := range []string{get, submit} {
			t.Run(tt.name+", "+method, func(t *testing.T) {
				t.Parallel()
				s := &rawServer{react: tt.react}
				retries, recorder := retrying(attempts)
				conn := dial(t, s.start(t), retries.DialOptions()...)
				_, err := call(context.Background(), conn, method, "job")
				assert.Equal(t, tt.code, status.Code(err), err)
				assert.Equal(t, tt.want[i], s.count(), recorder.Timeline())
			})
		}
	}
}
