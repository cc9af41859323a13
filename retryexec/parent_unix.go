//go:build linux || freebsd

package retryexec

import (
	"os/exec"
	"syscall"
)

func killWithParent(cmd *exec.Cmd) {
	var attr syscall.SysProcAttr
	if cmd.SysProcAttr != nil {
		attr = *cmd.SysProcAttr // a copy: the caller's may be shared
	}
	attr.Pdeathsig = syscall.SIGKILL
	cmd.SysProcAttr = &attr
}

// diesWithThread reports whether cmd gets a signal when its thread ends.
func diesWithThread(cmd *exec.Cmd) bool {
	return cmd.SysProcAttr != nil && cmd.SysProcAttr.Pdeathsig != 0
}
