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
	"github.com/seed-5ff3c98e/retry/internal/test/provoke"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

var update = flag.Bool("update", false, "write testdata/applied.txt")

// counted is a server that counts the requests that it has handled.
type counted struct {
	*httptest.Server
	handled atomic.Int32
}

func serveCounted(t *testing.T) *counted {
	t.Helper()
	s := &counted{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		part := make([]byte, 4)
		if _, err := io.ReadFull(r.Body, part); err != nil {
			return
		}
		s.handled.Add(1) // at the first record of a stream
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	s.Config.Protocols = protocols(true)
	s.Config.Protocols.SetHTTP1(true)
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// post sends a POST, which fails once, and says whether it was sent again. The server must
// not have handled it twice.
func post(t *testing.T, http2, wrapped bool, fault testkit.Fault) string {
	t.Helper()
	s := serveCounted(t)
	wire := &testkit.Wire{}
	transport := provoke.Transport(t, &http.Transport{DialContext: wire.DialContext, Protocols: protocols(http2)})
	base := http.RoundTripper(transport)
	if wrapped {
		base = roundTripper(transport.RoundTrip)
	}
	attempts := 0
	p := atOnce(3)
	p.Observer = &retry.Observer{Event: func(_ context.Context, e retry.Event) { attempts = e.Attempt }}
	// The user's Classifier is the one for operations of one step. It must not be
	// believed here.
	p.Classifier = retry.Classify
	wire.Fail(fault)
	resp, err := client(t, base, p).Post(s.URL, "text/plain", strings.NewReader(fault.Message))
	if err == nil {
		_ = resp.Body.Close()
	}
	assert.True(t, wire.Failed(), "%+v", fault)
	s.Close() // waits for the handlers
	assert.LessOrEqual(t, s.handled.Load(), int32(1), "HTTP/2 %v, wrapped %v, %+v", http2, wrapped, fault)
	if attempts > 1 {
		return "again"
	}
	return "once"
}

// TestWhatAPostMayRepeat provokes every errno at every step of a POST, and compares what
// becomes of it with testdata/applied.txt, which -update writes.
func TestWhatAPostMayRepeat(t *testing.T) {
	t.Parallel()
	var table strings.Builder
	table.WriteString("# After which errnos a POST is sent again. go test ./retryhttp -run WhatAPostMayRepeat -update\n")
	for _, http2 := range []bool{false, true} {
		for _, step := range []testkit.Step{testkit.Dial, testkit.Unwritten, testkit.PartlyWritten, testkit.Unanswered} {
			fmt.Fprintf(&table, "HTTP/2 %v, %s\n", http2, step)
			table.WriteString(testkit.Outcomes(t, func(_ string, errno syscall.Errno) string {
				fault := testkit.Fault{Step: step, Message: "pay, and more", Errno: errno}
				outcome := post(t, http2, false, fault)
				assert.Equal(t, outcome, post(t, http2, true, fault), "wrapped, %+v", fault)
				return outcome
			}))
		}
	}
	const file = "testdata/applied.txt"
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(table.String()), 0o600))
	}
	want := testkit.Must(os.ReadFile(file))(t)
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
	for name, errno := range testkit.Errnos(t) {
		causes[name] = &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", errno)}
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
			p.Observer = &retry.Observer{Event: func(_ context.Context, e retry.Event) { attempts = e.Attempt }}
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
