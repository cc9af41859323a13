package main

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

const want = `import: 4 attempts within 5m0s, 1s ×2 ≤30s, no jitter: waits 1s, 2s, 4s; 5 free rate limits
attempt 1: dial tcp 192.0.2.1:443: connect: connection refused: retryable, again in 1s
attempt 2: 429 Too Many Requests: rate_limited, again in 2s
attempt 3: 503 Service Unavailable: retryable, again in 2s
attempt 4: succeeded
`

// servers are the variables that say where the servers of engines are.
var servers = map[string]string{
	"river": "RETRY_TEST_POSTGRES", "asynq": "RETRY_TEST_REDIS", "amqp": "RETRY_TEST_AMQP",
	"streams": "RETRY_TEST_REDIS", "sqs": "RETRY_TEST_SQS",
}

// TestTimeline shows that the timeline is the same everywhere.
func TestTimeline(t *testing.T) {
	t.Parallel()
	for name := range engines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if servers[name] != "" {
				testkit.Needs(t, name)
			}
			var out strings.Builder
			require.NoError(t, run(t.Context(), []string{"-engine", name, "-server", os.Getenv(servers[name])}, &out))
			assert.Equal(t, want, out.String())
		})
	}
}

func TestBadInput(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	assert.EqualError(t, run(context.Background(), []string{"-engine", "cron"}, &out),
		"-engine cron: must be one of amqp, asynq, execute, jetstream, kafka, pool, pubsub, river, sqs, streams, watermill")
}
