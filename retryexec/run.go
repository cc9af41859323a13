package retryexec

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/done"
)

// pipeDelay is the WaitDelay of commands that have none. Only tests change it.
var pipeDelay = 5 * time.Second

// Command returns a function that makes the command of
// [exec.CommandContext](ctx, name, arg...), for [Run] and [Output].
func Command(name string, arg ...string) func(context.Context) *exec.Cmd {
	arg = slices.Clone(arg)
	return func(ctx context.Context) *exec.Cmd {
		return exec.CommandContext(ctx, name, arg...)
	}
}

// Run runs a command until it succeeds or p gives up, and returns what
// [retry.Policy.Execute] does. A nil p is the zero Policy.
//
// newCmd is called once per attempt, on the goroutine of the caller, and returns
// a Cmd that was not started, because a Cmd runs only once. It gets the context
// of the attempt. A Cmd that was made without it, by [exec.Command], is stopped
// all the same. An input that was read up by one attempt is gone for the next:
// open it in newCmd.
//
// # Classification
//
// p.Classifier is asked first, then [ClassifyError]. A command that could not be
// started had no effect, so a NonIdempotent policy may retry it; one that ran may
// have had one. An attempt that ended by p.AttemptTimeout is Retryable, whatever
// the killed process left as its exit status; [errors.Is] finds
// [context.DeadlineExceeded] in its error.
//
// # Output
//
// The writers and files in Cmd.Stdout and Cmd.Stderr get the output of every
// attempt as it comes. Standard error is a pipe to the command and never a
// terminal, and the last 8 KiB of it are in the [exec.ExitError] that
// [errors.As] finds in the error. If Stdout and Stderr are the same writer, which
// keeps the two in order, these are of both. StdoutPipe and StderrPipe cannot be
// used.
//
// The text of the error ends with the last line of them that is not blank, up to
// 500 bytes and fit to print: "exit status 1: connection refused". So a secret
// that a command prints there goes where the error is logged.
//
// Wait ends when all that hold the pipe have closed it, or Cmd.WaitDelay after
// the process has ended; 0 means 5 seconds. A process that the command leaves
// behind should therefore have a standard error of its own. If the command
// succeeded and its output was still held then, the error is
// [exec.ErrWaitDelay], which is Final, because output may be missing; but not
// without a WaitDelay where Stdout and Stderr are files or nil, since os/exec
// would not have waited for these at all.
//
// # Cancellation
//
// When the context ends, the process is killed with all that it started. For
// that it leads a process group of its own (on Windows its tree of processes is
// killed, on systems with neither the process alone), so ^C on the terminal no
// longer reaches it: end ctx with [os/signal.NotifyContext]. A Cmd whose Stdin is
// a terminal stays in the group of its parent, since others are not allowed to
// read from there, and is killed alone. A Cmd with Setsid, Setpgid or Foreground
// in its SysProcAttr keeps that, and its group is killed if it leads one.
//
// To be gentle first, set both Cmd.Cancel and Cmd.WaitDelay in newCmd, as in
// os/exec: Cancel is called when the context ends, and what is left is killed
// WaitDelay later, or once the process has ended. Cancel without WaitDelay is not
// called.
func Run(ctx context.Context, p *retry.Policy, newCmd func(context.Context) *exec.Cmd) error {
	return run(ctx, p, newCmd, nil)
}

// Output is [Run], and returns the standard output of the last attempt beside
// the error; that of earlier attempts is dropped. newCmd must leave Cmd.Stdout
// nil. Standard error is passed through only if Cmd.Stderr is set.
func Output(ctx context.Context, p *retry.Policy, newCmd func(context.Context) *exec.Cmd) ([]byte, error) {
	var stdout bytes.Buffer
	err := run(ctx, p, newCmd, &stdout)
	return stdout.Bytes(), err
}

// Once runs the command that newCmd makes a single time, for drivers other than
// [Run], such as a pool. Output, cancellation and the text of the error are those
// of Run, and [ClassifyError] judges the error. ctx is that of the attempt: if its
// deadline ends the command, the error says so.
//
//nolint:contextcheck // nil is context.Background
func Once(ctx context.Context, newCmd func(context.Context) *exec.Cmd) error {
	if newCmd == nil {
		return errNoFactory
	}
	if ctx == nil {
		ctx = context.Background()
	}
	err := runOnce(ctx, newCmd, nil)
	if err != nil && done.Is(ctx) && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &timeoutError{err: err}
	}
	return err
}

// run is Run, and Output if stdout is not nil.
func run(ctx context.Context, p *retry.Policy, newCmd func(context.Context) *exec.Cmd, stdout *bytes.Buffer) error {
	if newCmd == nil {
		return errNoFactory
	}
	call := retry.Call{Policy: p, Classify: ClassifyError}
	defer call.Abort()
	for call.Next(ctx) {
		err := runOnce(call.Context(), newCmd, stdout)
		if err != nil && call.TimedOut() {
			err = &timeoutError{err: err}
		}
		call.End(err)
	}
	return call.Err()
}

func runOnce(ctx context.Context, newCmd func(context.Context) *exec.Cmd, stdout *bytes.Buffer) error {
	if stdout != nil {
		stdout.Reset()
	}
	cmd := newCmd(ctx)
	if cmd == nil {
		return errNoCmd
	}
	if cmd.Process != nil {
		// It may be running: leave all its fields alone.
		return retry.MarkFinal(fmt.Errorf("retryexec: newCmd must return a new Cmd: %w", cmd.Start()))
	}
	if stdout != nil {
		if cmd.Stdout != nil {
			return errStdoutSet
		}
		cmd.Stdout = stdout
	}
	// os/exec copies to writers and waits until all is copied; to files it does
	// not.
	copies := !isFile(cmd.Stdout) || !isFile(cmd.Stderr)
	delayed := cmd.WaitDelay != 0
	stderr := keepTail(cmd)
	err := start(cmd).wait(ctx)
	if errors.Is(err, exec.ErrWaitDelay) && !copies && !delayed {
		return nil
	}
	if exit, ok := err.(*exec.ExitError); ok { //nolint:errorlint // os/exec does not wrap it, and another one is not ours
		exit.Stderr = stderr.bytes()
		return &exitError{exit}
	}
	return err
}

// isFile reports whether a command gets w itself as its output.
func isFile(w io.Writer) bool {
	_, ok := w.(*os.File)
	return ok || w == nil
}
