package retryhttp_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"os"
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
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// trouble is a request that fails in a certain way: in the end, or in its first
// attempt.
type trouble struct {
	name string

	// set makes the trouble; change makes the request that gets into it.
	set    func(t *testing.T) (*http.Transport, string)
	change func(*http.Request) *http.Request
	setup  func(t *testing.T) scene // instead of both

	raw     string             // the method of the request whose error is judged; "" means GET
	once    bool               // a body has no GetBody
	byDo    bool               // only a Client, or who reads the body, sees it
	timeout time.Duration      // AttemptTimeout
	client  func(*http.Client) // changes the client
	want    retry.Verdict      // of Classify
	text    string             // in the error
	get     int                // attempts
	post    int                // attempts with a body that can be had again
}

// scene is where a request gets into trouble.
type scene struct {
	base   *http.Transport
	url    string
	change func(*http.Request) *http.Request
}

func (tr *trouble) scene(t *testing.T) scene {
	t.Helper()
	if tr.setup != nil {
		return tr.setup(t)
	}
	base, url := tr.set(t)
	return scene{base, url, tr.change}
}

func (tr *trouble) request(t *testing.T, s scene, method string) *http.Request {
	t.Helper()
	var body io.Reader
	if method != http.MethodGet {
		body = strings.NewReader("hello")
		if tr.once {
			body = struct{ io.Reader }{body}
		}
	}
	req := request(t, method, s.url, body)
	if s.change != nil {
		req = s.change(req)
	}
	return req
}

// err is the error without this package.
func (tr *trouble) err(t *testing.T) error {
	t.Helper()
	s := tr.scene(t)
	method := tr.raw
	if method == "" {
		method = http.MethodGet
	}
	req := tr.request(t, s, method)
	if tr.timeout > 0 {
		ctx, cancel := context.WithTimeout(req.Context(), tr.timeout)
		t.Cleanup(cancel)
		req = req.WithContext(ctx)
	}
	c := &http.Client{Transport: s.base}
	if tr.client != nil {
		tr.client(c)
	}
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// attempts is how many a Transport makes. seen tells whether somebody observes
// it, because it takes a shorter way if not.
//
// How often net/http dials for HTTP/2 is left to chance, so dials is then 0.
func (tr *trouble) attempts(t *testing.T, method string, seen bool) (attempts int, dials int64) {
	t.Helper()
	s := tr.scene(t)
	var dialed atomic.Int64
	dial := s.base.DialContext
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	s.base.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		dialed.Add(1)
		return dial(ctx, network, addr)
	}
	var events retrytest.Recorder
	p := atOnce(2)
	p.AttemptTimeout = tr.timeout
	if seen {
		p.Observer = &events
	}
	c := client(t, s.base, p)
	c.Transport.(*retryhttp.Transport).BufferBody = 1 << 10
	if tr.client != nil {
		tr.client(c)
	}
	req := tr.request(t, s, method)
	if tr.byDo {
		_ = retryhttp.Do(c, nil, req, func(resp *http.Response) error {
			_, err := io.Copy(io.Discard, resp.Body)
			return err
		})
	} else if resp, err := c.Do(req); err == nil {
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
	}
	for _, e := range events.Events() {
		attempts = e.Attempt
	}
	if s.base.Protocols != nil {
		return attempts, 0
	}
	return attempts, dialed.Load()
}

func (tr *trouble) test(t *testing.T, provoked *texts) {
	t.Helper()
	t.Parallel()
	t.Run("Classify", func(t *testing.T) {
		t.Parallel()
		err := tr.err(t)
		require.Error(t, err)
		provoked.add(err)
		assert.Equal(t, tr.want, retryhttp.Classify(err), "%v", err)
		assert.ErrorContains(t, err, tr.text)
	})
	t.Run("GET", func(t *testing.T) {
		t.Parallel()
		attempts, dials := tr.attempts(t, http.MethodGet, true)
		assert.Equal(t, tr.get, attempts)
		if tr.timeout == 0 {
			_, plain := tr.attempts(t, http.MethodGet, false)
			assert.Equal(t, dials, plain, "connections when nobody observes")
		}
	})
	t.Run("POST", func(t *testing.T) {
		t.Parallel()
		attempts, _ := tr.attempts(t, http.MethodPost, true)
		assert.Equal(t, tr.post, attempts)
	})
}

// texts collects the texts of errors that were provoked.
type texts struct {
	mu  sync.Mutex
	all []string
}

func (s *texts) add(err error) {
	if err == nil {
		return
	}
	s.mu.Lock()
	s.all = append(s.all, err.Error())
	s.mu.Unlock()
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		s.add(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, leg := range e.Unwrap() {
			s.add(leg)
		}
	}
}

// a2: errors of the real net/http, and what comes of them.
//
//nolint:paralleltest,tparallel // Those of the group are, in trouble.test, and the texts come after them.
func TestTroubles(t *testing.T) {
	t.Parallel()
	var provoked texts
	t.Run("all", func(t *testing.T) {
		for _, group := range [][]trouble{invalid, malformed, broken, slow, unreachable, untrusted, behindProxies, overHTTP2} {
			for _, tr := range group {
				t.Run(tr.name, func(t *testing.T) { tr.test(t, &provoked) })
			}
		}
		if hasClientConn() {
			t.Run("ClientConn", func(t *testing.T) { onClientConns(t, &provoked) })
		}
	})
	// A new version of Go must not change the words unnoticed.
	t.Run("texts", func(t *testing.T) {
		prefixes, suffixes := retryhttp.Texts()
		for i, prefix := range prefixes {
			found := prefix == "http2: client conn not usable" && !hasClientConn()
			for _, text := range provoked.all {
				found = found || strings.HasPrefix(text, prefix) && strings.HasSuffix(text, suffixes[i])
			}
			assert.True(t, found, "no error was provoked that begins with %q and ends with %q", prefix, suffixes[i])
		}
	})
}

func final(category string) retry.Verdict {
	return retry.Verdict{Class: retry.Final, Category: category}
}

func again(category string) retry.Verdict {
	return retry.Verdict{Class: retry.Retryable, Category: category}
}

func anew(category string) retry.Verdict {
	return retry.Verdict{Class: retry.Retryable, NotApplied: true, Category: category}
}

// unsent is v for something that failed before anything was sent.
func unsent(v retry.Verdict) retry.Verdict {
	v.NotApplied = true
	return v
}

// to is a server that behaves like this on all connections.
func to(handlers ...func(net.Conn)) func(*testing.T) (*http.Transport, string) {
	return func(t *testing.T) (*http.Transport, string) {
		t.Helper()
		return ownTransport(t, &http.Transport{}), "http://" + serveRaw(t, handlers...).addr
	}
}

// toOK is a server that would answer.
var toOK = to(sayRaw("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))

// with uses a transport that f has changed.
func with(f func(*http.Transport), handlers ...func(net.Conn)) func(*testing.T) (*http.Transport, string) {
	return func(t *testing.T) (*http.Transport, string) {
		t.Helper()
		base, url := to(handlers...)(t)
		f(base)
		return base, url
	}
}

// nowhere is a URL without a server.
func nowhere(url string) func(*testing.T) (*http.Transport, string) {
	return func(t *testing.T) (*http.Transport, string) {
		t.Helper()
		return ownTransport(t, &http.Transport{}), url
	}
}

func changed(f func(*http.Request)) func(*http.Request) *http.Request {
	return func(req *http.Request) *http.Request {
		f(req)
		return req
	}
}

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
		c.beforeWrite = func([]byte) {
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

// dialing is a Dialer that fails like this.
func dialing(n syscall.Errno) func(*testing.T) (*http.Transport, string) {
	return with(func(base *http.Transport) {
		base.DialContext = (&net.Dialer{Control: func(string, string, syscall.RawConn) error {
			return os.NewSyscallError("connect", n)
		}}).DialContext
	}, ignore)
}

// resolving is a name that is looked up like this.
func resolving(rcode int) func(*testing.T) (*http.Transport, string) {
	return func(t *testing.T) (*http.Transport, string) {
		t.Helper()
		dialer := &net.Dialer{Resolver: serveDNS(t, rcode)}
		if rcode < 0 {
			dialer.Timeout = 2 * short
		}
		return ownTransport(t, &http.Transport{DialContext: dialer.DialContext}), "http://retry.invalid.:80"
	}
}

var unreachable = []trouble{
	{
		name: "refused", set: func(t *testing.T) (*http.Transport, string) {
			t.Helper()
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			require.NoError(t, listener.Close())
			return ownTransport(t, &http.Transport{}), "http://" + listener.Addr().String()
		},
		want: anew("conn_refused"), get: 2, post: 2,
	},
	{name: "network", set: dialing(syscall.ENETUNREACH), want: anew("unreachable"), get: 2, post: 2},
	{name: "host", set: dialing(syscall.EHOSTUNREACH), want: anew("unreachable"), get: 2, post: 2},
	{name: "ETIMEDOUT", set: dialing(syscall.ETIMEDOUT), want: anew("timeout"), get: 2, post: 2},
	{name: "EMFILE", set: dialing(syscall.EMFILE), want: anew("resources"), get: 2, post: 2},
	{name: "reset while dialing", set: dialing(syscall.ECONNRESET), want: anew("conn_reset"), get: 2, post: 2},
	{name: "EADDRNOTAVAIL", set: dialing(syscall.EADDRNOTAVAIL), want: anew("addr_in_use"), get: 2, post: 2},
	{name: "EACCES", set: dialing(syscall.EACCES), want: unsent(final("permission")), get: 1, post: 1},
	{name: "EPERM", set: dialing(syscall.EPERM), want: unsent(final("permission")), get: 1, post: 1},
	{name: "EAFNOSUPPORT", set: dialing(syscall.EAFNOSUPPORT), want: unsent(final("unsupported")), get: 1, post: 1},
	{name: "DNS: not found", set: resolving(3), want: unsent(final("dns_not_found")), text: "no such host", get: 1, post: 1},
	{name: "DNS: server failure", set: resolving(2), want: anew("dns"), text: "server misbehaving", get: 2, post: 2},
	{
		name: "DNS: no answer", set: resolving(-1), want: anew("dns"), text: "i/o timeout", get: 2, post: 2,
	},
	{
		name: "attempt, in DNS", set: resolving(-1), timeout: short,
		want: again("timeout"), get: 2, post: 2, // it is known that nothing was sent
	},
	{
		name: "DNS: canceled", set: resolving(-1), change: func(req *http.Request) *http.Request {
			ctx, cancel := context.WithCancel(req.Context())
			return req.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
				DNSStart: func(httptrace.DNSStartInfo) { cancel() },
			}))
		},
		want: final("canceled"), get: 1, post: 1,
	},
}

// toTLS is a server with a certificate for 127.0.0.1 and example.com.
func toTLS(config func(*tls.Config, *httptest.Server)) func(*testing.T) (*http.Transport, string) {
	return func(t *testing.T) (*http.Transport, string) {
		t.Helper()
		s := httptest.NewUnstartedServer(status(200))
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.StartTLS()
		t.Cleanup(s.Close)
		roots := x509.NewCertPool()
		roots.AddCert(s.Certificate())
		base := ownTransport(t, &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}})
		config(base.TLSClientConfig, s)
		return base, s.URL
	}
}

var untrusted = []trouble{
	{
		name: "authority", set: toTLS(func(c *tls.Config, _ *httptest.Server) { c.RootCAs = x509.NewCertPool() }),
		want: final("tls_cert"), text: "unknown authority", get: 1, post: 1,
	},
	{
		name: "host", set: toTLS(func(c *tls.Config, _ *httptest.Server) { c.ServerName = "retry.invalid" }),
		want: final("tls_cert"), text: "not retry.invalid", get: 1, post: 1,
	},
	{
		name: "expired", set: toTLS(func(c *tls.Config, s *httptest.Server) {
			c.Time = func() time.Time { return s.Certificate().NotAfter.Add(time.Hour) }
		}),
		want: final("tls_cert"), text: "expired", get: 1, post: 1,
	},
	{
		name: "version", set: toTLS(func(c *tls.Config, s *httptest.Server) {
			s.TLS.MinVersion, c.MaxVersion = tls.VersionTLS13, tls.VersionTLS12
		}),
		want: final("tls_alert"), text: "protocol version", get: 1, post: 1,
	},
	{name: "alert: handshake failure", set: alert(40), want: final("tls_alert"), text: "handshake failure", get: 1, post: 1},
	{name: "alert: internal error", set: alert(80), want: again("tls_alert"), text: "internal error", get: 2, post: 2},
	{name: "alert: user canceled", set: alert(90), want: again("tls_alert"), text: "user canceled", get: 2, post: 2},
	{name: "client, TLS 1.2", set: clientCert(tls.VersionTLS12), want: final("tls_alert"), text: "remote error: tls", get: 1, post: 1},
	{name: "client, TLS 1.3", set: clientCert(tls.VersionTLS13), want: final("tls_alert"), text: "certificate required", get: 1, post: 1},
}

// alert is a server that answers the first words of TLS with a fatal alert.
func alert(code byte) func(*testing.T) (*http.Transport, string) {
	return func(t *testing.T) (*http.Transport, string) {
		t.Helper()
		s := serveRaw(t, func(conn net.Conn) {
			_, _ = conn.Read(make([]byte, 1))
			_, _ = conn.Write([]byte{21, 3, 3, 0, 2, 2, code})
			ignore(conn)
		})
		return ownTransport(t, &http.Transport{}), "https://" + s.addr
	}
}

// clientCert is a server that wants to see a certificate. In TLS 1.3 the client
// learns of that when it has sent its request.
func clientCert(version uint16) func(*testing.T) (*http.Transport, string) {
	return func(t *testing.T) (*http.Transport, string) {
		t.Helper()
		with := httptest.NewUnstartedServer(nil)
		with.StartTLS() // for its certificate
		with.Close()
		config := &tls.Config{
			Certificates: with.TLS.Certificates, ClientAuth: tls.RequireAnyClientCert,
			MinVersion: version, MaxVersion: version,
		}
		s := serveRaw(t, func(conn net.Conn) {
			_ = tls.Server(conn, config).HandshakeContext(t.Context())
			ignore(conn) // a connection that is closed with unread data would be reset
		})
		roots := x509.NewCertPool()
		roots.AddCert(with.Certificate())
		return ownTransport(t, &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}), "https://" + s.addr
	}
}

// through is a proxy that answers CONNECT like this.
func through(answers string, typed bool) func(*testing.T) (*http.Transport, string) {
	return func(t *testing.T) (*http.Transport, string) {
		t.Helper()
		s := serveRaw(t, func(conn net.Conn) {
			r := bufio.NewReader(conn)
			if _, err := http.ReadRequest(r); err == nil {
				_, _ = io.WriteString(conn, answers)
			}
			ignore(conn)
		})
		base := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: s.addr, User: url.UserPassword("user", "secret")})}
		if typed {
			base.OnProxyConnectResponse = retryhttp.ProxyConnectError
		}
		return ownTransport(t, base), "https://127.0.0.1:1/"
	}
}

var behindProxies = []trouble{
	{name: "407", set: through("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", false), want: final("http_407"), get: 1, post: 1},
	{name: "407, typed", set: through("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", true), want: final("http_407"), get: 1, post: 1},
	{name: "403", set: through("HTTP/1.1 403 Forbidden\r\n\r\n", false), want: final("http_403"), get: 1, post: 1},
	{name: "502", set: through("HTTP/1.1 502 Bad Gateway\r\n\r\n", false), want: again("http_502"), get: 2, post: 2},
	{name: "502, typed", set: through("HTTP/1.1 502 Bad Gateway\r\n\r\n", true), want: again("http_502"), get: 2, post: 2},
	{name: "503", set: through("HTTP/1.1 503 Service Unavailable\r\n\r\n", false), want: again("http_503"), get: 2, post: 2},
	{name: "503, typed", set: through("HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n", true), want: again("http_503"), get: 2, post: 2},
	{name: "refused", set: func(t *testing.T) (*http.Transport, string) {
		t.Helper()
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		require.NoError(t, listener.Close())
		proxy := http.ProxyURL(&url.URL{Scheme: "http", Host: listener.Addr().String()})
		return ownTransport(t, &http.Transport{Proxy: proxy}), "http://retry.invalid"
	}, want: anew("conn_refused"), get: 2, post: 2},
	{name: "without end", set: through("HTTP/1.1 200 OK\r\n", false), timeout: short, want: again("timeout"), get: 2, post: 2},
}

// The answer of a proxy carries a hint, and no secrets.
func TestProxyConnectErrorHint(t *testing.T) {
	t.Parallel()
	base, url := through("HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\n\r\n", true)(t)
	_, err := base.RoundTrip(request(t, http.MethodGet, url, nil))
	var status *retryhttp.StatusError
	require.ErrorAs(t, err, &status)
	assert.Equal(t, http.MethodConnect, status.Method)
	assert.Equal(t, 7*time.Second, status.After)
	assert.NotContains(t, err.Error(), "secret")
	assert.Equal(t, retry.Verdict{
		Class: retry.RateLimited, NotApplied: true, After: 7 * time.Second, Category: "http_429",
	}, retryhttp.Classify(err))
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
