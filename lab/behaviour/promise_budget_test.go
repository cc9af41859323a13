package behaviour_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
				_ = protect(func() { record(t.Context(), do, panicsInSecond) })
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

var usePromises = []promise[*contestant]{
	{
		"The decision is a function, for jobs in a database",
		"The loop is made of stored numbers and the exported function that decides, and compared with a live call: 4 attempts, waits of 1s, 2s, 4s.",
		func(t tester, c *contestant) cell {
			if c.decide == nil {
				return cell{absent, "none"}
			}
			p := policy{attempts: 4, first: time.Second}
			live := played(t, c.prepare(p), always(errOp))
			decide, how := c.decide(p)
			var waits []time.Duration
			for failures := 1; ; failures++ {
				wait, again := decide(failures, errOp)
				if !again {
					break
				}
				waits = append(waits, wait)
			}
			return keptIf(fmt.Sprint(waits) == fmt.Sprint(live.waits()), "%s: the same %d waits", how, len(waits))
		},
	},
	{
		"Hooks tell attempt, wait, error, and the end",
		"Three attempts that fail.",
		observed,
	},
	{
		"Tests can bring their own clock or timer",
		"Waits of 1h and 2h on a clock or timer of the test's, in real time.",
		func(t tester, c *contestant) cell {
			if c.clock == nil {
				return cell{absent, "none"}
			}
			var waited time.Duration
			r := failing(t.Context(), c.clock(policy{attempts: 3, first: time.Hour}, func(d time.Duration) { waited += d }))
			return keptIf(r.calls == 3 && waited == 3*time.Hour, "%s, %s of waits in no time", count(r.calls, "call"), short(waited))
		},
	},
	{
		"Works in a bubble of testing/synctest",
		"Waits of 1h and 2h on the clock of a bubble.",
		func(t tester, c *contestant) cell {
			r := played(t, c.prepare(policy{attempts: 3, first: time.Hour}), always(errOp))
			return keptIf(r.elapsed == 3*time.Hour, "%s, %s of waits in no time", count(r.calls, "call"), short(r.elapsed))
		},
	},
}

func observed(t tester, c *contestant) cell {
	if c.observe == nil {
		return cell{absent, "none"}
	}
	var events []event
	played(t, c.observe(policy{attempts: 3, first: time.Second}, func(e event) { events = append(events, e) }), always(errOp))
	retries, ends, attempts, delays, errs := 0, 0, true, true, true
	for _, e := range events {
		if e.end {
			ends++
			continue
		}
		retries++
		attempts = attempts && e.attempt == retries
		delays = delays && e.delay > 0
		errs = errs && e.err != nil
	}
	var missing []string
	for what, told := range map[string]bool{"the attempt": attempts, "the wait": delays, "the error": errs, "the end": ends == 1} {
		if !told {
			missing = append(missing, what)
		}
	}
	seen := fmt.Sprintf("told of %d retries", retries)
	if retries == 3 {
		seen += ", though there are 2"
	}
	slices.Sort(missing)
	if len(missing) > 0 {
		seen += "; not told: " + strings.Join(missing, ", ")
	}
	return cell{choose(len(missing) == 0 && retries == 2, kept, partly), seen}
}
