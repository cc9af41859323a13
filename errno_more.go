//go:build !plan9 && !js && !wasip1

package retry

import "syscall"

// moreErrnos are those that WebAssembly lacks.
var moreErrnos = []errnoGroup{
	{again("unreachable"), []syscall.Errno{syscall.EHOSTDOWN}},
	{again("conn_closed"), []syscall.Errno{syscall.ESHUTDOWN}},
	{anew("busy"), []syscall.Errno{syscall.ETXTBSY}},
}
