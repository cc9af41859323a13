//go:build unix

package retryhttp_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/provoke"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

var update = flag.Bool("update", false, "write testdata/applied.txt")

// steps are where an exchange can fail, in its order. A conn fails there with an errno.
var steps = []string{"dial", "before a byte", "after a part", "reading the answer"}

// failingConn fails at one of the steps.
type failingConn struct {
	net.Conn
	http2   bool
	step    string
	errno   syscall.Errno
	handled <-chan struct{} // the server has done its work
}

// hasHeaders reports whether a write over HTTP/2 has the headers of a request.
func hasHeaders(p []byte) bool {
	const header = 9 // bytes of a frame before its payload
	p = bytes.TrimPrefix(p, []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
	for len(p) >= header {
		if p[3] == provoke.FrameHeaders {
			return true
		}
		p = p[min(header+int(p[0])<<16+int(p[1])<<8+int(p[2]), len(p)):]
	}
	return false
}

func (c *failingConn) Write(p []byte) (int, error) {
	switch {
	case c.step == "before a byte":
		return 0, provoke.OpError("write", c.errno)
	case c.step == "after a part" && (!c.http2 || hasHeaders(p)):
		n, _ := c.Conn.Write(p[:len(p)-1])
		return n, provoke.OpError("write", c.errno)
	default:
		return c.Conn.Write(p)
	}
}

func (c *failingConn) Read(p []byte) (int, error) {
	if c.step == "reading the answer" {
		<-c.handled
		return 0, provoke.OpError("read", c.errno)
	}
	return c.Conn.Read(p)
}

// counted is a server that counts the requests that it has handled.
type counted struct {
	*httptest.Server
	handled atomic.Int32
	done    chan struct{}
}

func serveCounted(t *testing.T) *counted {
	t.Helper()
	s := &counted{done: make(chan struct{}, 100)}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		part := make([]byte, 4)
		if _, err := io.ReadFull(r.Body, part); err != nil {
			return
		}
		s.handled.Add(1) // at the first record of a stream
		s.done <- struct{}{}
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// post sends a POST, which fails at a step with an errno each time, and returns the number
// of attempts and of requests that the server has handled.
func post(t *testing.T, http2 bool, step string, errno syscall.Errno, wrap func(http.RoundTripper) http.RoundTripper) (attempts int, handled int32) {
	t.Helper()
	s := serveCounted(t)
	base := &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		if step == "dial" {
			return nil, provoke.OpError("dial", errno)
		}
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &failingConn{Conn: conn, http2: http2, step: step, errno: errno, handled: s.done}, err
	}}
	base.Protocols = protocols(http2)
	t.Cleanup(base.CloseIdleConnections)
	p := atOnce(3)
	p.Observer = retry.ObserverFunc(func(_ context.Context, e retry.Event) { attempts = e.Attempt })
	// The user's Classifier is the one that README names for operations of one step. It
	// must not be believed here.
	p.Classifier = retry.Classify
	c := client(t, wrap(base), p)
	resp, err := c.Post(s.URL, "text/plain", strings.NewReader("pay, and more"))
	if err == nil {
		_ = resp.Body.Close()
	}
	require.Error(t, err)
	return attempts, s.handled.Load()
}

// TestWhatAPostMayRepeat provokes every errno at every step of a POST, and compares the
// attempts with testdata/applied.txt, which -update writes. The server never handles one
// twice.
func TestWhatAPostMayRepeat(t *testing.T) {
	t.Parallel()
	var table bytes.Buffer
	fmt.Fprintf(&table, "# Attempts of a POST out of 3 that fails with an errno at a step, over HTTP/1 and HTTP/2.\n"+
		"# go test ./retryhttp -run WhatAPostMayRepeat -update\n")
	fmt.Fprintf(&table, "%-14s %s\n", "errno", strings.Join(steps, " | "))
	for _, e := range provoke.Errnos {
		var cells []string
		for _, step := range steps {
			for _, http2 := range []bool{false, true} {
				attempts, handled := post(t, http2, step, e.Errno, func(base http.RoundTripper) http.RoundTripper { return base })
				assert.LessOrEqual(t, handled, int32(1), "%s, %s, HTTP/2 %v", e.Name, step, http2)
				wrapped, handled := post(t, http2, step, e.Errno, func(base http.RoundTripper) http.RoundTripper {
					return roundTripper(base.RoundTrip)
				})
				assert.LessOrEqual(t, handled, int32(1), "%s, %s, HTTP/2 %v, wrapped", e.Name, step, http2)
				assert.Equal(t, attempts, wrapped, "%s, %s, HTTP/2 %v, wrapped", e.Name, step, http2)
				cells = append(cells, fmt.Sprint(attempts))
			}
		}
		fmt.Fprintf(&table, "%-14s %s\n", e.Name, strings.Join(cells, " "))
	}
	const file = "testdata/applied.txt"
	if *update {
		require.NoError(t, os.WriteFile(file, table.Bytes(), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(want), table.String())
}

// brokenBody ends with an error in place of io.EOF.
type brokenBody struct {
	io.Reader
	err error
}

func (b *brokenBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if err == io.EOF {
		err = b.err
	}
	return n, err
}

func (*brokenBody) Close() error { return nil }

// TestBodyIsNotTheNetwork checks that an error of the body's reader is no proof about the
// request, whatever it says, over transports with and without hooks.
func TestBodyIsNotTheNetwork(t *testing.T) {
	t.Parallel()
	causes := map[string]error{
		"lookup": &net.DNSError{IsTemporary: true},
		"limit":  &retryhttp.StatusError{StatusCode: http.StatusTooManyRequests},
	}
	for _, e := range provoke.Errnos {
		causes[e.Name] = provoke.OpError("dial", e.Errno)
	}
	for name, cause := range causes {
		for _, hooks := range []bool{true, false} {
			s := serveCounted(t)
			var base http.RoundTripper = provoke.Transport(t, &http.Transport{})
			if !hooks {
				own := base
				base = roundTripper(func(req *http.Request) (*http.Response, error) {
					bare := req.Clone(t.Context()) // without the hooks of the caller's context
					return own.RoundTrip(bare)
				})
			}
			req := request(t, http.MethodPost, s.URL, nil)
			req.GetBody = func() (io.ReadCloser, error) {
				return &brokenBody{io.MultiReader(strings.NewReader("rec1"), bytes.NewReader(make([]byte, 64<<10))), cause}, nil
			}
			req.Body, _ = req.GetBody()
			attempts := 0
			p := atOnce(3)
			p.Observer = retry.ObserverFunc(func(_ context.Context, e retry.Event) { attempts = e.Attempt })
			p.Classifier = retry.Classify
			resp, err := client(t, base, p).Do(req)
			if err == nil {
				_ = resp.Body.Close()
			}
			require.Error(t, err, name)
			assert.LessOrEqual(t, attempts, 1, "%s, hooks %v: attempts", name, hooks)
			s.Close() // waits for the handlers
			assert.LessOrEqual(t, s.handled.Load(), int32(1), "%s, hooks %v: handled", name, hooks)
		}
	}
}

// TestMarksProve checks that a mark is believed after the first byte too.
func TestMarksProve(t *testing.T) {
	t.Parallel()
	s := serveCounted(t)
	own := provoke.Transport(t, &http.Transport{})
	base := roundTripper(func(req *http.Request) (*http.Response, error) {
		resp, err := own.RoundTrip(req)
		if err == nil {
			_ = resp.Body.Close()
		}
		return nil, retry.MarkRetryable(errors.New("the server undid it"))
	})
	_, err := client(t, base, atOnce(3)).Post(s.URL, "", strings.NewReader("pay!"))
	require.Error(t, err)
	assert.EqualValues(t, 3, s.handled.Load())
}
