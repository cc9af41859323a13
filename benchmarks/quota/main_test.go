package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/benchmarks/quota/backlog"
)

const page = "../../docs/evidence/quota.md"

// The page shows what the simulation finds, and what was measured.
func TestPage(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	now, err := splice(string(text), "../"+rawFile)
	require.NoError(t, err)
	assert.Equal(t, now, string(text), "run go run ./quota ../docs/evidence/quota.md in benchmarks")
}

// Whatever the limit is, a job is seldom refused, and the backlog takes little longer than it
// would with the limit known.
func TestBars(t *testing.T) {
	t.Parallel()
	bars := map[string]backlog.Result{
		"50 in a window of 2 s, Retry-After":                     {Refused: 0.12, Time: 1.08},
		"25 in a window of 2 s":                                  {Refused: 0.2, Time: 1.08},
		"the rest and the reset in every answer":                 {Refused: 0.1, Time: 1.08},
		"50, and 25 from 12 s to 24 s":                           {Refused: 0.12, Time: 1.15},
		"25, and 50 from 12 s on":                                {Refused: 0.12, Time: 1.15},
		"6, and 50 from 12 s on":                                 {Refused: 0.12, Time: 1.15},
		"who is refused 80 times in a window is banned for 10 s": {Refused: 0.12, Time: 1.08},
	}
	for _, s := range backlog.Scenarios() {
		bar, ok := bars[s.Name]
		if !ok {
			bar = backlog.Result{Refused: 0.25, Time: 2}
		}
		got := mean(s, true)
		assert.LessOrEqual(t, got.Refused, bar.Refused, s.Name)
		assert.LessOrEqual(t, got.Time, bar.Time, s.Name)
		delete(bars, s.Name)
	}
	assert.Empty(t, bars)
}
