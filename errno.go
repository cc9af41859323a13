//go:build !plan9

package retry

import (
	"runtime"
	"slices"
	"syscall"
)

type errno = syscall.Errno

func errnoVerdict(n errno) Verdict { return errnoOn(runtime.GOOS, n) }

// errnoOn judges an errno of the named system. The numbers of Windows are
// compiled in everywhere, so that every system can test them: syscall.ECONNRESET
// and its kin are invented numbers there, and Winsock returns others.
func errnoOn(goos string, n syscall.Errno) Verdict {
	if goos == "windows" {
		for _, e := range windowsErrnos {
			if slices.Contains(e.numbers, n) {
				return e.verdict
			}
		}
	}
	for _, table := range [][]errnoGroup{errnos, moreErrnos} {
		for _, e := range table {
			if slices.Contains(e.numbers, n) {
				return e.verdict
			}
		}
	}
	return Verdict{}
}

type errnoGroup struct {
	verdict Verdict
	numbers []syscall.Errno
}

// errnos are those that every system has; EWOULDBLOCK is EAGAIN wherever Go
// runs.
var errnos = []errnoGroup{
	{anew("conn_refused"), []syscall.Errno{syscall.ECONNREFUSED}},
	{again("conn_reset"), []syscall.Errno{syscall.ECONNRESET, syscall.ECONNABORTED, syscall.EPIPE}},
	{again("timeout"), []syscall.Errno{syscall.ETIMEDOUT}},
	{again("unreachable"), []syscall.Errno{
		syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.ENETDOWN, syscall.ENETRESET,
	}},
	{again("conn_closed"), []syscall.Errno{syscall.ENOTCONN}},
	{anew("interrupted"), []syscall.Errno{
		syscall.EAGAIN, syscall.EINTR, syscall.EINPROGRESS, syscall.EALREADY,
	}},
	// Pressure that wants a long backoff: give "resources" an Override.
	{anew("resources"), []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM}},
	{anew("busy"), []syscall.Errno{syscall.EBUSY, syscall.EDEADLK, syscall.ENOLCK, syscall.ESTALE}},
	{anew("addr_in_use"), []syscall.Errno{syscall.EADDRINUSE, syscall.EADDRNOTAVAIL}},
	{final("disk_full"), []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT}},
	{final("permission"), []syscall.Errno{syscall.EACCES, syscall.EPERM, syscall.EROFS}},
	{final("not_found"), []syscall.Errno{syscall.ENOENT, syscall.ENOTDIR}},
	{final("exists"), []syscall.Errno{syscall.EEXIST, syscall.ENOTEMPTY}},
	{final("canceled"), []syscall.Errno{syscall.ECANCELED}},
	{final("unsupported"), []syscall.Errno{
		syscall.ENOSYS, syscall.EOPNOTSUPP, syscall.ENOTSUP, syscall.EAFNOSUPPORT, syscall.EPROTO,
	}},
	{final("invalid"), []syscall.Errno{
		syscall.EINVAL, syscall.EISDIR, syscall.EBADF, syscall.ENAMETOOLONG, syscall.ELOOP, syscall.EXDEV,
		syscall.E2BIG, syscall.ENOEXEC, syscall.EMSGSIZE, syscall.EISCONN,
	}},
}

// windowsErrnos are the numbers of Winsock and Win32.
//
// https://learn.microsoft.com/windows/win32/winsock/windows-sockets-error-codes-2
// https://learn.microsoft.com/windows/win32/debug/system-error-codes
var windowsErrnos = []errnoGroup{
	{anew("conn_refused"), []syscall.Errno{10061}},                             // WSAECONNREFUSED
	{again("conn_reset"), []syscall.Errno{10054, 10053, 109, 232}},             // WSAECONNRESET, WSAECONNABORTED, ERROR_BROKEN_PIPE, ERROR_NO_DATA
	{again("timeout"), []syscall.Errno{10060, 121}},                            // WSAETIMEDOUT, ERROR_SEM_TIMEOUT
	{again("unreachable"), []syscall.Errno{10051, 10065, 10064, 10050, 10052}}, // WSAENETUNREACH, WSAEHOSTUNREACH, WSAEHOSTDOWN, WSAENETDOWN, WSAENETRESET
	{again("conn_closed"), []syscall.Errno{10057, 10058}},                      // WSAENOTCONN, WSAESHUTDOWN
	{anew("interrupted"), []syscall.Errno{10035, 10004, 10036, 10037}},         // WSAEWOULDBLOCK, WSAEINTR, WSAEINPROGRESS, WSAEALREADY
	{anew("resources"), []syscall.Errno{10024, 10055, 8, 14}},                  // WSAEMFILE, WSAENOBUFS, ERROR_NOT_ENOUGH_MEMORY, ERROR_OUTOFMEMORY
	{anew("busy"), []syscall.Errno{32, 33, 170}},                               // ERROR_SHARING_VIOLATION, ERROR_LOCK_VIOLATION, ERROR_BUSY
	{anew("addr_in_use"), []syscall.Errno{10048, 10049}},                       // WSAEADDRINUSE, WSAEADDRNOTAVAIL
	{anew("dns"), []syscall.Errno{11002}},                                      // WSATRY_AGAIN
	{final("dns_not_found"), []syscall.Errno{11001, 11004}},                    // WSAHOST_NOT_FOUND, WSANO_DATA
	{final("disk_full"), []syscall.Errno{112}},                                 // ERROR_DISK_FULL
	{final("permission"), []syscall.Errno{5, 10013}},                           // ERROR_ACCESS_DENIED, WSAEACCES
	{final("not_found"), []syscall.Errno{2, 3, 53}},                            // ERROR_FILE_NOT_FOUND, ERROR_PATH_NOT_FOUND, ERROR_BAD_NETPATH
	{final("exists"), []syscall.Errno{80, 183, 145}},                           // ERROR_FILE_EXISTS, ERROR_ALREADY_EXISTS, ERROR_DIR_NOT_EMPTY
	{final("canceled"), []syscall.Errno{995}},                                  // ERROR_OPERATION_ABORTED
	{final("unsupported"), []syscall.Errno{10047}},                             // WSAEAFNOSUPPORT
	{final("invalid"), []syscall.Errno{87, 10022, 10040, 10056}},               // ERROR_INVALID_PARAMETER, WSAEINVAL, WSAEMSGSIZE, WSAEISCONN
}
