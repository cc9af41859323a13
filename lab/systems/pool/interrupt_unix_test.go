//go:build unix

package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/lab/systems/shared/dbtest"
)

// TestInterrupt: ^C kills the commands with their children, and the last line
// is right.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	file := write(t, `
nodes:
  - {name: done, command: "true"}
  - {name: parent, command: "sleep 600 & echo child $!.; wait", needs: [done, waiting-too]}
  - {name: waiting-too, command: "true"}
  - {name: waits, command: "echo connection lost >&2; exit 1"}
  - {name: after, command: "true", needs: [parent]}
`)
	var out, audit dbtest.Output
	program := start(t, &out, &audit, "-config", file)
	child := child(t, &out)
	audit.Await(t, "connection lost")

	require.NoError(t, program.Process.Signal(os.Interrupt))
	err := program.Wait()
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	assert.Equal(t, 130, exit.ExitCode())
	text := stamp.ReplaceAllString(out.String(), "$1 ")
	for _, line := range []string{
		"done completed",
		"parent canceled: task failed after 1 attempt (context canceled): signal: killed",
		"waits canceled: task failed after 1 attempt (context canceled): exit status 1: connection lost",
		"after skipped: needs parent, which was not completed",
		"2 completed, 0 failed, 1 skipped, 2 canceled",
	} {
		assert.Contains(t, text, line+"\n")
	}
	assert.Eventually(t, func() bool { return gone(child) }, 10*time.Second, 10*time.Millisecond)
}

// start starts the program in a process of its own.
func start(t *testing.T, out, errs io.Writer, args ...string) *exec.Cmd {
	t.Helper()
	program := exec.CommandContext(t.Context(), os.Args[0], append([]string{"run"}, args...)...)
	program.Env = append(os.Environ(), "POOL_TEST_MAIN=1")
	program.Stdout, program.Stderr = out, errs
	require.NoError(t, program.Start())
	return program
}

// child waits for the number of a process that a command has printed.
func child(t *testing.T, out *dbtest.Output) int {
	t.Helper()
	pid, err := strconv.Atoi(out.Await(t, `child (\d+)\.`)[1])
	require.NoError(t, err)
	return pid
}

// TestKilled: a command ends with a pool that is killed, or it would run on beside the next run of
// its node.
func TestKilled(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" && runtime.GOOS != "freebsd" {
		t.Skip("the system does not tell a process that its parent has ended")
	}
	var out dbtest.Output
	program := start(t, &out, io.Discard, "-config", write(t, "nodes: [{name: a, command: 'echo child $$.; exec sleep 600'}]"))
	child := child(t, &out)
	require.NoError(t, program.Process.Kill())
	require.Error(t, program.Wait())
	assert.Eventually(t, func() bool { return gone(child) }, 10*time.Second, 10*time.Millisecond)
}

// TestResume: the next run does not repeat what is completed, counts the attempts of the
// one before, and leaves nothing behind.
func TestResume(t *testing.T) {
	t.Parallel()
	state, log := filepath.Join(t.TempDir(), "state"), filepath.Join(t.TempDir(), "log")
	file := write(t, `
nodes:
  - {name: once, command: "echo once >>`+log+`"}
  - {name: waits, command: "echo waits >>`+log+`; echo connection lost >&2; exit 1", needs: [once]}
  - {name: killed, command: "sleep 600", needs: [once]}
retry: {max_attempts: 2, init_delay_seconds: 1}
workers: 2
`)
	var audit dbtest.Output
	program := start(t, io.Discard, &audit, "-config", file, "-resume", state)
	audit.Await(t, "connection lost")
	require.NoError(t, program.Process.Signal(os.Interrupt))
	require.Error(t, program.Wait())
	require.Equal(t, 130, program.ProcessState.ExitCode())
	require.FileExists(t, state)

	rest := strings.Replace(read(t, file), "sleep 600", "true", 1)
	require.NoError(t, os.WriteFile(file, []byte(rest), 0o600))
	var out dbtest.Output
	assert.Equal(t, 1, run(t.Context(), []string{"run", "-config", file, "-resume", state}, &out, io.Discard))
	text := stamp.ReplaceAllString(out.String(), "$1 ")
	assert.Contains(t, text, "waits failed: task failed after 2 attempts: exit status 1: connection lost\n")
	assert.Contains(t, text, "2 completed, 1 failed, 0 skipped, 0 canceled\n")
	assert.Equal(t, []string{"once", "waits", "waits"}, strings.Fields(read(t, log)))
	assert.NoFileExists(t, state)

	require.NoError(t, os.WriteFile(state, []byte("no JSON"), 0o600))
	var errs dbtest.Output
	assert.Equal(t, 2, run(t.Context(), []string{"run", "-config", file, "-resume", state}, io.Discard, &errs))
	assert.Contains(t, errs.String(), "-resume: "+state+": invalid character")
	require.NoError(t, os.WriteFile(state, []byte("null"), 0o600))
	assert.Equal(t, 1, run(t.Context(), []string{"run", "-config", file, "-resume", state}, io.Discard, &errs), "of nothing")
}

// TestInterruptedOften: a node that never failed does not fail of interrupts.
func TestInterruptedOften(t *testing.T) {
	t.Parallel()
	state := filepath.Join(t.TempDir(), "state")
	file := write(t, "nodes: [{name: slow, command: 'sleep 600'}]\nretry: {max_attempts: 2, init_delay_seconds: 1}\n")
	for range 3 {
		ctx, interrupt := context.WithCancel(t.Context())
		defer interrupt()
		var out dbtest.Output
		code := make(chan int, 1)
		go func() { code <- run(ctx, []string{"run", "-config", file, "-resume", state}, &out, io.Discard) }()
		out.Await(t, "running")
		interrupt()
		assert.Equal(t, 130, <-code, out.String())
	}
	require.NoError(t, os.WriteFile(file, []byte(strings.Replace(read(t, file), "sleep 600", "true", 1)), 0o600))
	assert.Equal(t, 0, run(t.Context(), []string{"run", "-config", file, "-resume", state}, io.Discard, io.Discard))
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(text)
}

// gone reports whether a process has ended, though nobody may have asked for its
// exit status yet.
func gone(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return true
	}
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	return err == nil && strings.Contains(string(stat), ") Z ")
}
