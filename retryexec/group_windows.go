package retryexec

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// ownGroup has nothing to do: Windows finds the children of a process.
func ownGroup(*exec.Cmd) bool { return true }

// killAll kills p and all its descendants. It must be called before p is
// killed, because taskkill finds the others through p.
func killAll(p *os.Process, _ bool) error {
	if exec.Command("taskkill", "/T", "/F", "/PID", strconv.Itoa(p.Pid)).Run() == nil { //nolint:noctx // it is what the end of the context calls for
		return nil
	}
	return p.Kill()
}

// awaitExit waits until p has ended. Its number is not given away before p is
// released. It returns false if it could not wait.
func awaitExit(p *os.Process) bool {
	handle, err := syscall.OpenProcess(syscall.SYNCHRONIZE, false, uint32(p.Pid))
	if err != nil {
		return false
	}
	defer func() { _ = syscall.CloseHandle(handle) }()
	event, err := syscall.WaitForSingleObject(handle, syscall.INFINITE)
	return err == nil && event == syscall.WAIT_OBJECT_0
}

// killedBy returns 0: Windows has no signals.
func killedBy(*os.ProcessState) int { return 0 }

// isNoProgram reports whether a file was found but is not a program for this
// system.
//
// https://learn.microsoft.com/windows/win32/debug/system-error-codes--0-499-
func isNoProgram(err error) bool {
	const badExeFormat, machineTypeMismatch = syscall.Errno(193), syscall.Errno(216)
	return errors.Is(err, badExeFormat) || errors.Is(err, machineTypeMismatch)
}
