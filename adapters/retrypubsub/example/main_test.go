package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRun(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	require.NoError(t, run(t.Context(), &out))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, 4)
	assert.Contains(t, lines[0], "attempt 1: retrying: connection refused, again in ")
	assert.Contains(t, lines[1], "attempt 2: retrying: 429 Too Many Requests, again in 2.")
	assert.Contains(t, lines[2], "attempt 3: retrying: 503 Service Unavailable, again in ")
	assert.Contains(t, lines[3], "attempt 4: succeeded")
}
