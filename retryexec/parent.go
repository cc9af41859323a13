package retryexec

import "os/exec"

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
