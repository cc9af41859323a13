//go:build unix

package retryexec_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
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

func shell(ctx context.Context, script string) *exec.Cmd {
	return exec.CommandContext(ctx, "/bin/sh", "-c", script)
}

// TestSignals is about processes that were killed, with the context alive.
func TestSignals(t *testing.T) {
	t.Parallel()
	tests := []struct {
		signal string
		want   retry.Verdict
	}{
		{"KILL", verdict(retry.Unknown, "signal_killed")},
		{"TERM", verdict(retry.Unknown, "signal_terminated")},
		{"INT", verdict(retry.Final, "signal_interrupt")},
		{"HUP", verdict(retry.Final, "signal_hangup")},
		{"PIPE", verdict(retry.Final, "signal_pipe")},
		{"SEGV", verdict(retry.Unknown, "signal_segv")},
		{"ABRT", verdict(retry.Unknown, "signal_abort")},
		{"ILL", verdict(retry.Unknown, "signal_ill")},
		{"FPE", verdict(retry.Unknown, "signal_fpe")},
	}
	for _, tt := range tests {
		t.Run(tt.signal, func(t *testing.T) {
			t.Parallel()
			// The phrase has no say: glibc calls pointers invalid, and aborts.
			err := shell(t.Context(), "kill -"+tt.signal+" $$").Run()
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit)
			require.Equal(t, -1, exit.ExitCode())
			exit.Stderr = []byte("free(): invalid pointer, connection refused")
			assert.Equal(t, tt.want, retryexec.ClassifyError(err))
			assert.Equal(t, tt.want, retryexec.Classify(err, -1, "invalid"))

			// And by way of a shell, with a command after it so that it does
			// not become the process itself.
			err = shell(t.Context(), "/bin/sh -c 'kill -"+tt.signal+" $$'; exit $?").Run()
			require.ErrorAs(t, err, &exit)
			require.Greater(t, exit.ExitCode(), 128)
			assert.Equal(t, tt.want, retryexec.ClassifyError(err))
		})
	}
}

// TestSignalsHaveNoExitCode is about MinCode.
func TestSignalsHaveNoExitCode(t *testing.T) {
	t.Parallel()
	killed := shell(t.Context(), "kill -9 $$").Run()
	assert.Equal(t, verdict(retry.Unknown, "signal_killed"), retryexec.Simple().ClassifyError(killed))
	assert.Equal(t, verdict(retry.Unknown, "signal_killed"), retryexec.Simple().Classify(killed, -1, ""))
	assert.Equal(t, verdict(retry.Final, "signal_killed"), retryexec.Simple().Classify(nil, 137, ""))
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

// TestGentleCancelHasAnEnd is about a command that ignores it.
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

// TestLeftBehind is about a process that holds the output of a command that has
// ended.
func TestLeftBehind(t *testing.T) {
	t.Parallel()
	const script = "echo text; sleep 30 & exit "
	tests := []struct {
		name    string
		script  string
		prepare func(cmd *exec.Cmd)
		want    error
		wantErr bool
	}{
		{"nobody listens", script + "0", func(*exec.Cmd) {}, nil, false},
		{"a file", script + "0", func(cmd *exec.Cmd) { cmd.Stderr = os.Stderr }, nil, false},
		{"a writer", script + "0", func(cmd *exec.Cmd) { cmd.Stdout = io.Discard }, exec.ErrWaitDelay, true},
		{"a writer of errors", script + "0", func(cmd *exec.Cmd) { cmd.Stderr = io.Discard }, exec.ErrWaitDelay, true},
		{"WaitDelay", script + "0", func(cmd *exec.Cmd) { cmd.WaitDelay = 50 * time.Millisecond }, exec.ErrWaitDelay, true},
		{"failed", script + "77", func(*exec.Cmd) {}, nil, true},
	}
	// All at once, and not two by two: most of them wait.
	var all sync.WaitGroup
	for _, tt := range tests {
		all.Go(func() {
			p, recorder := policy()
			var cmd *exec.Cmd
			begin := time.Now()
			err := retryexec.Run(t.Context(), p, func(ctx context.Context) *exec.Cmd {
				cmd = shell(ctx, tt.script)
				tt.prepare(cmd)
				return cmd
			})
			assert.Less(t, time.Since(begin), 20*time.Second, tt.name)
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
			if tt.wantErr {
				assert.Error(t, err, tt.name)
			} else {
				assert.NoError(t, err, tt.name)
			}
			if tt.want != nil {
				assert.ErrorIs(t, err, tt.want, tt.name)
				assert.Equal(t, []string{"final wait_delay"}, categories(recorder), tt.name)
			}
		})
	}
	all.Wait()
}

func TestNotExecutable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	require.NoError(t, os.WriteFile(plain, []byte("text"), 0o600))
	text := filepath.Join(dir, "text")
	require.NoError(t, os.WriteFile(text, []byte("no program"), 0o700))
	for path, want := range map[string]string{plain: "final permission", text: "final invalid"} {
		p, recorder := policy()
		require.Error(t, retryexec.Run(t.Context(), p, retryexec.Command(path)))
		assert.Equal(t, []string{want}, categories(recorder))
	}
	p, recorder := policy()
	require.Error(t, retryexec.Run(t.Context(), p, retryexec.Command(dir)))
	assert.Equal(t, retry.Final, recorder.Events()[0].Verdict.Class, "a directory")
}
