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

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryexec"
	"github.com/seed-5ff3c98e/retry/retrytest"
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
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			alive, allEnded := deathbed(t)
			err := retryexec.Run(ctx, nil, func(ctx context.Context) *exec.Cmd {
				cmd := shell(ctx, "sleep 20 & echo ready; wait")
				cmd.ExtraFiles = []*os.File{alive}
				cmd.Stdout = onWrite(func([]byte) { cancel() })
				tt.prepare(cmd)
				return cmd
			})
			require.ErrorIs(t, err, context.Canceled)
			assert.True(t, allEnded())
		})
	}
}

// TestTimeoutKillsTheGroup starts the next attempt alone.
func TestTimeoutKillsTheGroup(t *testing.T) {
	t.Parallel()
	clock := &retrytest.Clock{}
	alive, allEnded := deathbed(t)
	attempts := 0
	p := &retry.Policy{Clock: clock, AttemptTimeout: time.Second}
	require.NoError(t, retryexec.Run(t.Context(), p, func(ctx context.Context) *exec.Cmd {
		if attempts++; attempts == 2 {
			assert.True(t, allEnded())
			return shell(ctx, "exit 0")
		}
		cmd := shell(ctx, "sleep 20 & echo ready; wait")
		cmd.ExtraFiles = []*os.File{alive}
		cmd.Stdout = onWrite(func([]byte) { clock.Advance(time.Second) })
		return cmd
	}))
	assert.Equal(t, 2, attempts)
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
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var cmd *exec.Cmd
			var pgid int
			err := retryexec.Run(ctx, nil, func(ctx context.Context) *exec.Cmd {
				cmd = shell(ctx, "echo ready; exec sleep 20")
				cmd.Cancel, cmd.WaitDelay = nil, time.Hour // os/exec does not help
				cmd.Stdout = onWrite(func([]byte) {
					pgid, _ = syscall.Getpgid(cmd.Process.Pid)
					cancel()
				})
				tt.prepare(cmd)
				return cmd
			})
			require.ErrorIs(t, err, context.Canceled) // and we live
			if tt.leads {
				assert.Equal(t, cmd.Process.Pid, pgid)
			} else {
				assert.Equal(t, ours, pgid)
			}
		})
	}
}

// TestGentleCancel lets the command end by itself, and kills what it leaves.
func TestGentleCancel(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	alive, allEnded := deathbed(t)
	calls := 0
	var stderr bytes.Buffer
	err := retryexec.Run(ctx, nil, func(ctx context.Context) *exec.Cmd {
		cmd := shell(ctx, "trap 'echo bye >&2; exit 7' TERM; sleep 20 >/dev/null 2>&1 & echo ready; wait")
		cmd.ExtraFiles = []*os.File{alive}
		cmd.Stdout = onWrite(func([]byte) { cancel() })
		cmd.Stderr = &stderr
		cmd.WaitDelay = time.Minute
		cmd.Cancel = func() error {
			calls++
			return cmd.Process.Signal(syscall.SIGTERM)
		}
		return cmd
	})
	require.ErrorIs(t, err, context.Canceled)
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	assert.Equal(t, 7, exit.ExitCode())
	assert.Equal(t, "bye\n", stderr.String())
	assert.Equal(t, 1, calls)
	assert.True(t, allEnded())
}

// TestGentleCancelHasAnEnd runs a command that ignores Cancel.
func TestGentleCancelHasAnEnd(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	alive, allEnded := deathbed(t)
	err := retryexec.Run(ctx, nil, func(context.Context) *exec.Cmd {
		// Another context, so that os/exec does not see that this one has ended.
		cmd := exec.CommandContext(context.Background(), "/bin/sh", "-c", "trap '' TERM; sleep 20 & echo ready; wait")
		cmd.ExtraFiles = []*os.File{alive}
		cmd.Stdout = onWrite(func([]byte) { cancel() })
		cmd.WaitDelay = 100 * time.Millisecond
		cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
		return cmd
	})
	require.ErrorIs(t, err, context.Canceled)
	assert.True(t, allEnded())
}
