//go:build unix

package retryexec_test

import (
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
