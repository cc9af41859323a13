//go:build unix

package cli

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

// endSignals end retry.
var endSignals = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT}

// tell sends a signal to the group of a command. A command that reads from the
// terminal is in the group of retry, where the terminal tells it itself.
func tell(cmd *exec.Cmd, s os.Signal) error {
	if leads := cmd.SysProcAttr != nil && cmd.SysProcAttr.Setpgid; leads {
		return syscall.Kill(-cmd.Process.Pid, s.(syscall.Signal))
	}
	if s == syscall.SIGINT || s == syscall.SIGQUIT {
		return nil // a second ^C would be a different thing
	}
	return cmd.Process.Signal(s)
}

// dieBy ends the program by a signal, so that its parent sees what has ended it. It returns
// if that cannot be: SIGQUIT would print every goroutine, and the process with the number 1
// survives a signal that it does not catch.
func dieBy(s os.Signal) {
	if s == syscall.SIGQUIT || os.Getpid() == 1 {
		return
	}
	signal.Reset(s)
	_ = syscall.Kill(os.Getpid(), s.(syscall.Signal))
	time.Sleep(time.Second) // it comes at once
}
