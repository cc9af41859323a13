package retrygrpc

import (
	"io"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
)

// defaultRoom is how many bytes of requests are kept to be sent again, as in grpc-go.
const defaultRoom = 256 << 10

// room returns how many bytes of requests may be kept.
func room(opts []grpc.CallOption) int {
	n := defaultRoom
	for _, o := range opts {
		if o, ok := o.(grpc.MaxRetryRPCBufferSizeCallOption); ok {
			n = o.MaxRetryRPCBufferSize
		}
	}
	return n
}

// SendMsg implements [grpc.ClientStream]. As long as another stream may follow, its error
// is left to RecvMsg: a caller who stopped here, and was then told that the stream went
// well, would have sent only some of the requests.
func (s *stream) SendMsg(m any) error {
	s.write.Lock()
	if !s.keep(m) {
		s.write.Unlock()
		s.turn.Lock()
		s.opened() // no other stream can follow
		s.turn.Unlock()
		s.write.Lock()
	}
	defer s.write.Unlock()
	current, _ := s.enter()
	defer s.leave(current)
	err := current.SendMsg(m)
	if _, done := s.state(); done || err == nil {
		return err
	}
	if err == io.EOF || current.ctx.Err() != nil && s.ctx.Err() == nil { //nolint:errorlint // grpc's own
		return nil
	}
	return err
}

// keep keeps a request to be sent again as long as that may happen, and reports whether
// there was room for it. It keeps a copy, because callers fill messages anew after SendMsg
// although grpc forbids it.
func (s *stream) keep(m any) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done {
		return true
	}
	message, ok := m.(proto.Message)
	if v1, is := m.(protoadapt.MessageV1); !ok && is {
		message, ok = protoadapt.MessageV2Of(v1), true
	}
	switch {
	case ok && s.desc.ClientStreams:
		if s.room -= proto.Size(message); s.room < 0 {
			return false
		}
		s.requests = append(s.requests, proto.Clone(message))
	case ok:
		s.requests = append(s.requests, proto.Clone(message)) // there is no other
	case s.desc.ClientStreams:
		return false // the size of what another codec sends is not known
	default:
		s.requests = append(s.requests, m)
	}
	return true
}

// CloseSend implements [grpc.ClientStream].
func (s *stream) CloseSend() error {
	s.write.Lock()
	defer s.write.Unlock()
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	current, _ := s.enter()
	defer s.leave(current)
	return current.CloseSend()
}

// resume lets a stream that was opened take the place of the one before. The requests are
// sent beside the goroutine that receives, because a server may answer the first before
// it reads the others. If one cannot be sent, RecvMsg has the reason.
func (s *stream) resume(next *attempt) {
	s.write.Lock()
	s.mu.Lock()
	s.current = next
	requests, closed := s.requests, s.closed
	s.mu.Unlock()
	if len(requests) == 0 && !closed {
		s.write.Unlock()
		return
	}
	next.calls.Add(1)
	go func() {
		defer s.leave(next)
		defer s.write.Unlock()
		for _, m := range requests {
			if next.SendMsg(m) != nil {
				return
			}
		}
		if closed {
			_ = next.CloseSend()
		}
	}()
}
