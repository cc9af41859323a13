package contention_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/lab/storm/contention"
)

// The figures of an independent port of the simulator behind the article. Its
// means and ours, of so many repetitions, differ by chance: by about 3 % in
// calls and 8 % in completion where there are few clients.
func TestFiguresOfTheArticle(t *testing.T) {
	t.Parallel()
	type outcome struct{ calls, completion float64 }
	clients := []int{10, 50, 190}
	want := map[string][]outcome{
		"none":                  {{51, 383}, {686, 1137}, {8000, 3532}},
		"exponential":           {{51, 3503}, {618, 35911}, {5162, 100786}},
		"equal":                 {{42, 724}, {348, 4257}, {1758, 9341}},
		"full":                  {{39, 460}, {332, 2841}, {1771, 7471}},
		"decorrelated":          {{38, 457}, {377, 2196}, {2425, 8030}},
		"±20 %, beyond the cap": {{44, 977}, {358, 5952}, {1819, 13169}},
	}
	seen := 0
	for _, s := range contention.Strategies() {
		if want[s.Name] == nil {
			continue
		}
		seen++
		for i, n := range clients {
			got := contention.Mean(n, s, 1, 100)
			assert.InEpsilon(t, want[s.Name][i].calls, got.Calls, 0.04, "calls of %s, %d clients", s.Name, n)
			assert.InEpsilon(t, want[s.Name][i].completion, float64(got.Completion.Milliseconds()), 0.09,
				"completion of %s, %d clients", s.Name, n)
		}
	}
	assert.Equal(t, len(want), seen)
}

// What the article says in words.
func TestJitterBeatsNone(t *testing.T) {
	t.Parallel()
	got := map[string]contention.Outcome{}
	for _, s := range contention.Strategies() {
		got[s.Name] = contention.Mean(100, s, 7, 20)
	}
	assert.Less(t, got["exponential"].Calls, got["none"].Calls)
	assert.Less(t, got["full"].Calls, got["exponential"].Calls/2)
	assert.Less(t, got["full"].Completion, got["equal"].Completion)
	assert.Greater(t, got["decorrelated"].Calls, 1.15*got["full"].Calls)
}

func TestOneClientWritesOnce(t *testing.T) {
	t.Parallel()
	for _, s := range contention.Strategies() {
		got := contention.Run(1, s, 1)
		assert.Equal(t, 1.0, got.Calls, s.Name)
		assert.InDelta(t, 40, got.Completion.Milliseconds(), 20, s.Name)
	}
}

func TestSameSeedSameOutcome(t *testing.T) {
	t.Parallel()
	for _, s := range contention.Strategies() {
		first := contention.Run(50, s, 3)
		require.Equal(t, first, contention.Run(50, s, 3), s.Name)
		require.NotEqual(t, first, contention.Run(50, s, 4), s.Name)
	}
}
