package retryconnect_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retryconnect"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

// ledger is an Observer that counts the attempts that have begun, and the ends of them.
type ledger struct{ begun, ended atomic.Int64 }

func (l *ledger) Observe(context.Context, retry.Event) {}

func (l *ledger) Attempt(ctx context.Context, _ int) (context.Context, func(error)) {
	l.begun.Add(1)
	return ctx, func(error) { l.ended.Add(1) }
}

// obey is a stream that does what is asked for, and then waits.
func obey(do string) func(context.Context, int, *connect.ServerStream[text]) error {
	return func(ctx context.Context, _ int, out *connect.ServerStream[text]) error {
		switch do {
		case "fail":
			return fails(connect.CodeNotFound)()
		case "again":
			return fails(connect.CodeUnavailable)()
		}
		if err := out.Send(wrapperspb.String("job")); err != nil || do == "answer" {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	}
}

type serverStream = connect.ServerStreamForClient[text]

// streamEnds are the ways in which a caller ends a stream.
var streamEnds = []struct {
	name, do string
	end      func(cancel func(), stream *serverStream)
}{
	{"cancel", "wait", func(cancel func(), _ *serverStream) { cancel() }},
	{"cancel after a failure", "again", func(cancel func(), _ *serverStream) { cancel() }},
	{"cancel after the header", "wait", func(cancel func(), stream *serverStream) {
		_ = stream.ResponseHeader()
		cancel()
	}},
	{"cancel after a message", "wait", func(cancel func(), stream *serverStream) {
		_ = stream.Receive()
		cancel()
	}},
	{"close", "wait", func(_ func(), stream *serverStream) { _ = stream.Close() }},
	{"close after a message", "wait", func(_ func(), stream *serverStream) {
		_ = stream.Receive()
		_ = stream.Close()
	}},
	{"receive", "answer", func(_ func(), stream *serverStream) {
		for stream.Receive() {
		}
	}},
	{"receive what fails", "fail", func(_ func(), stream *serverStream) { _ = stream.Receive() }},
	{"receive what fails again", "again", func(_ func(), stream *serverStream) { _ = stream.Receive() }},
}

// TestStreamEnds has streams that end in every way. The Observer hears the end of each attempt
// once, and nothing is left that waits for the end of the caller's context.
func TestStreamEnds(t *testing.T) {
	t.Parallel()
	for _, tt := range streamEnds {
		s := serveStreams(t, obey(tt.do))
		for protocol, opts := range protocols {
			for _, timeout := range []time.Duration{0, time.Minute} {
				t.Run(tt.name+protocol+timeout.String(), func(t *testing.T) {
					t.Parallel()
					var told ledger
					retries := &retryconnect.Interceptor{Policy: &retry.Policy{
						Backoff: retry.Constant(0), AttemptTimeout: timeout, Observer: &told,
					}}
					canceled, cancel := context.WithCancel(t.Context())
					defer cancel()
					ctx := &testkit.Waited{Context: canceled}
					stream, err := streaming(t, s, retries, opts...).CallServerStream(ctx, request())
					require.NoError(t, err)
					tt.end(cancel, stream)
					over := func() bool {
						return told.begun.Load() == told.ended.Load() && (canceled.Err() != nil || ctx.Waiters.Load() == 0)
					}
					assert.Eventually(t, over, 10*time.Second, time.Millisecond)
				})
			}
		}
	}
}

// TestStreamTimeoutWhileLeft has a caller who is elsewhere when AttemptTimeout ends the
// attempt: another one follows when the caller receives.
func TestStreamTimeoutWhileLeft(t *testing.T) {
	t.Parallel()
	s := serveStreams(t, func(ctx context.Context, call int, out *connect.ServerStream[text]) error {
		if call == 1 {
			out.ResponseHeader().Set("x", "y")
			_ = out.Send(nil) // the header, so that the client returns
			<-ctx.Done()
			return ctx.Err()
		}
		return out.Send(wrapperspb.String("job"))
	})
	events := make(chan retry.Event, 9)
	retries := &retryconnect.Interceptor{Policy: &retry.Policy{
		Backoff: retry.Constant(0), AttemptTimeout: time.Second,
		Observer: retry.ObserverFunc(func(_ context.Context, e retry.Event) { events <- e }),
	}}
	stream := watching(t, s, retries)
	e := <-events
	assert.Equal(t, retry.Retrying, e.Kind)
	assert.Equal(t, connect.CodeDeadlineExceeded, connect.CodeOf(e.Err))
	assert.True(t, stream.Receive(), stream.Err())
	assert.Equal(t, retry.Succeeded, (<-events).Kind)
	require.NoError(t, stream.Close())
}

// unsendable is a connection whose request fails on this side.
type unsendable struct {
	connect.StreamingClientConn

	send, closing error
}

func (b *unsendable) Send(any) error      { return b.send }
func (b *unsendable) CloseRequest() error { return b.closing }

// TestStreamRefused has requests that cannot be sent, and an interceptor behind this one that
// panics. The client of connect does not come back.
func TestStreamRefused(t *testing.T) {
	t.Parallel()
	no := errors.New("no")
	for name, fn := range map[string]func(connect.StreamingClientConn) error{
		"Send":         func(c connect.StreamingClientConn) error { return c.Send(nil) },
		"CloseRequest": func(c connect.StreamingClientConn) error { return c.CloseRequest() },
		"panic":        nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var told ledger
			retries := &retryconnect.Interceptor{Policy: &retry.Policy{AttemptTimeout: time.Minute, Observer: &told}}
			ctx := &testkit.Waited{Context: t.Context()}
			open := retries.WrapStreamingClient(func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
				if fn == nil {
					panic("x")
				}
				plain := connect.NewClient[text, text](nil, refused).CallBidiStream(ctx)
				conn, err := plain.Conn()
				assert.NoError(t, err)
				return &unsendable{conn, no, no}
			})
			spec := connect.Spec{StreamType: connect.StreamTypeServer}
			if fn == nil {
				assert.Panics(t, func() { open(ctx, spec) })
			} else {
				require.ErrorIs(t, fn(open(ctx, spec)), no)
			}
			assert.EqualValues(t, 1, told.ended.Load())
			assert.Zero(t, ctx.Waiters.Load())
		})
	}
}

// TestStreamSoak opens streams, and leaves them in every way, under a context that lives on.
//
//nolint:paralleltest // It measures.
func TestStreamSoak(t *testing.T) {
	var told ledger
	retries := &retryconnect.Interceptor{Policy: &retry.Policy{
		Backoff: retry.Constant(0), AttemptTimeout: time.Minute, Observer: &told, Budget: &retry.Budget{Ratio: 1},
	}}
	var serving atomic.Int64
	clients := map[string]*connect.Client[text, text]{}
	for _, do := range []string{"wait", "answer", "fail", "again"} {
		obeying := obey(do)
		s := serveStreams(t, func(ctx context.Context, _ int, out *connect.ServerStream[text]) error {
			serving.Add(1)
			defer serving.Add(-1)
			return obeying(ctx, 0, out)
		})
		s.quiet = true
		clients[do] = streaming(t, s, retries, connect.WithGRPC())
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	testkit.Soak(t, func() {
		for n := range streamEnds {
			leave(ctx, t, clients[streamEnds[n].do], n)
		}
	}, func() bool { return told.begun.Load() == told.ended.Load() && serving.Load() == 0 })
}

// leave opens a stream and leaves it in a way.
func leave(ctx context.Context, t *testing.T, client *connect.Client[text, text], way int) {
	t.Helper()
	cancel := func() {}
	if strings.HasPrefix(streamEnds[way].name, "cancel") {
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
	}
	stream, err := client.CallServerStream(ctx, request())
	require.NoError(t, err)
	streamEnds[way].end(cancel, stream)
}
