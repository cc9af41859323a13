//go:build !linux && !freebsd

package retryexec

import "os/exec"

func killWithParent(*exec.Cmd) {}

func diesWithThread(*exec.Cmd) bool { return false }
