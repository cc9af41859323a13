package retryexec_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryexec"
)

// TestTextFileBusy runs a program that is still being written. Nothing ran, so
// even a policy for non-idempotent commands tries again.
func TestTextFileBusy(t *testing.T) {
	t.Parallel()
	program, err := os.ReadFile("/bin/true")
	require.NoError(t, err)
	file, err := os.OpenFile(filepath.Join(t.TempDir(), "true"), os.O_WRONLY|os.O_CREATE, 0o700)
	require.NoError(t, err)
	_, err = file.Write(program)
	require.NoError(t, err)

	p, recorder := policy()
	p.NonIdempotent = true
	// Tests beside this one fork, and their children hold the file for a moment.
	p.MaxAttempts, p.Clock, p.Backoff = 100, nil, retry.Constant(10*time.Millisecond)
	attempts := 0
	require.NoError(t, retryexec.Run(t.Context(), p, func(ctx context.Context) *exec.Cmd {
		if attempts++; attempts == 2 {
			assert.NoError(t, file.Close())
		}
		return exec.CommandContext(ctx, file.Name())
	}))
	first := recorder.Events()[0]
	assert.ErrorIs(t, first.Err, syscall.ETXTBSY)
	assert.Equal(t, retry.Verdict{Class: retry.Retryable, NotApplied: true, Category: "busy"}, first.Verdict)
}

// ownSession starts a process that leaves its group and prints its number.
const ownSession = "setsid sh -c 'echo $$; exec sleep 60' &"

// left runs a shell script that leaves a process behind and prints its number. It
// ends the context once the shell has ended but Run has not.
func left(t *testing.T, script string) (survivor int, err error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	started := make(chan int, 1)
	var cmd *exec.Cmd
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		err = retryexec.Run(ctx, nil, func(ctx context.Context) *exec.Cmd {
			cmd = shell(ctx, script)
			cmd.WaitDelay = time.Hour
			cmd.Stdout = onWrite(func(p []byte) {
				n, err := strconv.Atoi(strings.TrimSpace(string(p)))
				assert.NoError(t, err)
				started <- n
			})
			return cmd
		})
	}()
	survivor = <-started
	t.Cleanup(func() { _ = syscall.Kill(survivor, syscall.SIGKILL) })
	zombie := 0
	require.Eventually(t, func() bool {
		if state(cmd.Process.Pid) == "Z" {
			zombie++
		}
		return zombie == 10 // and not by chance, shortly before it is reaped
	}, 10*time.Second, 5*time.Millisecond)
	cancel()
	select {
	case <-returned:
	case <-time.After(20 * time.Second):
		require.Fail(t, "hangs")
	}
	return survivor, err
}

// state returns the state of a process as ps shows it, and nothing if there is
// none.
func state(pid int) string {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(stat), ") ")
	return rest[:min(1, len(rest))]
}

func alive(pid int) bool { return strings.Trim(state(pid), "ZX") != "" }

// TestNumberIsKept: as long as its group may have to be killed, a process is not
// reaped, so that no other one can get its number.
func TestNumberIsKept(t *testing.T) {
	t.Parallel()
	survivor, err := left(t, "sleep 60 & echo $!")
	require.NoError(t, err, "the shell has succeeded, and all of its output is there")
	assert.Eventually(t, func() bool { return !alive(survivor) }, 10*time.Second, time.Millisecond)
}

// TestSurvivor is a process in a session of its own. It is not killed, but not
// waited for either.
func TestSurvivor(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("needs setsid")
	}
	survivor, err := left(t, ownSession)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, exec.ErrWaitDelay)
	assert.True(t, alive(survivor))
}
