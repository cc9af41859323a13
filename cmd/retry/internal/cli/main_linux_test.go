package cli_test

import (
	"os"
	"syscall"
)

const (
	asInit = "TEST_AS_INIT" // lets the command get orphans, as the process with the number 1 does
	asSoak = "TEST_AS_SOAK" // says how long the command watches itself before it ends
)

// prepare prepares the command for a test.
func prepare() {
	if os.Getenv(asInit) != "" {
		const setChildSubreaper = 36 // PR_SET_CHILD_SUBREAPER, https://man7.org/linux/man-pages/man2/prctl.2.html
		if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, setChildSubreaper, 1, 0); errno != 0 {
			panic(errno)
		}
	}
	if os.Getenv(asSoak) != "" {
		go watch()
	}
}
