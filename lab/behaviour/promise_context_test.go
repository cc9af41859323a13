package behaviour_test

import (
	"context"
	"errors"
	"time"
)

var contextPromises = []promise[*contestant]{
	{
		"A dead context: the operation is not called",
		"A call under a context that is canceled already.",
		func(t tester, c *contestant) cell {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			r := bubble(t, func(tester) run { return failing(ctx, c.prepare(policy{attempts: 3, first: time.Second})) })
			return keptIf(r.calls == 0, "%s", count(r.calls, "call"))
		},
	},
	{
		"Canceled in a wait: returns at once",
		"A wait of an hour, canceled after a second.",
		func(t tester, c *contestant) cell {
			r := canceledInWait(t, c, context.Canceled)
			return keptIf(r.elapsed == time.Second && r.calls == 1, "returned after %v", r.elapsed)
		},
	},
	{
		"A deadline before the next attempt: returns now, not then",
		"A wait of 1s under a deadline 200ms away.",
		func(t tester, c *contestant) cell {
			r := expiring(t, c)
			if r.elapsed == 0 {
				return keptIf(r.calls == 1, "returned at once, %s", count(r.calls, "call"))
			}
			return cell{broken, "slept for " + short(r.elapsed) + ", until the deadline"}
		},
	},
	{
		"No call after cancellation",
		"1000 operations that cancel their context and fail, in real time; the waits are of zero, so that the timer and the cancellation are ready together.",
		func(t tester, c *contestant) cell {
			if extra(t, c) {
				return cell{broken, "called again in some of 1000 runs"}
			}
			return cell{kept, "not called again in 1000 runs"}
		},
	},
	{
		"A success counts, though the context has ended meanwhile",
		"The operation cancels its context, and succeeds.",
		func(t tester, c *contestant) cell {
			r := bubble(t, func(t tester) run {
				ctx, cancel := context.WithCancel(t.Context())
				return record(ctx, c.prepare(policy{attempts: 3}), func(context.Context, int) error {
					cancel()
					return nil
				})
			})
			return keptIf(r.err == nil, "%s", choose(r.err == nil, "a success", "`"+text(r.err)+"`"))
		},
	},
	{
		"The operation gets the context",
		"The operation looks for a value of the caller's context in its own.",
		func(t tester, c *contestant) cell {
			type key struct{}
			found := false
			_ = c.prepare(policy{attempts: 1})(context.WithValue(t.Context(), key{}, 1), func(ctx context.Context) error {
				found = ctx.Value(key{}) == 1
				return nil
			})
			return keptIf(found, "%s", choose(found, "it does", "it gets none, and has to capture one"))
		},
	},
	{
		"A limit for each attempt",
		"Attempts are given a second each. The first hangs until its context ends.",
		func(t tester, c *contestant) cell {
			if c.timeout == nil {
				return cell{absent, "none"}
			}
			r := played(t, c.timeout(policy{attempts: 3}, time.Second), func(ctx context.Context, n int) error {
				if n == 1 {
					<-ctx.Done()
					return ctx.Err()
				}
				return nil
			})
			return keptIf(r.err == nil && r.calls == 2 && r.elapsed == time.Second, "%s, the second after %v", count(r.calls, "call"), r.elapsed)
		},
	},
	{
		"A limit for all attempts together",
		"Waits of 4s, and 10s for the whole: no attempt may start later.",
		func(t tester, c *contestant) cell {
			if c.elapsed == nil {
				return cell{absent, "none but the context"}
			}
			r := played(t, c.elapsed(policy{attempts: 9, first: 4 * time.Second, growth: 1}, 10*time.Second), func(context.Context, int) error {
				time.Sleep(time.Nanosecond) // a clock that stands still would be unfair
				return errOp
			})
			last, elapsed := r.at[len(r.at)-1].Round(time.Millisecond), r.elapsed.Round(time.Millisecond)
			return keptIf(last <= 10*time.Second, "%s, the last after %v; returned after %v", count(r.calls, "call"), last, elapsed)
		},
	},
	{
		"The limit for all attempts interrupts one that hangs",
		"10s for the whole; the first attempt hangs until its context ends. Given up on after a day.",
		func(t tester, c *contestant) cell {
			limit := c.elapsed
			if c.whole != nil {
				limit = c.whole
			}
			if limit == nil {
				return cell{absent, "none but the context"}
			}
			r := played(t, limit(policy{attempts: 3}, 10*time.Second), func(ctx context.Context, _ int) error {
				select {
				case <-ctx.Done():
				case <-time.After(24 * time.Hour):
				}
				return errOp
			})
			ok := r.elapsed == 10*time.Second
			return keptIf(ok, "%s", choose(ok, "after 10s", "the attempt goes on; the caller's context has to end it"))
		},
	},
}

// canceledInWait cancels a wait of an hour after a second, for a reason.
func canceledInWait(t tester, c *contestant, cause error) run {
	t.Helper()
	return bubble(t, func(t tester) run {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		time.AfterFunc(time.Second, func() { cancel(cause) })
		return failing(ctx, c.prepare(policy{attempts: 3, first: time.Hour, surface: cause == errSurface}))
	})
}

// errSurface is a cause for which the operation's error is asked.
var errSurface = errors.New("canceled")

// expiring waits for a second under a deadline that is nearer.
func expiring(t tester, c *contestant) run {
	t.Helper()
	return bubble(t, func(t tester) run {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		return failing(ctx, c.prepare(policy{attempts: 3, first: time.Second, surface: true}))
	})
}

// extra reports whether c calls an operation again after its context has ended.
func extra(t tester, c *contestant) (again bool) {
	t.Helper()
	for range 1000 {
		ctx, cancel := context.WithCancel(t.Context())
		r := record(ctx, c.prepare(policy{attempts: 3}), func(context.Context, int) error {
			cancel()
			return errOp
		})
		again = again || r.calls > 1
	}
	return again
}
