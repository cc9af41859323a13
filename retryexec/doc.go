// Package retryexec runs commands under a [retry.Policy], and tells whether a
// failed command may be run again:
//
//	err := retryexec.Run(ctx, policy, retryexec.Command("git", "fetch"))
//
// [Run] and [Output] make a fresh [exec.Cmd] for every attempt, pass its output
// through, keep both ends of standard error, give the command the same input again
// if they can, and kill the process with its group when the context ends. The
// policy decides. This package classifies exit codes, signals and the end of
// standard error.
//
// A [Profile] is an ordered list of rules for this. [Default] is asked about every
// command, after the Classifier of the policy. That Classifier may be the profile of a
// program, such as [Curl], or your own profile. [Classify] and [ClassifyExit]
// classify failures without running anything, for commands that run elsewhere.
//
// What follows holds for [Run], [Output] and [Once].
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
package retryexec
