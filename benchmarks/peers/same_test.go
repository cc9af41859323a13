//nolint:testpackage // What the contestants do is not exported.
package peers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// seen is all that can be told about a run from outside.
type seen struct {
	calls    []call
	returned time.Duration
	err      error
}

// watch runs w n times by c in a bubble, where time stands still but for waits.
func watch(t *testing.T, c *Contestant, w *Workload, n int) (s seen) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(rand.N(time.Hour)) // go-resiliency seeds its jitter with the time
		script := w.script
		script.trace = &trace{start: time.Now()}
		run := w.run(c, script.op(t.Context(), c), &script)
		s.err = run([2]context.Context{t.Context(), t.Context()}, n)
		s.calls, s.returned = script.trace.calls, time.Since(script.trace.start)
	})
	return s
}

// each runs a test for every contestant that takes the workload.
func each(t *testing.T, w *Workload, test func(*testing.T, *Contestant)) {
	t.Helper()
	for _, c := range Contestants() {
		if w.Takes(c) {
			t.Run(w.Name+"/"+c.Name, func(t *testing.T) {
				t.Parallel()
				test(t, c)
			})
		}
	}
}

// Three calls in a row, so that a policy that does not survive a call is noticed.
func TestSameCallsAndWaits(t *testing.T) {
	t.Parallel()
	const n = 3
	for _, w := range Workloads() {
		if w.form == delaysOnly {
			continue
		}
		want := watch(t, byHand, w, n)
		require.Len(t, want.calls, n*min(w.script.failures+1, w.policy.attempts), w.Name)
		each(t, w, func(t *testing.T, c *Contestant) {
			t.Helper()
			got := watch(t, c, w, n)
			assert.Equal(t, want.calls, got.calls)
			assert.Equal(t, want.returned, got.returned)
			if want.err == nil {
				assert.NoError(t, got.err)
				return
			}
			assert.Equal(t, c.kept(w), kept(got.err, want.err))
		})
	}
}

// kept says what became of the error of an operation.
func kept(got, err error) string {
	switch {
	case got == err:
		return "returned"
	case errors.Is(got, err):
		return "wrapped"
	case got != nil:
		return "lost"
	default:
		return "ignored"
	}
}

// kept says what c declares to become of it.
func (c *Contestant) kept(w *Workload) string {
	switch {
	case exhausted(w) && c.has(losesLast):
		return "lost"
	case exhausted(w) && c.has(wrapsLast), final(w) && c.has(wrapsFinal), marked(w) && c.has(keepsMark):
		return "wrapped"
	default:
		return "returned"
	}
}

// The workloads that succeed, or end at once, have the same limits too, and would
// wait as long.
func TestSameLimits(t *testing.T) {
	t.Parallel()
	workloads := []*Workload{
		{Name: "static", form: static, policy: usual},
		{Name: "with value", form: withValue, policy: usual},
		{Name: "over locals", form: overLocals, policy: usual},
		{Name: "marked", form: static, policy: usualMarked},
	}
	for _, w := range workloads {
		w.script.failures = 10
		each(t, w, func(t *testing.T, c *Contestant) {
			t.Helper()
			skipped := 0
			if c.has(startsTwice) {
				skipped = 1
			}
			var first []time.Duration // waits
			for range 100 {
				got := watch(t, c, w, 1)
				require.Len(t, got.calls, 3)
				require.Error(t, got.err)
				require.Equal(t, got.calls[2].at, got.returned, "a wait after the last attempt")
				for i := range 2 {
					lo, hi := c.bounds(i + skipped)
					wait := got.calls[i+1].at - got.calls[i].at
					require.GreaterOrEqual(t, wait, lo)
					require.LessOrEqual(t, wait, hi+1) // half open or not
				}
				first = append(first, got.calls[1].at)
			}
			lo, hi := c.bounds(skipped)
			quarter := (hi - lo) / 4
			assert.Less(t, slices.Min(first), lo+quarter)
			assert.Greater(t, slices.Max(first), hi-quarter)
		})
	}
}

func TestSameValue(t *testing.T) {
	t.Parallel()
	for _, c := range Contestants() {
		v, err := c.new(usual).value(t.Context(), 3, succeed)
		assert.NoError(t, err, c.Name)
		assert.Equal(t, answer, v, c.Name)
	}
}

// Two draws in a hundred come that close to each end of a range.
func TestSameDelays(t *testing.T) {
	t.Parallel()
	const draws, edge = 2000, 50
	for _, w := range Workloads() {
		if w.form != delaysOnly {
			continue
		}
		each(t, w, func(t *testing.T, c *Contestant) {
			t.Helper()
			var smallest, largest [10]time.Duration
			for draw := range draws {
				var waits [10]time.Duration
				c.delays.draw(1, &waits)
				for i, d := range waits {
					if draw == 0 {
						smallest[i] = d
					}
					smallest[i], largest[i] = min(smallest[i], d), max(largest[i], d)
				}
			}
			for i := range smallest {
				lo, hi := c.bounds(i)
				slack := (hi - lo) / edge
				assert.GreaterOrEqual(t, smallest[i], lo, i)
				assert.LessOrEqual(t, smallest[i], lo+slack, i)
				assert.GreaterOrEqual(t, largest[i], hi-slack, i)
				assert.LessOrEqual(t, largest[i], hi+1, i) // half open or not
			}
		})
	}
}

func (c *Contestant) bounds(i int) (lo, hi time.Duration) {
	if c.delays != nil && c.delays.bounds != nil {
		return c.delays.bounds(i)
	}
	return 0, min(initial<<i, limit)
}

// Who says that its delays differ has to say how, and the other way round.
func TestDelaysThatDifferAreNoted(t *testing.T) {
	t.Parallel()
	for _, c := range Contestants() {
		if c.delays != nil {
			assert.Equal(t, c.delays.bounds != nil, c.delays.note != "", c.Name)
		}
	}
}

// What the benchmarks run, with what they run it, a few times. Under the race
// detector it shows that sharing the policy is allowed.
func TestBenchmarks(t *testing.T) {
	t.Parallel()
	for _, w := range Workloads() {
		each(t, w, func(t *testing.T, c *Contestant) {
			t.Helper()
			run := w.run(c, succeed, &w.script)
			w.repeat(run, [2]context.Context{t.Context(), t.Context()}, 100)
		})
	}
}

// Go finds benchmarks by their functions.
func TestEveryWorkloadIsMeasured(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("bench_test.go")
	require.NoError(t, err)
	for _, w := range Workloads() {
		assert.Regexp(t, fmt.Sprintf(`func Benchmark%s\(b \*testing\.B\) +\{ bench\(b, "%[1]s"\) \}`, w.Name), string(source))
	}
}

func TestNamesAreUnique(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, c := range Contestants() {
		assert.False(t, names[c.Name], c.Name)
		names[c.Name] = true
	}
	for _, w := range Workloads() {
		assert.False(t, names[w.Name], w.Name)
		names[w.Name] = true
	}
}
