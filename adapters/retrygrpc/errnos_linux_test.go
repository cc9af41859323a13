package retrygrpc_test

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrygrpc"
	"github.com/seed-5ff3c98e/retry/internal/known"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

var update = flag.Bool("update", false, "write testdata/errnos.txt")

// steps are where the first connection of a client fails.
var steps = []string{"dial", "write none", "write half", "write all", "read"}

// fault fails the first connection of a client at a step with an errno.
type fault struct {
	step  string
	errno syscall.Errno

	recorder retrytest.Recorder
	dials    atomic.Int32
	failed   atomic.Bool
	handled  atomic.Bool // the server has handled the call
}

func (f *fault) err(op, call string) error {
	return &net.OpError{Op: op, Net: "tcp", Err: os.NewSyscallError(call, f.errno)}
}

func (f *fault) dial(ctx context.Context, address string) (net.Conn, error) {
	if f.step == "dial" && len(f.recorder.Waits()) == 0 { // until there was a retry
		f.failed.Store(true)
		return nil, f.err("dial", "connect")
	}
	first := f.step != "dial" && f.dials.Add(1) == 1
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

// Write fails when it gets the header of the call, or its request if all of it is written.
func (c *faultyConn) Write(b []byte) (int, error) {
	how, writing := strings.CutPrefix(c.fault.step, "write ")
	frame := http2.FrameHeaders
	if how == "all" {
		frame = http2.FrameData
	}
	if !writing || !has(b, frame) {
		return c.Conn.Write(b)
	}
	c.fault.failed.Store(true)
	n, _ := c.Conn.Write(b[:map[string]int{"none": 0, "half": len(b) / 2, "all": len(b)}[how]])
	if how == "all" {
		for !c.fault.handled.Load() { // so that the server has done its work
			time.Sleep(time.Millisecond)
		}
	}
	_ = c.Close() // grpc waits until it cannot read either
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

// has reports whether there is a frame of a type among those of b.
func has(b []byte, frame http2.FrameType) bool {
	for len(b) >= 9 && b[0] != 'P' { // of the preface
		if http2.FrameType(b[3]) == frame {
			return true
		}
		b = b[min(len(b), 9+(int(b[0])<<16|int(b[1])<<8|int(b[2]))):]
	}
	return false
}

// TestErrnos fails the connection of a call that must not be repeated, at every step and
// with every errno that package known knows. testdata/errnos.txt has those after which it
// is repeated; none of them has been handled twice.
func TestErrnos(t *testing.T) {
	t.Parallel()
	var table strings.Builder
	fmt.Fprintln(&table, "# What becomes of a call that is not idempotent if its connection fails. Written by TestErrnos with -update.")
	fmt.Fprintf(&table, "%-50s", "")
	for _, step := range steps {
		fmt.Fprintf(&table, " %-10s", step)
	}
	for n := syscall.Errno(1); n < 200; n++ {
		if known.OfErrno(n) == (known.Fact{}) {
			continue
		}
		fmt.Fprintf(&table, "\n%-50s", n)
		for _, step := range steps {
			fmt.Fprintf(&table, " %-10s", outcome(t, &fault{step: step, errno: n}))
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

// outcome makes a call that must not be repeated.
func outcome(t *testing.T, f *fault) string {
	t.Helper()
	s := (&server{unary: func(_ context.Context, _ int, in string) (string, error) {
		f.handled.Store(true)
		return in, nil
	}}).start(t)
	retries := &retrygrpc.Interceptor{Budget: retrygrpc.NoBudget, Policy: &retry.Policy{
		MaxAttempts: 1000, Backoff: retry.Constant(time.Millisecond), Observer: &f.recorder,
	}}
	conn := dial(t, s.address, append(retries.DialOptions(), grpc.WithContextDialer(f.dial))...)
	_, err := call(t.Context(), conn, submit, "job")
	require.True(t, f.failed.Load())
	require.LessOrEqual(t, s.count(), 1, "handled twice")
	if err == nil {
		require.NotEmpty(t, f.recorder.Waits())
		return "repeated"
	}
	require.ErrorIs(t, err, retry.StopMaybeApplied)
	require.Equal(t, codes.Unavailable, status.Code(err))
	return "once"
}
