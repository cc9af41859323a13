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
	"github.com/seed-5ff3c98e/retry/internal/test/provoke"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

// toH2 is a server of HTTP/2.
func toH2(handlers ...func(*provoke.HTTP2Conn)) func(*testing.T) (*http.Transport, string) {
	return func(t *testing.T) (*http.Transport, string) {
		t.Helper()
		return provoke.HTTP2Transport(t), provoke.ServeHTTP2(t, handlers...).URL()
	}
}

func ignoreH2(c *provoke.HTTP2Conn) { provoke.Ignore(c) }

var overHTTP2 = []failure{
	{name: "INTERNAL_ERROR", set: toH2(provoke.ResetEach(provoke.InternalError)), want: again("http2_reset"), get: 2, post: 1},
	{name: "FLOW_CONTROL_ERROR", set: toH2(provoke.ResetEach(provoke.FlowControlError)), want: again("http2_reset"), get: 2, post: 1},
	{name: "CANCEL", set: toH2(provoke.ResetEach(provoke.CancelStream)), want: again("http2_reset"), get: 2, post: 1},
	{name: "ENHANCE_YOUR_CALM", set: toH2(provoke.ResetEach(provoke.EnhanceYourCalm)), want: limited("http2_calm"), get: 2, post: 1},
	{name: "HTTP_1_1_REQUIRED", set: toH2(provoke.ResetEach(provoke.HTTP11Required)), want: anew("http2_refused"), get: 2, post: 2},
	{name: "INADEQUATE_SECURITY", set: toH2(provoke.ResetEach(provoke.InadequateSecurity)), want: final("http2_security"), get: 1, post: 1},
	{name: "NO_ERROR", set: toH2(provoke.ResetEach(provoke.NoError)), want: again("http2_reset"), get: 2, post: 1},
	{name: "COMPRESSION_ERROR", set: toH2(provoke.ResetEach(provoke.CompressionError)), want: again("http2_reset"), get: 2, post: 1},
	// net/http itself sends these requests again, and waits between the
	// attempts.
	{name: "REFUSED_STREAM", set: toH2(provoke.ResetEach(provoke.RefusedStream)), timeout: long, want: again("timeout"), get: 2, post: 1},
	{
		name: "REFUSED_STREAM, body without GetBody", set: toH2(provoke.ResetEach(provoke.RefusedStream)), raw: http.MethodPost, once: true,
		timeout: long, want: anew("http2_refused"), text: "define Request.GetBody", get: 2, post: 2,
	},
	{ // up to Go 1.26, net/http may send this again too, but it proves nothing
		name: "PROTOCOL_ERROR, body without GetBody", set: toH2(provoke.ResetEach(provoke.ProtocolError)), raw: http.MethodPost, once: true,
		timeout: long, want: again("http2_reset"), text: "PROTOCOL_ERROR; received from peer", get: 2, post: 1,
	},
	{name: "REFUSED_STREAM, in the body", set: toH2(provoke.ResetEachBody(provoke.RefusedStream)), byDo: true, want: anew("http2_refused"), get: 2, post: 1},
	{name: "PROTOCOL_ERROR, in the body", set: toH2(provoke.ResetEachBody(provoke.ProtocolError)), byDo: true, want: again("http2_reset"), get: 2, post: 1},
	{name: "INTERNAL_ERROR, in the body", set: toH2(provoke.ResetEachBody(provoke.InternalError)), byDo: true, want: again("http2_reset"), get: 2, post: 1},
	{
		name: "GOAWAY", set: toH2(func(c *provoke.HTTP2Conn) {
			c.GoAway(c.Request(), provoke.NoError)
			c.EndWrites()
		}),
		want: again("http2_goaway"), text: "http2: server sent GOAWAY", get: 2, post: 1,
	},
	{
		name: "GOAWAY with ENHANCE_YOUR_CALM", set: toH2(func(c *provoke.HTTP2Conn) {
			c.GoAway(c.Request(), provoke.EnhanceYourCalm)
			c.EndWrites()
		}),
		want: limited("http2_calm"), text: "ErrCode=ENHANCE_YOUR_CALM", get: 2, post: 1,
	},
	{
		name: "GOAWAY, in the body", set: toH2(func(c *provoke.HTTP2Conn) {
			c.OK(c.Request(), 0)
			c.GoAway(0, provoke.NoError)
			provoke.Ignore(c)
		}),
		byDo: true, want: anew("http2_goaway"), text: "graceful shutdown GOAWAY", get: 2, post: 1,
	},
	{
		// The server says that it has not processed the request.
		name: "GOAWAY with an error, first request", set: toH2(func(c *provoke.HTTP2Conn) {
			c.Request()
			c.GoAway(0, provoke.InternalError)
			provoke.Ignore(c)
		}),
		want: anew("http2_goaway"), text: "received GOAWAY from server ErrCode:INTERNAL_ERROR", get: 2, post: 2,
	},
	{
		name: "GOAWAY with ENHANCE_YOUR_CALM, first request", set: toH2(func(c *provoke.HTTP2Conn) {
			c.Request()
			c.GoAway(0, provoke.EnhanceYourCalm)
			provoke.Ignore(c)
		}),
		want: unsent(limited("http2_calm")), text: "received GOAWAY from server ErrCode:ENHANCE_YOUR_CALM", get: 2, post: 2,
	},
	{ // of the client, about frames that the server must not send
		name: "connection error", set: toH2(func(c *provoke.HTTP2Conn) {
			c.Request()
			c.Reset(0, provoke.NoError)
		}),
		text: "connection error: PROTOCOL_ERROR", get: 1, post: 1,
	},
	{
		name: "EOF", set: toH2(func(c *provoke.HTTP2Conn) {
			c.Request()
			c.EndWrites()
		}),
		want: again("eof"), get: 2, post: 1,
	},
	{
		name: "lost", set: with(func(base *http.Transport) {
			base.HTTP2 = &http.HTTP2Config{SendPingTimeout: 20 * time.Millisecond, PingTimeout: 20 * time.Millisecond}
		}, toH2(ignoreH2)),
		want: again("conn_closed"), text: "http2: client connection lost", get: 2, post: 1,
	},
	{
		name: "response header", set: with(func(base *http.Transport) { base.ResponseHeaderTimeout = provoke.Soon }, toH2(ignoreH2)),
		want: again("timeout"), text: "timeout awaiting response headers", get: 2, post: 1,
	},
	{name: "attempt", set: toH2(ignoreH2), timeout: long, want: again("timeout"), get: 2, post: 1},
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
	dial := reflect.ValueOf(provoke.HTTP2Transport(t)).MethodByName("NewClientConn")
	results := dial.Call([]reflect.Value{reflect.ValueOf(t.Context()), reflect.ValueOf("http"), reflect.ValueOf(addr)})
	require.True(t, results[1].IsNil(), results[1])
	conn := results[0].Interface().(clientConn)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// onClientConns provokes errors that net/http usually handles itself.
func onClientConns(t *testing.T, provoked *texts) {
	t.Helper()
	t.Parallel()
	for _, test := range []struct {
		name   string
		handle func(c *provoke.HTTP2Conn, went chan<- struct{})
		gone   bool // before the second request
		text   string
		want   retry.Verdict
	}{
		{"GOAWAY", func(c *provoke.HTTP2Conn, went chan<- struct{}) {
			c.OK(c.Request(), provoke.FlagEndStream)
			c.GoAway(c.Request()-2, provoke.NoError)
			close(went)
		}, false, "graceful shutdown GOAWAY", anew("http2_goaway")},
		{"GOAWAY before", func(c *provoke.HTTP2Conn, went chan<- struct{}) {
			stream := c.Request()
			c.OK(stream, provoke.FlagEndStream)
			c.GoAway(stream, provoke.NoError)
			c.Sync()
			close(went)
		}, true, "client conn not usable", anew("conn_closed")},
		{"REFUSED_STREAM", func(c *provoke.HTTP2Conn, went chan<- struct{}) {
			c.OK(c.Request(), provoke.FlagEndStream)
			c.Reset(c.Request(), provoke.RefusedStream)
			close(went)
		}, false, "REFUSED_STREAM", anew("http2_refused")},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			went := make(chan struct{})
			s := provoke.ServeHTTP2(t, func(c *provoke.HTTP2Conn) { test.handle(c, went) })
			conn := dialClientConn(t, s.Addr)
			resp := testkit.Must(conn.RoundTrip(request(t, http.MethodGet, s.URL(), nil)))(t)
			require.NoError(t, resp.Body.Close())
			if test.gone {
				eventually(t, "the end of the connection", went)
			}
			_, err := conn.RoundTrip(request(t, http.MethodGet, s.URL(), nil))
			require.ErrorContains(t, err, test.text)
			provoked.add(err)
			assert.Equal(t, test.want, retryhttp.Classify(err))
		})
	}
}

// closedAtFirst is a connection that ends before its first request.
func closedAtFirst(t *testing.T) scene {
	t.Helper()
	s := provoke.ServeHTTP2(t, func(c *provoke.HTTP2Conn) { _ = c.Close() }, provoke.OKEach)
	var first *provoke.Conn
	base := provoke.Hook(t, provoke.HTTP2Transport(t), func(c *provoke.Conn) {
		if first == nil {
			first = c
		}
	})
	return scene{base, s.URL(), func(req *http.Request) *http.Request {
		return onGotConn(req, func(httptrace.GotConnInfo) { eventually(t, "the end of the connection", first.Closed()) })
	}}
}

// goAwayBefore is a connection that the server gives up when the request has been
// given it, and before it is written.
func goAwayBefore(t *testing.T) scene {
	t.Helper()
	goAway, went := make(chan struct{}), make(chan struct{})
	s := provoke.ServeHTTP2(t, func(c *provoke.HTTP2Conn) {
		stream := c.Request()
		c.OK(stream, provoke.FlagEndStream)
		<-goAway
		c.GoAway(stream, provoke.NoError)
		c.Sync()
		close(went)
	}, provoke.OKEach)
	base, url := provoke.HTTP2Transport(t), s.URL()
	resp := testkit.Must((&http.Client{Transport: base}).Get(url))(t)
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
	s := provoke.ServeHTTP2(t, func(c *provoke.HTTP2Conn) {
		if c.Request() != 0 {
			close(arrived)
		}
	}, provoke.OKEach)
	var first *provoke.Conn
	base := provoke.Hook(t, provoke.HTTP2Transport(t), func(c *provoke.Conn) {
		if first == nil {
			first = c
		}
	})
	url := s.URL()
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
