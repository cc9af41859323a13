package shared_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/lab/systems/shared"
)

// pipes is a listener whose connections are in memory, so that their time is that of a test.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if conn, ok := <-p; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}
func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

// A server answers nothing that a page of another site has a browser send, and neither a slow
// sender nor a slow reader keeps a connection.
func TestServe(t *testing.T) {
	t.Parallel()
	const ok, forbidden, elsewhere, large = "200", "403", "421", "413"
	for _, tt := range []struct {
		name, sent, want string
		closed           time.Duration
	}{
		{"a request", "GET / HTTP/1.1\r\nHost: 127.0.0.1:80\r\n\r\n", ok, time.Minute},
		{"IPv6", "GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", ok, time.Minute},
		{"localhost", "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", ok, time.Minute},
		{"a known name", "GET / HTTP/1.1\r\nHost: tasks.inner:80\r\n\r\n", ok, time.Minute},
		{"a name that leads here", "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n", elsewhere, time.Minute},
		{"another site", "POST / HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: cross-site\r\nContent-Length: 0\r\n\r\n", forbidden, time.Minute},
		{"an older browser", "POST / HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example\r\nContent-Length: 0\r\n\r\n", forbidden, time.Minute},
		{"too large a body", "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1048577\r\n\r\n" + strings.Repeat("x", 1<<20+1), large, 0},
		{"too large a header", "GET / HTTP/1.1\r\nHost: localhost\r\nX: " + strings.Repeat("x", 70_000) + "\r\n\r\n", "431", 0},
		{"nothing", "", "", 10 * time.Second},
		{"half a header", "GET / HTTP/1.1\r\nHo", "400", 10 * time.Second},
		{"half a body", "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n[", "408", 30 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { serve(t, tt.sent, tt.want, tt.closed) })
		})
	}
}

// serve asserts how an answer begins, and when the connection is closed.
func serve(t *testing.T, sent, want string, closed time.Duration) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	listener, ended := make(pipes), make(chan error)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch n, err := io.Copy(io.Discard, r.Body); {
		case n == 1<<20:
			w.WriteHeader(http.StatusRequestEntityTooLarge)
		case err != nil:
			w.WriteHeader(http.StatusRequestTimeout)
		}
	})
	go func() { ended <- shared.Serve(ctx, listener, handler, time.Second, "tasks.inner") }()
	client, server := net.Pipe()
	listener <- server
	go func() { _, _ = fmt.Fprint(client, sent) }()
	begin := time.Now()
	answer, err := io.ReadAll(client)
	require.NoError(t, err)
	assert.Equal(t, want, strings.TrimPrefix(string(answer[:min(12, len(answer))]), "HTTP/1.1 "), "%s", answer)
	assert.InDelta(t, closed, time.Since(begin), float64(time.Second))
	_ = client.Close()
	stop()
	assert.ErrorIs(t, <-ended, context.Canceled)
}
