package retryhttp_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

var invalid = []trouble{
	{name: "scheme", set: nowhere("ftp://127.0.0.1/"), want: final("invalid"), get: 1, post: 1},
	{name: "no host", set: nowhere("http:///x"), want: final("invalid"), get: 1, post: 1},
	{
		name: "no URL", set: toOK, change: changed(func(req *http.Request) { req.URL = nil }),
		want: final("invalid"), get: 0, post: 0, // the Client itself refuses
	},
	{
		name: "RequestURI", set: toOK, change: changed(func(req *http.Request) { req.RequestURI = "/" }),
		want: final("invalid"), get: 0, post: 0, // the Client itself refuses
	},
	{
		name: "method", set: toOK, change: changed(func(req *http.Request) { req.Method = "G T" }),
		want: final("invalid"), get: 1, post: 1,
	},
	{
		name: "header name", set: toOK, change: changed(func(req *http.Request) { req.Header["a b"] = []string{"c"} }),
		want: final("invalid"), get: 1, post: 1,
	},
	{
		name: "header value", set: toOK, change: changed(func(req *http.Request) { req.Header["A"] = []string{"b\nc"} }),
		want: final("invalid"), get: 1, post: 1,
	},
	{
		name: "trailer", set: toOK, change: changed(func(req *http.Request) { req.Trailer = http.Header{"a b": nil} }),
		want: final("invalid"), get: 1, post: 1,
	},
	{
		name: "control character", set: toOK, change: changed(func(req *http.Request) { req.URL.RawQuery = "a\n" }),
		want: final("invalid"), text: "control character", get: 1, post: 1,
	},
	{
		name: "length", set: toOK, raw: http.MethodPost, change: changed(func(req *http.Request) {
			if req.Body != nil {
				req.ContentLength = 10
			}
		}),
		want: final("invalid"), text: "ContentLength=10 with Body length 5", get: 1, post: 1,
	},
	{
		name: "redirects", set: func(t *testing.T) (*http.Transport, string) {
			t.Helper()
			s := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusSeeOther) })
			return ownTransport(t, &http.Transport{}), s.URL
		},
		byDo: true, want: final("redirects"), get: 1, post: 1,
	},
	{
		name: "Location", set: func(t *testing.T) (*http.Transport, string) {
			t.Helper()
			s := serve(t, status(302, "Location", "http://[::1"))
			return ownTransport(t, &http.Transport{}), s.URL
		},
		byDo: true, want: final("redirects"), get: 1, post: 1,
	},
}

var malformed = []trouble{
	{name: "response", set: to(sayRaw("hello\r\n\r\n")), want: final("malformed"), text: "malformed HTTP response", get: 1, post: 1},
	{name: "version", set: to(sayRaw("HTTP/x 200 OK\r\n\r\n")), want: final("malformed"), text: "malformed HTTP version", get: 1, post: 1},
	{name: "status", set: to(sayRaw("HTTP/1.1 abc OK\r\n\r\n")), want: final("malformed"), text: "malformed HTTP status code", get: 1, post: 1},
	{name: "header", set: to(sayRaw("HTTP/1.1 200 OK\r\n a: b\r\n\r\n")), want: final("malformed"), text: "malformed MIME header initial line", get: 1, post: 1},
	{
		name: "too large header",
		set: with(func(base *http.Transport) { base.MaxResponseHeaderBytes = 100 },
			sayRaw("HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", 10_000)+"\r\n\r\n")),
		want: final("malformed"), text: "server response headers exceeded", get: 1, post: 1,
	},
	{
		name: "too large HTTP/2 header",
		set: func(t *testing.T) (*http.Transport, string) {
			t.Helper()
			// x: 300 bytes, whose number is written as 127 and the rest in groups of
			// 7 bits. One field or a frame that is far too long would be another
			// error.
			field := append([]byte{0x00, 1, 'x', 127, 0x80 | 173&127, 173 >> 7}, strings.Repeat("y", 300)...)
			s := serveH2(t, func(c *h2Conn) {
				c.each(func(stream uint32) { c.ok(stream, flagEndStream, append(field, field...)...) })
			})
			base := h2Transport(t)
			base.MaxResponseHeaderBytes = 100
			return base, "http://" + s.addr
		},
		want: final("malformed"), text: "response header list larger", get: 1, post: 1,
	},
	{
		name: "not TLS",
		set: func(t *testing.T) (*http.Transport, string) {
			t.Helper()
			s := serveRaw(t, func(conn net.Conn) {
				_, _ = io.WriteString(conn, "SSH-2.0-OpenSSH_9.9\r\n")
				ignore(conn)
			})
			return ownTransport(t, &http.Transport{}), "https://" + s.addr
		},
		want: final("tls"), get: 1, post: 1,
	},
	{
		name: "HTTP, not HTTPS",
		set: func(t *testing.T) (*http.Transport, string) {
			t.Helper()
			s := serveRaw(t, func(conn net.Conn) {
				_, _ = io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\r\n")
				ignore(conn)
			})
			return ownTransport(t, &http.Transport{}), "https://" + s.addr
		},
		want: final("tls"), get: 1, post: 1,
	},
}

var broken = []trouble{
	{name: "reset", set: to(resetRaw), want: again("conn_reset"), get: 2, post: 1},
	{name: "EOF", set: to(sayRaw("")), want: again("eof"), text: "EOF", get: 2, post: 1},
	{name: "EOF in the header", set: to(sayRaw("HTTP/1.1 200 OK\r\nX: y\r\n")), want: again("eof"), text: "unexpected EOF", get: 2, post: 1},
	{name: "EOF in the version", set: to(sayRaw("HTT")), want: again("truncated"), get: 2, post: 1},
	{name: "EOF after the version", set: to(sayRaw("HTTP/1.1 ")), want: again("truncated"), get: 2, post: 1},
	{name: "EOF in the status", set: to(sayRaw("HTTP/1.1 20")), want: again("truncated"), get: 2, post: 1},
	{name: "EOF after the status line", set: to(sayRaw("HTTP/1.1 200 OK")), want: again("eof"), get: 2, post: 1},
	{name: "EOF in the name of a field", set: to(sayRaw("HTTP/1.1 200 OK\r\nX-")), want: again("truncated"), get: 2, post: 1},
	{name: "truncated", set: to(sayRaw("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")), byDo: true, want: again("eof"), get: 2, post: 1},
	{
		name: "truncated chunks", set: to(sayRaw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")),
		byDo: true, want: again("eof"), get: 2, post: 1,
	},
	{
		name: "truncated trailer", set: to(sayRaw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n")),
		byDo: true, want: again("eof"), text: "unexpected EOF reading trailer", get: 2, post: 1,
	},
	{
		name: "reset in the body", set: to(func(conn net.Conn) {
			sayRaw("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")(conn)
			_ = conn.(*net.TCPConn).SetLinger(0)
		}),
		byDo: true, want: again("conn_reset"), get: 2, post: 1,
	},
	{
		// The request counts as sent, because some of it may have been.
		name: "EPIPE", set: func(t *testing.T) (*http.Transport, string) {
			t.Helper()
			s := serveRaw(t, ignoreForever(t))
			base := hooked(t, &http.Transport{}, func(c *dialedConn) {
				c.beforeWrite = func([]byte) { _ = c.Conn.(*net.TCPConn).CloseWrite() }
			})
			return base, "http://" + s.addr
		},
		want: again("conn_reset"), text: "broken pipe", get: 2, post: 1,
	},
	{
		name: "closed", set: func(t *testing.T) (*http.Transport, string) {
			t.Helper()
			s := serveRaw(t, ignore)
			base := hooked(t, &http.Transport{}, func(c *dialedConn) {
				c.beforeWrite = func([]byte) { _ = c.Conn.Close() }
			})
			return base, "http://" + s.addr
		},
		want: again("closed"), text: net.ErrClosed.Error(), get: 2, post: 1,
	},
	{
		// net/http sends a GET again by itself; it could send the POST as well.
		name: "closed while idle", setup: func(t *testing.T) scene { t.Helper(); return idle(t, false) },
		raw: http.MethodPost, want: again("conn_closed"), text: "http: server closed idle connection", get: 1, post: 2,
	},
	{
		name: "closed while idle, after the request", setup: func(t *testing.T) scene { t.Helper(); return idle(t, true) },
		raw: http.MethodPost, want: again("eof"), get: 1, post: 1,
	},
}

// ignoreForever keeps a connection open even if the client says no more.
func ignoreForever(t *testing.T) func(net.Conn) {
	t.Helper()
	done := t.Context().Done()
	return func(conn net.Conn) {
		ignore(conn)
		<-done
	}
}

// idle is a connection in the pool that the server closes: when the request has
// been given the connection, and before or after it has been written.
func idle(t *testing.T, written bool) scene {
	t.Helper()
	closeIt := make(chan struct{})
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
	s := serveRaw(t, func(conn net.Conn) {
		sayRaw(ok)(conn)
		<-closeIt
	}, sayRaw(ok))
	var first *dialedConn
	wrote, seen := make(chan struct{}), make(chan struct{})
	base := hooked(t, &http.Transport{}, func(c *dialedConn) {
		if first != nil {
			return
		}
		first = c
		var writes atomic.Int64
		c.afterWrite = func() {
			if writes.Add(1) == 2 {
				close(wrote)
			}
		}
		if written {
			c.afterRead = func(error) { // the news is late
				close(seen)
				<-wrote
			}
		}
	})
	url := "http://" + s.addr
	resp, err := (&http.Client{Transport: base}).Get(url)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	var once sync.Once
	t.Cleanup(func() { once.Do(func() { close(closeIt) }) })
	return scene{base, url, func(req *http.Request) *http.Request {
		return onGotConn(req, func(httptrace.GotConnInfo) {
			once.Do(func() {
				close(closeIt)
				if written {
					eventually(t, "the end of the idle connection", seen)
				} else {
					eventually(t, "the end of the idle connection", first.closed)
					time.Sleep(short) // net/http takes note of it just after
				}
			})
		})
	}}
}

// short is long enough for nothing, long for a request to be written.
const (
	short = 20 * time.Millisecond
	long  = 100 * time.Millisecond
)

var slow = []trouble{
	{name: "attempt", set: to(stallRaw("HTTP/1.1 200 OK\r\nX-")), timeout: long, want: again("timeout"), get: 2, post: 1},
	{name: "attempt, in the body", set: to(stallRaw("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")), timeout: long, byDo: true, want: again("timeout"), get: 2, post: 1},
	{
		name: "response header",
		set:  with(func(base *http.Transport) { base.ResponseHeaderTimeout = short }, stallRaw("HTTP/1.1 200 OK\r\nX-")),
		want: again("timeout"), text: "timeout awaiting response headers", get: 2, post: 1,
	},
	{
		name: "client", set: to(stallRaw("")), client: func(c *http.Client) { c.Timeout = long },
		byDo: true, want: again("timeout"), text: "Client.Timeout exceeded", get: 2, post: 1,
	},
	{
		name: "canceled as in the old days", set: to(stallRaw("")), change: func(req *http.Request) *http.Request {
			over := make(chan struct{})
			time.AfterFunc(long, func() { close(over) })
			//lint:ignore SA1019 deprecated, and used
			req.Cancel = over //nolint:staticcheck // likewise
			return req
		},
		want: final("canceled"), get: 1, post: 1,
	},
	{
		name: "dial",
		set:  with(func(base *http.Transport) { base.DialContext = (&net.Dialer{Timeout: 1}).DialContext }, ignore),
		want: anew("timeout"), text: "i/o timeout", get: 2, post: 2,
	},
	{
		name: "TLS handshake",
		set: func(t *testing.T) (*http.Transport, string) {
			t.Helper()
			s := serveRaw(t, ignore)
			return ownTransport(t, &http.Transport{TLSHandshakeTimeout: short}), "https://" + s.addr
		},
		want: anew("timeout"), text: "TLS handshake timeout", get: 2, post: 2,
	},
	{
		name: "attempt, in the TLS handshake",
		set: func(t *testing.T) (*http.Transport, string) {
			t.Helper()
			return ownTransport(t, &http.Transport{}), "https://" + serveRaw(t, ignore).addr
		},
		timeout: short, want: again("timeout"), get: 2, post: 2, // it is known that nothing was sent
	},
}

func TestNilHeader(t *testing.T) {
	t.Parallel()
	base, url := toOK(t)
	req := request(t, http.MethodGet, url, nil)
	req.Header = nil
	_, err := base.RoundTrip(req)
	require.ErrorContains(t, err, "nil Request.Header")
	assert.Equal(t, final("invalid"), retryhttp.Classify(err))
}

// What no connection of a test can be made to say.
func TestClassifyByValue(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		err  error
		want retry.Verdict
	}{
		{"nil", nil, retry.Verdict{}},
		{"unknown", errors.New("boom"), retry.Verdict{}},
		{"unknown, of the client", &url.Error{Op: "Get", URL: "/", Err: errors.New("boom")}, retry.Verdict{}},
		{"bare EOF", io.EOF, retry.Verdict{}},
		{"EOF of the client", &url.Error{Op: "Get", URL: "/", Err: io.EOF}, again("eof")},
		{"unexpected EOF", io.ErrUnexpectedEOF, again("eof")},
		{"parse", &url.Error{Op: "parse", URL: "/", Err: errors.New("x")}, final("invalid")},
		{"canceled", &url.Error{Op: "Get", URL: "/", Err: context.Canceled}, final("canceled")},
		{"deadline", &url.Error{Op: "Get", URL: "/", Err: context.DeadlineExceeded}, again("timeout")},
		{"net.ErrClosed", net.ErrClosed, again("closed")},
		{"http.ErrServerClosed", http.ErrServerClosed, again("closed")},
		{"io.ErrClosedPipe", io.ErrClosedPipe, again("closed")},
		{"http.ErrBodyReadAfterClose", http.ErrBodyReadAfterClose, final("invalid")},
		{"http.ErrBodyNotAllowed", http.ErrBodyNotAllowed, final("invalid")},
		{"http.ErrContentLength", http.ErrContentLength, final("invalid")},
		{"http.ErrHandlerTimeout", http.ErrHandlerTimeout, final("invalid")},
		{"http.ErrSchemeMismatch", http.ErrSchemeMismatch, final("tls")},
		{"internal error alert", &net.OpError{Op: "remote error", Err: tls.AlertError(80)}, again("tls_alert")},
		{"user canceled alert", &net.OpError{Op: "remote error", Err: tls.AlertError(90)}, again("tls_alert")},
		{"join", errors.Join(http.ErrSchemeMismatch, syscall.ECONNRESET), again("conn_reset")},
		{"join, reversed", errors.Join(syscall.ECONNRESET, http.ErrSchemeMismatch), again("conn_reset")},
		// The same words from somebody who has a type of his own are not net/http's.
		{"same words", sameWords{}, retry.Verdict{}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.want, retryhttp.Classify(test.err))
		})
	}
}

type sameWords struct{}

func (sameWords) Error() string { return "malformed HTTP response" }

// T15: the Location of too many redirects may have a password in it.
func TestRedirectErrorsAreRedacted(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://user:s3cret@"+r.Host+"/?token=t0ken", http.StatusFound)
	})
	c := client(t, nil, atOnce(2))
	err := retryhttp.Do(c, nil, request(t, http.MethodGet, s.URL, nil), func(*http.Response) error { return nil })
	require.ErrorContains(t, err, "stopped after 10 redirects")
	assert.NotContains(t, err.Error(), "s3cret")
	assert.NotContains(t, err.Error(), "t0ken")
	assert.EqualValues(t, 10, s.requests.Load())
}
