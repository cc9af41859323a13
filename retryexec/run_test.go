package retryexec_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryexec"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// childEnv makes the test binary a command that does what its value says.
const childEnv = "RETRYEXEC_CHILD"

// child obeys a script: words to standard output (out:…) and standard error
// (err:…, fill:… bytes), and an exit code (exit:…); copy copies standard input,
// hang never ends.
func child(script string) int {
	for line := range strings.Lines(script) {
		verb, arg, _ := strings.Cut(strings.TrimSpace(line), ":")
		n, _ := strconv.Atoi(arg)
		switch verb {
		case "out":
			fmt.Println(arg)
		case "err":
			fmt.Fprintln(os.Stderr, arg)
		case "fill":
			fmt.Fprint(os.Stderr, strings.Repeat("x", n))
		case "copy":
			_, _ = io.Copy(os.Stdout, os.Stdin)
		case "hang":
			time.Sleep(time.Hour) // an empty select would be a deadlock
		case "exit":
			return n
		}
	}
	return 0
}

// command makes the test binary run a script.
func command(ctx context.Context, script ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0])
	// The race detector would let every child sleep for a second at its end.
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", childEnv+"="+strings.Join(script, "\n"))
	return cmd
}

// scripts makes one command after the other, the last of them again and again.
func scripts(list ...[]string) func(context.Context) *exec.Cmd {
	attempt := 0
	return func(ctx context.Context) *exec.Cmd {
		script := list[min(attempt, len(list)-1)]
		attempt++
		return command(ctx, script...)
	}
}

// policy makes three attempts without waiting, and tells of them.
func policy() (*retry.Policy, *retrytest.Recorder) {
	recorder := &retrytest.Recorder{}
	return &retry.Policy{Clock: &retrytest.Clock{}, Jitter: retry.NoJitter, Observer: recorder}, recorder
}

// categories are those of the failures of a call.
func categories(r *retrytest.Recorder) []string {
	var list []string
	for _, e := range r.Events() {
		if e.Kind != retry.Succeeded {
			list = append(list, e.Verdict.Class.String()+" "+e.Verdict.Category)
		}
	}
	return list
}

// onWrite is a writer that calls a function.
type onWrite func(p []byte)

func (f onWrite) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}

func TestRunSucceeds(t *testing.T) {
	t.Parallel()
	p, recorder := policy()
	require.NoError(t, retryexec.Run(t.Context(), p, scripts([]string{"err:permission denied"})))
	assert.Len(t, recorder.Events(), 1)
	require.NoError(t, retryexec.Run(t.Context(), nil, scripts([]string{"exit:0"})))
}

func TestRunRetries(t *testing.T) {
	t.Parallel()
	clock := &retrytest.Clock{}
	p, recorder := policy()
	p.Clock = clock
	require.NoError(t, retryexec.Run(t.Context(), p, scripts(
		[]string{"err:boom", "exit:1"},
		[]string{"err:connection refused", "exit:1"},
		[]string{"exit:0"},
	)))
	assert.Equal(t, []string{"unknown exit_1", "retryable stderr_transient"}, categories(recorder))
	assert.Equal(t, []time.Duration{2 * time.Second, 4 * time.Second}, clock.Sleeps())
}

func TestRunGivesUp(t *testing.T) {
	t.Parallel()
	p, _ := policy()
	p.Name = "fetch"
	err := retryexec.Run(t.Context(), p, scripts([]string{"err:timed out", "exit:75"}))
	require.EqualError(t, err, "fetch failed after 3 attempts: exit status 75")
	assert.ErrorIs(t, err, retry.ErrAttemptsExhausted)
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	assert.Equal(t, 75, exit.ExitCode())
	assert.Equal(t, "timed out\n", strings.ReplaceAll(string(exit.Stderr), "\r", ""))
}

func TestRunReturnsFinalErrorsAsTheyAre(t *testing.T) {
	t.Parallel()
	p, recorder := policy()
	err := retryexec.Run(t.Context(), p, scripts([]string{"err:Permission denied (publickey).", "exit:128"}))
	_, ok := err.(*exec.ExitError)
	assert.True(t, ok, "%T", err)
	assert.Equal(t, []string{"final stderr_auth"}, categories(recorder))
}

func TestRunAsksThePolicysClassifierFirst(t *testing.T) {
	t.Parallel()
	p, recorder := policy()
	p.Classifier = retryexec.Curl().ClassifyError
	err := retryexec.Run(t.Context(), p, scripts(
		[]string{"err:curl (7) permission denied", "exit:7"}, // Curl
		[]string{"err:timed out", "exit:94"},                 // not in Curl
		[]string{"err:timed out", "exit:3"},                  // Curl
	))
	assert.Error(t, err)
	assert.Equal(t, []string{"retryable exit_7", "retryable stderr_transient", "final exit_3"}, categories(recorder))

	p, recorder = policy()
	p.Classifier = retryexec.Simple().ClassifyError
	assert.Error(t, retryexec.Run(t.Context(), p, scripts(
		[]string{"err:forbidden", "exit:1"}, // final for Default
		[]string{"exit:2"},                  // unknown for Default
	)))
	assert.Equal(t, []string{"unknown exit_1", "final exit_2"}, categories(recorder))
}

// TestRunKeepsOverridesAndNonIdempotent is about what a policy makes of verdicts.
func TestRunKeepsOverridesAndNonIdempotent(t *testing.T) {
	t.Parallel()
	p, recorder := policy()
	p.Overrides = map[string]retry.Override{"exit_1": {MaxAttempts: 2}}
	assert.Error(t, retryexec.Run(t.Context(), p, scripts([]string{"exit:1"})))
	assert.Len(t, recorder.Events(), 2)

	p, recorder = policy()
	p.NonIdempotent = true
	assert.ErrorIs(t, retryexec.Run(t.Context(), p, scripts([]string{"exit:75"})), retry.ErrMaybeApplied)
	assert.Len(t, recorder.Events(), 1)
}

func TestRunPassesOutputThrough(t *testing.T) {
	t.Parallel()
	p, _ := policy()
	var stdout, stderr bytes.Buffer
	newCmd := scripts([]string{"out:1", "err:one", "exit:1"}, []string{"out:2", "err:two"})
	require.NoError(t, retryexec.Run(t.Context(), p, func(ctx context.Context) *exec.Cmd {
		cmd := newCmd(ctx)
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		return cmd
	}))
	assert.Equal(t, "1\n2\n", stdout.String())
	assert.Equal(t, "one\ntwo\n", stderr.String())
}

func TestRunPassesOutputToFiles(t *testing.T) {
	t.Parallel()
	p, _ := policy()
	file, err := os.Create(filepath.Join(t.TempDir(), "log"))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, file.Close()) })
	newCmd := scripts([]string{"err:one", "exit:75"}, []string{"err:two", "exit:77"})
	err = retryexec.Run(t.Context(), p, func(ctx context.Context) *exec.Cmd {
		cmd := newCmd(ctx)
		cmd.Stderr = file
		return cmd
	})
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	assert.Equal(t, "two\n", string(exit.Stderr), "of the last attempt only")
	log, err := os.ReadFile(file.Name())
	require.NoError(t, err)
	assert.Equal(t, "one\ntwo\n", string(log))
}

// TestRunStreams sees the output while the command runs, not after it.
func TestRunStreams(t *testing.T) {
	t.Parallel()
	for _, to := range []string{"out", "err"} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		err := retryexec.Run(ctx, nil, func(ctx context.Context) *exec.Cmd {
			cmd := command(ctx, to+":ready", "hang")
			cmd.Stdout = onWrite(func([]byte) { cancel() })
			cmd.Stderr = onWrite(func([]byte) { cancel() })
			return cmd
		})
		assert.ErrorIs(t, err, context.Canceled)
	}
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
	err := retryexec.Run(t.Context(), &retry.Policy{MaxAttempts: 1}, func(ctx context.Context) *exec.Cmd {
		cmd := command(ctx, append(script, "exit:77")...)
		cmd.Stdout, cmd.Stderr = &all, &all
		return cmd
	})
	assert.Equal(t, strings.Join(want, ""), all.String())
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	assert.Equal(t, strings.Join(want, ""), string(exit.Stderr))

	// A writer that cannot be compared is no reason to panic.
	require.NoError(t, retryexec.Run(t.Context(), nil, func(ctx context.Context) *exec.Cmd {
		cmd := command(ctx)
		cmd.Stdout, cmd.Stderr = onWrite(func([]byte) {}), onWrite(func([]byte) {})
		return cmd
	}))
}

func TestRunKeepsTheEndOfStderr(t *testing.T) {
	t.Parallel()
	const size = 8 << 10
	for _, n := range []int{0, 1, size - 100, size, 2 * size, 2*size - 4, 1 << 20, 1<<20 + 5} {
		p, recorder := policy()
		var all bytes.Buffer
		err := retryexec.Run(t.Context(), p, func(ctx context.Context) *exec.Cmd {
			cmd := command(ctx, "err:forbidden", fmt.Sprintf("fill:%d", n), "err: host key verification failed", "exit:1")
			cmd.Stderr = &all
			return cmd
		})
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
		written := all.Bytes()
		assert.Equal(t, string(written[max(len(written)-size, 0):]), string(exit.Stderr), "%d", n)
		assert.Equal(t, []string{"final stderr_auth"}, categories(recorder))
	}
}

func TestRunWithAWriterThatFails(t *testing.T) {
	t.Parallel()
	p, _ := policy()
	p.MaxAttempts = 1
	err := retryexec.Run(t.Context(), p, func(ctx context.Context) *exec.Cmd {
		cmd := command(ctx, "err:boom")
		cmd.Stderr = failingWriter{}
		return cmd
	})
	assert.ErrorIs(t, err, errWrite)
}

var errWrite = errors.New("disk on fire")

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errWrite }

func TestRunWithInput(t *testing.T) {
	t.Parallel()
	p, _ := policy()
	var stdout bytes.Buffer
	newCmd := scripts([]string{"copy", "exit:1"}, []string{"copy"})
	require.NoError(t, retryexec.Run(t.Context(), p, func(ctx context.Context) *exec.Cmd {
		cmd := newCmd(ctx)
		cmd.Stdin, cmd.Stdout = strings.NewReader("input\n"), &stdout
		return cmd
	}))
	assert.Equal(t, strings.Repeat("input\n", 2), stdout.String(), "each attempt reads all of it")
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
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	assert.Equal(t, "second\n", string(out), "beside the error")
	assert.Equal(t, "x\n", string(exit.Stderr))

	out, err = retryexec.Output(t.Context(), nil, func(ctx context.Context) *exec.Cmd {
		cmd := command(ctx, "out:x")
		cmd.Stdout = io.Discard
		return cmd
	})
	require.EqualError(t, err, "retryexec: Output needs Cmd.Stdout, which newCmd has set")
	assert.Empty(t, out)
}

// TestNothingToRun are mistakes in newCmd. All are final.
func TestNothingToRun(t *testing.T) {
	t.Parallel()
	used := command(t.Context())
	require.NoError(t, used.Run())
	tests := []struct {
		name   string
		newCmd func(context.Context) *exec.Cmd
		want   string
	}{
		{"no function", nil, "retryexec: newCmd is nil"},
		{"no command", func(context.Context) *exec.Cmd { return nil }, "retryexec: newCmd returned nil"},
		{
			"used before", func(context.Context) *exec.Cmd { return used },
			"retryexec: newCmd must return a new Cmd: exec: already started",
		},
		{"empty", func(context.Context) *exec.Cmd { return &exec.Cmd{} }, "exec: no command"},
		{"Cancel without a context", func(ctx context.Context) *exec.Cmd {
			cmd := command(ctx)
			bare := exec.Command(cmd.Path)
			bare.Cancel = cmd.Cancel
			return bare
		}, "exec: command with a non-nil Cancel was not created with CommandContext"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, recorder := policy()
			err := retryexec.Run(t.Context(), p, tt.newCmd)
			require.EqualError(t, err, tt.want)
			assert.Equal(t, retry.Final, retry.Classify(err).Class)
			assert.LessOrEqual(t, len(recorder.Events()), 1)
		})
	}
}

func TestRunWithOneCmdForAllAttempts(t *testing.T) {
	t.Parallel()
	p, _ := policy()
	cmd := command(t.Context(), "exit:1")
	err := retryexec.Run(t.Context(), p, func(context.Context) *exec.Cmd { return cmd })
	assert.EqualError(t, err, "retryexec: newCmd must return a new Cmd: exec: already started")
}

func TestPanicsPassThrough(t *testing.T) {
	t.Parallel()
	assert.PanicsWithValue(t, "boom", func() {
		_ = retryexec.Run(t.Context(), nil, func(context.Context) *exec.Cmd { panic("boom") })
	})
}

// TestStartErrors provokes what keeps commands from starting.
func TestStartErrors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	require.NoError(t, os.WriteFile(plain, []byte("no program"), 0o600))
	tests := []struct {
		name   string
		newCmd func(context.Context) *exec.Cmd
		is     error
	}{
		{"not in the path", retryexec.Command("retryexec-no-such-program"), exec.ErrNotFound},
		{"no such file", retryexec.Command(filepath.Join(dir, "none")), fs.ErrNotExist},
		{"no such directory", func(ctx context.Context) *exec.Cmd {
			cmd := command(ctx)
			cmd.Dir = filepath.Join(dir, "none")
			return cmd
		}, fs.ErrNotExist},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, recorder := policy()
			err := retryexec.Run(t.Context(), p, tt.newCmd)
			require.ErrorIs(t, err, tt.is)
			assert.Equal(t, []string{"final not_found"}, categories(recorder))
			if tt.name == "no such directory" {
				assert.Contains(t, err.Error(), "chdir")
			}
		})
	}
}

func TestCommandKeepsItsArguments(t *testing.T) {
	t.Parallel()
	args := []string{"a"}
	newCmd := retryexec.Command("x", args...)
	args[0] = "b"
	assert.Equal(t, []string{"x", "a"}, newCmd(t.Context()).Args)
}

func TestContextDoneBefore(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	out, err := retryexec.Output(ctx, nil, func(context.Context) *exec.Cmd {
		panic("called")
	})
	assert.ErrorIs(t, err, context.Canceled)
	assert.Nil(t, out)
	var none context.Context
	assert.NoError(t, retryexec.Run(none, nil, scripts(nil)))
}

// TestCancel is the vector (-1 SIGKILL, context of the caller dead): the error
// is that of the context. The second way of making the Cmd knows of no context.
func TestCancel(t *testing.T) {
	t.Parallel()
	for name, contextOf := range map[string]func(context.Context) context.Context{
		"CommandContext": func(ctx context.Context) context.Context { return ctx },
		"another one":    func(context.Context) context.Context { return context.Background() },
		"Command":        nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, recorder := policy()
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			cause := errors.New("shutdown")
			err := retryexec.Run(ctx, p, func(ctx context.Context) *exec.Cmd {
				cmd := command(ctx, "out:ready", "hang")
				if contextOf == nil {
					env := cmd.Env
					cmd = exec.Command(cmd.Path)
					cmd.Env = env
				} else {
					env := cmd.Env
					cmd = exec.CommandContext(contextOf(ctx), cmd.Path)
					cmd.Env = env
				}
				cmd.Stdout = onWrite(func([]byte) { cancel(cause) })
				return cmd
			})
			var end *retry.Error
			require.ErrorAs(t, err, &end)
			assert.Equal(t, retry.StopCanceled, end.Stop)
			assert.Equal(t, 1, end.Attempts)
			assert.ErrorIs(t, err, cause)
			assert.NotErrorIs(t, err, context.DeadlineExceeded)
			var exit *exec.ExitError
			assert.ErrorAs(t, err, &exit)
			assert.Len(t, recorder.Events(), 1)
		})
	}
}

// TestAttemptTimeout is trap T4: a killed process does not say why.
func TestAttemptTimeout(t *testing.T) {
	t.Parallel()
	for name, classifier := range map[string]retry.Classifier{
		"default": nil,
		"simple":  retryexec.Simple().ClassifyError,
		"final":   retryexec.Profile{{Verdict: retry.Verdict{Class: retry.Final}}}.ClassifyError,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := &retrytest.Clock{}
			p, recorder := policy()
			p.Clock, p.AttemptTimeout, p.Classifier = clock, time.Minute, classifier
			newCmd := scripts([]string{"out:ready", "hang"}, nil)
			require.NoError(t, retryexec.Run(t.Context(), p, func(ctx context.Context) *exec.Cmd {
				cmd := newCmd(ctx)
				cmd.Stdout = onWrite(func([]byte) { clock.Advance(time.Minute) })
				return cmd
			}))
			assert.Equal(t, []string{"retryable timeout"}, categories(recorder))
			err := recorder.Events()[0].Err
			var exit *exec.ExitError
			require.ErrorAs(t, err, &exit)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			assert.Equal(t, "attempt timed out: "+exit.Error(), err.Error())
			assert.Equal(t, verdict(retry.Retryable, "timeout"), retry.Classify(err), "without this package")
		})
	}
}

func TestOnce(t *testing.T) {
	t.Parallel()
	require.NoError(t, retryexec.Once(t.Context(), scripts([]string{"exit:0"})))
	err := retryexec.Once(t.Context(), scripts([]string{"err:boom", "exit:3"}, []string{"exit:0"}))
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	assert.Equal(t, 3, exit.ExitCode())
	assert.Equal(t, "boom\n", string(exit.Stderr))
	require.Error(t, retryexec.Once(t.Context(), nil))

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err = retryexec.Once(ctx, scripts([]string{"hang"}))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Equal(t, "timeout", retryexec.ClassifyError(err).Category)
}
