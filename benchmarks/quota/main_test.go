package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const page = "../../docs/quota.md"

// The page shows what the simulation finds.
func TestPage(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	now, ok := splice(string(text))
	require.True(t, ok)
	assert.Equal(t, now, string(text), "run go run ./quota ../docs/quota.md in benchmarks")
}

// Whatever the limit is, a job is seldom refused, and the backlog takes little longer than it
// would with the limit known.
func TestBars(t *testing.T) {
	t.Parallel()
	bars := map[string]result{
		"50 in a window of 2 s, Retry-After":                     {refused: 0.12, time: 1.08},
		"25 in a window of 2 s":                                  {refused: 0.2, time: 1.08},
		"the rest and the reset in every answer":                 {refused: 0.1, time: 1.08},
		"50, and 25 from 12 s to 24 s":                           {refused: 0.12, time: 1.15},
		"25, and 50 from 12 s on":                                {refused: 0.12, time: 1.15},
		"6, and 50 from 12 s on":                                 {refused: 0.12, time: 1.15},
		"who is refused 80 times in a window is banned for 10 s": {refused: 0.12, time: 1.08},
	}
	for _, s := range scenarios() {
		bar, ok := bars[s.name]
		if !ok {
			bar = result{refused: 0.25, time: 2}
		}
		got := mean(s, true)
		assert.LessOrEqual(t, got.refused, bar.refused, s.name)
		assert.LessOrEqual(t, got.time, bar.time, s.name)
		delete(bars, s.name)
	}
	assert.Empty(t, bars)
}
