package retryexec_test

import (
	"context"
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retryexec"
)

// TestErrorSaysWhy is the text of errors: it ends with the last line of standard
// error, wherever else that goes.
func TestErrorSaysWhy(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		script  []string
		prepare func(cmd *exec.Cmd)
		want    string
	}{
		{"silent", []string{"out:a result", "exit:1"}, nil, "exit status 1"},
		{"blank lines", []string{"err:", "err: ", "exit:1"}, nil, "exit status 1"},
		{"one line", []string{"err:boom", "exit:1"}, nil, "exit status 1: boom"},
		{"several", []string{"err:one", "err:two", "err:", "exit:3"}, nil, "exit status 3: two"},
		{"output after it", []string{"err:boom", "out:bye", "exit:1"}, nil, "exit status 1: boom"},
		{"long ago", []string{"err:boom", "fill:9000", "exit:1"}, nil, "exit status 1: " + strings.Repeat("x", 497) + "…"},
		{"colors", []string{"err:\x1b[31mboom\x1b[0m\a", "exit:1"}, nil, "exit status 1: boom"},
		{
			"a writer of the caller",
			[]string{"err:boom", "exit:1"},
			func(cmd *exec.Cmd) { cmd.Stderr = io.Discard }, "exit status 1: boom",
		},
		{
			"one writer for all",
			[]string{"err:boom", "out:bye", "exit:1"},
			func(cmd *exec.Cmd) { cmd.Stdout, cmd.Stderr = io.Discard, io.Discard }, "exit status 1: bye",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			newCmd := with(commands(tt.script...), func(cmd *exec.Cmd) {
				if tt.prepare != nil {
					tt.prepare(cmd)
				}
			})
			require.EqualError(t, retryexec.Once(t.Context(), newCmd), tt.want)

			p, _ := policy()
			p.MaxAttempts = 1
			err := retryexec.Run(t.Context(), p, newCmd)
			require.EqualError(t, err, "failed after 1 attempt: "+tt.want)
			require.ErrorAs(t, err, new(*exec.ExitError))
		})
	}
}

// TestErrorTextOfEveryEnd checks failures without an exit code.
func TestErrorTextOfEveryEnd(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := retryexec.Run(ctx, nil, with(commands("err:waiting for x", "hang"), func(cmd *exec.Cmd) {
		cmd.Stderr = onWrite(func([]byte) { cancel() })
	}))
	exit := testkit.As[*exec.ExitError](t, err)
	require.EqualError(t, err, "failed after 1 attempt (context canceled): "+exit.Error()+": waiting for x")

	err = retryexec.Once(t.Context(), retryexec.Command("retryexec-no-such-program"))
	assert.Regexp(t, `^exec: "retryexec-no-such-program": executable file not found in [$%]PATH%?$`, err.Error())
}

// TestErrorTextIsNotJudged: rules match standard error, and the text of the error
// has only a part of it.
func TestErrorTextIsNotJudged(t *testing.T) {
	t.Parallel()
	err := retryexec.Once(t.Context(), commands("err:connection refused", "err:boom", "exit:1"))
	require.EqualError(t, err, "exit status 1: boom")
	exit := testkit.As[*exec.ExitError](t, err)
	want := verdict(retry.Retryable, "stderr_transient")
	assert.Equal(t, want, retryexec.Classify(err))
	assert.Equal(t, want, retryexec.Classify(exit), "the same without the text")
	assert.Equal(t, retry.Verdict{}, retry.Classify(err), "without this package")

	exit.Stderr = nil
	require.EqualError(t, err, "exit status 1", "who takes it out there takes it out of the text")
	assert.Equal(t, verdict(retry.Unknown, "exit_1"), retryexec.Classify(err))
}
