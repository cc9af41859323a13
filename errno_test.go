//go:build !plan9

package retry_test

import (
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry"
)

var errnoRows = []struct {
	want    retry.Verdict
	unix    []syscall.Errno // by name: the numbers differ between systems
	windows []syscall.Errno // by number
}{
	{canRetry("conn_refused"), []syscall.Errno{syscall.ECONNREFUSED}, []syscall.Errno{10061}},
	{
		mayRetry("conn_reset"),
		[]syscall.Errno{syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE},
		[]syscall.Errno{10054, 10053, 109, 232},
	},
	{mayRetry("timeout"), []syscall.Errno{syscall.ETIMEDOUT}, []syscall.Errno{10060, 121}},
	{
		mayRetry("unreachable"),
		[]syscall.Errno{
			syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.EHOSTDOWN, syscall.ENETDOWN, syscall.ENETRESET,
		},
		[]syscall.Errno{10051, 10065, 10064, 10050, 10052},
	},
	{
		canRetry("interrupted"),
		[]syscall.Errno{
			syscall.EAGAIN, syscall.EWOULDBLOCK, syscall.EINTR, syscall.EINPROGRESS, syscall.EALREADY,
		},
		[]syscall.Errno{10035, 10004, 10036, 10037},
	},
	{
		canRetry("resources"),
		[]syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM},
		[]syscall.Errno{10024, 10055, 8, 14},
	},
	{
		canRetry("busy"),
		[]syscall.Errno{syscall.EBUSY, syscall.ETXTBSY, syscall.EDEADLK, syscall.ENOLCK, syscall.ESTALE},
		[]syscall.Errno{32, 33, 170},
	},
	{
		canRetry("addr_in_use"),
		[]syscall.Errno{syscall.EADDRINUSE, syscall.EADDRNOTAVAIL},
		[]syscall.Errno{10048, 10049},
	},
	{abstains, []syscall.Errno{syscall.EIO, 0, 1 << 20}, []syscall.Errno{1117, 0, 1 << 20}},
	{wantFinal("disk_full"), []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT}, []syscall.Errno{112}},
	{
		wantFinal("permission"),
		[]syscall.Errno{syscall.EACCES, syscall.EPERM, syscall.EROFS},
		[]syscall.Errno{5, 10013},
	},
	{wantFinal("not_found"), []syscall.Errno{syscall.ENOENT, syscall.ENOTDIR}, []syscall.Errno{2, 3, 53}},
	{wantFinal("exists"), []syscall.Errno{syscall.EEXIST, syscall.ENOTEMPTY}, []syscall.Errno{80, 183, 145}},
	{
		wantFinal("invalid"),
		[]syscall.Errno{
			syscall.EISDIR, syscall.EINVAL, syscall.EBADF, syscall.ENAMETOOLONG, syscall.ELOOP, syscall.EXDEV,
			syscall.E2BIG, syscall.ENOEXEC, syscall.EMSGSIZE, syscall.EISCONN,
		},
		[]syscall.Errno{87, 10022, 10040, 10056},
	},
	{
		wantFinal("unsupported"),
		[]syscall.Errno{
			syscall.ENOSYS, syscall.EOPNOTSUPP, syscall.ENOTSUP, syscall.EAFNOSUPPORT, syscall.EPROTO,
		},
		[]syscall.Errno{10047},
	},
	{
		mayRetry("conn_closed"),
		[]syscall.Errno{syscall.ENOTCONN, syscall.ESHUTDOWN},
		[]syscall.Errno{10057, 10058},
	},
	{wantFinal("canceled"), []syscall.Errno{syscall.ECANCELED}, []syscall.Errno{995}},
	{canRetry("dns"), nil, []syscall.Errno{11002}},
	{wantFinal("dns_not_found"), nil, []syscall.Errno{11001, 11004}},
}

func TestErrnosOfThisSystem(t *testing.T) {
	t.Parallel()
	for _, tt := range errnoRows {
		for _, errno := range tt.unix {
			assertClassified(t, tt.want, errno)
			assertClassified(t, tt.want, os.NewSyscallError("write", errno))
			assertClassified(t, tt.want, &os.PathError{Op: "write", Path: "x", Err: errno})
			assertClassified(t, tt.want, &net.OpError{Op: "read", Err: os.NewSyscallError("read", errno)})
		}
	}
}

// TestErrnosOnDialing is about what comes before anything was sent.
func TestErrnosOnDialing(t *testing.T) {
	t.Parallel()
	for _, tt := range errnoRows {
		want := tt.want
		want.NotApplied = want.Class == retry.Retryable
		if want == abstains {
			want = canRetry("dial")
		}
		for _, errno := range tt.unix {
			assertClassified(t, want, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", errno)})
		}
	}
}

// TestErrnosOfWindows runs everywhere: the syscall.E… of Windows are invented
// numbers that no call returns, so that only these count there.
func TestErrnosOfWindows(t *testing.T) {
	t.Parallel()
	for _, tt := range errnoRows {
		for _, errno := range tt.windows {
			assertVerdict(t, tt.want, retry.ErrnoOn("windows", errno), "%d", uintptr(errno))
		}
	}
}

// TestErrnosOfWindowsMeanNothingElsewhere looks at Winsock numbers, which other
// systems do not have.
func TestErrnosOfWindowsMeanNothingElsewhere(t *testing.T) {
	t.Parallel()
	for _, tt := range errnoRows {
		for _, errno := range tt.windows {
			if errno > 10000 {
				assert.Zero(t, retry.ErrnoOn("linux", errno), "%d", uintptr(errno))
			}
		}
	}
}
