package behaviour_test

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

var usePromises = []promise[*contestant]{
	{
		"The decision is a function, for jobs in a database",
		"The loop is made of stored numbers and the exported function that decides, and compared with a live call: 4 attempts, waits of 1s, 2s, 4s.",
		func(t tester, c *contestant) cell {
			if c.decide == nil {
				return cell{absent, "none"}
			}
			p := policy{attempts: 4, first: time.Second}
			live := bubble(t, func(t tester) run { return failing(t.Context(), c.prepare(p)) })
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
			r := bubble(t, func(t tester) run { return failing(t.Context(), c.prepare(policy{attempts: 3, first: time.Hour})) })
			return keptIf(r.elapsed == 3*time.Hour, "%s, %s of waits in no time", count(r.calls, "call"), short(r.elapsed))
		},
	},
}

func observed(t tester, c *contestant) cell {
	if c.observe == nil {
		return cell{absent, "none"}
	}
	var events []event
	bubble(t, func(t tester) run {
		return failing(t.Context(), c.observe(policy{attempts: 3, first: time.Second}, func(e event) { events = append(events, e) }))
	})
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
