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

func (i *Interceptor) stream(ctx context.Context, spec connect.Spec, next connect.StreamingClientFunc) connect.StreamingClientConn {
	s := &stream{ctx: ctx, spec: spec, call: i.call(ctx, spec), next: next}
	if !s.call.Next(ctx) {
		return next(ctx, spec) // which says that ctx is done
	}
	s.current = s.begin()
	defer s.leave(s.current)
	s.header, s.own = s.current.RequestHeader(), map[string]bool{}
	for key := range s.header {
		s.own[key] = true
	}
	return s
}

// reopen opens the stream again. It is called with turn held.
func (s *stream) reopen() error {
	for s.call.Next(s.ctx) {
		if s.again() {
			return nil
		}
	}
	return ended(s.call.Err())
}

// again begins another stream and sends the request. It reports whether that went well.
func (s *stream) again() bool {
	a := s.begin()
	defer s.leave(a)
	err := s.resume(a)
	if err != nil {
		s.fail(a, err)
		a.release()
	}
	return err == nil
}

// fail tells the failure of an attempt, once. It is called with turn held.
func (s *stream) fail(a *attempt, err error) {
	if a.told {
		return
	}
	a.told = true
	if s.call.TimedOut() && connect.CodeOf(err) == connect.CodeCanceled {
		// A context cannot lose its deadline when the stream is open, so a timeout cancels it.
		err = connect.NewError(connect.CodeDeadlineExceeded, context.DeadlineExceeded)
	}
	s.call.EndVerdict(err, judge(&s.call, err, a.connections))
}

// settle decides what follows from the first thing that was received from a stream. It
// reports whether another stream has taken its place, and otherwise returns what the
// caller gets. If none has, the caller may look at the trailers still.
func (s *stream) settle(current *attempt, err error) (again bool, _ error) {
	s.turn.Lock()
	defer s.turn.Unlock()
	if _, done := s.state(); done {
		return false, err
	}
	if !current.told && (err == nil || errors.Is(err, io.EOF)) {
		s.opened()
		return false, err
	}
	s.fail(current, err)
	if err = ended(s.call.Err()); err == nil {
		_ = current.CloseResponse()
		current.release()
		err = s.reopen()
	}
	if err != nil {
		s.over()
	}
	return err == nil, err
}

// refuse ends the call with the error of a request that the caller gets: the client of
// connect does not come back then.
func (s *stream) refuse(a *attempt, err error) {
	s.turn.Lock()
	defer s.turn.Unlock()
	if !s.over() {
		return
	}
	if !a.told {
		a.told = true
		s.call.EndVerdict(err, retry.Verdict{Class: retry.Final, Category: category(connect.CodeOf(err))})
	}
	a.release()
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
	err = current.Receive(m)
	if !done {
		again, err = s.settle(current, err)
	}
	if again || err != nil {
		current.release()
	}
	return again, err
}

// ResponseHeader implements [connect.StreamingClientConn]. A header that the caller has
// seen ends the opening.
func (s *stream) ResponseHeader() http.Header {
	for {
		if header, current := s.responseHeader(); current {
			return header
		}
	}
}

// responseHeader returns the header of the stream that is open, and false if another one has
// taken its place.
func (s *stream) responseHeader() (header http.Header, current bool) {
	a, done := s.enter()
	defer s.leave(a)
	header = a.ResponseHeader()
	return header, done || len(header) == 0 || s.seen(a)
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
	defer current.release()
	return current.CloseResponse()
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
