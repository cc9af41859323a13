//go:build !plan9

package known

import (
	"runtime"
	"slices"
	"syscall"
)

// Errno is the type of the errors of the operating system.
type Errno = syscall.Errno

// OfErrno classifies an errno of this system.
func OfErrno(n Errno) Fact { return ErrnoOn(runtime.GOOS, n) }

// ErrnoOn classifies an errno of the named system. The numbers of Windows are
// compiled in everywhere, so that every system can test them. On Windows,
// syscall.ECONNRESET and the like are invented numbers, and Winsock returns
// others.
func ErrnoOn(goos string, n syscall.Errno) Fact {
	if goos == "windows" {
		for _, e := range windowsErrnos {
			if slices.Contains(e.numbers, n) {
				return e.fact
			}
		}
	}
	for _, table := range [][]errnoGroup{errnos, moreErrnos} {
		for _, e := range table {
			if slices.Contains(e.numbers, n) {
				return e.fact
			}
		}
	}
	return Fact{}
}

type errnoGroup struct {
	fact    Fact
	numbers []syscall.Errno
}

// errnos has the errnos of all systems. EWOULDBLOCK is EAGAIN wherever Go runs. An errno
// does not say at which step of an operation it occurred, so it never proves that the
// operation had no effect; a failed dial does, see operation.
var errnos = []errnoGroup{
	{Transient("conn_refused"), []syscall.Errno{syscall.ECONNREFUSED}},
	{Transient("conn_reset"), []syscall.Errno{syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE}},
	{Transient("timeout"), []syscall.Errno{syscall.ETIMEDOUT}},
	{Transient("unreachable"), []syscall.Errno{
		syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.ENETDOWN, syscall.ENETRESET,
	}},
	{Transient("conn_closed"), []syscall.Errno{syscall.ENOTCONN}},
	{Transient("interrupted"), []syscall.Errno{
		syscall.EAGAIN, syscall.EINTR, syscall.EINPROGRESS, syscall.EALREADY,
	}},
	// These need a long backoff: give "resources" an Override.
	{Transient("resources"), []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM}},
	{Transient("busy"), []syscall.Errno{syscall.EBUSY, syscall.EDEADLK, syscall.ENOLCK, syscall.ESTALE}},
	{Transient("addr_in_use"), []syscall.Errno{syscall.EADDRINUSE, syscall.EADDRNOTAVAIL}},
	{Permanent("disk_full"), []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT}},
	{Permanent("permission"), []syscall.Errno{syscall.EACCES, syscall.EPERM, syscall.EROFS}},
	{Permanent("not_found"), []syscall.Errno{syscall.ENOENT, syscall.ENOTDIR}},
	{Permanent("exists"), []syscall.Errno{syscall.EEXIST, syscall.ENOTEMPTY}},
	{Permanent("canceled"), []syscall.Errno{syscall.ECANCELED}},
	{Permanent("unsupported"), []syscall.Errno{
		syscall.ENOSYS, syscall.EOPNOTSUPP, syscall.ENOTSUP, syscall.EAFNOSUPPORT, syscall.EPROTO,
	}},
	{Permanent("invalid"), []syscall.Errno{
		syscall.EINVAL, syscall.EISDIR, syscall.EBADF, syscall.ENAMETOOLONG, syscall.ELOOP, syscall.EXDEV,
		syscall.E2BIG, syscall.ENOEXEC, syscall.EMSGSIZE, syscall.EISCONN,
	}},
}

// windowsErrnos are the numbers of Winsock and Win32.
//
// https://learn.microsoft.com/windows/win32/winsock/windows-sockets-error-codes-2
// https://learn.microsoft.com/windows/win32/debug/system-error-codes
var windowsErrnos = []errnoGroup{
	{Transient("conn_refused"), []syscall.Errno{10061}},                            // WSAECONNREFUSED
	{Transient("conn_reset"), []syscall.Errno{10054, 10053, 109, 232}},             // WSAECONNRESET, WSAECONNABORTED, ERROR_BROKEN_PIPE, ERROR_NO_DATA
	{Transient("timeout"), []syscall.Errno{10060, 121}},                            // WSAETIMEDOUT, ERROR_SEM_TIMEOUT
	{Transient("unreachable"), []syscall.Errno{10051, 10065, 10064, 10050, 10052}}, // WSAENETUNREACH, WSAEHOSTUNREACH, WSAEHOSTDOWN, WSAENETDOWN, WSAENETRESET
	{Transient("conn_closed"), []syscall.Errno{10057, 10058}},                      // WSAENOTCONN, WSAESHUTDOWN
	{Transient("interrupted"), []syscall.Errno{10035, 10004, 10036, 10037}},        // WSAEWOULDBLOCK, WSAEINTR, WSAEINPROGRESS, WSAEALREADY
	{Transient("resources"), []syscall.Errno{10024, 10055, 8, 14}},                 // WSAEMFILE, WSAENOBUFS, ERROR_NOT_ENOUGH_MEMORY, ERROR_OUTOFMEMORY
	{Transient("busy"), []syscall.Errno{32, 33, 170}},                              // ERROR_SHARING_VIOLATION, ERROR_LOCK_VIOLATION, ERROR_BUSY
	{Transient("addr_in_use"), []syscall.Errno{10048, 10049}},                      // WSAEADDRINUSE, WSAEADDRNOTAVAIL
	{Transient("dns"), []syscall.Errno{11002}},                                     // WSATRY_AGAIN
	{Permanent("dns_not_found"), []syscall.Errno{11001, 11004}},                    // WSAHOST_NOT_FOUND, WSANO_DATA
	{Permanent("disk_full"), []syscall.Errno{112}},                                 // ERROR_DISK_FULL
	{Permanent("permission"), []syscall.Errno{5, 10013}},                           // ERROR_ACCESS_DENIED, WSAEACCES
	{Permanent("not_found"), []syscall.Errno{2, 3, 53}},                            // ERROR_FILE_NOT_FOUND, ERROR_PATH_NOT_FOUND, ERROR_BAD_NETPATH
	{Permanent("exists"), []syscall.Errno{80, 183, 145}},                           // ERROR_FILE_EXISTS, ERROR_ALREADY_EXISTS, ERROR_DIR_NOT_EMPTY
	{Permanent("canceled"), []syscall.Errno{995}},                                  // ERROR_OPERATION_ABORTED
	{Permanent("unsupported"), []syscall.Errno{10047}},                             // WSAEAFNOSUPPORT
	{Permanent("invalid"), []syscall.Errno{87, 10022, 10040, 10056}},               // ERROR_INVALID_PARAMETER, WSAEINVAL, WSAEMSGSIZE, WSAEISCONN
}
