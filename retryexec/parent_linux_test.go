package retryexec_test

import (
	"bufio"
	"context"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/retryexec"
)

// TestKillWithParent kills a process that runs a command, which has to end with it.
func TestKillWithParent(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer func() { assert.NoError(t, r.Close()) }()
	worker := command(t.Context(), "mortal", "out:started", "hang")
	worker.Stdout = w // and that of the command
	require.NoError(t, worker.Start())
	require.NoError(t, w.Close())
	require.NoError(t, r.SetReadDeadline(time.Now().Add(20*time.Second)))
	output := bufio.NewReader(r)
	line, err := output.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "started\n", line)

	require.NoError(t, worker.Process.Kill())
	_, err = output.ReadByte()
	assert.Equal(t, io.EOF, err, "the command lives on")
	assert.ErrorContains(t, worker.Wait(), "killed")
}

// TestKillWithParentOutlivesThreads ends threads while a command runs. It is no reason
// to kill the command.
func TestKillWithParentOutlivesThreads(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go func() {
		for ctx.Err() == nil {
			go runtime.LockOSThread() // ends its thread
			time.Sleep(100 * time.Microsecond)
		}
	}()
	var commands sync.WaitGroup
	for range 30 {
		commands.Go(func() {
			assert.NoError(t, retryexec.Once(t.Context(), func(ctx context.Context) *exec.Cmd {
				cmd := exec.CommandContext(ctx, "sleep", "0.5")
				retryexec.KillWithParent(cmd)
				return cmd
			}))
		})
	}
	commands.Wait()
}

// TestKillWithParentKeepsSettings leaves what the caller has set, and its value.
func TestKillWithParentKeepsSettings(t *testing.T) {
	t.Parallel()
	cmd, shared := exec.CommandContext(t.Context(), "true"), &syscall.SysProcAttr{Setsid: true}
	cmd.SysProcAttr = shared
	retryexec.KillWithParent(cmd)
	assert.Equal(t, &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}, cmd.SysProcAttr)
	assert.Equal(t, &syscall.SysProcAttr{Setsid: true}, shared)
	require.NoError(t, retryexec.Once(t.Context(), func(context.Context) *exec.Cmd { return cmd }))
}
