//go:build unix

package retryexec_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retryexec"
)

func shell(ctx context.Context, script string) *exec.Cmd {
	return exec.CommandContext(ctx, "/bin/sh", "-c", script)
}

func shells(script string) func(context.Context) *exec.Cmd {
	return func(ctx context.Context) *exec.Cmd { return shell(ctx, script) }
}

// TestSignals checks processes that were killed, with the context alive.
func TestSignals(t *testing.T) {
	t.Parallel()
	// Under nohup, the commands would inherit that it is ignored.
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(caught) })
	for _, tt := range []struct {
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
	} {
		t.Run(tt.signal, func(t *testing.T) {
			t.Parallel()
			// The phrase has no say: glibc calls pointers invalid, and aborts.
			err := shell(t.Context(), "kill -"+tt.signal+" $$").Run()
			exit := testkit.As[*exec.ExitError](t, err)
			require.Equal(t, -1, exit.ExitCode())
			exit.Stderr = []byte("free(): invalid pointer, connection refused")
			assert.Equal(t, tt.want, retryexec.Classify(err))
			assert.Equal(t, tt.want, retryexec.ClassifyExit(err, -1, "invalid"))

			// And by way of a shell, with a command after it so that it does
			// not become the process itself.
			err = shell(t.Context(), "/bin/sh -c 'kill -"+tt.signal+" $$'; exit $?").Run()
			exit = testkit.As[*exec.ExitError](t, err)
			require.Greater(t, exit.ExitCode(), 128)
			assert.Equal(t, tt.want, retryexec.Classify(err))
		})
	}
}

// TestLeftBehind leaves a process that holds the output of a command that has
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

// writeProgram writes a file that can be run at once. Without the lock, a process
// that another test forks meanwhile could hold the file open for writing, and to run
// it would fail with ETXTBSY.
//
// https://go.dev/issue/22315
func writeProgram(t *testing.T, path, text string) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o700))
}

func TestNotExecutable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	require.NoError(t, os.WriteFile(plain, []byte("text"), 0o600))
	text := filepath.Join(dir, "text")
	writeProgram(t, text, "no program")
	for path, want := range map[string]string{plain: "final permission", text: "final invalid"} {
		p, recorder := policy()
		require.Error(t, retryexec.Run(t.Context(), p, retryexec.Command(path)))
		assert.Equal(t, []string{want}, categories(recorder))
	}
	p, recorder := policy()
	require.Error(t, retryexec.Run(t.Context(), p, retryexec.Command(dir)))
	assert.Equal(t, retry.Final, recorder.Events()[0].Verdict.Class, "a directory")
}

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
	for _, tt := range []struct {
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
			null := testkit.Must(os.Open(os.DevNull))(t)
			t.Cleanup(func() { assert.NoError(t, null.Close()) })
			cmd.Stdin = null
		}},
	} {
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
	ours := testkit.Must(syscall.Getpgid(os.Getpid()))(t)
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
			device := testkit.Must(os.Open("/dev/zero"))(t)
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
