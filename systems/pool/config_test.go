package main

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
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
	tests := []struct {
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
	}
	for _, test := range tests {
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
