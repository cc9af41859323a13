//go:build unix

package retryexec_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

// deathbed returns a pipe whose writing end commands inherit as file 3. Wait
// returns whether all that inherited it have ended.
func deathbed(t *testing.T) (w *os.File, wait func() bool) {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = r.Close(), w.Close() })
	return w, func() bool {
		assert.NoError(t, w.Close())
		assert.NoError(t, r.SetReadDeadline(time.Now().Add(10*time.Second)))
		_, err := r.Read(make([]byte, 1))
		return err == io.EOF
	}
}

// TestCancelKillsTheGroup starts a grandchild that outlives its parent unless it
// is killed too.
func TestCancelKillsTheGroup(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		prepare func(cmd *exec.Cmd)
	}{
		{"as it is", func(*exec.Cmd) {}},
		{"with a SysProcAttr", func(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: ""} }},
		{"its own group", func(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }},
		{"its own session", func(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }},
		{"without Cancel", func(cmd *exec.Cmd) { cmd.Cancel = nil }},
		{"WaitDelay without Cancel", func(cmd *exec.Cmd) { cmd.Cancel, cmd.WaitDelay = nil, time.Hour }},
		{"Cancel without WaitDelay", func(cmd *exec.Cmd) { cmd.Cancel = func() error { panic("called") } }},
		{"null device", func(cmd *exec.Cmd) {
			null, err := os.Open(os.DevNull)
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, null.Close()) })
			cmd.Stdin = null
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			alive, allEnded := deathbed(t)
			err := untilItWrites(t, shells("sleep 20 & echo ready; wait"), func(cmd *exec.Cmd) {
				cmd.ExtraFiles = []*os.File{alive}
				tt.prepare(cmd)
			})
			require.ErrorIs(t, err, context.Canceled)
			assert.True(t, allEnded())
		})
	}
}

func TestGroupOfTheParent(t *testing.T) {
	t.Parallel()
	ours, err := syscall.Getpgid(os.Getpid())
	require.NoError(t, err)
	attr := &syscall.SysProcAttr{}
	t.Cleanup(func() { assert.Equal(t, &syscall.SysProcAttr{}, attr, "the caller's struct stays as it is") })
	tests := []struct {
		name    string
		prepare func(cmd *exec.Cmd)
		leads   bool
	}{
		{"as it is", func(*exec.Cmd) {}, true},
		{"shared SysProcAttr", func(cmd *exec.Cmd) { cmd.SysProcAttr = attr }, true},
		{"a group that exists", func(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pgid: ours} }, false},
		// Not the terminal, which tests do not have, but the same kind of file.
		{"device as input", func(cmd *exec.Cmd) {
			device, err := os.Open("/dev/zero")
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, device.Close()) })
			cmd.Stdin = device
		}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var pid, pgid int
			err := untilItWrites(t, shells("echo ready; exec sleep 20"), func(cmd *exec.Cmd) {
				cmd.Cancel, cmd.WaitDelay = nil, time.Hour // os/exec does not help
				written := cmd.Stdout
				cmd.Stdout = onWrite(func(p []byte) {
					pid = cmd.Process.Pid
					pgid, _ = syscall.Getpgid(pid)
					_, _ = written.Write(p)
				})
				tt.prepare(cmd)
			})
			require.ErrorIs(t, err, context.Canceled) // and we live
			if tt.leads {
				assert.Equal(t, pid, pgid)
			} else {
				assert.Equal(t, ours, pgid)
			}
		})
	}
}

// TestGentleCancel lets the command end by itself, and kills what it leaves.
func TestGentleCancel(t *testing.T) {
	t.Parallel()
	alive, allEnded := deathbed(t)
	calls := 0
	var stderr bytes.Buffer
	script := "trap 'echo bye >&2; exit 7' TERM; sleep 20 >/dev/null 2>&1 & echo ready; wait"
	err := untilItWrites(t, shells(script), func(cmd *exec.Cmd) {
		cmd.ExtraFiles = []*os.File{alive}
		cmd.Stderr = &stderr
		cmd.WaitDelay = time.Minute
		cmd.Cancel = func() error {
			calls++
			return cmd.Process.Signal(syscall.SIGTERM)
		}
	})
	require.ErrorIs(t, err, context.Canceled)
	exit := testkit.As[*exec.ExitError](t, err)
	assert.Equal(t, 7, exit.ExitCode())
	assert.Equal(t, "bye\n", stderr.String())
	assert.Equal(t, 1, calls)
	assert.True(t, allEnded())
}

// TestGentleCancelHasAnEnd runs a command that ignores Cancel.
func TestGentleCancelHasAnEnd(t *testing.T) {
	t.Parallel()
	alive, allEnded := deathbed(t)
	err := untilItWrites(t, func(context.Context) *exec.Cmd {
		// Another context, so that os/exec does not see that this one has ended.
		return shell(context.Background(), "trap '' TERM; sleep 20 & echo ready; wait")
	}, func(cmd *exec.Cmd) {
		cmd.ExtraFiles = []*os.File{alive}
		cmd.WaitDelay = 100 * time.Millisecond
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	})
	require.ErrorIs(t, err, context.Canceled)
	assert.True(t, allEnded())
}
