package retryhttp_test

import (
	"net/http"
	"net/http/httptrace"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

// toH2 is a server of HTTP/2.
func toH2(handlers ...func(*h2Conn)) func(*testing.T) (*http.Transport, string) {
	return func(t *testing.T) (*http.Transport, string) {
		t.Helper()
		return h2Transport(t), "http://" + serveH2(t, handlers...).addr
	}
}

// resetBody answers each request, and ends the body with RST_STREAM.
func resetBody(code uint32) func(*h2Conn) {
	return func(c *h2Conn) {
		c.each(func(stream uint32) {
			c.ok(stream, 0)
			c.reset(stream, code)
		})
	}
}

var overHTTP2 = []trouble{
	{name: "INTERNAL_ERROR", set: toH2(resetEach(h2InternalError)), want: again("http2_reset"), get: 2, post: 1},
	{name: "FLOW_CONTROL_ERROR", set: toH2(resetEach(h2FlowControl)), want: again("http2_reset"), get: 2, post: 1},
	{name: "CANCEL", set: toH2(resetEach(h2Cancel)), want: again("http2_reset"), get: 2, post: 1},
	{
		name: "ENHANCE_YOUR_CALM", set: toH2(resetEach(h2Calm)),
		want: retry.Verdict{Class: retry.RateLimited, Category: "http2_calm"}, get: 2, post: 1,
	},
	{name: "HTTP_1_1_REQUIRED", set: toH2(resetEach(h2HTTP11Required)), want: anew("http2_refused"), get: 2, post: 2},
	{name: "INADEQUATE_SECURITY", set: toH2(resetEach(h2InadequateCrypt)), want: retry.Verdict{}, get: 1, post: 1},
	// net/http sends what it can send again by itself, and waits in between.
	{
		name: "REFUSED_STREAM", set: toH2(resetEach(h2Refused)), timeout: long,
		want: again("timeout"), get: 2, post: 1,
	},
	{
		name: "REFUSED_STREAM, body without GetBody", set: toH2(resetEach(h2Refused)), raw: http.MethodPost, once: true,
		timeout: long, want: anew("http2_refused"), text: "define Request.GetBody", get: 2, post: 2,
	},
	{ // net/http may send this again too, but it proves nothing
		name: "PROTOCOL_ERROR, body without GetBody", set: toH2(resetEach(h2ProtocolError)), raw: http.MethodPost, once: true,
		timeout: long, want: again("http2_reset"), text: "define Request.GetBody", get: 2, post: 1,
	},
	{name: "REFUSED_STREAM, in the body", set: toH2(resetBody(h2Refused)), byDo: true, want: anew("http2_refused"), get: 2, post: 1},
	{name: "INTERNAL_ERROR, in the body", set: toH2(resetBody(h2InternalError)), byDo: true, want: again("http2_reset"), get: 2, post: 1},
	{
		name: "GOAWAY", set: toH2(func(c *h2Conn) {
			c.goAway(c.request(), h2No)
			c.end()
		}),
		want: again("http2_goaway"), text: "http2: server sent GOAWAY", get: 2, post: 1,
	},
	{
		name: "GOAWAY, in the body", set: toH2(func(c *h2Conn) {
			c.ok(c.request(), 0)
			c.goAway(0, h2No)
			ignore(c)
		}),
		byDo: true, want: anew("http2_goaway"), text: "graceful shutdown GOAWAY", get: 2, post: 1,
	},
	{
		// The server says that it has not processed the request.
		name: "GOAWAY with an error, first request", set: toH2(func(c *h2Conn) {
			c.request()
			c.goAway(0, h2Calm)
			ignore(c)
		}),
		want: anew("http2_goaway"), text: "received GOAWAY from server ErrCode:ENHANCE_YOUR_CALM", get: 2, post: 2,
	},
	{
		name: "EOF", set: toH2(func(c *h2Conn) {
			c.request()
			c.end()
		}),
		want: again("eof"), get: 2, post: 1,
	},
	{
		name: "lost", set: func(t *testing.T) (*http.Transport, string) {
			t.Helper()
			base, url := toH2(func(c *h2Conn) { ignore(c) })(t)
			base.HTTP2 = &http.HTTP2Config{SendPingTimeout: 20 * time.Millisecond, PingTimeout: 20 * time.Millisecond}
			return base, url
		},
		want: again("conn_closed"), text: "http2: client connection lost", get: 2, post: 1,
	},
	{
		name: "response header", set: func(t *testing.T) (*http.Transport, string) {
			t.Helper()
			base, url := toH2(func(c *h2Conn) { ignore(c) })(t)
			base.ResponseHeaderTimeout = short
			return base, url
		},
		want: again("timeout"), text: "timeout awaiting response headers", get: 2, post: 1,
	},
	{
		name: "attempt", set: toH2(func(c *h2Conn) { ignore(c) }), timeout: long,
		want: again("timeout"), get: 2, post: 1,
	},
	{
		name: "closed before the first request", setup: closedAtFirst,
		want: anew("conn_closed"), text: "http2: client conn could not be established", get: 2, post: 2,
	},
	{
		name: "GOAWAY before the request, body without GetBody", setup: goAwayBefore, raw: http.MethodPost, once: true,
		want: again("conn_closed"), text: "net/http: cannot rewind body", get: 1, post: 2,
	},
	{
		name: "other request breaks the connection", setup: forceClosed,
		want: again("conn_closed"), text: "http2: client connection force closed", get: 2, post: 1,
	},
}

// clientConn is an http.ClientConn, which Go has since 1.26: a connection of its
// own, whose errors net/http does not deal with.
type clientConn interface {
	http.RoundTripper
	Close() error
}

func hasClientConn() bool {
	_, ok := reflect.TypeFor[*http.Transport]().MethodByName("NewClientConn")
	return ok
}

func dialClientConn(t *testing.T, addr string) clientConn {
	t.Helper()
	dial := reflect.ValueOf(h2Transport(t)).MethodByName("NewClientConn")
	results := dial.Call([]reflect.Value{reflect.ValueOf(t.Context()), reflect.ValueOf("http"), reflect.ValueOf(addr)})
	require.True(t, results[1].IsNil(), results[1])
	conn := results[0].Interface().(clientConn)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// onClientConns provokes errors that net/http mostly keeps for itself.
func onClientConns(t *testing.T, provoked *texts) {
	t.Helper()
	t.Parallel()
	tests := []struct {
		name   string
		handle func(c *h2Conn, went chan<- struct{})
		gone   bool // before the second request
		text   string
		want   retry.Verdict
	}{
		{"GOAWAY", func(c *h2Conn, went chan<- struct{}) {
			c.ok(c.request(), flagEndStream)
			c.goAway(c.request()-2, h2No)
			close(went)
		}, false, "graceful shutdown GOAWAY", anew("http2_goaway")},
		{"GOAWAY before", func(c *h2Conn, went chan<- struct{}) {
			stream := c.request()
			c.ok(stream, flagEndStream)
			c.goAway(stream, h2No)
			c.sync()
			close(went)
		}, true, "client conn not usable", anew("conn_closed")},
		{"REFUSED_STREAM", func(c *h2Conn, went chan<- struct{}) {
			c.ok(c.request(), flagEndStream)
			c.reset(c.request(), h2Refused)
			close(went)
		}, false, "REFUSED_STREAM", anew("http2_refused")},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			went := make(chan struct{})
			s := serveH2(t, func(c *h2Conn) { test.handle(c, went) })
			conn := dialClientConn(t, s.addr)
			resp, err := conn.RoundTrip(request(t, http.MethodGet, "http://"+s.addr, nil))
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			if test.gone {
				eventually(t, "the end of the connection", went)
			}
			_, err = conn.RoundTrip(request(t, http.MethodGet, "http://"+s.addr, nil))
			require.ErrorContains(t, err, test.text)
			provoked.add(err)
			assert.Equal(t, test.want, retryhttp.Classify(err))
		})
	}
}

// closedAtFirst is a connection that ends before its first request.
func closedAtFirst(t *testing.T) scene {
	t.Helper()
	s := serveH2(t, func(c *h2Conn) { _ = c.Close() }, okEach)
	var first *dialedConn
	base := hooked(t, h2Transport(t), func(c *dialedConn) {
		if first == nil {
			first = c
		}
	})
	return scene{base, "http://" + s.addr, func(req *http.Request) *http.Request {
		return onGotConn(req, func(httptrace.GotConnInfo) { eventually(t, "the end of the connection", first.closed) })
	}}
}

// goAwayBefore is a connection that the server gives up when the request has been
// given it, and before it is written.
func goAwayBefore(t *testing.T) scene {
	t.Helper()
	goAway, went := make(chan struct{}), make(chan struct{})
	s := serveH2(t, func(c *h2Conn) {
		stream := c.request()
		c.ok(stream, flagEndStream)
		<-goAway
		c.goAway(stream, h2No)
		c.sync()
		close(went)
	}, okEach)
	base, url := h2Transport(t), "http://"+s.addr
	resp, err := (&http.Client{Transport: base}).Get(url)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	var once sync.Once
	t.Cleanup(func() { once.Do(func() { close(goAway) }) })
	return scene{base, url, func(req *http.Request) *http.Request {
		return onGotConn(req, func(httptrace.GotConnInfo) {
			once.Do(func() {
				close(goAway)
				eventually(t, "GOAWAY", went)
			})
		})
	}}
}

// forceClosed is a connection on which a second request cannot be written.
func forceClosed(t *testing.T) scene {
	t.Helper()
	arrived, done := make(chan struct{}), make(chan struct{})
	var once sync.Once
	s := serveH2(t, func(c *h2Conn) {
		if c.request() != 0 {
			close(arrived)
		}
	}, okEach)
	var first *dialedConn
	base := hooked(t, h2Transport(t), func(c *dialedConn) {
		if first == nil {
			first = c
		}
	})
	url := "http://" + s.addr
	second := request(t, http.MethodGet, url, nil)
	go func() {
		defer close(done)
		select {
		case <-arrived:
		case <-second.Context().Done():
			return
		}
		_ = first.SetWriteDeadline(time.Unix(1, 0))
		resp, err := base.RoundTrip(second) // or something else is to be written first
		if !assert.Error(t, err) {
			_ = resp.Body.Close()
		}
	}()
	t.Cleanup(func() { once.Do(func() { <-done }) })
	return scene{base, url, nil}
}
