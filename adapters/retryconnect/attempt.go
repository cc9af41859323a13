package retryconnect

import (
	"context"
	"errors"
	"sync/atomic"

	"connectrpc.com/connect"
)

// attempt is one stream of connect. Its end is told to the call once, and then its context is
// released: by the method of the stream that finds it, or by left if the context has ended
// and the caller does not come back.
type attempt struct {
	connect.StreamingClientConn

	connections *connections
	ctx         context.Context //nolint:containedctx // of this stream
	cancel      context.CancelFunc
	unwait      func() bool // left does not wait for the end of ctx any longer

	told     bool         // the call knows of the failure; guarded by turn
	calls    atomic.Int32 // in progress, of the methods that wait for the server
	released atomic.Bool
}

// release ends the context of the attempt, and whatever waits for the end of it.
func (a *attempt) release() {
	if !a.released.Swap(true) {
		a.unwait()
		a.cancel()
	}
}

// begin begins a stream for an attempt that has begun. The caller has to leave it.
func (s *stream) begin() *attempt {
	a := &attempt{}
	s.limit(a)
	a.calls.Add(1)
	a.unwait = context.AfterFunc(a.ctx, func() { s.left(a) })
	defer func() {
		if a.StreamingClientConn == nil { // it panics
			a.release()
			s.call.Abort()
		}
	}()
	a.StreamingClientConn = s.next(a.ctx, s.spec)
	return a
}

// limit gives an attempt its context, which ends with the timeouts of the policy only while
// the stream is being opened.
func (s *stream) limit(a *attempt) {
	ctx, connections := watched(&s.call)
	a.connections = connections
	if p := s.call.Policy; p.AttemptTimeout == 0 && p.Timeout <= 0 {
		a.ctx, a.cancel = context.WithCancel(ctx)
		return
	}
	own, cancel := context.WithCancel(s.ctx)
	a.ctx = opening{own, context.WithoutCancel(ctx)}
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
	if a.calls.Add(-1) == 0 && a.ctx.Err() != nil && !a.released.Load() {
		go s.left(a)
	}
}

// left ends an attempt whose context has ended while the caller is not in one of its methods.
func (s *stream) left(a *attempt) {
	if a.calls.Load() > 0 { // the caller decides
		return
	}
	s.turn.Lock()
	defer s.turn.Unlock()
	defer a.release()
	if _, done := s.state(); done {
		return
	}
	code := connect.CodeCanceled
	if errors.Is(a.ctx.Err(), context.DeadlineExceeded) {
		code = connect.CodeDeadlineExceeded
	}
	s.fail(a, connect.NewError(code, a.ctx.Err()))
}
