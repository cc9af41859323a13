package main

import (
	"cmp"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

func TestRun(t *testing.T) {
	t.Parallel()
	testkit.Needs(t, "SQS")
	var out strings.Builder
	require.NoError(t, run(t.Context(), cmp.Or(os.Getenv("RETRY_TEST_SQS"), "http://127.0.0.1:4566"), &out))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, 4)
	assert.Contains(t, lines[0], "attempt 1: connection refused: again in ")
	assert.Contains(t, lines[1], "attempt 2: 429 Too Many Requests: again in 2s")
	assert.Contains(t, lines[2], "attempt 3: 503 Service Unavailable: again in ")
	assert.Contains(t, lines[3], "attempt 4: succeeded")
}
