package retryexec_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retryexec"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// policy makes three attempts without waiting, and tells of them.
func policy() (*retry.Policy, *retrytest.Recorder) {
	recorder := &retrytest.Recorder{}
	return &retry.Policy{Clock: &retrytest.Clock{}, Jitter: retry.NoJitter, Observer: recorder.Observer()}, recorder
}

// categories returns the categories of the failures of a call.
func categories(r *retrytest.Recorder) []string {
	var list []string
	for _, e := range r.Events() {
		if e.Kind != retry.Succeeded {
			list = append(list, e.Verdict.Class.String()+" "+e.Verdict.Category)
		}
	}
	return list
}

func TestRunSucceeds(t *testing.T) {
	t.Parallel()
	p, recorder := policy()
	require.NoError(t, retryexec.Run(t.Context(), p, commands("err:permission denied")))
	assert.Len(t, recorder.Events(), 1)
	require.NoError(t, retryexec.Run(t.Context(), nil, commands("exit:0")))
}

func TestRunAsksThePolicysClassifierFirst(t *testing.T) {
	t.Parallel()
	p, recorder := policy()
	p.Classifier = retryexec.Curl().Classify
	err := retryexec.Run(t.Context(), p, scripts(
		[]string{"err:curl (7) permission denied", "exit:7"}, // Curl
		[]string{"err:timed out", "exit:94"},                 // not in Curl
		[]string{"err:timed out", "exit:3"},                  // Curl
	))
	assert.Error(t, err)
	assert.Equal(t, []string{"retryable exit_7", "retryable stderr_transient", "final exit_3"}, categories(recorder))

	p, recorder = policy()
	p.Classifier = retryexec.Simple().Classify
	assert.Error(t, retryexec.Run(t.Context(), p, scripts(
		[]string{"err:forbidden", "exit:1"}, // final for Default
		[]string{"exit:2"},                  // unknown for Default
	)))
	assert.Equal(t, []string{"unknown exit_1", "final exit_2"}, categories(recorder))
}

// TestRunKeepsOverridesAndNonIdempotent checks that a policy applies both to the
// verdicts.
func TestRunKeepsOverridesAndNonIdempotent(t *testing.T) {
	t.Parallel()
	p, recorder := policy()
	p.Overrides = map[string]retry.Override{"exit_1": {MaxAttempts: 2}}
	assert.Error(t, retryexec.Run(t.Context(), p, commands("exit:1")))
	assert.Len(t, recorder.Events(), 2)

	p, recorder = policy()
	p.NonIdempotent = true
	assert.ErrorIs(t, retryexec.Run(t.Context(), p, commands("exit:75")), retry.StopMaybeApplied)
	assert.Len(t, recorder.Events(), 1)
}

func TestOnce(t *testing.T) {
	t.Parallel()
	require.NoError(t, retryexec.Once(t.Context(), commands("exit:0")))
	err := retryexec.Once(t.Context(), scripts([]string{"err:boom", "exit:3"}, []string{"exit:0"}))
	exit := testkit.As[*exec.ExitError](t, err)
	assert.Equal(t, 3, exit.ExitCode())
	assert.Equal(t, "boom\n", string(exit.Stderr))
	require.Error(t, retryexec.Once(t.Context(), nil))

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err = retryexec.Once(ctx, commands("hang"))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Equal(t, "timeout", retryexec.Classify(err).Category)
}

func TestPanicsPassThrough(t *testing.T) {
	t.Parallel()
	assert.PanicsWithValue(t, "boom", func() {
		_ = retryexec.Run(t.Context(), nil, func(context.Context) *exec.Cmd { panic("boom") })
	})
}

// TestCancel is the vector (-1 SIGKILL, context of the caller dead): the error
// is the context's, even if the Cmd has another context or none.
func TestCancel(t *testing.T) {
	t.Parallel()
	for name, newCmd := range map[string]func(context.Context) *exec.Cmd{
		"CommandContext": func(ctx context.Context) *exec.Cmd { return exec.CommandContext(ctx, os.Args[0]) },
		"another one":    func(context.Context) *exec.Cmd { return exec.CommandContext(context.Background(), os.Args[0]) },
		"Command":        func(context.Context) *exec.Cmd { return exec.Command(os.Args[0]) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, recorder := policy()
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			cause := errors.New("shutdown")
			err := retryexec.Run(ctx, p, with(newCmd, func(cmd *exec.Cmd) {
				cmd.Env = environ("out:ready", "hang")
				cmd.Stdout = onWrite(func([]byte) { cancel(cause) })
			}))
			end := testkit.As[*retry.Error](t, err)
			assert.Equal(t, retry.StopCanceled, end.Stop)
			assert.Equal(t, 1, end.Attempts)
			assert.ErrorIs(t, err, cause)
			assert.NotErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorAs(t, err, new(*exec.ExitError))
			assert.Len(t, recorder.Events(), 1)
		})
	}
}

// TestAttemptTimeout is trap T4: a killed process does not say why.
func TestAttemptTimeout(t *testing.T) {
	t.Parallel()
	for name, classifier := range map[string]retry.Classifier{
		"default": nil,
		"simple":  retryexec.Simple().Classify,
		"final":   retryexec.Profile{{Verdict: retry.Verdict{Class: retry.Final}}}.Classify,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := &retrytest.Clock{}
			p, recorder := policy()
			p.Clock, p.AttemptTimeout, p.Classifier = clock, time.Minute, classifier
			newCmd := scripts([]string{"out:ready", "hang"}, nil)
			require.NoError(t, retryexec.Run(t.Context(), p, with(newCmd, func(cmd *exec.Cmd) {
				cmd.Stdout = onWrite(func([]byte) { clock.Advance(time.Minute) })
			})))
			assert.Equal(t, []string{"retryable timeout"}, categories(recorder))
			err := recorder.Events()[0].Err
			exit := testkit.As[*exec.ExitError](t, err)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
			assert.Equal(t, "attempt timed out: "+exit.Error(), err.Error())
			assert.Equal(t, verdict(retry.Retryable, "timeout"), retry.Classify(err), "without this package")
		})
	}
}

// TestCommandPassesOutputThrough runs a program that runs Command, because the
// output of the tests themselves belongs to the go command.
func TestCommandPassesOutputThrough(t *testing.T) {
	t.Parallel()
	tests := []struct{ verb, stdout string }{
		{"run", "text\nerror: failed after 1 attempt: exit status 3: noise\n"},
		{"once", "text\nerror: exit status 3: noise\n"},
		{"output", "output \"text\\n\"\nerror: failed after 1 attempt: exit status 3: noise\n"},
	}
	for _, tt := range tests {
		t.Run(tt.verb, func(t *testing.T) {
			t.Parallel()
			cmd := command(t.Context(), tt.verb, "out:text", "err:noise", "exit:3")
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			require.NoError(t, cmd.Run())
			assert.Equal(t, tt.stdout, stdout.String())
			assert.Equal(t, "noise\n", stderr.String())
		})
	}
}

func TestCommandIsNewEachTime(t *testing.T) {
	t.Parallel()
	args := []string{"a"}
	newCmd := retryexec.Command("x", args...)
	args[0] = "b"
	first := newCmd(t.Context())
	assert.NotSame(t, first, newCmd(t.Context()))
	assert.Equal(t, []string{"x", "a"}, first.Args)
	assert.Equal(t, os.Stdout, first.Stdout)
	assert.Equal(t, os.Stderr, first.Stderr)
	assert.Nil(t, first.Stdin)
}

// TestNothingToRun are mistakes in newCmd. All are final.
func TestNothingToRun(t *testing.T) {
	t.Parallel()
	used := command(t.Context())
	require.NoError(t, used.Run())
	for _, tt := range []struct {
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
	} {
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

// TestStartErrors provokes failures to start a command.
func TestStartErrors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	require.NoError(t, os.WriteFile(plain, []byte("no program"), 0o600))
	for _, tt := range []struct {
		name   string
		newCmd func(context.Context) *exec.Cmd
		is     error
	}{
		{"not in the path", retryexec.Command("retryexec-no-such-program"), exec.ErrNotFound},
		{"no such file", retryexec.Command(filepath.Join(dir, "none")), fs.ErrNotExist},
		{"no such directory", with(commands(), func(cmd *exec.Cmd) { cmd.Dir = filepath.Join(dir, "none") }), fs.ErrNotExist},
	} {
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
