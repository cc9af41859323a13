package retryexec_test

import (
	"bytes"
	"context"
	"io"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/retryexec"
)

// blocking is a reader and writer that does not return before the test ends.
type blocking <-chan struct{}

func (b blocking) Read([]byte) (int, error) {
	<-b
	return 0, io.EOF
}

func (b blocking) Write(p []byte) (int, error) {
	<-b
	return len(p), nil
}

// block returns a reader and writer that blocks for as long as the test runs.
func block(t *testing.T) blocking {
	t.Helper()
	return t.Context().Done()
}

// soon fails the test if f does not return.
func soon(t *testing.T, f func()) {
	t.Helper()
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		f()
	}()
	select {
	case <-returned:
	case <-time.After(20 * time.Second):
		assert.Fail(t, "hangs")
	}
}

// TestStreamsThatBlock do not keep a command from ending that has ended.
func TestStreamsThatBlock(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		script  []string
		prepare func(cmd *exec.Cmd, b blocking)
		want    string // no text: success
	}{
		{"input", nil, func(cmd *exec.Cmd, b blocking) { cmd.Stdin = b }, ""},
		{"input of a failure", []string{"err:boom", "exit:3"}, func(cmd *exec.Cmd, b blocking) { cmd.Stdin = b }, "exit status 3: boom"},
		{"output", []string{"out:x"}, func(cmd *exec.Cmd, b blocking) { cmd.Stdout = b }, exec.ErrWaitDelay.Error()},
		{"errors", []string{"err:x"}, func(cmd *exec.Cmd, b blocking) { cmd.Stderr = b }, exec.ErrWaitDelay.Error()},
		{"both", []string{"err:x"}, func(cmd *exec.Cmd, b blocking) { cmd.Stdout, cmd.Stderr = b, b }, exec.ErrWaitDelay.Error()},
		{"errors of a failure", []string{"err:boom", "exit:3"}, func(cmd *exec.Cmd, b blocking) { cmd.Stderr = b }, "exit status 3: boom"},
		{"no output, so nobody blocks", nil, func(cmd *exec.Cmd, b blocking) { cmd.Stdout, cmd.Stderr = b, b }, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := block(t)
			soon(t, func() {
				err := retryexec.Once(t.Context(), with(commands(tt.script...), func(cmd *exec.Cmd) {
					cmd.WaitDelay = time.Second // time enough for streams that do not block
					tt.prepare(cmd, b)
				}))
				if tt.want == "" {
					assert.NoError(t, err)
				} else {
					assert.EqualError(t, err, tt.want)
				}
			})
		})
	}
}

// TestInputThatBlocksIsNotWaitedFor once the context has ended, whatever the
// WaitDelay.
func TestInputThatBlocksIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	for _, script := range [][]string{{"out:ready"}, {"out:ready", "hang"}, {"out:ready", "copy"}} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		b := block(t)
		soon(t, func() {
			_ = retryexec.Run(ctx, nil, with(commands(script...), func(cmd *exec.Cmd) {
				cmd.Cancel, cmd.WaitDelay = nil, time.Hour
				cmd.Stdin, cmd.Stdout = b, onWrite(func([]byte) { cancel() })
			}))
		})
	}
}

// TestInputThatBlocksIsSpent, because its next bytes are unknown.
func TestInputThatBlocksIsSpent(t *testing.T) {
	t.Parallel()
	p, recorder := policy()
	b := block(t)
	soon(t, func() {
		err := retryexec.Run(t.Context(), p, with(commands("exit:75"), func(cmd *exec.Cmd) {
			cmd.Stdin, cmd.WaitDelay = b, 50*time.Millisecond
		}))
		assert.ErrorAs(t, err, new(*exec.ExitError))
	})
	assert.Equal(t, []string{"retryable exit_75", "final stdin_spent"}, categories(recorder))
}

// TestOutputOfAStoppedCommand is complete as far as it was written, however slowly
// it is read.
func TestOutputOfAStoppedCommand(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var stderr bytes.Buffer
	err := retryexec.Run(ctx, nil, func(ctx context.Context) *exec.Cmd {
		cmd := command(ctx, "fill:60000", "out:ready", "hang")
		cmd.Stdout = onWrite(func([]byte) { cancel() })
		cmd.Stderr = onWrite(func(p []byte) {
			<-ctx.Done() // until the command has written it all
			stderr.Write(p)
		})
		return cmd
	})
	require.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, strings.Repeat("x", 60000), stderr.String())
}

// TestNothingLeaks, except goroutines in calls that block, until they return.
//
//nolint:paralleltest // it counts goroutines
func TestNothingLeaks(t *testing.T) {
	before := runtime.NumGoroutine()
	unblock := make(chan struct{})
	for range 5 {
		_ = retryexec.Once(t.Context(), with(commands("out:x", "err:x", "exit:1"), func(cmd *exec.Cmd) {
			cmd.Stdin, cmd.Stdout = strings.NewReader("input"), io.Discard
		}))
		ctx, cancel := context.WithCancel(t.Context())
		_ = retryexec.Once(ctx, with(commands("out:x", "hang"), func(cmd *exec.Cmd) {
			cmd.Stdin, cmd.Stdout = blocking(unblock), onWrite(func([]byte) { cancel() })
		}))
		_ = retryexec.Once(t.Context(), retryexec.Command("retryexec-no-such-program"))
	}
	close(unblock)
	for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before && time.Now().Before(end); {
		runtime.Gosched()
	}
	assert.LessOrEqual(t, runtime.NumGoroutine(), before)
}
