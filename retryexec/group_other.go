//go:build !unix && !windows

package retryexec

import (
	"os"
	"os/exec"
)

func ownGroup(*exec.Cmd) bool { return false }

// killAll kills p alone.
func killAll(p *os.Process, _ bool) error { return p.Kill() }

func killedBy(*os.ProcessState) int { return 0 }

func isNoProgram(error) bool { return false }
