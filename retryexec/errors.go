package retryexec

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"

	"github.com/seed-5ff3c98e/retry"
)

var (
	errNoFactory = retry.MarkFinal(errors.New("retryexec: newCmd is nil"))
	errNoCmd     = retry.MarkFinal(errors.New("retryexec: newCmd returned nil"))
	errStdoutSet = retry.MarkFinal(errors.New("retryexec: Output needs Cmd.Stdout, which newCmd has set"))
)

// spentError returns the error of an attempt that is not made, because the
// attempt before it failed with last and consumed the input.
func spentError(last error) error {
	const reason = "Cmd.Stdin cannot be read twice: set it to a new reader for each attempt"
	return retry.Mark(fmt.Errorf("%w (not run again: %s)", last, reason),
		retry.Verdict{Class: retry.Final, Category: "stdin_spent"})
}

// startFailure returns the error of a command that could not be started.
func startFailure(cmd *exec.Cmd, err error) error {
	if _, statErr := os.Stat(cmd.Dir); cmd.Dir != "" && statErr != nil {
		// Package os tells these apart only for commands without a SysProcAttr.
		return &fs.PathError{Op: "chdir", Path: cmd.Dir, Err: errors.Unwrap(statErr)}
	}
	if classifySystem(err) == (retry.Verdict{}) {
		// os/exec refused, not the system: the Cmd is invalid.
		return retry.Mark(err, retry.Verdict{Class: retry.Final, NotApplied: true, Category: categoryStart})
	}
	return &startError{err}
}

// startError is the failure of a command that was not started, which proves that it had no
// effect: of its lookup, of a pipe for it, of fork or exec.
type startError struct{ err error }

func (e *startError) Error() string { return e.err.Error() }

func (e *startError) Unwrap() error { return e.err }

// ran returns the error of a command that was started and whose exit code does not tell the
// failure: an error of the caller's reader or writer, of Cmd.Cancel, or of the wait for the
// process.
func ran(err error) error {
	if _, marked := retry.Marked(err); err == nil || marked || errors.As(err, new(*retry.Error)) {
		return err // no classifier is asked
	}
	return &ranError{err}
}

// ranError is the error of a command that was started. It has no Unwrap: the reader of its
// input may have failed to dial, and a classifier would take that error as a proof that
// nothing happened.
type ranError struct{ err error }

func (e *ranError) Error() string { return e.err.Error() }

func (e *ranError) Is(target error) bool { return errors.Is(e.err, target) }

func (e *ranError) As(target any) bool { return errors.As(e.err, target) }

// exitError is the failure of a command that ran. Its text adds the reason to
// the exit status.
type exitError struct{ exit *exec.ExitError }

func (e *exitError) Error() string {
	reason := lastLine(string(e.exit.Stderr))
	if reason == "" {
		return e.exit.Error()
	}
	return e.exit.Error() + ": " + reason
}

func (e *exitError) Unwrap() error { return e.exit }

// timeoutError is the failure of an attempt that ended by its own timeout.
type timeoutError struct{ err error }

func (e *timeoutError) Error() string { return "attempt timed out: " + e.err.Error() }

func (e *timeoutError) Unwrap() error { return e.err }

func (e *timeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// Timeout returns true. [retry.Classify] asks for it.
func (e *timeoutError) Timeout() bool { return true }
