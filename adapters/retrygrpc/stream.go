package retrygrpc

import (
	"context"
	"io"
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
	s := &stream{ctx: ctx, desc: desc, call: i.call(t), room: room(opts)}
	s.open = func(ctx context.Context) (grpc.ClientStream, *answer, error) {
		// Each has its own: grpc may write to that of a stream that has ended.
		a := newAnswer()
		a.prepare(t, opts)
		current, err := streamer(ctx, desc, t.cc, t.method, a.opts...)
		return current, a, err
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
	open func(context.Context) (grpc.ClientStream, *answer, error)

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

// attempt is one stream of grpc.
type attempt struct {
	grpc.ClientStream

	answer *answer
	ctx    context.Context //nolint:containedctx // of this stream
	cancel context.CancelFunc
}

// reopen opens the stream, again if it was open. It is called with turn held.
func (s *stream) reopen() error {
	for s.call.Next(s.ctx) {
		ctx, unlimited, cancel := s.limited()
		current, a, err := s.open(ctx)
		if err == nil {
			if s.desc.ClientStreams { // the server may wait for the caller, who may take any time
				unlimited()
			}
			s.resume(&attempt{current, a, ctx, cancel})
			return nil
		}
		err = s.expired(err)
		s.call.EndVerdict(err, a.judge(&s.call, err, a.told()))
		cancel()
	}
	return ended(s.call.Err())
}

// limited returns the context of an attempt, which ends with the timeouts of the policy as
// long as the stream is being opened. After unlimited, they have no effect on it.
func (s *stream) limited() (ctx context.Context, unlimited func(), cancel context.CancelFunc) {
	p := s.call.Policy
	if p.AttemptTimeout == 0 && p.Timeout <= 0 {
		ctx, cancel = context.WithCancel(outgoing(&s.call))
		return ctx, func() {}, cancel
	}
	ctx, cancelOwn := context.WithCancel(opening{s.ctx, outgoing(&s.call)})
	stop := context.AfterFunc(s.call.Context(), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.done {
			cancelOwn()
		}
	})
	unlimited = func() {
		if stop() {
			s.call.Detach()()
		}
	}
	return ctx, unlimited, func() {
		stop()
		cancelOwn()
	}
}

// opening is the caller's context with the values of an attempt's context.
type opening struct {
	context.Context

	values context.Context
}

// Value returns a value of the attempt's context.
func (o opening) Value(key any) any { return o.values.Value(key) }

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
	if _, done := s.state(); done {
		return false, err
	}
	if err == nil || err == io.EOF || s.committed(current) { //nolint:errorlint // grpc's own
		s.opened()
		return false, err
	}
	err = s.expired(err)
	again = s.call.EndVerdict(err, current.answer.judge(&s.call, err, current.Trailer())).Retry
	current.cancel()
	if again {
		err = s.reopen()
	} else {
		err = ended(s.call.Err())
	}
	if err != nil {
		s.over()
	}
	return err == nil, err
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
		current, done := s.state()
		err := current.RecvMsg(m)
		if !done {
			var again bool
			if again, err = s.settle(current, err); again {
				continue
			}
		}
		if err != nil || !s.desc.ServerStreams {
			current.cancel()
		}
		return err
	}
}

// Header implements [grpc.ClientStream]. A header that the caller has seen ends the
// opening. If a stream has failed without one, RecvMsg opens another.
func (s *stream) Header() (metadata.MD, error) {
	for {
		current, done := s.state()
		md, err := current.Header()
		if done || err != nil || md == nil || s.seen(current) {
			return md, err
		}
	}
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
