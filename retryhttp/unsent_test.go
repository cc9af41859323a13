package retryhttp_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// The first header field is encoded before anything of a request is on the wire
// that a server could act on. That a POST goes again if none was relies on it.
func TestNothingIsSentBeforeTheFirstField(t *testing.T) {
	t.Parallel()
	big := strings.Repeat("x", 10_000)
	tests := []struct {
		name   string
		change func(*http.Request)
	}{
		{"short", func(*http.Request) {}},
		{"long field", func(req *http.Request) { req.Header.Set("X", big) }},
		{"long URL", func(req *http.Request) { req.URL.RawQuery = big }},
	}
	for _, test := range tests {
		for version, set := range map[string]func(*testing.T) (*http.Transport, string){"HTTP/1": toOK, "HTTP/2": toH2(okEach)} {
			t.Run(version+", "+test.name, func(t *testing.T) {
				t.Parallel()
				var encoded atomic.Bool
				var requests atomic.Int64
				base, url := set(t)
				hooked(t, base, func(c *dialedConn) {
					var sent []byte
					c.beforeWrite = func(p []byte) {
						sent = append(sent, p...)
						if hasRequest(sent) {
							requests.Add(1)
							assert.True(t, encoded.Load())
						}
					}
				})
				req := request(t, http.MethodPost, url, strings.NewReader("hello"))
				test.change(req)
				req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
					WroteHeaderField: func(string, []string) { encoded.Store(true) },
				}))
				resp, err := base.RoundTrip(req)
				require.NoError(t, err)
				require.NoError(t, resp.Body.Close())
				assert.NotZero(t, requests.Load())
			})
		}
	}
}

// hasRequest reports whether there is enough for a server to see a request: the
// whole header of HTTP/1, or the beginning of a header of HTTP/2.
func hasRequest(sent []byte) bool {
	frames, ok := bytes.CutPrefix(sent, []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
	if !ok {
		return bytes.Contains(sent, []byte("\r\n\r\n")) && !bytes.HasPrefix(sent, []byte("PRI"))
	}
	for len(frames) >= 9 {
		if frames[3] == frameHeaders {
			return true
		}
		length := int(binary.BigEndian.Uint32(frames) >> 8)
		frames = frames[min(len(frames), 9+length):]
	}
	return false
}

// A transport that does not use httptrace proves nothing.
func TestTransportThatDoesNotTell(t *testing.T) {
	t.Parallel()
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			requests := 0
			base := roundTripper(func(*http.Request) (*http.Response, error) {
				requests++
				return nil, syscall.ECONNRESET
			})
			transport := &retryhttp.Transport{Base: base, Policy: atOnce(2), Budget: retryhttp.NoBudget}
			_, err := transport.RoundTrip(request(t, method, "http://127.0.0.1", nil))
			require.ErrorIs(t, err, syscall.ECONNRESET)
			want := 1
			if method == http.MethodGet {
				want = 2
			}
			assert.Equal(t, want, requests)
		})
	}
}

// Once something was written, a connection that is asked for later does not make
// up for it.
func TestTransportThatTellsInParts(t *testing.T) {
	t.Parallel()
	requests := 0
	base := roundTripper(func(req *http.Request) (*http.Response, error) {
		requests++
		trace := httptrace.ContextClientTrace(req.Context())
		trace.GetConn("a:80")
		trace.WroteHeaderField("Host", []string{"a"})
		trace.GetConn("b:80")
		return nil, syscall.ECONNRESET
	})
	transport := &retryhttp.Transport{Base: base, Policy: atOnce(2), Budget: retryhttp.NoBudget}
	_, err := transport.RoundTrip(request(t, http.MethodPost, "http://127.0.0.1", nil))
	require.Error(t, err)
	assert.Equal(t, 1, requests)
}

// What a hook of an http.Transport fails with, nobody knows; but there was no connection
// yet, so that even a POST may be repeated.
func TestHooksThatFail(t *testing.T) {
	t.Parallel()
	errTunnel := errors.New("the tunnel is not up")
	hooks := map[string]func(*http.Transport, func() error){
		"DialContext": func(base *http.Transport, fail func() error) {
			base.DialContext = func(context.Context, string, string) (net.Conn, error) { return nil, fail() }
		},
		"Proxy": func(base *http.Transport, fail func() error) {
			base.Proxy = func(*http.Request) (*url.URL, error) { return nil, fail() }
		},
	}
	for name, set := range hooks {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			t.Run(name+", "+method, func(t *testing.T) {
				t.Parallel()
				var calls atomic.Int64
				base := &http.Transport{}
				set(base, func() error {
					calls.Add(1)
					return errTunnel
				})
				var events retrytest.Recorder
				p := atOnce(3)
				p.Observer = &events
				_, err := client(t, base, p).Do(request(t, method, "http://127.0.0.1:1", strings.NewReader("hello")))
				require.ErrorIs(t, err, errTunnel)
				require.ErrorIs(t, err, retry.ErrAttemptsExhausted)
				assert.EqualValues(t, 3, calls.Load())
				want := retry.Verdict{Class: retry.Retryable, Category: "conn"} // nobody watches
				if method == http.MethodPost {
					want = retry.Verdict{Class: retry.Retryable, NotApplied: true, Category: "unsent"}
				}
				assert.Equal(t, want, events.Events()[0].Verdict)
			})
		}
	}
}

// An error of the connection itself, which nobody knows either, comes after something
// was sent.
func TestConnectionsThatFailOddly(t *testing.T) {
	t.Parallel()
	errOdd := errors.New("odd")
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			s := serve(t, hang)
			base := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
				return &oddConn{Conn: conn, err: errOdd, written: make(chan struct{})}, err
			}}
			_, err := client(t, base, atOnce(3)).Do(request(t, method, s.URL, nil))
			require.ErrorIs(t, err, errOdd)
			assert.Equal(t, method == http.MethodGet, errors.Is(err, retry.ErrAttemptsExhausted))
		})
	}
}

// oddConn fails to read once something was written.
type oddConn struct {
	net.Conn
	err     error
	once    sync.Once
	written chan struct{}
}

func (c *oddConn) Write(p []byte) (int, error) {
	defer c.once.Do(func() { close(c.written) })
	return c.Conn.Write(p)
}

func (c *oddConn) Read([]byte) (int, error) {
	<-c.written
	return 0, c.err
}

// What was written in an attempt does not count in the next.
func TestEachAttemptTellsForItself(t *testing.T) {
	t.Parallel()
	requests := 0
	base := roundTripper(func(req *http.Request) (*http.Response, error) {
		requests++
		trace := httptrace.ContextClientTrace(req.Context())
		trace.GetConn("a:80")
		if requests == 1 {
			trace.WroteHeaderField("Host", []string{"a"})
			return &http.Response{StatusCode: http.StatusTooManyRequests, Body: http.NoBody}, nil
		}
		if requests == 3 {
			trace.WroteHeaderField("Host", []string{"a"})
		}
		return nil, syscall.ECONNRESET
	})
	transport := &retryhttp.Transport{Base: base, Policy: atOnce(9), Budget: retryhttp.NoBudget}
	_, err := transport.RoundTrip(request(t, http.MethodPost, "http://127.0.0.1", nil))
	require.Error(t, err)
	assert.Equal(t, 3, requests)
}
