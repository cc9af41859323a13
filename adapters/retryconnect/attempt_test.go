package retryconnect_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retryconnect"
	"github.com/seed-5ff3c98e/retry/internal/test/provoke"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

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
					var told testkit.Ledger
					retries := &retryconnect.Interceptor{Policy: &retry.Policy{
						Backoff: retry.Constant(0), AttemptTimeout: timeout, Observer: told.Observer(),
					}}
					canceled, cancel := context.WithCancel(t.Context())
					defer cancel()
					ctx := &testkit.Waited{Context: canceled}
					stream := testkit.Must(streaming(t, s, retries, opts...).CallServerStream(ctx, request()))(t)
					tt.end(cancel, stream)
					over := func() bool {
						return told.Begun.Load() == told.Ended.Load() && (canceled.Err() != nil || ctx.Waiters.Load() == 0)
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
		Observer: &retry.Observer{Event: func(_ context.Context, e retry.Event) { events <- e }},
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
			var told testkit.Ledger
			retries := &retryconnect.Interceptor{Policy: &retry.Policy{AttemptTimeout: time.Minute, Observer: told.Observer()}}
			ctx := &testkit.Waited{Context: t.Context()}
			open := retries.WrapStreamingClient(func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
				if fn == nil {
					panic("x")
				}
				plain := connect.NewClient[text, text](nil, refused).CallBidiStream(ctx)
				return &unsendable{testkit.Must(plain.Conn())(t), no, no}
			})
			spec := connect.Spec{StreamType: connect.StreamTypeServer}
			if fn == nil {
				assert.Panics(t, func() { open(ctx, spec) })
			} else {
				require.ErrorIs(t, fn(open(ctx, spec)), no)
			}
			assert.EqualValues(t, 1, told.Ended.Load())
			assert.Zero(t, ctx.Waiters.Load())
		})
	}
}

// TestStreamSoak opens streams, and leaves them in every way, under a context that lives on.
//
//nolint:paralleltest // It measures.
func TestStreamSoak(t *testing.T) {
	var told testkit.Ledger
	retries := &retryconnect.Interceptor{Policy: &retry.Policy{
		Backoff: retry.Constant(0), AttemptTimeout: time.Minute, Observer: told.Observer(), Budget: &retry.Budget{Ratio: 1},
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
	}, func() bool { return told.Begun.Load() == told.Ended.Load() && serving.Load() == 0 })
}

// leave opens a stream and leaves it in a way.
func leave(ctx context.Context, t *testing.T, client *connect.Client[text, text], way int) {
	t.Helper()
	cancel := func() {}
	if strings.HasPrefix(streamEnds[way].name, "cancel") {
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
	}
	streamEnds[way].end(cancel, testkit.Must(client.CallServerStream(ctx, request()))(t))
}

// httpClient is a [connect.HTTPClient] and an [http.RoundTripper].
type httpClient func(*http.Request) (*http.Response, error)

func (c httpClient) Do(req *http.Request) (*http.Response, error)        { return c(req) }
func (c httpClient) RoundTrip(req *http.Request) (*http.Response, error) { return c(req) }

var refusedDial = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}

// TestUnproved has errors that look as if a call had not been sent, or had been refused. The
// call is not repeated.
func TestUnproved(t *testing.T) {
	t.Parallel()
	info := testkit.Must(connect.NewErrorDetail(&errdetails.RetryInfo{RetryDelay: durationpb.New(1)}))(t)
	limited := connect.NewError(connect.CodeUnavailable, errors.New("later"))
	limited.AddDetail(info)
	no := func(context.Context, int) error { return connect.NewError(connect.CodeUnavailable, errors.New("no")) }
	for _, tt := range []struct {
		name   string
		serve  func(ctx context.Context, call int) error
		client func(base http.RoundTripper, elsewhere string) connect.HTTPClient
		behind connect.UnaryInterceptorFunc
		calls  int // that the server has handled
	}{
		{"a report that could not be sent", no, func(base http.RoundTripper, _ string) connect.HTTPClient {
			return httpClient(func(req *http.Request) (*http.Response, error) {
				resp, err := base.RoundTrip(req)
				if err == nil {
					_ = resp.Body.Close()
				}
				return nil, refusedDial
			})
		}, nil, 1},
		{"a client that does not tell", no, func(http.RoundTripper, string) connect.HTTPClient {
			return httpClient(func(*http.Request) (*http.Response, error) { return nil, refusedDial })
		}, nil, 0},
		{"a redirect to nowhere", nil, func(base http.RoundTripper, elsewhere string) connect.HTTPClient {
			return &http.Client{Transport: httpClient(func(req *http.Request) (*http.Response, error) {
				resp, err := base.RoundTrip(req)
				if err == nil && strings.HasSuffix(req.URL.Path, procedure) {
					resp.StatusCode = http.StatusTemporaryRedirect
					resp.Header.Set("Location", elsewhere)
				}
				return resp, err
			})}
		}, nil, 1},
		{"a proxy that has lost the answer", nil, func(base http.RoundTripper, _ string) connect.HTTPClient {
			return httpClient(func(req *http.Request) (*http.Response, error) {
				resp, err := base.RoundTrip(req)
				if err != nil {
					return resp, err
				}
				_ = resp.Body.Close()
				return &http.Response{
					Status: "504 Gateway Timeout", StatusCode: http.StatusGatewayTimeout, ProtoMajor: 2, Body: io.NopCloser(strings.NewReader(`{"message":"timed out"}`)),
					Header: http.Header{"Content-Type": {"application/json"}, "Retry-After": {"1"}},
				}, nil
			})
		}, nil, 1},
		{"an answer that breaks off", nil, func(base http.RoundTripper, _ string) connect.HTTPClient {
			return httpClient(func(req *http.Request) (*http.Response, error) {
				resp, err := base.RoundTrip(req)
				if err == nil {
					_ = resp.Body.Close()
					resp.Header.Set("Retry-After", "1")
					resp.Header.Set("Grpc-Retry-Pushback-Ms", "1")
					resp.Body = io.NopCloser(io.MultiReader(strings.NewReader("x"), broken{}))
				}
				return resp, err
			})
		}, nil, 1},
		{"another call that was refused", nil, nil, func(next connect.UnaryFunc) connect.UnaryFunc {
			return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
				_, _ = next(ctx, req)
				return nil, limited
			}
		}, 1},
		{"a second try that was refused", func(_ context.Context, call int) error {
			if call == 1 {
				return connect.NewError(connect.CodeUnavailable, errors.New("no"))
			}
			return limited
		}, nil, func(next connect.UnaryFunc) connect.UnaryFunc {
			return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
				_, _ = next(ctx, req)
				return next(ctx, req)
			}
		}, 2},
	} {
		for protocol, opts := range protocols {
			t.Run(tt.name+", "+protocol, func(t *testing.T) {
				t.Parallel()
				s := serve(t, func(ctx context.Context, call int) error {
					if tt.serve == nil {
						return nil
					}
					return tt.serve(ctx, call)
				})
				base := provoke.Transport(t, &http.Transport{Protocols: new(http.Protocols)})
				base.Protocols.SetUnencryptedHTTP2(true)
				var client connect.HTTPClient = &http.Client{Transport: base}
				if tt.client != nil {
					client = tt.client(base, refused+"/")
				}
				retries, recorder := retrying(attempts)
				opts := append(slices.Clip(opts), connect.WithInterceptors(retries))
				if tt.behind != nil {
					opts = append(opts, connect.WithInterceptors(tt.behind))
				}
				_, err := connect.NewClient[text, text](client, s.URL+procedure, opts...).
					CallUnary(t.Context(), request())
				require.Error(t, err)
				assert.Equal(t, tt.calls, s.count(), recorder.Timeline())
				assert.Empty(t, recorder.Waits())
			})
		}
	}
}

// broken is the reader of an answer that breaks off.
type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, refusedDial }

// TestUnsentWaiting has a server that accepts connections and does not take any further:
// the TLS handshake does not end. An attempt that timed out then was not sent.
func TestUnsentWaiting(t *testing.T) {
	t.Parallel()
	silent := provoke.Serve(t, provoke.Ignore)
	recorder := &retrytest.Recorder{}
	retries := &retryconnect.Interceptor{Policy: &retry.Policy{
		AttemptTimeout: 50 * time.Millisecond, Backoff: retry.Constant(0), Observer: recorder.Observer(),
	}}
	client := connect.NewClient[text, text](http.DefaultClient, "https://"+silent.Addr+procedure, connect.WithInterceptors(retries))
	_, err := client.CallUnary(t.Context(), request())
	assert.Equal(t, connect.CodeDeadlineExceeded, connect.CodeOf(err))
	assert.Len(t, recorder.Waits(), attempts-1)
}

// TestLost has a server that resets the connection when it has the call: connect calls that
// canceled. An idempotent call is repeated.
func TestLost(t *testing.T) {
	t.Parallel()
	for _, level := range []connect.IdempotencyLevel{connect.IdempotencyIdempotent, connect.IdempotencyUnknown} {
		t.Run(fmt.Sprint(level), func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int32
			s := provoke.Serve(t, func(conn net.Conn) {
				calls.Add(1)
				provoke.RespondAndReset("")(conn)
			})
			retries, recorder := retrying(attempts)
			client := connect.NewClient[text, text](&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, s.URL()+procedure,
				connect.WithInterceptors(retries), connect.WithIdempotency(level))
			_, err := client.CallUnary(t.Context(), request())
			require.Error(t, err)
			want := map[connect.IdempotencyLevel]int32{connect.IdempotencyIdempotent: attempts, connect.IdempotencyUnknown: 1}[level]
			assert.Equal(t, want, calls.Load(), recorder.Timeline())
		})
	}
}
