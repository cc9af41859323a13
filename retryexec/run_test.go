package retryexec_test

import (
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryexec"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

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
	require.EqualError(t, err, "fetch failed after 3 attempts: exit status 75: timed out")
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
	require.EqualError(t, err, "exit status 128: Permission denied (publickey).")
	assert.NotErrorAs(t, err, new(*retry.Error))
	assert.Equal(t, []string{"final stderr_auth"}, categories(recorder))
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
	assert.Equal(t, "timeout", retryexec.Classify(err).Category)
}

func TestPanicsPassThrough(t *testing.T) {
	t.Parallel()
	assert.PanicsWithValue(t, "boom", func() {
		_ = retryexec.Run(t.Context(), nil, func(context.Context) *exec.Cmd { panic("boom") })
	})
}
