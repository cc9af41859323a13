package provoke_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/internal/test/provoke"
)

func TestServe(t *testing.T) {
	t.Parallel()
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
	s := provoke.Serve(t, provoke.RespondAndReset(""), provoke.Respond("HTTP/1.1 200 OK\r\nX"), provoke.Respond(ok))
	transport := &http.Transport{DisableKeepAlives: true}
	require.Error(t, provoke.Get(t, transport, s.URL()))
	require.Error(t, provoke.Get(t, transport, s.URL()))
	require.NoError(t, provoke.Get(t, transport, s.URL()))
	require.NoError(t, provoke.Post(t, transport, s.URL()), "the last handler goes on")
	s.Close()
	s.Close()
	assert.Zero(t, s.Open())
	assert.Error(t, provoke.Get(t, transport, s.URL()))
}

func TestServerCloseEndsConnections(t *testing.T) {
	t.Parallel()
	s := provoke.Serve(t, provoke.Ignore)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.Addr)
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	for s.Open() == 0 {
		_, err := conn.Write([]byte("x")) // the server accepts in its own time
		require.NoError(t, err)
	}
	s.Close()
	_, err = conn.Read(make([]byte, 1))
	assert.Error(t, err)
	assert.Zero(t, s.Open())
}

func TestServeHTTP2(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		answer func(*provoke.HTTP2Conn)
		want   string
	}{
		{"answer", provoke.OKEach, ""},
		{"answer to what was read", func(c *provoke.HTTP2Conn) {
			c.Sync()
			provoke.OKEach(c)
		}, ""},
		{"reset", provoke.ResetEach(provoke.EnhanceYourCalm), "ENHANCE_YOUR_CALM"},
		{"reset of the body", provoke.ResetEachBody(provoke.RefusedStream), "REFUSED_STREAM"},
		{"GOAWAY", func(c *provoke.HTTP2Conn) {
			c.GoAway(c.Request(), provoke.NoError)
			c.EndWrites()
		}, "GOAWAY"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := provoke.Get(t, provoke.HTTP2Transport(t), provoke.ServeHTTP2(t, tt.answer).URL())
			if tt.want == "" {
				assert.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, tt.want)
		})
	}
}

func TestHook(t *testing.T) {
	t.Parallel()
	var wrote, read int
	var first *provoke.Conn
	transport := provoke.Hook(t, &http.Transport{}, func(c *provoke.Conn) {
		first = c
		c.BeforeWrite = func(p []byte) { wrote += len(p) }
		c.AfterRead = func(err error) {
			assert.ErrorIs(t, err, io.EOF)
			read++
		}
	})
	require.Error(t, provoke.Get(t, transport, provoke.Serve(t, provoke.Respond("")).URL()))
	<-first.Closed()
	assert.Positive(t, wrote)
	assert.Equal(t, 1, read)
}

// TestErrors checks the errors that are the same on every system. The tests of
// retry.Classify check all of them.
func TestErrors(t *testing.T) {
	t.Parallel()
	assert.ErrorIs(t, provoke.ReadPastDeadline(t), os.ErrDeadlineExceeded)
	assert.ErrorIs(t, provoke.ReadFromClosed(t), net.ErrClosed)
	assert.ErrorIs(t, provoke.WriteToClosedPipe(), io.ErrClosedPipe)
	for _, err := range []error{
		provoke.BrokenPipe(t), provoke.ReadAfterReset(t), provoke.WriteAfterClose(t),
		provoke.Dial(t.Context(), &net.Dialer{}, provoke.ClosedPort(t)),
	} {
		assert.Error(t, err)
		assert.NotErrorIs(t, err, io.EOF)
	}
	var noName *net.DNSError
	require.ErrorAs(t, provoke.Lookup(t.Context(), provoke.Resolver(t, provoke.DNSCode(provoke.DNSNoSuchName))), &noName)
	assert.True(t, noName.IsNotFound)

	s, trusting := provoke.ServeTLS(t, nil, nil)
	require.NoError(t, provoke.Get(t, &http.Transport{TLSClientConfig: trusting}, s.URL))
	for name, config := range provoke.Distrusting(trusting) {
		assert.Error(t, provoke.ShakeHands(t, s.Listener.Addr().String(), config), name)
	}
	alert := provoke.Serve(t, provoke.Alert(40))
	assert.ErrorContains(t, provoke.ShakeHands(t, alert.Addr, trusting), "handshake failure")

	errPanic := errors.New("x")
	assert.Equal(t, errPanic, provoke.Panic(func() { panic(errPanic) }))
}
