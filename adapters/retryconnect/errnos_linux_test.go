package retryconnect_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retryconnect"
	"github.com/seed-5ff3c98e/retry/internal/known"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

var update = flag.Bool("update", false, "write testdata/errnos.txt")

// steps are where the first connection of a client fails.
var steps = []string{"dial", "write none", "write half", "write all", "read"}

// job is in the request, and in nothing that is written before.
const job = "the job that is to be done"

// fault fails the first connection of a client at a step with an errno.
type fault struct {
	step  string
	errno syscall.Errno

	dials   atomic.Int32
	failed  atomic.Bool
	handled atomic.Bool // the server has handled the call
}

func (f *fault) err(op, call string) error {
	return &net.OpError{Op: op, Net: "tcp", Err: os.NewSyscallError(call, f.errno)}
}

func (f *fault) dial(ctx context.Context, _, address string) (net.Conn, error) {
	first := f.dials.Add(1) == 1
	if first && f.step == "dial" {
		f.failed.Store(true)
		return nil, f.err("dial", "connect")
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil || !first {
		return conn, err
	}
	return &faultyConn{conn, f}, nil
}

type faultyConn struct {
	net.Conn

	fault *fault
}

// Write fails when it gets the request.
func (c *faultyConn) Write(b []byte) (int, error) {
	how, writing := strings.CutPrefix(c.fault.step, "write ")
	if !writing || !bytes.Contains(b, []byte(job)) {
		return c.Conn.Write(b)
	}
	c.fault.failed.Store(true)
	n, _ := c.Conn.Write(b[:map[string]int{"none": 0, "half": len(b) / 2, "all": len(b)}[how]])
	if how == "all" {
		for !c.fault.handled.Load() { // so that the server has done its work
			time.Sleep(time.Millisecond)
		}
	}
	return n, c.fault.err("write", "write")
}

// Read fails when the server has handled the call, instead of its answer.
func (c *faultyConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil || !c.fault.handled.Load() {
		return n, err
	}
	c.fault.failed.Store(true)
	return 0, c.fault.err("read", "read")
}

// TestErrnos fails the connection of a call at every step and with every errno that package
// known knows. testdata/errnos.txt has those after which it is repeated. None that must not
// be repeated has been handled twice.
func TestErrnos(t *testing.T) {
	t.Parallel()
	var table strings.Builder
	fmt.Fprintln(&table, "# What becomes of a call if its connection fails: of an idempotent one over HTTP/1, of others over HTTP/1, and over HTTP/2.")
	fmt.Fprintln(&table, "# Written by TestErrnos with -update.")
	fmt.Fprintf(&table, "%-50s", "")
	for _, step := range steps {
		fmt.Fprintf(&table, " %-24s", step)
	}
	for n := syscall.Errno(1); n < 200; n++ {
		if known.OfErrno(n) == (known.Fact{}) {
			continue
		}
		fmt.Fprintf(&table, "\n%-50s", n)
		for _, step := range steps {
			fmt.Fprintf(&table, " %-8s %-7s %-7s", outcome(t, &fault{step: step, errno: n}, connect.IdempotencyIdempotent, false),
				outcome(t, &fault{step: step, errno: n}, connect.IdempotencyUnknown, false),
				outcome(t, &fault{step: step, errno: n}, connect.IdempotencyUnknown, true))
		}
	}
	fmt.Fprintln(&table)
	const file = "testdata/errnos.txt"
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o777))
		require.NoError(t, os.WriteFile(file, []byte(table.String()), 0o666))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, string(want), table.String())
}

// outcome makes a call, of which the first connection fails.
func outcome(t *testing.T, f *fault, level connect.IdempotencyLevel, http2 bool) string {
	t.Helper()
	s := serve(t, func(context.Context, int) error {
		f.handled.Store(true)
		return nil
	})
	defer s.Close()
	recorder := &retrytest.Recorder{}
	retries := &retryconnect.Interceptor{Policy: &retry.Policy{Backoff: retry.Constant(0), Observer: recorder}}
	transport := &http.Transport{DialContext: f.dial, Protocols: new(http.Protocols)}
	transport.Protocols.SetHTTP1(!http2)
	transport.Protocols.SetUnencryptedHTTP2(http2)
	defer transport.CloseIdleConnections()
	_, err := connect.NewClient[text, text](&http.Client{Transport: transport}, s.URL+procedure,
		connect.WithInterceptors(retries), connect.WithIdempotency(level)).
		CallUnary(t.Context(), connect.NewRequest(wrapperspb.String(job)))
	require.True(t, f.failed.Load())
	if level == connect.IdempotencyUnknown {
		require.LessOrEqual(t, s.count(), 1, "handled twice")
	}
	switch {
	case len(recorder.Waits()) > 0:
		require.NoError(t, err)
		return "again"
	case err == nil:
		return "alone" // net/http has repeated it
	default:
		return "once"
	}
}
