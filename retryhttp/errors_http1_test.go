package retryhttp_test

import (
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/internal/test/provoke"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

var invalid = []failure{
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
	{name: "method", set: toOK, change: changed(func(req *http.Request) { req.Method = "G T" }), want: final("invalid"), get: 1, post: 1},
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
			return provoke.Transport(t, &http.Transport{}), s.URL
		},
		byDo: true, want: final("redirects"), get: 1, post: 1,
	},
	{
		name: "Location", set: func(t *testing.T) (*http.Transport, string) {
			t.Helper()
			s := serve(t, status(302, "Location", "http://[::1"))
			return provoke.Transport(t, &http.Transport{}), s.URL
		},
		byDo: true, want: final("redirects"), get: 1, post: 1,
	},
}

var malformed = []failure{
	{name: "response", set: to(provoke.Respond("hello\r\n\r\n")), want: final("malformed"), text: "malformed HTTP response", get: 1, post: 1},
	{name: "version", set: to(provoke.Respond("HTTP/x 200 OK\r\n\r\n")), want: final("malformed"), text: "malformed HTTP version", get: 1, post: 1},
	{name: "status", set: to(provoke.Respond("HTTP/1.1 abc OK\r\n\r\n")), want: final("malformed"), text: "malformed HTTP status code", get: 1, post: 1},
	{name: "header", set: to(provoke.Respond("HTTP/1.1 200 OK\r\n a: b\r\n\r\n")), want: final("malformed"), text: "malformed MIME header initial line", get: 1, post: 1},
	{name: "length", set: to(provoke.Respond("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n")), want: final("malformed"), text: "bad Content-Length", get: 1, post: 1},
	{name: "coding", set: to(provoke.Respond("HTTP/1.1 200 OK\r\nTransfer-Encoding: x\r\n\r\n")), want: final("malformed"), text: "unsupported transfer encoding", get: 1, post: 1},
	{
		name: "codings", set: to(provoke.Respond("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n")),
		want: final("malformed"), text: "too many transfer encodings", get: 1, post: 1,
	},
	{
		name: "no status", set: toH2(func(c *provoke.HTTP2Conn) {
			c.Each(func(stream uint32) { c.Header(stream, 0x00, 1, 'x', 1, 'y') })
		}),
		want: final("malformed"), text: "missing status pseudo header", get: 1, post: 1,
	},
	{
		name: "HTTP/1.1 for HTTP/2", set: toH2(func(c *provoke.HTTP2Conn) {
			c.Request()
			_, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
		}),
		want: final("malformed"), text: "looked like an HTTP/1.1 header", get: 1, post: 1,
	},
	{
		name: "too large header",
		set: with(func(base *http.Transport) { base.MaxResponseHeaderBytes = 100 },
			to(provoke.Respond("HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", 10_000)+"\r\n\r\n"))),
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
			s := provoke.ServeHTTP2(t, func(c *provoke.HTTP2Conn) {
				c.Each(func(stream uint32) { c.OK(stream, provoke.FlagEndStream, append(field, field...)...) })
			})
			base := provoke.HTTP2Transport(t)
			base.MaxResponseHeaderBytes = 100
			return base, s.URL()
		},
		want: final("malformed"), text: "response header list larger", get: 1, post: 1,
	},
	{name: "not TLS", set: secure(to(provoke.Say("SSH-2.0-OpenSSH_9.9\r\n"))), want: final("tls"), get: 1, post: 1},
	{name: "HTTP, not HTTPS", set: secure(to(provoke.Say("HTTP/1.1 400 Bad Request\r\n\r\n"))), want: final("tls"), get: 1, post: 1},
}

var broken = []failure{
	{name: "reset", set: to(provoke.RespondAndReset("")), want: again("conn_reset"), get: 2, post: 1},
	{name: "EOF", set: to(provoke.Respond("")), want: again("eof"), text: "EOF", get: 2, post: 1},
	{name: "EOF in the header", set: to(provoke.Respond("HTTP/1.1 200 OK\r\nX: y\r\n")), want: again("eof"), text: "unexpected EOF", get: 2, post: 1},
	{name: "EOF in the version", set: to(provoke.Respond("HTT")), want: again("truncated"), get: 2, post: 1},
	{name: "EOF after the version", set: to(provoke.Respond("HTTP/1.1 ")), want: again("truncated"), get: 2, post: 1},
	{name: "EOF in the status", set: to(provoke.Respond("HTTP/1.1 20")), want: again("truncated"), get: 2, post: 1},
	{name: "EOF after the status line", set: to(provoke.Respond("HTTP/1.1 200 OK")), want: again("eof"), get: 2, post: 1},
	{name: "EOF in the name of a field", set: to(provoke.Respond("HTTP/1.1 200 OK\r\nX-")), want: again("truncated"), get: 2, post: 1},
	{name: "EOF in the value of a field", set: to(provoke.Respond("HTTP/1.1 200 OK\r\nContent-Length: 1")), want: again("eof"), get: 2, post: 1},
	{name: "truncated", set: to(provoke.Respond("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")), byDo: true, want: again("eof"), get: 2, post: 1},
	{
		name: "truncated chunks", set: to(provoke.Respond("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n")),
		byDo: true, want: again("eof"), get: 2, post: 1,
	},
	{
		name: "truncated trailer", set: to(provoke.Respond("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n")),
		byDo: true, want: again("eof"), text: "unexpected EOF reading trailer", get: 2, post: 1,
	},
	{
		name: "reset in the body", set: to(provoke.RespondAndReset("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")),
		byDo: true, want: again("conn_reset"), get: 2, post: 1,
	},
	{
		// The request counts as sent, because some of it may have been.
		name: "EPIPE", set: func(t *testing.T) (*http.Transport, string) {
			t.Helper()
			s := provoke.Serve(t, ignoreForever(t))
			base := provoke.Hook(t, &http.Transport{}, func(c *provoke.Conn) {
				c.BeforeWrite = func([]byte) { _ = c.Conn.(*net.TCPConn).CloseWrite() }
			})
			return base, s.URL()
		},
		want: again("conn_reset"), text: "broken pipe", get: 2, post: 1,
	},
	{
		name: "closed", set: func(t *testing.T) (*http.Transport, string) {
			t.Helper()
			s := provoke.Serve(t, provoke.Ignore)
			base := provoke.Hook(t, &http.Transport{}, func(c *provoke.Conn) {
				c.BeforeWrite = func([]byte) { _ = c.Conn.Close() }
			})
			return base, s.URL()
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
		provoke.Ignore(conn)
		<-done
	}
}

// idle is a connection in the pool that the server closes: when the request has
// been given the connection, and before or after it has been written.
func idle(t *testing.T, written bool) scene {
	t.Helper()
	closeIt := make(chan struct{})
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
	s := provoke.Serve(t, func(conn net.Conn) {
		provoke.Respond(ok)(conn)
		<-closeIt
	}, provoke.Respond(ok))
	var first *provoke.Conn
	wrote, seen := make(chan struct{}), make(chan struct{})
	base := provoke.Hook(t, &http.Transport{}, func(c *provoke.Conn) {
		if first != nil {
			return
		}
		first = c
		var writes atomic.Int64
		c.AfterWrite = func() {
			if writes.Add(1) == 2 {
				close(wrote)
			}
		}
		if written {
			c.AfterRead = func(error) { // the news is late
				close(seen)
				<-wrote
			}
		}
	})
	url := s.URL()
	resp := testkit.Must((&http.Client{Transport: base}).Get(url))(t)
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
					eventually(t, "the end of the idle connection", first.Closed())
					time.Sleep(provoke.Soon) // net/http takes note of it just after
				}
			})
		})
	}}
}

// long is long enough for a request to be written.
const long = 100 * time.Millisecond

var slow = []failure{
	{name: "attempt", set: to(provoke.RespondAndStall("HTTP/1.1 200 OK\r\nX-")), timeout: long, want: again("timeout"), get: 2, post: 1},
	{name: "attempt, in the body", set: to(provoke.RespondAndStall("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhello")), timeout: long, byDo: true, want: again("timeout"), get: 2, post: 1},
	{
		name: "response header",
		set:  with(func(base *http.Transport) { base.ResponseHeaderTimeout = provoke.Soon }, to(provoke.RespondAndStall("HTTP/1.1 200 OK\r\nX-"))),
		want: again("timeout"), text: "timeout awaiting response headers", get: 2, post: 1,
	},
	{
		name: "client", set: to(provoke.RespondAndStall("")), client: func(c *http.Client) { c.Timeout = long },
		byDo: true, want: again("timeout"), text: "Client.Timeout exceeded", get: 2, post: 1,
	},
	{
		name: "canceled as in the old days", set: to(provoke.RespondAndStall("")), change: func(req *http.Request) *http.Request {
			over := make(chan struct{})
			time.AfterFunc(long, func() { close(over) })
			//lint:provoke.Ignore SA1019 deprecated, and used
			req.Cancel = over //nolint:staticcheck // likewise
			return req
		},
		want: final("canceled"), get: 1, post: 1,
	},
	{
		name: "dial",
		set:  with(func(base *http.Transport) { base.DialContext = (&net.Dialer{Timeout: 1}).DialContext }, to(provoke.Ignore)),
		want: anew("timeout"), text: "i/o timeout", get: 2, post: 2,
	},
	{
		name: "TLS handshake",
		set:  secure(with(func(base *http.Transport) { base.TLSHandshakeTimeout = provoke.Soon }, to(provoke.Ignore))),
		want: anew("timeout"), text: "TLS handshake timeout", get: 2, post: 2,
	},
	{
		name: "attempt, in the TLS handshake", set: secure(to(provoke.Ignore)),
		timeout: provoke.Soon, want: again("timeout"), get: 2, post: 2, // it is known that nothing was sent
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
