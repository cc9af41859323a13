package retrygrpc

import (
	"context"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/seed-5ff3c98e/retry"
)

func (i *Interceptor) stream(
	ctx context.Context, t target, desc *grpc.StreamDesc, streamer grpc.Streamer, opts []grpc.CallOption,
) (grpc.ClientStream, error) {
	s := &stream{ctx: ctx, target: t, call: i.call(t)}
	s.open = func(ctx context.Context) (grpc.ClientStream, *answer, error) {
		// Each has its own: grpc may write to that of a stream that has ended.
		a := newAnswer()
		a.prepare(&s.call, t, opts)
		current, err := streamer(ctx, desc, t.cc, t.method, a.opts...)
		return current, a, err
	}
	if err := s.reopen(); err != nil { //nolint:contextcheck // s has it
		return nil, err
	}
	if desc.ClientStreams {
		// There may be any number of requests, and the server may act on the first: to
		// send them all again is for the caller to decide.
		s.opened()
	}
	return s, nil
}

// stream is a stream that is opened again if that fails. As with other streams, one
// goroutine may send while another one receives; it is the latter that opens it again.
type stream struct {
	ctx    context.Context // of the call
	target target
	call   retry.Call
	open   func(context.Context) (grpc.ClientStream, *answer, error)

	mu      sync.Mutex
	current grpc.ClientStream
	cancel  context.CancelFunc // ends the context of current
	request any                // to be sent again; nil if there was none
	closed  bool               // the sender has no more
	done    bool               // the opening is over
}

// reopen opens the stream, again if it was open.
func (s *stream) reopen() error {
	for s.call.Next(s.ctx) {
		ctx, cancel := s.attempt()
		current, a, err := s.open(ctx)
		if err == nil {
			err = s.resume(current, cancel)
		}
		if err == nil {
			return nil
		}
		s.call.EndVerdict(err, a.judge(&s.call, err))
		cancel()
	}
	return ended(s.call.Err())
}

// attempt returns the context of a stream. It ends with the attempt only while the stream
// is being opened.
func (s *stream) attempt() (context.Context, context.CancelFunc) {
	p := s.call.Policy
	if p.AttemptTimeout <= 0 && p.Timeout <= 0 {
		return outgoing(&s.call), func() {}
	}
	ctx, cancel := context.WithCancel(opening{s.ctx, outgoing(&s.call)})
	stop := context.AfterFunc(s.call.Context(), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.done {
			cancel()
		}
	})
	return ctx, func() {
		stop()
		cancel()
	}
}

// opening is the caller's context with the values of an attempt's context.
type opening struct {
	context.Context

	values context.Context
}

// Value returns a value of the attempt's context.
func (o opening) Value(key any) any { return o.values.Value(key) }

// resume lets a stream that was opened take the place of the one before.
func (s *stream) resume(current grpc.ClientStream, cancel context.CancelFunc) (err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current, s.cancel = current, cancel
	if s.request != nil {
		err = current.SendMsg(s.request)
	}
	if err == nil && s.closed {
		err = current.CloseSend()
	}
	if err == io.EOF { //nolint:errorlint // grpc's own: RecvMsg has the status
		err = nil
	}
	return err
}

// opened ends the opening with success.
func (s *stream) opened() {
	s.over()
	s.call.End(nil)
}

// over ends the opening.
func (s *stream) over() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.done, s.request = true, nil
}

// state returns the stream that is open, and whether it is here to stay.
func (s *stream) state() (current grpc.ClientStream, cancel context.CancelFunc, done bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current, s.cancel, s.done
}

// RecvMsg implements [grpc.ClientStream].
func (s *stream) RecvMsg(m any) error {
	for {
		current, cancel, done := s.state()
		err := current.RecvMsg(m)
		switch {
		case !done && (err == nil || err == io.EOF): //nolint:errorlint // grpc's own
			s.opened()
		case !done && s.failed(current, cancel, err):
			if err := s.reopen(); err != nil {
				s.over()
				return err
			}
			continue
		case !done:
			s.over()
			return ended(s.call.Err())
		}
		if err != nil {
			cancel()
		}
		return err
	}
}

// failed reports whether a stream is to be opened again after err.
func (s *stream) failed(current grpc.ClientStream, cancel context.CancelFunc, err error) bool {
	defer cancel()
	return s.call.EndVerdict(err, s.target.judge(&s.call, err, current.Trailer())).Retry
}

// Header implements [grpc.ClientStream]. A header that the caller has seen ends the
// opening.
func (s *stream) Header() (metadata.MD, error) {
	current, _, done := s.state()
	md, err := current.Header()
	if !done && err == nil && md != nil {
		s.opened()
	}
	return md, err
}

// SendMsg implements [grpc.ClientStream].
func (s *stream) SendMsg(m any) error {
	current, _, done := s.state()
	if done {
		return current.SendMsg(m)
	}
	s.mu.Lock() // so that the receiver does not open another stream meanwhile
	defer s.mu.Unlock()
	s.request = m
	return s.current.SendMsg(m)
}

// CloseSend implements [grpc.ClientStream].
func (s *stream) CloseSend() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return s.current.CloseSend()
}

// Trailer implements [grpc.ClientStream].
func (s *stream) Trailer() metadata.MD {
	current, _, _ := s.state()
	return current.Trailer()
}

// Context implements [grpc.ClientStream].
func (s *stream) Context() context.Context {
	current, _, _ := s.state()
	return current.Context()
}
