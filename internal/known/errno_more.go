//go:build !plan9 && !js && !wasip1

package known

import "syscall"

// moreErrnos has the errnos that WebAssembly lacks.
var moreErrnos = []errnoGroup{
	{Transient("unreachable"), []syscall.Errno{syscall.EHOSTDOWN}},
	{Transient("conn_closed"), []syscall.Errno{syscall.ESHUTDOWN}},
	{Transient("busy"), []syscall.Errno{syscall.ETXTBSY}},
}
