package cli

import (
	"os"
	"os/signal"
	"runtime"
	"syscall"
)

//nolint:gochecknoinits // nothing else keeps the main goroutine on the main thread for certain
func init() { runtime.LockOSThread() }

// amongOrphans calls f on another thread, and reaps orphans on this one, the main thread,
// until f returns. In a container, retry may be the process with the number 1: Linux makes
// every process whose parent has ended a child of it, and keeps it as a zombie until it is
// reaped.
//
// Orphans become children of the main thread, and it waits for its own children alone, by
// __WNOTHREAD. Commands are children of the thread that has started them, which stays alive
// while they run, by [retryexec.KillWithParent]. So no exit code is taken from os/exec.
//
// https://man7.org/linux/man-pages/man2/wait.2.html
func amongOrphans(f func() int) int {
	died := make(chan os.Signal, 1)
	signal.Notify(died, syscall.SIGCHLD)
	defer signal.Stop(died)
	code := make(chan int)
	go func() { code <- f() }()
	for {
		for {
			pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG|syscall.WNOTHREAD, nil)
			if err != nil || pid == 0 {
				break
			}
		}
		select {
		case <-died:
		case c := <-code:
			return c
		}
	}
}
