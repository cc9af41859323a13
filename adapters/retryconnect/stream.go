package retryconnect

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"

	"connectrpc.com/connect"

	"github.com/seed-5ff3c98e/retry"
)

// stream is a stream of responses that is opened again if it fails before the first one.
// One goroutine may send, one receive and one ask for the header at the same time. The
// goroutine that receives opens the stream again.
type stream struct {
	ctx  context.Context //nolint:containedctx // of the call
	spec connect.Spec
	next connect.StreamingClientFunc

	// turn is held by the goroutine that decides about the call, and while the stream is
	// opened again. It is locked before write, and write before mu.
	turn sync.Mutex
	call retry.Call // guarded by turn

	header http.Header     // of the first request
	own    map[string]bool // the keys of header that connect sets

	write   sync.Mutex // held while something is sent, which may take as long as an attempt
	request any        // to be sent again; nil if there was none
	closed  bool       // there is no more to be sent

	mu      sync.Mutex
	current *attempt
	done    bool // the opening is over
}

// attempt is one stream of connect.
type attempt struct {
	connect.StreamingClientConn

	ctx         context.Context //nolint:containedctx // of this stream
	cancel      context.CancelFunc
	connections *connections
}

func (i *Interceptor) stream(ctx context.Context, spec connect.Spec, next connect.StreamingClientFunc) connect.StreamingClientConn {
	s := &stream{ctx: ctx, spec: spec, call: i.call(spec), next: next}
	if !s.call.Next(ctx) {
		return next(ctx, spec) // which says that ctx is done
	}
	s.current = s.begin()
	s.header, s.own = s.current.RequestHeader(), map[string]bool{}
	for key := range s.header {
		s.own[key] = true
	}
	return s
}

// begin begins a stream. Its context ends with the attempt only while it is being opened.
func (s *stream) begin() *attempt {
	ctx, connections := watched(&s.call)
	a := &attempt{connections: connections}
	if p := s.call.Policy; p.AttemptTimeout == 0 && p.Timeout <= 0 {
		a.ctx, a.cancel = context.WithCancel(ctx)
	} else {
		own, cancel := context.WithCancel(opening{s.ctx, ctx})
		stop := context.AfterFunc(s.call.Context(), func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if !s.done {
				cancel()
			}
		})
		a.ctx, a.cancel = own, func() {
			stop()
			cancel()
		}
	}
	a.StreamingClientConn = s.next(a.ctx, s.spec)
	return a
}

// opening is the caller's context with the values of the context of an attempt.
type opening struct {
	context.Context

	values context.Context
}

// Value returns a value of the attempt's context.
func (o opening) Value(key any) any { return o.values.Value(key) }

// reopen opens the stream again. It is called with turn held.
func (s *stream) reopen() error {
	for s.call.Next(s.ctx) {
		current := s.begin()
		err := s.resume(current)
		if err == nil {
			return nil
		}
		s.failed(current, err)
	}
	return ended(s.call.Err())
}

// failed decides whether the stream is to be opened again after err. Otherwise, the caller
// may look at its trailers still.
func (s *stream) failed(current *attempt, err error) (again bool) {
	if s.call.TimedOut() && connect.CodeOf(err) == connect.CodeCanceled {
		// A context cannot lose its deadline when the stream is open, so a timeout cancels it.
		err = connect.NewError(connect.CodeDeadlineExceeded, context.DeadlineExceeded)
	}
	again = s.call.EndVerdict(err, judge(&s.call, err, current.connections)).Retry
	if again {
		_ = current.CloseResponse()
	}
	current.cancel()
	return again
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
	if err == nil || errors.Is(err, io.EOF) {
		s.opened()
		return false, err
	}
	if s.failed(current, err) {
		err = s.reopen()
	} else {
		err = ended(s.call.Err())
	}
	if err != nil {
		s.over()
	}
	return err == nil, err
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
	s.done = true
	return first
}

// state returns the stream that is open, and whether it is here to stay.
func (s *stream) state() (current *attempt, done bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current, s.done
}

// Receive implements [connect.StreamingClientConn].
func (s *stream) Receive(m any) error {
	for {
		current, done := s.state()
		err := current.Receive(m)
		if !done {
			var again bool
			if again, err = s.settle(current, err); again {
				continue
			}
		}
		if err != nil {
			current.cancel()
		}
		return err
	}
}

// ResponseHeader implements [connect.StreamingClientConn]. A header that the caller has
// seen ends the opening.
func (s *stream) ResponseHeader() http.Header {
	for {
		current, done := s.state()
		header := current.ResponseHeader()
		if done || len(header) == 0 || s.seen(current) {
			return header
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

// CloseResponse implements [connect.StreamingClientConn].
func (s *stream) CloseResponse() error {
	s.turn.Lock()
	if s.over() {
		s.call.Abort()
	}
	s.turn.Unlock()
	current, _ := s.state()
	err := current.CloseResponse()
	current.cancel()
	return err
}

// Spec implements [connect.StreamingClientConn].
func (s *stream) Spec() connect.Spec { return s.spec }

// Peer implements [connect.StreamingClientConn].
func (s *stream) Peer() connect.Peer {
	current, _ := s.state()
	return current.Peer()
}

// RequestHeader implements [connect.StreamingClientConn].
func (s *stream) RequestHeader() http.Header { return s.header }

// ResponseTrailer implements [connect.StreamingClientConn].
func (s *stream) ResponseTrailer() http.Header {
	current, _ := s.state()
	return current.ResponseTrailer()
}
