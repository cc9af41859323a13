package testkit

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/known"
)

// Wire makes connections that fail once, at a step and a message of a test's choice.
type Wire struct {
	mu    sync.Mutex
	fault *Fault
}

// Fault is a failure of a Wire.
type Fault struct {
	Step    Step
	Message string // in lower case: part of the message whose exchange fails
	Errno   syscall.Errno
	Handled func() bool // whether the server has handled the message: Written and Unanswered wait for it; nil: they do not
}

// Step is how far an exchange gets before it fails.
type Step string

// The steps.
const (
	Dial          Step = "dial"           // there is no connection, whatever the message
	Unwritten     Step = "unwritten"      // not a byte of the message is written; the connection stays
	PartlyWritten Step = "partly written" // one half of it is, and the connection is lost
	Written       Step = "written"        // all of it is written, but the write fails, and the connection is lost
	Unanswered    Step = "unanswered"     // the server has answered, but the connection is lost
)

// Fail makes the next exchange with this message fail.
func (w *Wire) Fail(f Fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fault = &f
}

// Failed reports whether that exchange took place.
func (w *Wire) Failed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fault == nil
}

// take returns the fault of this step, if there is one.
func (w *Wire) take(at func(*Fault) bool) *Fault {
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.fault
	if f == nil || !at(f) {
		return nil
	}
	w.fault = nil
	return f
}

// DialContext makes a connection.
func (w *Wire) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if f := w.take(func(f *Fault) bool { return f.Step == Dial }); f != nil {
		return nil, f.error("dial", "connect")
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &wireConn{Conn: conn, wire: w}, nil
}

func (f *Fault) error(op, call string) error {
	return &net.OpError{Op: op, Net: "tcp", Err: os.NewSyscallError(call, f.Errno)}
}

type wireConn struct {
	net.Conn

	wire  *Wire
	loses atomic.Pointer[Fault] // the next answer, and the connection with it
	lost  atomic.Pointer[Fault] // nothing is read or written any more
}

func (c *wireConn) Write(p []byte) (int, error) {
	if f := c.lost.Load(); f != nil {
		return 0, f.error("write", "write")
	}
	f := c.wire.take(func(f *Fault) bool {
		return f.Step != Dial && bytes.Contains(bytes.ToLower(p), []byte(f.Message))
	})
	switch {
	case f == nil:
		return c.Conn.Write(p)
	case f.Step == Unwritten:
		return 0, f.error("write", "write")
	case f.Step == PartlyWritten:
		return c.lose(f, p[:len(p)/2])
	case f.Step == Written:
		return c.lose(f, p)
	default:
		c.loses.Store(f)
		return c.Conn.Write(p)
	}
}

// lose writes p, and loses the connection.
func (c *wireConn) lose(f *Fault, p []byte) (int, error) {
	c.loses.Store(f) // also for a read in progress
	n, _ := c.Conn.Write(p)
	for f.Step == Written && f.Handled != nil && !f.Handled() {
		time.Sleep(time.Millisecond)
	}
	c.lost.Store(f)
	_ = c.Close() // so that a read in progress ends too
	return n, f.error("write", "write")
}

func (c *wireConn) Read(p []byte) (int, error) {
	if f := c.lost.Load(); f != nil {
		return 0, f.error("read", "read")
	}
	n, err := c.Conn.Read(p)
	if f := c.loses.Load(); f != nil && (f.Handled == nil || f.Handled()) {
		c.lost.Store(f)
	}
	if f := c.lost.Load(); f != nil {
		return 0, f.error("read", "read")
	}
	return n, err
}

// Errnos returns the errnos that package known classifies, and one that it does not, by
// name.
func Errnos(t testing.TB) map[string]syscall.Errno {
	t.Helper()
	names := map[string]syscall.Errno{
		"E2BIG": syscall.E2BIG, "EACCES": syscall.EACCES, "EADDRINUSE": syscall.EADDRINUSE,
		"EADDRNOTAVAIL": syscall.EADDRNOTAVAIL, "EAFNOSUPPORT": syscall.EAFNOSUPPORT, "EAGAIN": syscall.EAGAIN,
		"EALREADY": syscall.EALREADY, "EBADF": syscall.EBADF, "EBUSY": syscall.EBUSY, "ECANCELED": syscall.ECANCELED,
		"ECONNABORTED": syscall.ECONNABORTED, "ECONNREFUSED": syscall.ECONNREFUSED, "ECONNRESET": syscall.ECONNRESET,
		"EDEADLK": syscall.EDEADLK, "EDQUOT": syscall.EDQUOT, "EEXIST": syscall.EEXIST, "EHOSTDOWN": syscall.EHOSTDOWN,
		"EHOSTUNREACH": syscall.EHOSTUNREACH, "EINPROGRESS": syscall.EINPROGRESS, "EINTR": syscall.EINTR,
		"EINVAL": syscall.EINVAL, "EIO": syscall.EIO, "EISCONN": syscall.EISCONN, "EISDIR": syscall.EISDIR,
		"ELOOP": syscall.ELOOP, "EMFILE": syscall.EMFILE, "EMSGSIZE": syscall.EMSGSIZE,
		"ENAMETOOLONG": syscall.ENAMETOOLONG, "ENETDOWN": syscall.ENETDOWN, "ENETRESET": syscall.ENETRESET,
		"ENETUNREACH": syscall.ENETUNREACH, "ENFILE": syscall.ENFILE, "ENOBUFS": syscall.ENOBUFS, "ENOENT": syscall.ENOENT,
		"ENOEXEC": syscall.ENOEXEC, "ENOLCK": syscall.ENOLCK, "ENOMEM": syscall.ENOMEM, "ENOSPC": syscall.ENOSPC,
		"ENOSYS": syscall.ENOSYS, "ENOTCONN": syscall.ENOTCONN, "ENOTDIR": syscall.ENOTDIR, "ENOTEMPTY": syscall.ENOTEMPTY,
		"EOPNOTSUPP": syscall.EOPNOTSUPP, "EPERM": syscall.EPERM, "EPIPE": syscall.EPIPE, "EPROTO": syscall.EPROTO,
		"EROFS": syscall.EROFS, "ESHUTDOWN": syscall.ESHUTDOWN, "ESTALE": syscall.ESTALE, "ETIMEDOUT": syscall.ETIMEDOUT,
		"ETXTBSY": syscall.ETXTBSY, "EXDEV": syscall.EXDEV,
	}
	has := map[syscall.Errno]bool{}
	for _, n := range names {
		has[n] = true
	}
	for n := range syscall.Errno(200) {
		if known.OfErrno(n) != (known.Fact{}) && !has[n] {
			t.Fatalf("errno %d (%v) has no name here", int(n), n)
		}
	}
	return names
}

// Outcomes runs an operation with every errno, and returns a line for each outcome with the
// errnos that it has.
func Outcomes(t testing.TB, run func(name string, errno syscall.Errno) (outcome string)) string {
	t.Helper()
	all := map[string][]string{}
	errnos := Errnos(t)
	for _, name := range slices.Sorted(maps.Keys(errnos)) {
		outcome := run(name, errnos[name])
		all[outcome] = append(all[outcome], name)
	}
	var lines strings.Builder
	for _, outcome := range slices.Sorted(maps.Keys(all)) {
		these := strings.Join(all[outcome], " ")
		if len(all) == 1 {
			these = "all"
		}
		fmt.Fprintf(&lines, "    %s: %s\n", outcome, these)
	}
	return lines.String()
}

// Tx is what became of a transaction that writes one row.
type Tx struct {
	Err      error // of the last attempt
	Unknown  bool  // Err says that nobody knows whether it was committed
	Attempts int
	Rows     int // how many there are now
}

// TxFaults fails begin, insert and commit, each with every errno at every step, in transactions that run makes,
// checks that nothing is done twice, and compares what became of them with a file, which it writes if update is set.
func TxFaults(t testing.TB, w *Wire, begin, file string, update bool, run func(fault Fault) Tx) {
	t.Helper()
	var table strings.Builder
	table.WriteString("What InTx makes of failures of the network, written by\ngo test -run TestFaults -update\n")
	for _, message := range []string{begin, "insert", "commit"} {
		for _, step := range []Step{Dial, Unwritten, PartlyWritten, Unanswered} {
			if step == Dial && message != begin {
				continue // the connection is there
			}
			fmt.Fprintf(&table, "\n%s %s\n%s", message, step, Outcomes(t, func(_ string, errno syscall.Errno) string {
				fault := Fault{Step: step, Message: message, Errno: errno}
				return TxOutcome(t, w, fault, run(fault))
			}))
		}
	}
	if update {
		if err := os.WriteFile(file, []byte(table.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || string(want) != table.String() {
		t.Fatalf("go test -run TestFaults -update writes %s anew: %v\n%s", file, err, table.String())
	}
}

// TxOutcome says what became of a transaction in which a failure of the wire came up, and checks that nothing is
// done twice, and that only after a failure of the commit nobody knows.
func TxOutcome(t testing.TB, w *Wire, fault Fault, tx Tx) (outcome string) {
	t.Helper()
	commit := fault.Message == "commit"
	var right bool
	switch {
	case tx.Err == nil:
		outcome, right = "repeated", tx.Rows == 1
	case tx.Unknown:
		outcome = "unknown"
		right = commit && tx.Attempts == 1 && tx.Rows <= 1 && (tx.Rows == 1) == (fault.Step == Unanswered)
	default:
		outcome, right = "final", !commit && tx.Rows == 0
	}
	if !w.Failed() || !right {
		t.Fatalf("%+v: %s, but %+v", fault, outcome, tx)
	}
	return outcome
}
