package retrygrpc

import (
	"context"
	"io"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/seed-5ff3c98e/retry"
)

func (i *Interceptor) stream(
	ctx context.Context, t target, desc *grpc.StreamDesc, streamer grpc.Streamer, opts []grpc.CallOption,
) (grpc.ClientStream, error) {
	s := &stream{ctx: ctx, desc: desc, call: i.call(ctx, t), room: room(opts)}
	s.open = func(a *attempt) (err error) {
		// Each has its own: grpc may write to that of a stream that has ended.
		a.answer = newAnswer()
		a.answer.prepare(t, append(slices.Clip(opts), grpc.OnFinish(func(err error) { s.finished(a, err) })))
		a.ClientStream, err = streamer(a.ctx, desc, t.cc, t.method, a.answer.opts...)
		return err
	}
	if err := s.reopen(); err != nil {
		return nil, err
	}
	return s, nil
}

// stream is a stream that is opened again if that fails. One goroutine may send, one
// receive and one ask for the header at the same time. The goroutine that receives
// opens the stream again.
type stream struct {
	ctx  context.Context //nolint:containedctx // of the call
	desc *grpc.StreamDesc
	open func(*attempt) error

	// turn is held by the goroutine that decides about the call, and while the stream is
	// opened again. It is locked before write, and write before mu.
	turn sync.Mutex
	call retry.Call // guarded by turn

	// write is held while something is sent, which may take as long as the stream lives.
	write sync.Mutex

	mu       sync.Mutex
	current  *attempt
	done     bool  // the opening is over
	requests []any // to be sent again
	room     int   // for more of them, in bytes
	closed   bool  // the sender has no more
}

// reopen opens the stream, again if it was open. It is called with turn held.
func (s *stream) reopen() error {
	for s.call.Next(s.ctx) {
		a, err := s.begin()
		if err == nil {
			s.resume(a)
			s.leave(a)
			return nil
		}
		s.fail(a, err, a.answer.told())
	}
	return ended(s.call.Err())
}

// expired returns the error of an attempt, with the code that a unary call would have: a
// timeout of the policy cancels a stream, because a context cannot lose its deadline when
// the stream is open.
func (s *stream) expired(err error) error {
	st := status.Convert(err)
	if !s.call.TimedOut() || st.Code() != codes.Canceled {
		return err
	}
	return status.Error(codes.DeadlineExceeded,
		strings.Replace(st.Message(), context.Canceled.Error(), context.DeadlineExceeded.Error(), 1))
}

// settle decides what follows from the first thing that was received from a stream. It
// reports whether another stream has taken its place, and otherwise returns what the
// caller gets.
func (s *stream) settle(current *attempt, err error) (again bool, _ error) {
	s.turn.Lock()
	defer s.turn.Unlock()
	if _, done := s.state(); done || s.succeeded(current, err) {
		return false, err
	}
	s.fail(current, err, current.Trailer())
	current.release()
	if err = ended(s.call.Err()); err == nil {
		err = s.reopen()
	}
	if err != nil {
		s.over()
	}
	return err == nil, err
}

// succeeded reports whether err, the end of an attempt or the error of its first message,
// ends the opening with success. It is called with turn held.
func (s *stream) succeeded(a *attempt, err error) bool {
	if a.told || err != nil && err != io.EOF && !s.committed(a) { //nolint:errorlint // grpc's own
		return false
	}
	s.opened()
	return true
}

// fail tells the failure of an attempt, once. It is called with turn held.
func (s *stream) fail(a *attempt, err error, trailer metadata.MD) {
	if a.told {
		return
	}
	a.told = true
	err = s.expired(err)
	s.call.EndVerdict(err, a.answer.judge(&s.call, err, trailer))
}

// committed reports whether a stream of requests that has failed had a header: the server
// had begun with the call, and may have acted on the requests.
//
// https://github.com/grpc/proposal/blob/master/A6-client-retries.md#when-retries-are-valid
func (s *stream) committed(failed *attempt) bool {
	if !s.desc.ClientStreams {
		return false
	}
	md, err := failed.Header()
	return err == nil && md != nil
}

// opened ends the opening with success. It is called with turn held.
func (s *stream) opened() {
	if s.over() {
		s.call.End(nil)
	}
}

// over ends the opening. It reports whether it had not ended before.
func (s *stream) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := !s.done
	s.done, s.requests = true, nil
	return first
}

// state returns the stream that is open, and whether it is here to stay.
func (s *stream) state() (current *attempt, done bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current, s.done
}

// RecvMsg implements [grpc.ClientStream].
func (s *stream) RecvMsg(m any) error {
	for {
		if again, err := s.receive(m); !again {
			return err
		}
	}
}

// receive receives from the stream that is open. It reports whether another one has taken
// its place.
func (s *stream) receive(m any) (again bool, err error) {
	current, done := s.enter()
	defer s.leave(current)
	err = current.RecvMsg(m)
	if !done {
		again, err = s.settle(current, err)
	}
	if again || err != nil || !s.desc.ServerStreams {
		current.release()
	}
	return again, err
}

// Header implements [grpc.ClientStream]. A header that the caller has seen ends the
// opening. If a stream has failed without one, RecvMsg opens another.
func (s *stream) Header() (metadata.MD, error) {
	for {
		if md, current, err := s.header(); current {
			return md, err
		}
	}
}

// header returns the header of the stream that is open, and false if another one has taken
// its place.
func (s *stream) header() (md metadata.MD, current bool, err error) {
	a, done := s.enter()
	defer s.leave(a)
	md, err = a.Header()
	return md, done || err != nil || md == nil || s.seen(a), err
}

// seen ends the opening because the caller gets the header of a stream. It returns false
// if another stream has taken its place.
func (s *stream) seen(header *attempt) bool {
	s.turn.Lock()
	defer s.turn.Unlock()
	if current, _ := s.state(); current != header {
		return false
	}
	s.opened()
	return true
}

// Trailer implements [grpc.ClientStream].
func (s *stream) Trailer() metadata.MD {
	current, _ := s.state()
	return current.Trailer()
}

// Context implements [grpc.ClientStream].
func (s *stream) Context() context.Context {
	current, _ := s.state()
	return current.Context()
}
