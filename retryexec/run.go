package retryexec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/done"
)

// pipeDelay is the WaitDelay of commands without one. Only tests change it.
var pipeDelay = 5 * time.Second

// Run runs a command until it succeeds or p gives up, and returns the same
// errors as [retry.Policy.Execute]. A nil p is the zero Policy.
//
// newCmd is called once per attempt, on the goroutine of the caller, with the
// context of the attempt. It returns a new Cmd that was not started, because a Cmd
// runs only once; [Command] makes such a function. A Cmd made without the context,
// by [exec.Command], is stopped too.
//
// # Classification
//
// p.Classifier is asked first, then [Classify]. A command that could not be
// started had no effect, so a NonIdempotent policy may retry it. A command that
// was started may have had an effect, whatever has failed since then, such as a
// Cmd.Stdin that was refused a connection; only a mark, p.Classifier or a rule of a
// [Profile] says otherwise. An attempt that ended by p.AttemptTimeout is
// Retryable, whatever the exit status of the killed process; [errors.Is] finds
// [context.DeadlineExceeded] in its error.
//
// # Output
//
// The writers and files in Cmd.Stdout and Cmd.Stderr get the output of every
// attempt as it comes. [Command] sets them to os.Stdout and os.Stderr. If they are
// nil, the output is dropped, as in os/exec. StdoutPipe and StderrPipe cannot be
// used.
//
// Standard error is a pipe to the command and never a terminal. The first and the last
// 8 KiB of it, with a line [...] for what is between them, are in the [exec.ExitError]
// that [errors.As] finds in the error. If Stdout and Stderr are the same writer, which
// keeps the two in order, both streams are in there. The text of the error ends with the
// last line that is not blank, up to 500 printable bytes: "exit status 1: connection
// refused". So a secret that a command prints there appears wherever the error is logged.
//
// # Input
//
// Every attempt reads the same input, if the input can be read again. After an
// attempt that failed, a Cmd.Stdin that can seek, such as a regular file or a
// [strings.Reader], is set back to its position before the attempt. A [bytes.Buffer]
// keeps its content, because the command reads a copy. Input consumed from any other
// reader by one attempt is unavailable to the next: if newCmd sets such a reader
// again, Run returns the failure of that attempt with the reason. A pipe or a
// terminal that is an [os.File] is read by the command itself: the next attempt does
// not get the input that an earlier one has read.
//
// If Cmd.Stdin is nil, the input is empty, as in os/exec.
//
// If a Read of Cmd.Stdin fails, the command gets the end of its input there, as in
// os/exec, and may take the part that it has for all of it. Run returns the failure
// afterwards.
//
// # End
//
// An attempt ends when the process has ended, all processes that hold its output
// have closed it, and its input is no longer read. It ends at the latest
// Cmd.WaitDelay after the process; 0 means 5 seconds. A process that the command
// leaves behind should therefore have a standard error of its own. If the command
// succeeded but its output was still open then, the error is [exec.ErrWaitDelay],
// which is Final, because output may be missing. There is one exception: without a
// WaitDelay, and with a Stdout and a Stderr that are files or nil, the attempt
// succeeds, because os/exec would not have waited for these at all.
//
// A Read of Cmd.Stdin or a Write to Cmd.Stdout or Cmd.Stderr that blocks does not
// keep an attempt from ending. The goroutine in that call lives on until the call
// returns, because nothing can interrupt it.
//
// So a Cmd.Stdin that is silent for long, such as a connection, costs each attempt the
// wait for WaitDelay, and leaves a goroutine with a buffer of 32 KiB until data comes or
// the reader is closed. An [os.File], such as an end of [os.Pipe], costs and leaves
// nothing, because the command reads it itself.
//
// # Cancellation
//
// When the context ends, the process and its process group are killed. For this
// purpose the process leads a group of its own, so all its descendants are killed
// with it. The exceptions are processes that moved to another group or session, by
// setsid or "set -m" of a shell. They live on, and Run does not wait for them: once
// the process has ended, output that pauses for 100 ms is over (on Windows, where
// pipes have no deadlines, WaitDelay is the limit). If the process has ended before
// the context, and Run waits only for its output, the rest of its group is killed
// on Linux alone: other systems may have given its number to another group. On
// Windows the tree of processes is killed; on systems with neither groups nor
// trees, the process alone.
//
// Since the process is in a group of its own, ^C on the terminal does not reach it:
// end ctx with [os/signal.NotifyContext]. For the same reason the system stops a
// command that reads from the terminal, for example to ask for a password. Set
// Cmd.Stdin to os.Stdin for such a command: if Stdin is a terminal, the process stays
// in the group of its parent, and is killed alone. A Cmd with Setsid, Setpgid or
// Foreground in its SysProcAttr keeps that setting, and its group is killed if it
// leads one.
//
// For a graceful end, set both Cmd.Cancel and Cmd.WaitDelay in newCmd, as in
// os/exec: Cancel is called when the context ends, and the remaining processes
// are killed WaitDelay later, or once the process has ended. Cancel without
// WaitDelay is not called.
func Run(ctx context.Context, p *retry.Policy, newCmd func(context.Context) *exec.Cmd) error {
	r := runner{newCmd: newCmd}
	return r.run(ctx, p)
}

// Output is [Run] that also returns the standard output of the last attempt. It drops
// the output of earlier attempts. newCmd must leave Cmd.Stdout nil or set it to
// [os.Stdout], as [Command] does; Output replaces it. Standard error is passed
// through as in Run.
func Output(ctx context.Context, p *retry.Policy, newCmd func(context.Context) *exec.Cmd) ([]byte, error) {
	r := runner{newCmd: newCmd, stdout: &capture{}}
	err := r.run(ctx, p)
	return r.stdout.take(), err
}

// Once runs the command of newCmd a single time, for drivers other than [Run],
// such as a pool. Input, output, cancellation and the text of the error are
// as in Run, and [Classify] classifies the error. ctx is the context of the
// attempt: if its deadline ends the command, the error says so.
func Once(ctx context.Context, newCmd func(context.Context) *exec.Cmd) error {
	if newCmd == nil {
		return errNoFactory
	}
	if ctx == nil {
		ctx = context.Background()
	}
	r := runner{newCmd: newCmd}
	err := r.attempt(ctx)
	if err != nil && done.Is(ctx) && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &timeoutError{err: err}
	}
	return err
}

// runner runs one command as often as it takes.
type runner struct {
	newCmd func(context.Context) *exec.Cmd
	stdout *capture // of the last attempt; nil for Run

	last  error     // the failure of the last attempt
	spent io.Reader // the last attempt has read it, and it cannot be read again
}

func (r *runner) run(ctx context.Context, p *retry.Policy) error {
	if r.newCmd == nil {
		return errNoFactory
	}
	call := retry.Call{Policy: p, Protocol: Classify}
	defer call.Abort()
	for call.Next(ctx) {
		err := r.attempt(call.Context())
		if err != nil && call.TimedOut() {
			err = &timeoutError{err: err}
		}
		r.last = err
		call.End(err)
	}
	return call.Err()
}

// attempt runs the command once.
func (r *runner) attempt(ctx context.Context) error {
	if r.stdout != nil {
		r.stdout = &capture{}
	}
	cmd := r.newCmd(ctx)
	if cmd == nil {
		return errNoCmd
	}
	if cmd.Process != nil {
		// It may be running: leave all its fields alone.
		return retry.MarkFinal(fmt.Errorf("retryexec: newCmd must return a new Cmd: %w", cmd.Start()))
	}
	if same(cmd.Stdin, r.spent) {
		return spentError(r.last)
	}
	if r.stdout != nil {
		if cmd.Stdout != nil && !same(cmd.Stdout, os.Stdout) {
			return errStdoutSet
		}
		cmd.Stdout = r.stdout
	}
	in := openInput(cmd)
	err := execute(ctx, cmd, in)
	if err != nil && !in.putBack() {
		r.spent = in.reader
	}
	return err
}

// execute runs cmd.
func execute(ctx context.Context, cmd *exec.Cmd, in *input) error {
	// os/exec copies to writers and waits until all is copied. With files it
	// does neither.
	copies := !isFile(cmd.Stdout) || !isFile(cmd.Stderr)
	delayed := cmd.WaitDelay != 0
	stderr := keepEnds(cmd)
	if diesWithThread(cmd) {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
	}
	p, err := start(cmd, in)
	if err != nil {
		return err
	}
	err = p.wait(ctx)
	if errors.Is(err, exec.ErrWaitDelay) && !copies && !delayed {
		return nil
	}
	if exit, ok := err.(*exec.ExitError); ok { //nolint:errorlint // os/exec does not wrap it, and another one is not ours
		exit.Stderr = stderr.bytes()
		return &exitError{exit}
	}
	return ran(err)
}
