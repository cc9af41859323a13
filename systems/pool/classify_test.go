package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"

	"github.com/seed-5ff3c98e/retry/systems/shared/dbtest"
)

// TestClassify checks the required table of classes, with its contradictions.
func TestClassify(t *testing.T) {
	t.Parallel()
	const retriable, nonRetriable, unknown = retry.Retryable, retry.Final, retry.Unknown
	boom := errors.New("boom")
	tests := []struct {
		name   string
		err    error
		code   int
		stderr string
		want   retry.Class
	}{
		{"deadline exceeded", context.DeadlineExceeded, -1, "", retriable},
		{"deadline exceeded, wrapped", fmt.Errorf("run: %w", context.DeadlineExceeded), -1, "", retriable},
		{"exit code 1", nil, 1, "", retriable},
		{"exit code 1 with another text", nil, 1, "boom", retriable},
		{"timeout", nil, 1, "read: timeout", retriable},
		{"timeout, without an exit code", nil, -1, "read: timeout", retriable},
		{"rate limit", nil, -1, "API rate limit exceeded", retriable},
		{"connection", nil, -1, "connection refused", retriable},

		{"exit code 2", nil, 2, "", nonRetriable},
		{"exit code 75", nil, 75, "", nonRetriable},
		{"exit code 127", nil, 127, "", nonRetriable},
		{"exit code 1 with permission denied", nil, 1, "permission denied", nonRetriable},
		{"exit code 1 with invalid", nil, 1, "invalid task", nonRetriable},
		{"permission denied, without an exit code", nil, -1, "permission denied", nonRetriable},
		{"invalid, without an exit code", nil, -1, "invalid task", nonRetriable},
		{"not found, without an exit code", nil, -1, "not found", nonRetriable},
		{"case does not matter", nil, 1, "Permission DENIED", nonRetriable},

		{"an error without an exit code", boom, -1, "", unknown},
		{"a signal", nil, -1, "", unknown},
		{"another text without an exit code", nil, -1, "boom", unknown},

		{"contradiction: exit code 1 with not found", nil, 1, "not found", nonRetriable},
		{"contradiction: exit code 2 with timeout", nil, 2, "timeout", nonRetriable},
		{"contradiction: exit code 75 with connection", nil, 75, "connection refused", nonRetriable},
		{"contradiction: invalid connection", nil, 1, "invalid connection", nonRetriable},
		{"contradiction: deadline with invalid", context.DeadlineExceeded, -1, "invalid", retriable},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.want, rules.ClassifyExit(test.err, test.code, test.stderr).Class)
		})
	}
}

func TestClassifyCommands(t *testing.T) {
	t.Parallel()
	tests := []struct {
		command  string
		class    retry.Class
		category string
		text     string
	}{
		{"exit 1", retry.Retryable, "exit_1", "exit status 1"},
		{"echo one >&2; echo connection lost >&2; exit 1", retry.Retryable, "stderr_transient", "exit status 1: connection lost"},
		{"echo file not found >&2; echo two >&2; exit 1", retry.Final, "stderr_final", "exit status 1: two"},
		{"echo connection lost; exit 3", retry.Final, "exit_3", "exit status 3"},
		{"no-such-program-4711", retry.Final, "stderr_final", ""},
		{"kill -9 $$", retry.Unknown, "signal_killed", "signal: killed"},
		{"sleep 60", retry.Retryable, "timeout", "attempt timed out: signal: killed"},
		{"echo invalid >&2; sleep 60", retry.Retryable, "timeout", "attempt timed out: signal: killed: invalid"},
	}
	for _, test := range tests {
		t.Run(test.command, func(t *testing.T) {
			t.Parallel()
			timeout := time.Minute
			if test.category == "timeout" {
				timeout = 100 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			_, err := shell(io.Discard)(ctx, &Node{Command: test.command})
			if test.text != "" {
				require.EqualError(t, err, test.text)
			}
			assert.Equal(t, retry.Verdict{Class: test.class, Category: test.category}, rules.Classify(err))
		})
	}
}

func TestShell(t *testing.T) {
	t.Parallel()
	once := filepath.Join(t.TempDir(), "once")
	var out dbtest.Output
	output, err := shell(&out)(t.Context(), &Node{Name: "a", Command: "echo hello; echo why >&2; printf end"})
	require.NoError(t, err)
	assert.Equal(t, "hello\nend", output, "standard output, as it is")
	assert.ElementsMatch(t, []string{"a          | hello", "a          | end", "a          | why"},
		strings.Split(strings.TrimSpace(out.String()), "\n"))

	output, err = shell(&out)(t.Context(), &Node{Command: "echo x | tee -a " + once + "; exit 1"})
	require.Error(t, err)
	assert.Equal(t, "x\n", output, "of a failure too")
	text, err := os.ReadFile(once)
	require.NoError(t, err)
	assert.Equal(t, "x\n", string(text), "the pool retries, not the shell")

	before := out.String()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = shell(&out)(ctx, &Node{Command: "echo again"})
	assert.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, before, out.String(), "it was not started")
}
