package retryconnect

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"strconv"
	"sync"

	"connectrpc.com/connect"

	"github.com/seed-5ff3c98e/retry"
)

// stream is a stream of responses that is opened again if it fails before the first one.
// As with other streams, one goroutine may send while another one receives; it is the
// latter that opens it again.
type stream struct {
	ctx  context.Context //nolint:containedctx // of the call
	spec connect.Spec
	call retry.Call
	next connect.StreamingClientFunc

	header http.Header     // of the first request
	own    map[string]bool // the keys of header that connect sets

	write   sync.Mutex // held while something is sent, which may take as long as an attempt
	request any        // to be sent again; nil if there was none
	closed  bool       // there is no more to be sent

	mu        sync.Mutex
	current   connect.StreamingClientConn
	attempted context.Context    //nolint:containedctx // of current
	cancel    context.CancelFunc // ends attempted
	done      bool               // the opening is over
}

func (i *Interceptor) stream(ctx context.Context, spec connect.Spec, next connect.StreamingClientFunc) connect.StreamingClientConn {
	s := &stream{ctx: ctx, spec: spec, call: i.call(spec), next: next}
	if !s.call.Next(ctx) {
		return next(ctx, spec) // which says that ctx is done
	}
	s.attempted, s.cancel = s.attempt()
	s.current = next(s.attempted, spec) //nolint:contextcheck // a child of ctx
	s.header, s.own = s.current.RequestHeader(), map[string]bool{}
	for key := range s.header {
		s.own[key] = true
	}
	return s
}

// attempt returns the context of a stream. It ends with the attempt only while the stream
// is being opened.
func (s *stream) attempt() (context.Context, context.CancelFunc) {
	if p := s.call.Policy; p.AttemptTimeout <= 0 && p.Timeout <= 0 {
		return s.call.Context(), func() {}
	}
	ctx, cancel := context.WithCancel(opening{s.ctx, s.call.Context()})
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

// opening is the caller's context with the values of the context of an attempt.
type opening struct {
	context.Context

	values context.Context
}

// Value returns a value of the attempt's context.
func (o opening) Value(key any) any { return o.values.Value(key) }

// reopen opens the stream again.
func (s *stream) reopen() error {
	for s.call.Next(s.ctx) {
		ctx, cancel := s.attempt()
		err := s.resume(ctx, cancel)
		if err == nil {
			return nil
		}
		s.call.EndVerdict(err, pushedBack(s.call.Verdict(err), err))
		cancel()
	}
	return ended(s.call.Err())
}

// resume sends the request again.
func (s *stream) resume(ctx context.Context, cancel context.CancelFunc) (err error) {
	s.write.Lock()
	defer s.write.Unlock()
	current := s.next(ctx, s.spec)
	s.mu.Lock()
	s.current, s.attempted, s.cancel = current, ctx, cancel
	s.mu.Unlock()
	header := current.RequestHeader()
	maps.Copy(header, s.added())
	header.Set(previousAttempts, strconv.Itoa(s.call.Attempt()-1))
	if s.request != nil {
		err = current.Send(s.request)
	}
	if errors.Is(err, io.EOF) {
		err = nil // Receive has the reason
	}
	if err == nil && s.closed {
		err = current.CloseRequest()
	}
	return err
}

// added returns what the caller has added to the header of the first request.
func (s *stream) added() http.Header {
	added := http.Header{}
	for key, values := range s.header {
		if !s.own[key] {
			added[key] = values
		}
	}
	return added
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
	s.done = true
}

// state returns the stream that is open, and whether it is here to stay.
func (s *stream) state() (current connect.StreamingClientConn, cancel context.CancelFunc, done bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current, s.cancel, s.done
}

// Receive implements [connect.StreamingClientConn].
func (s *stream) Receive(m any) error {
	for {
		current, cancel, done := s.state()
		err := current.Receive(m)
		switch {
		case !done && (err == nil || errors.Is(err, io.EOF)):
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

// failed reports whether a stream is to be opened again after err. Otherwise, the caller
// may look at its trailers still.
func (s *stream) failed(current connect.StreamingClientConn, cancel context.CancelFunc, err error) bool {
	again := s.call.EndVerdict(err, pushedBack(s.call.Verdict(err), err)).Retry
	if again {
		_ = current.CloseResponse()
	}
	cancel()
	return again
}

// ResponseHeader implements [connect.StreamingClientConn]. A header that the caller has
// seen ends the opening.
func (s *stream) ResponseHeader() http.Header {
	current, _, done := s.state()
	header := current.ResponseHeader()
	if !done && len(header) > 0 {
		s.opened()
	}
	return header
}

// CloseResponse implements [connect.StreamingClientConn].
func (s *stream) CloseResponse() error {
	current, cancel, done := s.state()
	if !done {
		s.over()
		s.call.Abort()
	}
	err := current.CloseResponse()
	cancel()
	return err
}

// Send implements [connect.StreamingClientConn].
func (s *stream) Send(m any) error {
	s.write.Lock() // so that the receiver does not open another stream meanwhile
	defer s.write.Unlock()
	s.request = m
	current, _, _ := s.state()
	if err := current.Send(m); err != nil {
		return s.later(err)
	}
	return nil
}

// CloseRequest implements [connect.StreamingClientConn].
func (s *stream) CloseRequest() error {
	s.write.Lock()
	defer s.write.Unlock()
	s.closed = true
	current, _, _ := s.state()
	if err := current.CloseRequest(); err != nil && s.later(err) != io.EOF { //nolint:errorlint // ours
		return err
	}
	return nil
}

// later is the error of a request: io.EOF, which stands for what Receive will say, if a
// timeout has ended the attempt, because another one may follow.
func (s *stream) later(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.done && s.attempted.Err() != nil && s.ctx.Err() == nil {
		return io.EOF
	}
	return err
}

// Spec implements [connect.StreamingClientConn].
func (s *stream) Spec() connect.Spec { return s.spec }

// Peer implements [connect.StreamingClientConn].
func (s *stream) Peer() connect.Peer {
	current, _, _ := s.state()
	return current.Peer()
}

// RequestHeader implements [connect.StreamingClientConn].
func (s *stream) RequestHeader() http.Header { return s.header }

// ResponseTrailer implements [connect.StreamingClientConn].
func (s *stream) ResponseTrailer() http.Header {
	current, _, _ := s.state()
	return current.ResponseTrailer()
}
