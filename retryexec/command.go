package retryexec

import (
	"context"
	"os"
	"os/exec"
	"slices"
)

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
