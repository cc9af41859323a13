package retryredis_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
)

// The steps of an INCR at which its connection fails, once.
const (
	dialing = iota
	writingHello
	readingHello
	writingNothing // of the command
	writing        // all of the command
	reading        // the answer
	steps
)

// mayRepeat says what becomes of an INCR: "again" is repeated, "maybe" ends because it may
// have taken effect, and "final" ends because of the error. TestErrnos makes this table.
//
//nolint:dupword // a table
const mayRepeat = `
              dial   hello  hello? nothing all    answer?
ECONNREFUSED  again  again  again  maybe   maybe  maybe
ECONNRESET    again  again  again  maybe   maybe  maybe
ECONNABORTED  again  again  again  maybe   maybe  maybe
EPIPE         again  again  again  maybe   maybe  maybe
ETIMEDOUT     again  again  again  maybe   maybe  maybe
ENETUNREACH   again  again  again  maybe   maybe  maybe
EHOSTUNREACH  again  again  again  maybe   maybe  maybe
ENETDOWN      again  again  again  maybe   maybe  maybe
ENETRESET     again  again  again  maybe   maybe  maybe
ENOTCONN      again  again  again  maybe   maybe  maybe
EAGAIN        again  again  again  maybe   maybe  maybe
EINTR         again  again  again  maybe   maybe  maybe
EINPROGRESS   again  again  again  maybe   maybe  maybe
EALREADY      again  again  again  maybe   maybe  maybe
EMFILE        again  again  again  maybe   maybe  maybe
ENFILE        again  again  again  maybe   maybe  maybe
ENOBUFS       again  again  again  maybe   maybe  maybe
ENOMEM        again  again  again  maybe   maybe  maybe
EBUSY         again  again  again  maybe   maybe  maybe
EDEADLK       again  again  again  maybe   maybe  maybe
ENOLCK        again  again  again  maybe   maybe  maybe
ESTALE        again  again  again  maybe   maybe  maybe
EADDRINUSE    again  again  again  maybe   maybe  maybe
EADDRNOTAVAIL again  again  again  maybe   maybe  maybe
ENOSPC        final  final  final  final   final  final
EACCES        final  final  final  final   final  final
ENOENT        final  final  final  final   final  final
ECANCELED     final  final  final  final   final  final
EPROTO        final  final  final  final   final  final
EINVAL        final  final  final  final   final  final
`

var errnos = []struct {
	name string
	syscall.Errno
}{
	{"ECONNREFUSED", syscall.ECONNREFUSED},
	{"ECONNRESET", syscall.ECONNRESET},
	{"ECONNABORTED", syscall.ECONNABORTED},
	{"EPIPE", syscall.EPIPE},
	{"ETIMEDOUT", syscall.ETIMEDOUT},
	{"ENETUNREACH", syscall.ENETUNREACH},
	{"EHOSTUNREACH", syscall.EHOSTUNREACH},
	{"ENETDOWN", syscall.ENETDOWN},
	{"ENETRESET", syscall.ENETRESET},
	{"ENOTCONN", syscall.ENOTCONN},
	{"EAGAIN", syscall.EAGAIN},
	{"EINTR", syscall.EINTR},
	{"EINPROGRESS", syscall.EINPROGRESS},
	{"EALREADY", syscall.EALREADY},
	{"EMFILE", syscall.EMFILE},
	{"ENFILE", syscall.ENFILE},
	{"ENOBUFS", syscall.ENOBUFS},
	{"ENOMEM", syscall.ENOMEM},
	{"EBUSY", syscall.EBUSY},
	{"EDEADLK", syscall.EDEADLK},
	{"ENOLCK", syscall.ENOLCK},
	{"ESTALE", syscall.ESTALE},
	{"EADDRINUSE", syscall.EADDRINUSE},
	{"EADDRNOTAVAIL", syscall.EADDRNOTAVAIL},
	{"ENOSPC", syscall.ENOSPC},
	{"EACCES", syscall.EACCES},
	{"ENOENT", syscall.ENOENT},
	{"ECANCELED", syscall.ECANCELED},
	{"EPROTO", syscall.EPROTO},
	{"EINVAL", syscall.EINVAL},
}

// fault is what happens to the first connection.
type fault struct {
	step int
	err  error // nil after it
}

// at returns the error if this is the step.
func (f *fault) at(step int, op string) error {
	if f.err == nil || f.step != step {
		return nil
	}
	err := f.err
	f.err = nil
	return &net.OpError{Op: op, Net: "tcp", Err: os.NewSyscallError(op, err)}
}

// faulty is a connection that is good for nothing after its fault.
type faulty struct {
	net.Conn

	fault *fault
	err   error
	last  string // what the client has written last
}

// Write implements [net.Conn].
func (c *faulty) Write(b []byte) (n int, err error) {
	c.last = string(bytes.ToLower(b))
	switch {
	case c.err != nil:
	case strings.Contains(c.last, "hello"):
		c.err = c.fault.at(writingHello, "write")
	case strings.Contains(c.last, "incr") && c.fault.step == writing:
		n, _ = c.Conn.Write(b)
		c.err = c.fault.at(writing, "write")
	case strings.Contains(c.last, "incr"):
		c.err = c.fault.at(writingNothing, "write")
	}
	if c.err != nil || n > 0 {
		return n, c.err
	}
	return c.Conn.Write(b)
}

// Read implements [net.Conn]. It fails after the answer has come.
func (c *faulty) Read(b []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	n, err := c.Conn.Read(b)
	switch {
	case strings.Contains(c.last, "hello"):
		c.err = c.fault.at(readingHello, "read")
	case strings.Contains(c.last, "incr"):
		c.err = c.fault.at(reading, "read")
	}
	if c.err != nil {
		return 0, c.err
	}
	return n, err
}

// TestErrnos has a real client and a real server, and a connection between them that fails
// in each way at each step. The counter of the server never moves by two.
func TestErrnos(t *testing.T) {
	t.Parallel()
	address, key, admin := server(t)
	table := "\n              dial   hello  hello? nothing all    answer?\n"
	for _, errno := range errnos {
		table += fmt.Sprintf("%-13s", errno.name)
		for step := range steps {
			f := &fault{step: step, err: errno.Errno}
			c, recorder := hooked(t, redis.NewClient(&redis.Options{
				MaxRetries: -1, DialerRetries: 1,
				Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
					if err := f.at(dialing, "dial"); err != nil {
						return nil, err
					}
					conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
					return &faulty{Conn: conn, fault: f}, err
				},
			}))
			err := c.Incr(t.Context(), key).Err()
			require.NoError(t, f.err, "the fault happened")
			applied, _ := admin.Get(t.Context(), key).Int()
			require.NoError(t, admin.Del(t.Context(), key).Err())
			name := fmt.Sprintf("%s, step %d: %s", errno.name, step, recorder.Timeline())
			word := "final"
			switch {
			case err == nil:
				word = "again"
				assert.Equal(t, 1, applied, name)
				assert.Len(t, recorder.Waits(), 1, name)
			case errors.Is(err, retry.StopMaybeApplied):
				word = "maybe"
			}
			assert.LessOrEqual(t, applied, 1, name)
			table += fmt.Sprintf(" %-6s", word) + strings.Repeat(" ", map[int]int{writingNothing: 1}[step])
		}
		table = strings.TrimRight(table, " ") + "\n"
	}
	assert.Equal(t, mayRepeat, table)
	if t.Failed() {
		t.Log(table)
	}
}
