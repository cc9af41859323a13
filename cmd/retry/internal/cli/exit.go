package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"syscall"

	"github.com/seed-5ff3c98e/retry"
)

// The exit codes of the command itself. Those from 124 on are those of timeout(1),
// env(1) and nohup(1).
const (
	exitFaults    = 1   // check has found faults
	exitCondition = 123 // the command succeeded, and what --until or --until-fails asks for did not come
	exitTimeout   = 124 // a time limit ended the last run
	exitUsage     = 125 // retry itself failed: bad flags, a file that is no policy, a fault
	exitCannotRun = 126 // the command was found and cannot be run
	exitNotFound  = 127 // the command was not found
	exitSignal    = 128 // and the number of the signal that ended the command or retry
)

// exitCodeError ends the program with a code, and with a message if there is one.
type exitCodeError struct {
	code    int
	message string
	signal  os.Signal // the program dies by it, where it can; code is for where it cannot
}

func (e *exitCodeError) Error() string { return e.message }

// faultError is why retry could not give a run all of its input, or keep all of its output. No
// other run can help.
type faultError struct{ error }

func (f *faultError) Unwrap() error { return f.error }

const roomAdvice = "set TMPDIR to a folder with room"

// newFault says what failed, and what helps.
func newFault(what string, err error, advice string) error {
	return retry.Mark(&faultError{fmt.Errorf("%s: %w; %s", what, err, advice)},
		retry.Verdict{Class: retry.Final, Category: "fault"})
}

// isFault reports whether the failure of an attempt is a fault.
func isFault(err error) bool {
	var f *faultError
	return errors.As(err, &f)
}

// The failures of attempts whose command succeeded.
var (
	errCondition = errors.New("the command succeeded, but the condition of --until does not hold")
	errSucceeds  = errors.New("the command succeeded, but --until-fails waits for it to fail")
)

// exitCode returns what the failure of a command is as an exit code.
func exitCode(err error) int {
	var exit *exec.ExitError
	switch {
	case isFault(err): // whatever has caused it
		return exitUsage
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
