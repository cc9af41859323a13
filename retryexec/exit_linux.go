package retryexec

import (
	"os"
	"syscall"
)

// awaitExit waits until p has ended and leaves it to be reaped. It returns false
// if it could not.
//
// https://man7.org/linux/man-pages/man2/waitid.2.html
func awaitExit(p *os.Process) bool {
	const byPID = 1 // P_PID
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID,
			byPID, uintptr(p.Pid), 0, syscall.WEXITED|syscall.WNOWAIT, 0, 0)
		if errno != syscall.EINTR {
			return errno == 0
		}
	}
}
