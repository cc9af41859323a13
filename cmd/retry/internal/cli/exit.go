package cli

import (
	"context"
	"errors"
	"io/fs"
	"os/exec"
	"syscall"
)

// The exit codes of the command itself. Those from 124 on are those of timeout(1),
// env(1) and nohup(1).
const (
	exitFaults    = 1   // check has found faults
	exitCondition = 123 // the command succeeded, and what --until or --until-fails asks for did not come
	exitTimeout   = 124 // a time limit ended the last run
	exitUsage     = 125 // retry itself failed: bad flags, a file that is no policy
	exitCannotRun = 126 // the command was found and cannot be run
	exitNotFound  = 127 // the command was not found
	exitSignal    = 128 // and the number of the signal that ended the command or retry
)

// exitCodeError ends the program with a code, and with a message if there is one.
type exitCodeError struct {
	code    int
	message string
}

func (e *exitCodeError) Error() string { return e.message }

// The failures of attempts whose command succeeded.
var (
	errCondition = errors.New("the command succeeded, but the condition of --until does not hold")
	errSucceeds  = errors.New("the command succeeded, but --until-fails waits for it to fail")
)

// exitCode returns what the failure of a command is as an exit code.
func exitCode(err error) int {
	var exit *exec.ExitError
	switch {
	case errors.Is(err, errCondition), errors.Is(err, errSucceeds):
		return exitCondition
	case errors.Is(err, context.DeadlineExceeded):
		return exitTimeout
	case errors.As(err, &exit):
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			return exitSignal + int(status.Signal())
		}
		return exit.ExitCode()
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, fs.ErrNotExist):
		return exitNotFound
	case isStart(err):
		return exitCannotRun
	default:
		return exitUsage
	}
}

// isStart reports whether a command could not be started: it is a directory, or there is
// no memory for it.
func isStart(err error) bool {
	var lookup *exec.Error
	var start *fs.PathError
	return errors.As(err, &lookup) || errors.As(err, &start) && start.Op == "fork/exec"
}
