//go:build unix

package retryexec

import (
	"os"
	"os/exec"
	"syscall"
)

// ownGroup makes the process of cmd the leader of a process group, unless cmd
// says otherwise. It reports whether it will lead one.
func ownGroup(cmd *exec.Cmd) bool {
	var attr syscall.SysProcAttr
	if cmd.SysProcAttr != nil {
		attr = *cmd.SysProcAttr // a copy: the caller's may be shared
	}
	if attr.Setsid || attr.Setpgid || attr.Foreground {
		return attr.Setsid || attr.Pgid == 0
	}
	if isTerminal(cmd.Stdin) {
		// A group in the background that reads from it is stopped (SIGTTIN).
		return false
	}
	attr.Setpgid, attr.Pgid = true, 0
	cmd.SysProcAttr = &attr
	return true
}

// isTerminal reports whether stdin is a device that may be a terminal.
func isTerminal(stdin any) bool {
	file, ok := stdin.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(info, null)
}

// killAll kills the group that p leads, or else p.
func killAll(p *os.Process, leads bool) error {
	if !leads {
		return p.Kill()
	}
	switch err := syscall.Kill(-p.Pid, syscall.SIGKILL); err {
	case nil:
		return nil
	case syscall.ESRCH:
		return os.ErrProcessDone
	default:
		return p.Kill()
	}
}

// killedBy returns the number of the signal that ended a process, or 0.
func killedBy(state *os.ProcessState) int {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return int(status.Signal())
	}
	return 0
}

// isNoProgram returns false: it knows errnos of Windows only.
func isNoProgram(error) bool { return false }
