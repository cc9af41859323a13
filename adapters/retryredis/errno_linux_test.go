package retryredis_test

import (
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

// Errnos after which an INCR is not repeated wherever they come from, and the others. EIO is one of
// the others only while dialing.
const (
	final = "E2BIG EACCES EAFNOSUPPORT EBADF ECANCELED EDQUOT EEXIST EINVAL EISCONN EISDIR ELOOP EMSGSIZE ENAMETOOLONG ENOENT ENOEXEC ENOSPC ENOSYS ENOTDIR ENOTEMPTY EOPNOTSUPP EPERM EPROTO EROFS EXDEV"
	other = "EADDRINUSE EADDRNOTAVAIL EAGAIN EALREADY EBUSY ECONNABORTED ECONNREFUSED ECONNRESET EDEADLK EHOSTDOWN EHOSTUNREACH EINPROGRESS EINTR EMFILE ENETDOWN ENETRESET ENETUNREACH ENFILE ENOBUFS ENOLCK ENOMEM ENOTCONN EPIPE ESHUTDOWN ESTALE ETIMEDOUT ETXTBSY"
)

// TestErrnos has a real client and a real server, and a connection between them that fails
// once with every errno at each step. An INCR is repeated if the handshake has failed, and
// not if it may have taken effect. The counter of the server never moves by two.
func TestErrnos(t *testing.T) {
	t.Parallel()
	address, key, admin := server(t)
	for _, tt := range []struct {
		step          testkit.Step
		message, want string // the outcome after other errnos
	}{
		{testkit.Dial, "", "again"},
		{testkit.Unwritten, "hello", "again"},
		{testkit.Unanswered, "hello", "again"},
		{testkit.Unwritten, "incr", "maybe"},
		{testkit.Written, "incr", "maybe"},
		{testkit.Unanswered, "incr", "maybe"},
	} {
		got := testkit.Outcomes(t, func(name string, errno syscall.Errno) string {
			wire := &testkit.Wire{}
			wire.Fail(testkit.Fault{Step: tt.step, Message: tt.message, Errno: errno})
			c, recorder := hooked(t, redis.NewClient(&redis.Options{
				Addr: address, MaxRetries: -1, DialerRetries: 1, Dialer: wire.DialContext,
			}))
			err := c.Incr(t.Context(), key).Err()
			require.True(t, wire.Failed())
			applied, _ := admin.Get(t.Context(), key).Int()
			require.NoError(t, admin.Del(t.Context(), key).Err())
			assert.LessOrEqual(t, applied, 1, "%s, %s: %s", name, tt.step, recorder.Timeline())
			switch {
			case err == nil:
				assert.Equal(t, 1, applied)
				assert.Len(t, recorder.Waits(), 1)
				return "again"
			case errors.Is(err, retry.StopMaybeApplied):
				return "maybe"
			default:
				return "final"
			}
		})
		again, never := other, strings.Replace(final, "EINVAL", "EINVAL EIO", 1)
		if tt.step == testkit.Dial {
			again, never = strings.Replace(other, "EINTR", "EINTR EIO", 1), final
		}
		lines := []string{"    " + tt.want + ": " + again + "\n", "    final: " + never + "\n"}
		slices.Sort(lines)
		assert.Equal(t, strings.Join(lines, ""), got, "%s %s", tt.message, tt.step)
	}
}
