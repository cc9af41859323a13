package clientstest_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/provoke"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

// overXNet is a Transport of golang.org/x/net/http2 without TLS, which pings the server.
//
//nolint:staticcheck // it is deprecated, and in use
func overXNet(t *testing.T, every time.Duration) *http2.Transport {
	t.Helper()
	base := &http2.Transport{
		AllowHTTP: true, ReadIdleTimeout: every, PingTimeout: every,
		DialTLSContext: func(ctx context.Context, network, addr string, _ *tls.Config) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, addr)
		},
	}
	t.Cleanup(base.CloseIdleConnections)
	return base
}

// A Transport of golang.org/x/net/http2 returns errors of its own types, up to Go 1.26 by code of
// its own and since then by that of net/http. They are known as those of net/http are.
func TestErrorsOfXNetHTTP2(t *testing.T) {
	t.Parallel()
	goAway := func(last func(stream uint32) uint32, code uint32, end bool) func(*provoke.HTTP2Conn) {
		return func(c *provoke.HTTP2Conn) {
			c.GoAway(last(c.Request()), code)
			if end {
				c.EndWrites()
			}
		}
	}
	same := func(stream uint32) uint32 { return stream }
	none := func(uint32) uint32 { return 0 }
	tests := []struct {
		name     string // of the type first
		handle   func(*provoke.HTTP2Conn)
		text     string
		class    retry.Class
		category string
		get      int // attempts of a GET, and of a POST
		post     int
	}{
		{"http2.StreamError, INTERNAL_ERROR", provoke.ResetEach(provoke.InternalError), "INTERNAL_ERROR", retry.Retryable, "http2_reset", 2, 1},
		{"http2.StreamError, CANCEL", provoke.ResetEach(provoke.CancelStream), "CANCEL", retry.Retryable, "http2_reset", 2, 1},
		{"http2.StreamError, ENHANCE_YOUR_CALM", provoke.ResetEach(provoke.EnhanceYourCalm), "ENHANCE_YOUR_CALM", retry.RateLimited, "http2_calm", 2, 1},
		{"http2.StreamError, HTTP_1_1_REQUIRED", provoke.ResetEach(provoke.HTTP11Required), "HTTP_1_1_REQUIRED", retry.Retryable, "http2_refused", 2, 2},
		{"http2.StreamError, of the client", func(c *provoke.HTTP2Conn) {
			c.Each(func(stream uint32) { c.Header(stream, 0, 1, 'a', 1, 'b') })
		}, "PROTOCOL_ERROR", retry.Final, "malformed", 1, 1},
		{"http2.StreamError, in the body", provoke.ResetEachBody(provoke.InternalError), "INTERNAL_ERROR", retry.Retryable, "http2_reset", 1, 1},
		{"http2.GoAwayError, NO_ERROR", goAway(same, provoke.NoError, true), "server sent GOAWAY and closed", retry.Retryable, "http2_goaway", 2, 1},
		{"http2.GoAwayError, ENHANCE_YOUR_CALM", goAway(same, provoke.EnhanceYourCalm, true), "server sent GOAWAY and closed", retry.RateLimited, "http2_calm", 2, 1},
		{"*errors.errorString, GOAWAY before the stream", goAway(none, provoke.InternalError, false), "GOAWAY from server ErrCode:INTERNAL_ERROR", retry.Retryable, "http2_goaway", 2, 2},
		{"http2.ConnectionError", func(c *provoke.HTTP2Conn) {
			c.Request()
			c.Reset(0, provoke.NoError)
		}, "connection error: PROTOCOL_ERROR", retry.Unknown, "", 1, 1},
		{"*errors.errorString, closed", func(c *provoke.HTTP2Conn) {
			c.Request()
			c.EndWrites()
		}, "EOF", retry.Retryable, "eof", 2, 1},
		{"*errors.errorString, no answer to a ping", func(c *provoke.HTTP2Conn) { provoke.Ignore(c) }, "client connection lost", retry.Retryable, "conn_closed", 2, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			url := provoke.ServeHTTP2(t, tt.handle).URL()
			call := func(rt http.RoundTripper, method string) error {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader("hello"))
				require.NoError(t, err)
				resp, err := rt.RoundTrip(req)
				if err == nil {
					_, err = io.ReadAll(resp.Body)
					_ = resp.Body.Close()
				}
				return err
			}
			every := time.Duration(0)
			if strings.HasSuffix(tt.name, "ping") {
				every = 50 * time.Millisecond
			}
			err := call(overXNet(t, every), http.MethodGet)
			require.ErrorContains(t, err, tt.text)
			kind, _, _ := strings.Cut(tt.name, ",")
			require.Equal(t, kind, fmt.Sprintf("%T", err))
			v := retryhttp.Classify(err)
			assert.Equal(t, tt.class, v.Class)
			assert.Equal(t, tt.category, v.Category)
			for method, want := range map[string]int{http.MethodGet: tt.get, http.MethodPost: tt.post} { // as Base
				attempts := 0
				p := &retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(0), Observer: retry.ObserverFunc(func(_ context.Context, e retry.Event) {
					attempts = e.Attempt
				})}
				require.Error(t, call(&retryhttp.Transport{Base: overXNet(t, every), Policy: p, Budget: retryhttp.NoBudget}, method))
				assert.Equal(t, want, attempts, method)
			}
		})
	}
}
