package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
)

func parsePolicy(t *testing.T, text string) *retryPolicy {
	t.Helper()
	var p *retryPolicy
	require.NoError(t, json.Unmarshal([]byte(text), &p))
	return p
}

// Section 13: should_retry with different policies and failure types.
func TestShouldRetry(t *testing.T) {
	t.Parallel()
	const (
		all      = `{"max_retries": 3, "initial_delay_secs": 10, "max_delay_secs": 120}`
		timeouts = `{"max_retries": 3, "initial_delay_secs": 10, "max_delay_secs": 120, "retry_on": ["timeout"]}`
		both     = `{"max_retries": 3, "retry_on": ["webhook_failure", "explicit"]}`
	)
	for _, tt := range []struct {
		name    string
		policy  string
		attempt int
		err     error
		want    time.Duration // 0 is no retry
	}{
		{"no policy", `null`, 0, &failure{trigger: timedOut}, 0},
		{"no policy, lost worker", `null`, 0, &failure{trigger: lost}, 5 * time.Second},
		{"no policy, lost workers", `null`, 2, &failure{trigger: lost}, 0},
		{"all, timeout", all, 0, &failure{trigger: timedOut}, 10 * time.Second},
		{"all, webhook", all, 1, &failure{trigger: webhookFailure}, 20 * time.Second},
		{"a Retry-After", all, 1, &failure{trigger: webhookFailure, after: time.Hour}, time.Hour},
		{"a short Retry-After", all, 1, &failure{trigger: webhookFailure, after: time.Second}, time.Second},
		{"all, explicit", all, 2, &failure{trigger: explicit}, 40 * time.Second},
		{"no retries left", all, 3, &failure{trigger: explicit}, 0},
		{"too many already", all, 4, &failure{trigger: explicit}, 0},
		{"listed", timeouts, 0, &failure{trigger: timedOut}, 10 * time.Second},
		{"not listed, webhook", timeouts, 0, &failure{trigger: webhookFailure}, 0},
		{"not listed, explicit", timeouts, 0, &failure{trigger: explicit}, 0},
		{"second of two", both, 0, &failure{trigger: explicit}, 5 * time.Second},
		{"not of two", both, 0, &failure{trigger: timedOut}, 0},
		{"lost worker is no trigger", timeouts, 0, &failure{trigger: lost}, 10 * time.Second},
		{"lost worker, no retries left", timeouts, 3, &failure{trigger: lost}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := parsePolicy(t, tt.policy).policy().Next(retry.State{Failures: tt.attempt}, tt.err, time.Now())
			assert.Equal(t, tt.want > 0, d.Retry)
			assert.Equal(t, tt.want, d.Delay)
		})
	}
}

// Section 13: the delay grows exponentially, up to its cap.
func TestBackoffDelay(t *testing.T) {
	t.Parallel()
	for policy, want := range map[string][]float64{
		`{"max_retries": 9}`: {5, 10, 20, 40, 80, 160, 300, 300, 300},
		`{"max_retries": 4, "initial_delay_secs": 10, "backoff_multiplier": 2.0, "max_delay_secs": 120}`:   {10, 20, 40, 80},
		`{"max_retries": 4, "initial_delay_secs": 10, "backoff_multiplier": 1.5, "max_delay_secs": 30}`:    {10, 15, 22.5, 30},
		`{"max_retries": 3, "initial_delay_secs": 7, "backoff_multiplier": 1, "max_delay_secs": 7}`:        {7, 7, 7},
		`{"max_retries": 3, "initial_delay_secs": 1, "backoff_multiplier": 1e300, "max_delay_secs": 3600}`: {1, 3600, 3600},
		`{"max_retries": 2, "initial_delay_secs": 2147483647, "max_delay_secs": 2147483647}`:               {2147483647, 2147483647},
		`{"max_retries": 2, "initial_delay_secs": 3, "max_delay_secs": 5, "retry_on": null}`:               {3, 5},
	} {
		p := parsePolicy(t, policy).policy()
		var got []float64
		for retry := range want {
			lo, hi := p.Bounds(retry + 1)
			assert.Equal(t, lo, hi, "no jitter")
			got = append(got, lo.Seconds())
		}
		assert.Equal(t, want, got, policy)
	}
}

// Section 1: the defaults, and that what is stored is what was sent.
func TestPolicyJSON(t *testing.T) {
	t.Parallel()
	p := parsePolicy(t, `{"max_retries": 3}`)
	assert.Equal(t, &retryPolicy{3, 5, 2, 300, nil}, p)
	p.RetryOn = []trigger{timedOut, explicit}
	text, err := json.Marshal(p)
	require.NoError(t, err)
	assert.JSONEq(t, `{"max_retries": 3, "initial_delay_secs": 5, "backoff_multiplier": 2, "max_delay_secs": 300,
		"retry_on": ["timeout", "explicit"]}`, string(text))
	assert.Equal(t, p, parsePolicy(t, string(text)))

	for text, want := range map[string]string{
		`{"max_retries": 3, "retry_on": ["Timeout"]}`: `retry_on: "Timeout": must be timeout, webhook_failure or explicit`,
		`{"max_retries": 3, "max_tries": 3}`:          `unknown field "max_tries"`,
		`{"max_retries": "3"}`:                        "max_retries",
		`{"max_retries": 2147483648}`:                 "2147483648",
		`{"max_retries": 1.5}`:                        "1.5",
	} {
		var p *retryPolicy
		assert.ErrorContains(t, json.Unmarshal([]byte(text), &p), want)
	}
}

// Section 11, with the limits of section 10.
func TestValidatePolicy(t *testing.T) {
	t.Parallel()
	limits := retryLimits{maxRetries: 10, maxDelaySecs: 3600}
	for text, want := range map[string]string{
		`null`:                        "",
		`{"max_retries": 1}`:          "",
		`{"max_retries": 10}`:         "",
		`{"max_retries": 0}`:          "max_retries: 0: must be from 1 to 10",
		`{}`:                          "max_retries: 0: must be from 1 to 10",
		`{"max_retries": -1}`:         "max_retries: -1: must be from 1 to 10",
		`{"max_retries": 11}`:         "max_retries: 11: must be from 1 to 10",
		`{"max_retries": 2147483647}`: "max_retries: 2147483647: must be from 1 to 10",
		`{"max_retries": 1, "initial_delay_secs": 1}`:    "",
		`{"max_retries": 1, "initial_delay_secs": 0}`:    "initial_delay_secs: 0: must be at least 1",
		`{"max_retries": 1, "backoff_multiplier": 1.0}`:  "",
		`{"max_retries": 1, "backoff_multiplier": 0.99}`: "backoff_multiplier: 0.99: must be at least 1.0",
		`{"max_retries": 1, "initial_delay_secs": 300}`:  "",
		`{"max_retries": 1, "initial_delay_secs": 301}`:  "max_delay_secs: 300: must be from the initial_delay_secs of 301 to 3600",
		`{"max_retries": 1, "max_delay_secs": 3600}`:     "",
		`{"max_retries": 1, "max_delay_secs": 3601}`:     "max_delay_secs: 3601: must be from the initial_delay_secs of 5 to 3600",
		`{"max_retries": 1, "max_delay_secs": 4}`:        "max_delay_secs: 4: must be from the initial_delay_secs of 5 to 3600",
		`{"max_retries": 1, "retry_on": []}`:             "retry_on: []: must be absent or have a trigger",
		`{"max_retries": 0, "initial_delay_secs": -1, "backoff_multiplier": 0, "max_delay_secs": -2}`: "max_retries: 0: must be from 1 to 10\n" +
			"initial_delay_secs: -1: must be at least 1\nbackoff_multiplier: 0: must be at least 1.0\n" +
			"max_delay_secs: -2: must be from the initial_delay_secs of -1 to 3600",
	} {
		_, err := newPolicy([]byte(text), limits)
		if want == "" {
			assert.NoError(t, err, text)
		} else {
			assert.EqualError(t, err, want, text)
		}
	}
}

// Section 10: a limit never refuses a default.
func TestLimitsOfDefaults(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int32][2]int32{100: {5, 100}, 5: {5, 5}, 3: {3, 3}, 1: {1, 1}, 3600: {5, 300}} {
		p, err := newPolicy([]byte(`{"max_retries": 2}`), retryLimits{2, limit})
		require.NoError(t, err)
		assert.Equal(t, want, [2]int32{p.InitialDelaySecs, p.MaxDelaySecs})
	}
	_, err := newPolicy([]byte(`{"max_retries": 2, "max_delay_secs": 300}`), retryLimits{2, 100})
	assert.EqualError(t, err, "max_delay_secs: 300: must be from the initial_delay_secs of 5 to 100")
	_, err = newPolicy([]byte(`{"max_retries": 2, "initial_delay_secs": 200}`), retryLimits{2, 100})
	assert.EqualError(t, err, "max_delay_secs: 100: must be from the initial_delay_secs of 200 to 100")
}

// Section 10.
func TestConfig(t *testing.T) {
	t.Parallel()
	env := map[string]string{}
	getenv := func(name string) string { return env[name] }
	c, err := readConfig(getenv)
	require.NoError(t, err)
	assert.Equal(t, retryLimits{maxRetries: 10, maxDelaySecs: 3600}, c.limits)
	assert.Equal(t, time.Second, c.interval)

	env = map[string]string{"RETRY_MAX_RETRIES_LIMIT": "3", "RETRY_MAX_DELAY_LIMIT": "60", "RETRY_LOOP_INTERVAL_MS": "200"}
	c, err = readConfig(getenv)
	require.NoError(t, err)
	assert.Equal(t, retryLimits{maxRetries: 3, maxDelaySecs: 60}, c.limits)
	assert.Equal(t, 200*time.Millisecond, c.interval)

	env = map[string]string{"RETRY_MAX_RETRIES_LIMIT": "0", "RETRY_MAX_DELAY_LIMIT": "1h", "RETRY_LOOP_INTERVAL_MS": "9999999999"}
	_, err = readConfig(getenv)
	require.Error(t, err)
	assert.Equal(t, `RETRY_MAX_RETRIES_LIMIT: "0": must be an integer from 1 to 2147483647
RETRY_MAX_DELAY_LIMIT: "1h": must be an integer from 1 to 2147483647
RETRY_LOOP_INTERVAL_MS: "9999999999": must be an integer from 1 to 2147483647`, err.Error())
}
