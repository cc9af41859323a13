package retrygrpc

import (
	"context"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
)

// attempt is one stream of grpc. Its end is told to the call once, and then its context is
// released: by the caller's RecvMsg, or by left if the stream has ended without it. That
// happens when the ClientConn is closed, when the context ends, and when SendMsg or Header
// has failed and the caller does not come back.
type attempt struct {
	grpc.ClientStream

	answer *answer
	ctx    context.Context //nolint:containedctx // of this stream
	cancel context.CancelFunc
	unwait func() bool // left does not wait for the end of ctx any longer

	told     bool                  // the call knows of the failure; guarded by turn
	calls    atomic.Int32          // in progress, of the methods of ClientStream
	finish   atomic.Pointer[error] // the end that grpc has told
	watched  atomic.Bool           // left waits for the end of the ClientStream
	released atomic.Bool
}

// release ends the context of the attempt, and whatever waits for the end of it.
func (a *attempt) release() {
	if !a.released.Swap(true) {
		a.unwait()
		a.cancel()
	}
}

// begin opens a stream for an attempt that has begun. If the stream has opened, the caller
// has to leave it.
func (s *stream) begin() (a *attempt, err error) {
	a = &attempt{}
	unlimited := s.limit(a)
	a.calls.Add(1)
	a.unwait = context.AfterFunc(a.ctx, func() { s.left(a) })
	panicked := true
	defer func() {
		if err != nil || panicked {
			a.release()
		}
		if panicked {
			s.call.Abort()
		}
	}()
	err = s.open(a)
	panicked = false
	if err == nil && s.desc.ClientStreams { // the server may wait for the caller, who may take any time
		unlimited()
	}
	return a, err
}

// limit gives an attempt its context, which ends with the timeouts of the policy as long as
// the stream is being opened. After unlimited, they have no effect on it.
func (s *stream) limit(a *attempt) (unlimited func()) {
	p := s.call.Policy
	if p.AttemptTimeout == 0 && p.Timeout <= 0 {
		a.ctx, a.cancel = context.WithCancel(outgoing(&s.call))
		return func() {}
	}
	own, cancel := context.WithCancel(s.ctx)
	a.ctx = opening{own, context.WithoutCancel(outgoing(&s.call))}
	stop := context.AfterFunc(s.call.Context(), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.done {
			cancel()
		}
	})
	a.cancel = func() {
		stop()
		cancel()
	}
	return func() {
		if stop() {
			s.call.Detach()()
		}
	}
}

// opening is a child of the caller's context with the values of an attempt's context.
type opening struct {
	context.Context

	values context.Context
}

// Value returns a value of the attempt's context. What the values lack is what package
// context looks for in a parent: without that, it starts a goroutine for each child.
func (o opening) Value(key any) any {
	if v := o.values.Value(key); v != nil {
		return v
	}
	return o.Context.Value(key)
}

// enter returns the stream that is open, for a call of one of its methods, and whether it is
// here to stay. Leave follows.
func (s *stream) enter() (current *attempt, done bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current.calls.Add(1)
	return s.current, s.done
}

// leave ends a call of a method.
func (s *stream) leave(a *attempt) {
	a.calls.Add(-1)
	s.look(a)
}

// finished is called when grpc has ended a stream. It may be called with locks held, and
// before the context of the ClientStream has ended.
func (s *stream) finished(a *attempt, err error) {
	a.finish.Store(&err)
	if a.calls.Load() == 0 && !a.released.Load() {
		go s.look(a)
	}
}

// look makes sure that left follows if an attempt is over, or will be. While the caller is in
// one of its methods, the caller decides. An end that grpc has told may be that of another
// stream: an interceptor behind this one may have opened several.
func (s *stream) look(a *attempt) {
	switch {
	case a.released.Load() || a.calls.Load() > 0:
	case a.ctx.Err() != nil:
		go s.left(a)
	case a.finish.Load() != nil && !a.watched.Swap(true):
		context.AfterFunc(a.Context(), func() {
			a.watched.Store(false)
			s.left(a)
		})
	}
}

// left ends an attempt that is over while the caller is not in one of its methods.
func (s *stream) left(a *attempt) {
	if a.released.Load() || a.calls.Load() > 0 {
		return
	}
	if a.ctx.Err() == nil && a.Context().Err() == nil { // it was another stream
		s.look(a)
		return
	}
	s.turn.Lock()
	defer s.turn.Unlock()
	defer a.release()
	if _, done := s.state(); done || a.told {
		return
	}
	err := status.FromContextError(a.ctx.Err()).Err()
	if told := a.finish.Load(); told != nil {
		err = *told
	}
	if !s.succeeded(a, err) {
		s.fail(a, err, a.answer.told())
	}
}
