//go:build unix

package provoke

import (
	"net"
	"os"
	"syscall"
)

// Errnos are the errnos that a retry may help against, by name, in a fixed order.
var Errnos = []struct {
	Name  string
	Errno syscall.Errno
}{
	{"ECONNREFUSED", syscall.ECONNREFUSED},
	{"ECONNRESET", syscall.ECONNRESET},
	{"ECONNABORTED", syscall.ECONNABORTED},
	{"EPIPE", syscall.EPIPE},
	{"ETIMEDOUT", syscall.ETIMEDOUT},
	{"ENETUNREACH", syscall.ENETUNREACH},
	{"EHOSTUNREACH", syscall.EHOSTUNREACH},
	{"EHOSTDOWN", syscall.EHOSTDOWN},
	{"ENETDOWN", syscall.ENETDOWN},
	{"ENETRESET", syscall.ENETRESET},
	{"ENOTCONN", syscall.ENOTCONN},
	{"ESHUTDOWN", syscall.ESHUTDOWN},
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
	{"ETXTBSY", syscall.ETXTBSY},
	{"EADDRINUSE", syscall.EADDRINUSE},
	{"EADDRNOTAVAIL", syscall.EADDRNOTAVAIL},
}

// OpError returns errno as package net returns it from an operation: dial, write or read.
func OpError(op string, errno syscall.Errno) error {
	call := op
	if op == "dial" {
		call = "connect"
	}
	return &net.OpError{Op: op, Net: "tcp", Err: os.NewSyscallError(call, errno)}
}
