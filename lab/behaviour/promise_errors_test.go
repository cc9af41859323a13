package behaviour_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing/synctest"
	"time"
)

var errorPromises = []promise[*contestant]{
	{
		"Attempts used up: the last error is kept",
		"Three failures; `errors.Is` looks for the last.",
		func(t tester, c *contestant) cell {
			r := played(t, c.prepare(policy{attempts: 3, first: time.Second}), always(errOp))
			return keptIf(errors.Is(r.err, errOp) && r.calls == 3, "%s, %s", count(r.calls, "call"), form(r.err, errOp))
		},
	},
	{
		"Canceled in a wait: the last error is kept, and the cancellation",
		"`errors.Is` looks for both.",
		func(t tester, c *contestant) cell {
			return both(canceledInWait(t, c, errSurface).err, context.Canceled, errSurface)
		},
	},
	{
		"Stopped by a deadline: the last error is kept, and the deadline",
		"`errors.Is` looks for both.",
		func(t tester, c *contestant) cell {
			return both(expiring(t, c).err, context.DeadlineExceeded)
		},
	},
	{
		"The cause of the cancellation is kept",
		"`context.WithCancelCause`; `errors.Is` looks for the cause.",
		func(t tester, c *contestant) cell {
			r := canceledInWait(t, c, errOther)
			return keptIf(errors.Is(r.err, errOther), "%s", choose(errors.Is(r.err, errOther), "it is", "`"+text(r.err)+"`"))
		},
	},
	{
		"A final error ends the call, and comes back as it was",
		"An error that is declared final; compared with `==`.",
		func(t tester, c *contestant) cell {
			r := finalAt(t, c, 1)
			if r.calls == 1 && r.err != errFinal && errors.Is(r.err, errFinal) {
				return cell{partly, "1 call, " + form(r.err, errFinal)}
			}
			return keptIf(r.calls == 1 && r.err == errFinal, "%s, %s", count(r.calls, "call"), form(r.err, errFinal))
		},
	},
	{
		"It has the same form on the first, the second, and the last attempt",
		"The same with the final error on each of three attempts.",
		func(t tester, c *contestant) cell {
			first, second, last := form(finalAt(t, c, 1).err, errFinal), form(finalAt(t, c, 2).err, errFinal), form(finalAt(t, c, 3).err, errFinal)
			if first == second && second == last {
				return cell{kept, first}
			}
			return cell{broken, fmt.Sprintf("first: %s; second: %s; last: %s", first, second, last)}
		},
	},
	{
		"Words around a mark survive",
		"An error `step 2: …` around one that is marked final (with go-retry: as retryable); what comes back has the words.",
		func(t tester, c *contestant) cell {
			if c.mark == nil {
				return cell{absent, "no marks"}
			}
			r := played(t, c.prepare(policy{attempts: 3, marked: true}), always(fmt.Errorf("step 2: %w", c.mark(errOp))))
			has := strings.Contains(text(r.err), "step 2")
			return keptIf(has, "%s", choose(has, "they do", "lost: `"+text(r.err)+"`"))
		},
	},
	{
		"A mark is taken off",
		"An error that is marked as final is compared with what comes back, by `==`.",
		func(t tester, c *contestant) cell {
			if c.mark == nil || c.again != nil {
				return cell{absent, "no marks for what is final"}
			}
			r := played(t, c.prepare(policy{attempts: 3}), always(c.mark(errOp)))
			if r.err != errOp && errors.Is(r.err, errOp) {
				return cell{partly, form(r.err, errOp)}
			}
			return keptIf(r.err == errOp, "%s", form(r.err, errOp))
		},
	},
	{
		"A mark of nil is nil",
		"`return mark(err)` with an err that is nil is a success.",
		func(_ tester, c *contestant) cell {
			if c.mark == nil {
				return cell{absent, "no marks"}
			}
			return keptIf(c.mark(nil) == nil, "%s", choose(c.mark(nil) == nil, "it is", "it is an error"))
		},
	},
	{
		"A timeout of the operation's own is not the caller's",
		"The operation returns `context.DeadlineExceeded` while the caller's context lives: it is retried.",
		func(t tester, c *contestant) cell {
			r := played(t, c.prepare(policy{attempts: 3}), always(context.DeadlineExceeded))
			return keptIf(r.calls == 3, "%s", count(r.calls, "call"))
		},
	},
	{
		"After 2000 attempts the last error is there, and not all before it",
		"2000 attempts, each with an error of its own.",
		func(t tester, c *contestant) cell {
			var last error
			r := played(t, c.prepare(policy{attempts: 2000}), func(_ context.Context, n int) error {
				last = fmt.Errorf("attempt %d: %w", n, errOp)
				return last
			})
			held := 1
			if many, ok := r.err.(interface{ WrappedErrors() []error }); ok {
				held = len(many.WrappedErrors())
			}
			switch {
			case !errors.Is(r.err, last):
				return cell{broken, fmt.Sprintf("the last is lost; %d others are held", held)}
			case held > 100:
				return cell{partly, fmt.Sprintf("the last, and all %d", held)}
			default:
				return cell{kept, "the last only"}
			}
		},
	},
	{
		"A classifier does not switch marks off",
		"A function says what else is final, and the operation marks its error as final.",
		func(t tester, c *contestant) cell {
			if c.mark == nil || c.again != nil {
				return cell{absent, "no marks for what is final"}
			}
			r := played(t, c.prepare(policy{attempts: 3, final: errFinal}), always(c.mark(errOp)))
			return keptIf(r.calls == 1, "%s", count(r.calls, "call"))
		},
	},
	{
		"The reason to stop can be asked for",
		"Attempts used up, a final error, a cancellation: the exported API tells them apart.",
		func(t tester, c *contestant) cell {
			if c.reason == nil {
				return cell{absent, "not told; the caller looks at the context and at the error"}
			}
			used := played(t, c.prepare(policy{attempts: 2}), always(errOp))
			a, b, d := c.reason(used.err), c.reason(finalAt(t, c, 1).err), c.reason(canceledInWait(t, c, context.Canceled).err)
			return cell{choose(a != b && b != d && a != d, kept, partly), fmt.Sprintf("“%s”, “%s”, “%s”", a, b, d)}
		},
	},
	{
		"A typed result",
		"An operation that fails once and then returns an int.",
		func(t tester, c *contestant) cell {
			if c.value == nil {
				return cell{absent, "errors only"}
			}
			calls := 0
			v, err := 0, error(nil)
			bubble(t, func(t tester) any {
				v, err = c.value(t.Context(), policy{attempts: 3, first: time.Second}, func() (int, error) {
					if calls++; calls == 1 {
						return 0, errOp
					}
					return 42, nil
				})
				return nil
			})
			return keptIf(v == 42 && err == nil, "%d after %s", v, count(calls, "call"))
		},
	},
	{
		"Nested calls do not multiply",
		"Three attempts within three attempts of the same library.",
		func(t tester, c *contestant) cell {
			inner, outer := c.prepare(policy{attempts: 3, marked: true}), c.prepare(policy{attempts: 3, marked: true})
			r := played(t, func(ctx context.Context, fn operation) error {
				return outer(ctx, func(context.Context) error { return inner(ctx, fn) })
			}, always(c.retryable(errOp)))
			return keptIf(r.calls == 3, "%s", count(r.calls, "call"))
		},
	},
	{
		"A panic passes through, and the next call works",
		"The second attempt panics; the same policy is used again.",
		func(t tester, c *contestant) cell {
			return bubble(t, func(t tester) cell {
				do := c.prepare(policy{attempts: 3})
				panicked := protect(func() { record(t.Context(), do, panicsInSecond) })
				r := failing(t.Context(), c.prepare(policy{attempts: 3}))
				return keptIf(panicked == "boom" && r.calls == 3, "panicked with %v, then %s", panicked, count(r.calls, "call"))
			})
		},
	},
	{
		"No goroutine is left",
		"After a success, exhausted attempts, and a cancellation.",
		func(t tester, c *contestant) cell {
			left := bubble(t, func(t tester) int {
				before := bubbled(t)
				_ = record(t.Context(), c.prepare(policy{attempts: 3, first: time.Second}), always(nil))
				_ = failing(t.Context(), c.prepare(policy{attempts: 3, first: time.Second}))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				time.AfterFunc(time.Second, cancel)
				_ = failing(ctx, c.prepare(policy{attempts: 3, first: time.Hour}))
				synctest.Wait()
				return bubbled(t) - before
			})
			return keptIf(left == 0, "%d left", left)
		},
	},
}

// finalAt records a call in which the attempt n fails for good.
func finalAt(t tester, c *contestant, n int) run {
	t.Helper()
	return played(t, c.prepare(policy{attempts: 3, final: errFinal}), func(_ context.Context, i int) error {
		return choose(i == n, errFinal, errOp)
	})
}

// both tells whether err leads to the operation's error and to one of the ends
// of the context.
func both(err error, ends ...error) cell {
	ended := false
	for _, end := range ends {
		ended = ended || errors.Is(err, end)
	}
	switch op := errors.Is(err, errOp); {
	case op && ended:
		return cell{kept, "both"}
	case op:
		return cell{partly, "the operation's error only"}
	default:
		return cell{broken, "the operation's error is lost: `" + text(err) + "`"}
	}
}

// form tells how target is in err.
func form(err, target error) string {
	switch {
	case err == target:
		return "the very error"
	case errors.Is(err, target):
		return fmt.Sprintf("wrapped in %T", err)
	default:
		return "lost: `" + text(err) + "`"
	}
}

func text(err error) string {
	if err == nil {
		return "nil"
	}
	return err.Error()
}
