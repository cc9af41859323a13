package behaviour_test

import (
	"context"
	"fmt"
	"math"
	"time"
)

var hintPromises = []promise[*contestant]{
	{
		"An error can say when to come back",
		"The backoff would wait for 10ms, the error says 5s.",
		hintProbe(func(t tester, c *contestant) cell {
			r := record(t.Context(), c.prepare(policy{attempts: 3, first: 10 * time.Millisecond, hints: true}), func(_ context.Context, n int) error {
				return choose(n == 1, c.hinted(errOp, 5*time.Second), nil)
			})
			ok := r.calls == 2 && r.elapsed >= 5*time.Second && r.elapsed <= 6*time.Second
			if ok && c.ownHint {
				return cell{partly, "waited, by a function or a type that the caller has to write"}
			}
			return keptIf(ok, "waited for 5s or up to 10 %% more")
		}),
	},
	{
		"Beyond the deadline: returns at once",
		"The error says 5s, the deadline is 2s away.",
		hintProbe(func(t tester, c *contestant) cell {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			r := record(ctx, c.prepare(policy{attempts: 3, first: 10 * time.Millisecond, hints: true}), always(c.hinted(errOp, 5*time.Second)))
			return keptIf(r.elapsed == 0, "%s", choose(r.elapsed == 0, "returned at once", "slept for "+short(r.elapsed)+", until the deadline"))
		}),
	},
	{
		"An absurd hint is neither a spin nor a wait for ever",
		"The longest that the API takes, five attempts of 1ms each, a cap of a minute where one can be set; given up on after a day.",
		hintProbe(func(t tester, c *contestant) cell {
			ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
			defer cancel()
			hint := c.hinted(errOp, math.MaxInt64)
			r := record(ctx, c.prepare(policy{attempts: 5, first: time.Millisecond, limit: time.Minute, hints: true}), func(context.Context, int) error {
				time.Sleep(time.Millisecond)
				return hint
			})
			switch {
			case r.elapsed >= 24*time.Hour && c.ownHint:
				return cell{partly, "still waiting after a day: nothing caps what the caller's function returns"}
			case r.elapsed >= 24*time.Hour:
				return cell{broken, "still waiting after a day"}
			case r.calls > 1 && r.elapsed < time.Second:
				return cell{broken, fmt.Sprintf("%s within %v", count(r.calls, "call"), r.elapsed)}
			case r.calls > 1:
				return cell{kept, fmt.Sprintf("capped: %s within %v", count(r.calls, "call"), r.elapsed.Round(time.Minute))}
			default:
				return cell{kept, "ended at once, 1 call"}
			}
		}),
	},
	{
		"A hint does not set the backoff back",
		"Waits of 1s, 2s, 4s, then a hint of 1s, then?",
		hintProbe(func(t tester, c *contestant) cell {
			r := record(t.Context(), c.prepare(policy{attempts: 6, first: time.Second, hints: true}), func(_ context.Context, n int) error {
				return choose(n == 4, c.hinted(errOp, time.Second), errOp)
			})
			waits := r.waits()
			if len(waits) != 5 {
				return cell{broken, count(r.calls, "call")}
			}
			return keptIf(waits[4] > 4*time.Second, "%v", waits[4])
		}),
	},
}

// hintProbe runs a probe in a bubble for those who know hints.
func hintProbe(f func(tester, *contestant) cell) func(tester, *contestant) cell {
	return func(t tester, c *contestant) cell {
		if c.hinted == nil {
			return cell{absent, "the backoff does not see the error"}
		}
		return bubble(t, func(t tester) cell { return f(t, c) })
	}
}
