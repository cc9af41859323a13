package retryexec

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
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
// The comment of the package says what becomes of its input, its output and its processes.
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

// Command returns a function that makes the command of
// [exec.CommandContext](ctx, name, arg...), for [Run], [Output] and [Once]. Its
// output goes to [os.Stdout] and [os.Stderr]; Output returns the standard output
// instead. Its standard input is empty, as in os/exec, so that it does not
// consume the program's own input.
//
// To change more of the command, call the function in one of your own:
//
//	func(ctx context.Context) *exec.Cmd {
//		cmd := retryexec.Command("git", "fetch")(ctx)
//		cmd.Dir, cmd.Stdin = dir, input
//		return cmd
//	}
func Command(name string, arg ...string) func(context.Context) *exec.Cmd {
	arg = slices.Clone(arg)
	return func(ctx context.Context) *exec.Cmd {
		cmd := exec.CommandContext(ctx, name, arg...)
		cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
		return cmd
	}
}

// KillWithParent makes the system kill the process of cmd when the current process ends,
// even if the current process is killed or crashes. Otherwise the command lives on, and
// another worker may run it again at the same time. Call KillWithParent in newCmd:
//
//	func(ctx context.Context) *exec.Cmd {
//		cmd := retryexec.Command("make", "build")(ctx)
//		retryexec.KillWithParent(cmd)
//		return cmd
//	}
//
// KillWithParent works on Linux and FreeBSD; on other systems it does nothing. Only the
// process itself is killed: a shell begins no further command, but its running command
// lives on to its end, unless that command has replaced the shell ("exec make build"). A
// setuid program is not killed.
//
// Linux kills the process when the thread that started it ends, and Go ends threads
// now and then. So [Run], [Output] and [Once] keep the goroutine of the caller on its
// thread for as long as such a command runs. The Start of exec.Cmd does not; see
// [runtime.LockOSThread].
func KillWithParent(cmd *exec.Cmd) { killWithParent(cmd) }
