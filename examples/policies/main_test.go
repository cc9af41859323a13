package main

import (
	"bytes"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestNoCallIsLost(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	lost, err := run(&out, 200*time.Millisecond, 4)
	require.NoError(t, err, out.String())
	assert.Zero(t, lost, out.String())
	text := regexp.MustCompile(`/\S*/policies\.json`).ReplaceAllString(out.String(), "policies.json")
	text = regexp.MustCompile(`[1-9]\d* (calls|retries)\b`).ReplaceAllString(text, "N $1")
	assert.Equal(t, `the file that the service starts with
  backend: 20 attempts, constant 1ms, ±10% jitter: waits 900µs–1.1ms, 900µs–1.1ms, 900µs–1.1ms, 900µs–1.1ms, 900µs–1.1ms, …
  N calls, 0 lost so far
the waits grow, and there is a limit of time
  backend: 30 attempts within 1m0s, 500µs ×2 ≤2ms, full jitter: waits 0–500µs, 0–1ms, 0–2ms, 0–2ms, 0–2ms, …
  N calls, 0 lost so far
somebody mistypes a key
  refused: retrypolicies: policies.json:4:17: policies.backend.max_atempts: 1: unknown key; did you mean max_attempts?
  backend: 30 attempts within 1m0s, 500µs ×2 ≤2ms, full jitter: waits 0–500µs, 0–1ms, 0–2ms, 0–2ms, 0–2ms, …
  N calls, 0 lost so far
and puts it right
  backend: 25 attempts, constant 2ms, ±10% jitter: waits 1.8ms–2.2ms, 1.8ms–2.2ms, 1.8ms–2.2ms, 1.8ms–2.2ms, 1.8ms–2.2ms, …
  N calls, 0 lost so far
N calls and N retries, 0 calls lost
`, text)
}
