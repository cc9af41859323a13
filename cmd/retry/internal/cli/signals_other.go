//go:build !unix

package cli

import (
	"os"
	"os/exec"
)

// endSignals end retry.
var endSignals = []os.Signal{os.Interrupt}

// tell kills a command, because there are no signals to send.
func tell(cmd *exec.Cmd, _ os.Signal) error { return cmd.Process.Kill() }

// dieBy does nothing: a program ends with a code.
func dieBy(os.Signal) {}
