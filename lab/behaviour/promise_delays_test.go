package behaviour_test

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"
)

var delayPromises = []promise[*contestant]{
	{
		"The cap holds, jitter included",
		"1000 waits from 100ms on, doubled, with a cap of 1s.",
		func(t tester, c *contestant) cell {
			longest := slices.Max(capped(t, c))
			if longest <= time.Second {
				return cell{kept, "none longer than 1s"}
			}
			return cell{broken, "the longest is " + longest.Round(100*time.Millisecond).String()}
		},
	},
	{
		"The cap holds for the first wait",
		"A first wait of 10s and a cap of 1s, 100 times.",
		func(t tester, c *contestant) cell {
			longest := bubble(t, func(tester) time.Duration {
				return slices.Max(sequence(100, func(int) time.Duration {
					return c.waits(policy{first: 10 * time.Second, limit: time.Second}, 1)[0]
				}))
			})
			return keptIf(longest <= time.Second, "%s than the cap", choose(longest <= time.Second, "no longer", "longer"))
		},
	},
	{
		"Jitter still spreads at the cap",
		"The waits 101 to 1000 of the same: they differ, and spread over a quarter of the cap or more.",
		atCap,
	},
	{
		"No overflow without a cap",
		"The first 100 waits of a growing backoff without a cap, first 1s, without jitter and with it: none is zero, negative, or a panic. A library that insists on a cap gets the largest that there is.",
		func(t tester, c *contestant) cell {
			for _, jitter := range []bool{false, true} {
				if got := overflow(t, c, jitter); got.mark != kept {
					return got
				}
			}
			return cell{kept, "all positive"}
		},
	},
	{
		"Reaching the cap does not end the call",
		"10 attempts, waits of 1s, 2s, then 4s, which is the cap.",
		func(t tester, c *contestant) cell {
			r := played(t, c.prepare(policy{attempts: 10, first: time.Second, limit: 4 * time.Second}), always(errOp))
			return keptIf(r.calls == 10, "%s", count(r.calls, "call"))
		},
	},
	{
		"No wait is possible",
		"3 attempts with waits of zero.",
		func(t tester, c *contestant) cell {
			r := played(t, c.prepare(policy{attempts: 3}), always(errOp))
			return keptIf(r.calls == 3 && r.elapsed < time.Microsecond, "%s in %s", count(r.calls, "call"), choose(r.elapsed == 0, "0s", "some ns"))
		},
	},
	{
		"Nothing set: retries, waits, and stops",
		"What the library does with as little set up as it allows. The operation always fails; it succeeds after 1000 calls, and the context ends after 30 days.",
		func(t tester, c *contestant) cell {
			if c.defaults == nil {
				return cell{absent, "the schedule must be given"}
			}
			return left(t, c.defaults)
		},
	},
	{
		"The zero value of its configuration is safe",
		"The same with the zero value, where there is such a type.",
		func(t tester, c *contestant) cell {
			if c.zero == nil {
				return cell{absent, "built by functions"}
			}
			got := left(t, c.zero)
			got.seen = "`" + c.zeroName + "`: " + got.seen
			return got
		},
	},
	{
		"A policy is shared: every call gets its attempts",
		"What is set up once serves 100 goroutines, each of which makes 10 calls of 3 attempts.",
		shared,
	},
	{
		"Limits for kinds of failures",
		"One error is given 2 attempts, another 4.",
		func(t tester, c *contestant) cell {
			if c.perError == nil {
				return cell{absent, "none"}
			}
			do := c.perError(map[error]int{errOp: 2, errOther: 4})
			a, b := played(t, do, always(errOp)), played(t, do, always(errOther))
			return keptIf(a.calls == 2 && b.calls == 4, "%d and %s", a.calls, count(b.calls, "call"))
		},
	},
}

// capped returns 1000 jittered waits with a cap of a second.
func capped(t tester, c *contestant) []time.Duration {
	t.Helper()
	p := policy{first: 100 * time.Millisecond, limit: time.Second, jitter: true}
	return bubble(t, func(tester) []time.Duration { return c.waits(p, 1000) })
}

func atCap(t tester, c *contestant) cell {
	t.Helper()
	waits := capped(t, c)[100:]
	slices.Sort(waits)
	spread := waits[len(waits)-1] - waits[0]
	distinct := len(slices.Compact(waits))
	if distinct == 1 {
		return cell{broken, "all the same"}
	}
	ok := spread >= 250*time.Millisecond && distinct >= 890
	return keptIf(ok, "spread over %v", spread.Round(100*time.Millisecond))
}

func overflow(t tester, c *contestant, jitter bool) (got cell) {
	t.Helper()
	got = cell{kept, ""}
	with := choose(jitter, ", with jitter", "")
	bubble(t, func(tester) any {
		panicked := protect(func() {
			for i, d := range c.waits(policy{first: time.Second, growth: c.overflowGrowth, jitter: jitter}, 100) {
				if d <= 0 {
					which := choose(jitter, "a wait", fmt.Sprintf("wait %d", i+1))
					got = cell{broken, fmt.Sprintf("%s is %s%s", which, choose(d == 0, "zero", "negative"), with)}
					return
				}
			}
		})
		if panicked != nil {
			got = cell{broken, fmt.Sprintf("panic: %v%s", panicked, with)}
		}
		return nil
	})
	return got
}

// left tells what a library does when it is left to itself, many times over.
func left(t tester, prepare func() call) cell {
	t.Helper()
	const enough = 1000
	var least, most int
	var longest time.Duration
	for i := range 20 {
		r := bubble(t, func(t tester) run {
			ctx, cancel := context.WithTimeout(t.Context(), 30*24*time.Hour)
			defer cancel()
			return record(ctx, prepare(), func(_ context.Context, n int) error { return choose(n == enough, nil, errOp) })
		})
		if i == 0 || r.calls < least {
			least = r.calls
		}
		most, longest = max(most, r.calls), max(longest, r.elapsed)
	}
	calls := count(most, "call")
	if least != most {
		calls = "10 to 99 calls"
		if least < 10 || most > 99 {
			calls = "some calls"
		}
	}
	switch {
	case most == 0:
		return cell{broken, "the operation is not called at all"}
	case most == enough && longest == 0:
		return cell{broken, "1000 calls without a wait, and more to come"}
	case most == enough:
		return cell{broken, "no limit: 1000 calls, and more to come"}
	case longest >= 30*24*time.Hour:
		return cell{broken, "no limit: still at it after 30 days"}
	case longest == 0:
		return cell{partly, calls + ", no wait"}
	default:
		return cell{kept, calls + " within " + magnitude(longest)}
	}
}

// magnitude names the order of a duration that is random.
func magnitude(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "a minute"
	case d <= 15*time.Minute:
		return "15 minutes"
	default:
		return "days"
	}
}

func shared(t tester, c *contestant) cell {
	do := c.shared(policy{attempts: 3, first: time.Second})
	goroutines, each := 100, 10
	if c.inTurn {
		goroutines = 1
	}
	want, total, full := 3*goroutines*each, 0, 0
	bubble(t, func(t tester) any {
		runs := make(chan run, goroutines*each)
		for range goroutines {
			go func() {
				for range each {
					runs <- failing(t.Context(), do)
				}
			}()
		}
		for range goroutines * each {
			r := <-runs
			total += r.calls
			full += choose(r.calls == 3, 1, 0)
		}
		return nil
	})
	seen := fmt.Sprintf("%d attempts of %d", total, want)
	switch {
	case full < goroutines*each:
		return cell{broken, seen}
	case c.inTurn:
		return cell{partly, seen + " in turn; its documentation forbids to share it between goroutines"}
	case c.shareNote != "":
		return cell{partly, seen + "; " + c.shareNote}
	default:
		return cell{kept, seen}
	}
}

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
