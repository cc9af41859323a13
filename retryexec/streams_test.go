package retryexec_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
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
	for _, tt := range []struct {
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
	} {
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

// onWrite is a writer that calls a function.
type onWrite func(p []byte)

func (f onWrite) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}

func TestRunPassesOutputToFiles(t *testing.T) {
	t.Parallel()
	p, _ := policy()
	file := testkit.Must(os.Create(filepath.Join(t.TempDir(), "log")))(t)
	t.Cleanup(func() { assert.NoError(t, file.Close()) })
	newCmd := scripts([]string{"err:one", "exit:75"}, []string{"err:two", "exit:77"})
	err := retryexec.Run(t.Context(), p, with(newCmd, func(cmd *exec.Cmd) { cmd.Stderr = file }))
	exit := testkit.As[*exec.ExitError](t, err)
	assert.Equal(t, "two\n", string(exit.Stderr), "of the last attempt only")
	log := testkit.Must(os.ReadFile(file.Name()))(t)
	assert.Equal(t, "one\ntwo\n", string(log))
}

// TestRunWithOneWriterForAll fails under the race detector if both streams are
// written at once, and if their order is lost.
func TestRunWithOneWriterForAll(t *testing.T) {
	t.Parallel()
	var script, want []string
	for i := range 100 {
		script = append(script, fmt.Sprintf("out:%d", i), fmt.Sprintf("err:%d", i))
		want = append(want, fmt.Sprintf("%d\n%d\n", i, i))
	}
	var all bytes.Buffer
	err := retryexec.Run(t.Context(), &retry.Policy{MaxAttempts: 1}, with(commands(append(script, "exit:77")...), func(cmd *exec.Cmd) {
		cmd.Stdout, cmd.Stderr = &all, &all
	}))
	assert.Equal(t, strings.Join(want, ""), all.String())
	exit := testkit.As[*exec.ExitError](t, err)
	assert.Equal(t, strings.Join(want, ""), string(exit.Stderr))

	// A writer that cannot be compared does not cause a panic.
	require.NoError(t, retryexec.Run(t.Context(), nil, with(commands(), func(cmd *exec.Cmd) {
		cmd.Stdout, cmd.Stderr = onWrite(func([]byte) {}), onWrite(func([]byte) {})
	})))
}

func TestRunKeepsBothEndsOfStderr(t *testing.T) {
	t.Parallel()
	const size = 8 << 10
	for _, n := range []int{0, 1, size - 100, size, 2 * size, 2*size - 4, 1 << 20, 1<<20 + 5} {
		p, recorder := policy()
		var all bytes.Buffer
		err := retryexec.Run(t.Context(), p, with(commands("err:forbidden", fmt.Sprintf("fill:%d", n), "err: host key verification failed", "exit:1"), func(cmd *exec.Cmd) {
			cmd.Stderr = &all
		}))
		exit := testkit.As[*exec.ExitError](t, err)
		want := all.String()
		if len(want) > 2*size {
			want = want[:size] + "\n[...]\n" + want[len(want)-size:]
		}
		assert.Equal(t, want, string(exit.Stderr), "%d", n)
		assert.Equal(t, []string{"final stderr_auth"}, categories(recorder))
	}
}

func TestOutput(t *testing.T) {
	t.Parallel()
	p, _ := policy()
	out, err := retryexec.Output(t.Context(), p, scripts(
		[]string{"out:half of a long answer", "exit:1"},
		[]string{"out:all", "err:noise"},
	))
	require.NoError(t, err)
	assert.Equal(t, "all\n", string(out), "of the last attempt only")

	p, _ = policy()
	out, err = retryexec.Output(t.Context(), p, scripts([]string{"out:first", "exit:1"}, []string{"out:second", "err:x", "exit:77"}))
	exit := testkit.As[*exec.ExitError](t, err)
	assert.Equal(t, "second\n", string(out), "beside the error")
	assert.Equal(t, "x\n", string(exit.Stderr))

	out, err = retryexec.Output(t.Context(), nil, with(commands("out:x"), func(cmd *exec.Cmd) { cmd.Stdout = io.Discard }))
	require.EqualError(t, err, "retryexec: Output needs Cmd.Stdout, which newCmd has set")
	assert.Empty(t, out)
}

func TestClean(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, stderr, want string }{
		{"nothing", "", ""},
		{"text", "Timed OUT\r\n", "timed out\r\n"},
		{"other letters stay", "ÄÖ İ \u212a \xff", "ÄÖ İ \u212a \xff"},
		{"color", "\x1b[1;31mtimed\x1b[0m out", "timed out"},
		{"cursor", "\x1b[2K\x1b[1Gtimed out\x1b[?25h", "timed out"},
		{"intermediates", "\x1b[0 qtimed\x1b[!p out", "timed out"},
		{"title, BEL", "\x1b]0;connection reset\atimed out", "timed out"},
		{"title, ST", "\x1b]0;connection reset\x1b\\timed out", "timed out"},
		{"link", "\x1b]8;;https://x/\x1b\\timed\x1b]8;;\x1b\\ out", "timed out"},
		{"device control", "\x1bPq#0;2\x1b\\timed out", "timed out"},
		{"other strings", "\x1bXa\x1b\\\x1b^b\x1b\\\x1b_c\x1b\\timed out", "timed out"},
		{"character set", "\x1b(Btimed out\x1b)0", "timed out"},
		{"two characters", "\x1b7timed\x1b8 out\x1b=\x1b>\x1bM", "timed out"},
		{"unfinished string ends with its line", "\x1b]0;title\ntimed out", "\ntimed out"},
		{"unfinished string at the end", "timed out\x1b]0;title", "timed out"},
		{"unfinished CSI", "timed out\x1b[1;3", "timed out"},
		{"broken CSI", "\x1b[1;\ntimed out", "\ntimed out"},
		{"two ESC", "\x1b\x1b[1mtimed out", "timed out"},
		{"ESC at the end", "timed out\x1b", "timed out"},
		{"ESC before a line feed", "\x1b\ntimed out", "\ntimed out"},
	}
	for _, tt := range tests {
		assert.Equal(t, tt.want, retryexec.Clean(tt.stderr), tt.name)
	}
}

func TestLastLine(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, stderr, want string }{
		{"nothing", "", ""},
		{"blank", " \r\n\t\n\x1b[0m\n\u00a0\u2028\n\x00", ""},
		{"one line", "Connection lost", "Connection lost"},
		{"the last of several", "one\ntwo\n", "two"},
		{"the last that is not blank", "one\n two \n\n\t\r\n", "two"},
		{"Windows", "one\r\ntwo\r\n", "two"},
		{"progress", "fatal: 10%\rfatal: 20%\rfatal: stopped", "fatal: stopped"},
		{"progress that is wiped", "fatal\r     \r", "fatal"},
		{"color, and its end on a line of its own", "\x1b[31mfatal\x1b[0m: x\n\x1b[0m\n", "fatal: x"},
		{"title", "one\x1b]0;title\a two", "one two"},
		{"control characters", "a\tb\x00c\ad\x7fe\x9bf\u0085g", "a b c d e\ufffdf g"},
		{"line and paragraph separators", "a\u2028b\u2029c", "a b c"},
		{"a text that turns around", "a\u202eb\u2066c\u200bd", "a b c d"},
		{"not UTF-8", "caf\xe9 \xff\xfe", "caf\ufffd \ufffd\ufffd"},
		{"all of UTF-8", "Größe 日本 🙂", "Größe 日本 🙂"},
		{"as long as may be", "x\n" + strings.Repeat("y", 500), strings.Repeat("y", 500)},
		{"too long", strings.Repeat("y", 501), strings.Repeat("y", 497) + "…"},
		{"cut within a character", "x" + strings.Repeat("é", 250), "x" + strings.Repeat("é", 248) + "…"},
		{"long when it is fit to print", strings.Repeat("\xff", 167), strings.Repeat("\ufffd", 165) + "…"},
	}
	for _, tt := range tests {
		assert.Equal(t, tt.want, retryexec.LastLine(tt.stderr), tt.name)
	}
}
