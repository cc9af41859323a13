package retryriver_test

import (
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retryriver"
)

func TestConfigureRefuses(t *testing.T) {
	t.Parallel()
	var retries retryriver.Retries
	require.EqualError(t, retries.Configure(nil), "retryriver: config is nil")
	require.EqualError(t, retries.Configure(&river.Config{RetryPolicy: &river.DefaultClientRetryPolicy{}}),
		"retryriver: Config.RetryPolicy is *river.DefaultClientRetryPolicy: must not be set")
	retries.Policy = &retry.Policy{MaxDelay: -time.Second}
	err := retries.Configure(&river.Config{})
	require.ErrorContains(t, err, "retryriver: ")
	require.ErrorContains(t, err, "-1s")
}

type broken struct{}

// Delay implements [retry.Backoff].
func (broken) Delay(int) time.Duration { panic("out of range") }

// River asks for a wait where a panic would end the process.
func TestWaitOfPolicyThatPanics(t *testing.T) {
	t.Parallel()
	for _, retries := range []retryriver.Retries{
		{Policy: &retry.Policy{Backoff: broken{}}},
		{PolicyFor: func(string) (*retry.Policy, error) { panic("out of range") }},
	} {
		config := &river.Config{}
		require.NoError(t, retries.Configure(config))
		require.WithinDuration(t, time.Now(), config.RetryPolicy.NextRetry(&rivertype.JobRow{Attempt: 1}), 3*time.Second)
	}
}
