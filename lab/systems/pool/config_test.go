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
	"github.com/seed-5ff3c98e/retry/lab/systems/shared/dbtest"
)

const nodes = "\nnodes:\n  - {name: a, command: 'true'}\n"

// TestConfigDefaults: the required defaults.
func TestConfigDefaults(t *testing.T) {
	t.Parallel()
	want := RetryConfig{MaxAttempts: 3, InitDelaySeconds: 2, Multiplier: 2, MaxDelaySeconds: 30}
	for _, text := range []string{
		"",
		"retry:",
		"retry: {}",
		"retry: {max_attempts: 3}",
		// The required form.
		"retry:\n  max_attempts: 3\n  init_delay_seconds: 2\n  multiplier: 2.0\n  max_delay_seconds: 30",
	} {
		c, err := parse([]byte(text + nodes))
		require.NoError(t, err, text)
		assert.Equal(t, want, c.Retry, text)
		assert.Equal(t, "task: 3 attempts, 2s ×2 ≤30s, no jitter: waits 2s, 4s", c.Retry.Policy(nil).String())
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	c, err := parse([]byte(`
workers: 2
timeout_seconds: 7
retry:
  max_attempts: 5
  init_delay_seconds: 1
  multiplier: 1.5
  max_delay_seconds: 3
nodes:
  - name: a
    command: make a
  - name: b
    command: make b
    needs: [a]
`))
	require.NoError(t, err)
	assert.Equal(t, &Config{
		Workers: 2, TimeoutSeconds: 7, Retry: RetryConfig{5, 1, 1.5, 3},
		Nodes: []Node{{Name: "a", Command: "make a"}, {Name: "b", Command: "make b", Needs: []string{"a"}}},
	}, c)
	p := c.Retry.Policy(nil)
	require.NoError(t, p.Validate())
	assert.Equal(t, "task: 5 attempts, 1s ×1.5 ≤3s, no jitter: waits 1s, 1.5s, 2.25s, 3s", p.String())
	_, err = parse([]byte("workers: 1000\ntimeout_seconds: 86400\nretry: {max_attempts: 1000, multiplier: 1000}" + nodes))
	assert.NoError(t, err, "as much as there may be")
}

// TestConfigErrors: each names the field and the value.
func TestConfigErrors(t *testing.T) {
	t.Parallel()
	const whole = ": must be a whole number from "
	for _, test := range []struct {
		text string
		want []string
	}{
		{"retry: {max_attempts: 0}" + nodes, []string{"retry.max_attempts: 0" + whole + "1 to 1000"}},
		{"retry: {max_attempts: -1}" + nodes, []string{"retry.max_attempts: -1" + whole}},
		{"retry: {max_attempts: 2.5}" + nodes, []string{"retry.max_attempts: 2.5" + whole}},
		{"retry: {max_attempts: 1001}" + nodes, []string{"retry.max_attempts: 1001" + whole}},
		{"retry: {init_delay_seconds: 0}" + nodes, []string{"retry.init_delay_seconds: 0" + whole + "1 to 86400"}},
		{"retry: {init_delay_seconds: .nan}" + nodes, []string{"retry.init_delay_seconds: NaN" + whole}},
		{"retry: {max_delay_seconds: 1e300}" + nodes, []string{"retry.max_delay_seconds: 1e+300" + whole}},
		{"retry: {multiplier: 0.5}" + nodes, []string{"retry.multiplier: 0.5: must be from 1 to 1000"}},
		{"retry: {multiplier: .nan}" + nodes, []string{"retry.multiplier: NaN: must be"}},
		{"retry: {multiplier: .inf}" + nodes, []string{"retry.multiplier: +Inf: must be"}},
		{"workers: 0" + nodes, []string{"workers: 0" + whole + "1 to 1000"}},
		{"timeout_seconds: -1" + nodes, []string{"timeout_seconds: -1" + whole + "0 to 86400"}},
		{"workers: 0\nretry: {max_attempts: 0, multiplier: 0}" + nodes, []string{"workers: 0:", "max_attempts: 0:", "multiplier: 0:"}},
		{"retry: {max_attempts: two}" + nodes, []string{"cannot unmarshal string", "max_attempts: two"}},
		{"retry: {max_atempts: 3}" + nodes, []string{`unknown field "max_atempts"`}},
		{"retry: {max_attempts: 3, max_attempts: 4}" + nodes, []string{`"max_attempts" already defined`}},
		// Not required: overrides per node.
		{"nodes: [{name: a, command: b, retry: {max_attempts: 5}}]", []string{`unknown field "retry"`}},
		{"retry: []" + nodes, []string{"retry: []"}},
		{"workers: 1", []string{"nodes: []: must not be empty"}},
		{"", []string{"nodes: []: must not be empty"}},
	} {
		t.Run(test.text, func(t *testing.T) {
			t.Parallel()
			_, err := parse([]byte(test.text))
			require.Error(t, err)
			for _, want := range test.want {
				assert.ErrorContains(t, err, want)
			}
		})
	}
}

// TestDelayFormula: delay = min(InitDelay * Multiplier^(attempt-1), MaxDelay).
func TestDelayFormula(t *testing.T) {
	t.Parallel()
	p := RetryConfig{100, 2, 2, 30}.Policy(nil)
	for i, want := range []float64{2, 4, 8, 16, 30, 30, 30} {
		low, high := p.Bounds(i + 1)
		assert.InDelta(t, want, low.Seconds(), 0)
		assert.InDelta(t, want, high.Seconds(), 0)
	}
	low, high := RetryConfig{3, 60, 2, 30}.Policy(nil).Bounds(1)
	assert.Equal(t, [2]time.Duration{30 * time.Second, 30 * time.Second}, [2]time.Duration{low, high}, "the cap is hard")
}

// TestUnknownIsDistinguishable: it is retried, but is not called Retryable.
func TestUnknownIsDistinguishable(t *testing.T) {
	t.Parallel()
	p := RetryConfig{3, 2, 2, 30}.Policy(nil)
	d := p.Next(retry.State{}, errors.New("boom"), time.Now())
	assert.True(t, d.Retry)
	assert.Equal(t, retry.Unknown, d.Verdict.Class)
}

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
