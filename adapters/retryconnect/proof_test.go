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

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retryconnect"
	"github.com/seed-5ff3c98e/retry/internal/test/provoke"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// httpClient is a [connect.HTTPClient] and an [http.RoundTripper].
type httpClient func(*http.Request) (*http.Response, error)

func (c httpClient) Do(req *http.Request) (*http.Response, error)        { return c(req) }
func (c httpClient) RoundTrip(req *http.Request) (*http.Response, error) { return c(req) }

var refusedDial = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}

// TestUnproved has errors that look as if a call had not been sent, or had been refused. The
// call is not repeated.
func TestUnproved(t *testing.T) {
	t.Parallel()
	info, err := connect.NewErrorDetail(&errdetails.RetryInfo{RetryDelay: durationpb.New(1)})
	require.NoError(t, err)
	limited := connect.NewError(connect.CodeUnavailable, errors.New("later"))
	limited.AddDetail(info)
	no := func(context.Context, int) error { return connect.NewError(connect.CodeUnavailable, errors.New("no")) }
	tests := []struct {
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
	}
	for _, tt := range tests {
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
		AttemptTimeout: 50 * time.Millisecond, Backoff: retry.Constant(0), Observer: recorder,
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
