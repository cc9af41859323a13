package behaviour_test

import (
	"context"
	"errors"
	"sync"
	"time"
)

var budgetPromises = []promise[*contestant]{
	{
		"An outage: retries are bounded, calls in turn",
		"1000 calls of 3 attempts, one after another; every attempt fails. Without a bound: 3 attempts per call.",
		budgetProbe(func(t tester, c *contestant) cell {
			do, total := c.budget(policy{attempts: 3, first: 10 * time.Millisecond}), 0
			for range 1000 {
				total += failing(t.Context(), do).calls
			}
			return keptIf(total < 1500, "%.3f attempts per call", float64(total)/1000)
		}),
	},
	{
		"An outage: retries are bounded, calls at once",
		"The same with all 1000 calls at once.",
		budgetProbe(func(t tester, c *contestant) cell {
			total := 0
			for _, r := range outage(t, c) {
				total += r.calls
			}
			return keptIf(total < 1500, "%s attempts per call", choose(total < 1500, "less than 1.5", "more than 1.5"))
		}),
	},
	{
		"A refused retry ends the call before its wait",
		"Those of these calls that got no retry, whose attempt took 100ms and whose wait would be 1s.",
		budgetProbe(func(t tester, c *contestant) cell {
			var longest time.Duration
			for _, r := range outage(t, c) {
				if r.calls == 1 {
					longest = max(longest, r.elapsed)
				}
			}
			return keptIf(longest == 100*time.Millisecond, "returned after %v", longest)
		}),
	},
	{
		"The error of a refused call leads to the last failure",
		"`errors.Is`, for the same calls.",
		budgetProbe(func(t tester, c *contestant) cell {
			for _, r := range outage(t, c) {
				if !errors.Is(r.err, errOp) {
					return cell{broken, "lost: `" + text(r.err) + "`"}
				}
			}
			return cell{kept, "it does"}
		}),
	},
	{
		"After the outage there are retries again",
		"1000 failing calls, 1000 that succeed, then one that fails.",
		budgetProbe(func(t tester, c *contestant) cell {
			do := c.budget(policy{attempts: 3, first: 10 * time.Millisecond})
			for range 1000 {
				_ = failing(t.Context(), do)
			}
			for range 1000 {
				_ = record(t.Context(), do, always(nil))
			}
			r := failing(t.Context(), do)
			return keptIf(r.calls == 3, "%s", count(r.calls, "attempt"))
		}),
	},
	{
		"A panic costs the budget nothing for good",
		"20 calls whose second attempt panics, 1000 that succeed, then one that fails.",
		budgetProbe(func(t tester, c *contestant) cell {
			do := c.budget(policy{attempts: 3, first: 10 * time.Millisecond})
			for range 20 {
				_ = protect(func() {
					record(t.Context(), do, func(_ context.Context, n int) error {
						if n == 2 {
							panic("boom")
						}
						return errOp
					})
				})
			}
			for range 1000 {
				_ = record(t.Context(), do, always(nil))
			}
			r := failing(t.Context(), do)
			return keptIf(r.calls == 3, "%s", count(r.calls, "attempt"))
		}),
	},
	{
		"An idle process may retry",
		"The first call of all fails.",
		budgetProbe(func(t tester, c *contestant) cell {
			r := failing(t.Context(), c.budget(policy{attempts: 3, first: 10 * time.Millisecond}))
			return keptIf(r.calls == 3, "%s", count(r.calls, "attempt"))
		}),
	},
}

// outage makes 1000 failing calls at once.
func outage(t tester, c *contestant) []run {
	t.Helper()
	do, runs := c.budget(policy{attempts: 3, first: time.Second, growth: 1}), make([]run, 1000)
	var all sync.WaitGroup
	for i := range runs {
		all.Go(func() {
			runs[i] = record(t.Context(), do, func(context.Context, int) error {
				time.Sleep(100 * time.Millisecond)
				return errOp
			})
		})
	}
	all.Wait()
	return runs
}

// budgetProbe runs a probe in a bubble for those who have a budget.
func budgetProbe(f func(tester, *contestant) cell) func(tester, *contestant) cell {
	return func(t tester, c *contestant) cell {
		if c.budget == nil {
			return cell{absent, "none"}
		}
		return bubble(t, func(t tester) cell { return f(t, c) })
	}
}
