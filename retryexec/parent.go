package retryexec

import "os/exec"

// KillWithParent has the system kill the process of cmd when this one ends, even if
// this one is killed or crashes. Otherwise the command lives on, and another worker
// may run it a second time beside it. Call it in newCmd:
//
//	func(ctx context.Context) *exec.Cmd {
//		cmd := retryexec.Command("make", "build")(ctx)
//		retryexec.KillWithParent(cmd)
//		return cmd
//	}
//
// It is known to Linux and FreeBSD; on other systems KillWithParent does nothing. The
// process alone is killed: a shell begins no further command, but one in progress
// lives on to its end, unless the shell is replaced by it ("exec make build"). A
// setuid program is not killed.
//
// Linux kills the process when the thread that started it ends, and Go ends threads
// now and then. So [Run], [Output] and [Once] keep the goroutine of the caller on its
// thread for as long as such a command runs. The Start of exec.Cmd does not; see
// [runtime.LockOSThread].
func KillWithParent(cmd *exec.Cmd) { killWithParent(cmd) }
