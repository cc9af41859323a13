//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
	program := exec.CommandContext(t.Context(), os.Args[0], "-config", file)
	program.Env = append(os.Environ(), "POOL_TEST_MAIN=1")
	var out, audit buffer
	program.Stdout, program.Stderr = &out, &audit
	require.NoError(t, program.Start())
	child := 0
	require.Eventually(t, func() bool {
		m := regexp.MustCompile(`child (\d+)\.`).FindStringSubmatch(out.String())
		if m != nil {
			child, _ = strconv.Atoi(m[1])
		}
		return m != nil && strings.Contains(audit.String(), "connection lost")
	}, 10*time.Second, 10*time.Millisecond)

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

// TestInterruptDemo: the demonstration leaves no files behind.
func TestInterruptDemo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program := exec.CommandContext(t.Context(), os.Args[0])
	program.Env = append(os.Environ(), "POOL_TEST_MAIN=1", "TMPDIR="+dir)
	var out buffer
	program.Stdout = &out
	files := func() []string {
		names, _ := filepath.Glob(filepath.Join(dir, "pool-*", "fetch.log"))
		return names
	}
	require.NoError(t, program.Start())
	require.Eventually(t, func() bool { return len(files()) == 1 }, 10*time.Second, 10*time.Millisecond)
	require.NoError(t, program.Process.Signal(syscall.SIGTERM))
	require.Error(t, program.Wait())
	assert.Equal(t, 130, program.ProcessState.ExitCode())
	assert.Contains(t, out.String(), "fetch      canceled: ")
	assert.Empty(t, files())
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
