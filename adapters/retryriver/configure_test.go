package retryriver_test

import (
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retryriver"
)

func TestConfigureRefuses(t *testing.T) {
	t.Parallel()
	require.EqualError(t, retryriver.Configure(nil, nil), "retryriver: config is nil")
	require.EqualError(t, retryriver.Configure(&river.Config{RetryPolicy: &river.DefaultClientRetryPolicy{}}, nil),
		"retryriver: Config.RetryPolicy is *river.DefaultClientRetryPolicy: must not be set")
	err := retryriver.Configure(&river.Config{}, &retry.Policy{MaxDelay: -time.Second})
	require.ErrorContains(t, err, "retryriver: ")
	require.ErrorContains(t, err, "-1s")
}
