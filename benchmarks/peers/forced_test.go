//nolint:testpackage // What the contestants do is not exported.
package peers

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	retryv4 "github.com/avast/retry-go/v4"
	retryv5 "github.com/avast/retry-go/v5"
	backoffv5 "github.com/cenkalti/backoff/v5"
	backoffv7 "github.com/cenkalti/backoff/v7"
	codegrooveretry "github.com/codeGROOVE-dev/retry"
	"github.com/googleapis/gax-go/v2"
	goretry "github.com/sethvargo/go-retry"
	"github.com/stretchr/testify/assert"
)

// proofs say of every contestant that builds something in every call that its API
// leaves no choice.
var proofs = map[string]func(context.Context) bool{
	// The second wait depends on the first, whosever that was.
	"backoff-v5": func(context.Context) bool {
		b := &backoffv5.ExponentialBackOff{InitialInterval: 1, Multiplier: 2, MaxInterval: limit}
		first := b.NextBackOff()
		return b.NextBackOff() > first
	},
	"backoff-v7": func(context.Context) bool {
		b := &backoffv7.ExponentialBackOff{InitialInterval: 1, Multiplier: 2, MaxInterval: limit}
		first := b.NextBackOff()
		return b.NextBackOff() > first
	},
	// Options are applied in every call.
	"retry-go-v4": func(context.Context) bool {
		applied := 0
		for range 2 {
			_ = retryv4.Do(succeedErr, func(*retryv4.Config) { applied++ })
		}
		return applied == 2
	},
	"codegroove": func(context.Context) bool {
		applied := 0
		for range 2 {
			_ = codegrooveretry.Do(succeedErr, func(*codegrooveretry.Config) { applied++ })
		}
		return applied == 2
	},
	// A context that has ended ends all calls.
	"retry-go-v5": func(ctx context.Context) bool {
		ctx, cancel := context.WithCancel(ctx)
		r := retryv5.New(retryv5.Context(ctx))
		before := r.Do(succeedErr)
		cancel()
		return before == nil && errors.Is(r.Do(succeedErr), context.Canceled)
	},
	// The second call has no retry left.
	"go-retry": func(ctx context.Context) bool {
		b := goretry.WithMaxRetries(1, goretry.NewConstant(tick))
		calls := 0
		for range 2 {
			_ = goretry.Do(ctx, b, func(context.Context) error {
				calls++
				return goretry.RetryableError(errBoom)
			})
		}
		return calls == 2+1
	},
	// The stock Retryer goes on.
	"gax": func(ctx context.Context) bool {
		const many = 100
		calls := 0
		_ = gax.Invoke(ctx, func(context.Context, gax.CallSettings) error {
			if calls++; calls == many {
				return errFinal
			}
			return errBoom
		}, gax.WithRetry(func() gax.Retryer {
			return gax.OnErrorFunc(gax.Backoff{Initial: tick, Max: tick}, func(err error) bool { return !isFinal(err) })
		}))
		return calls == many
	},
}

func TestForced(t *testing.T) {
	t.Parallel()
	for _, c := range Contestants() {
		declared := c.has(perCall) || c.has(perContext) || c.has(countsItself)
		proof := proofs[c.Name]
		if assert.Equal(t, declared, proof != nil, c.Name) && declared {
			assert.True(t, proof(t.Context()), c.Name)
		}
	}
}

// A timer takes 248 bytes, and nothing else takes more than 200 on the first
// failure.
//
//nolint:paralleltest // Allocations are counted for the whole process.
func TestTimerForNothing(t *testing.T) {
	for _, c := range Contestants() {
		calls := c.new(policy{attempts: 3})
		ctxs := [2]context.Context{t.Context(), t.Context()}
		const n = 100
		bytes := func(failures int) int {
			s := &script{failures: failures}
			return allocated(func() { _ = calls.closure(ctxs, n, s) }) / n
		}
		bytes(1) // whatever is set up once
		assert.Equal(t, c.has(timerForNothing), bytes(1)-bytes(0) > 200, "%s: %d bytes", c.Name, bytes(1)-bytes(0))
	}
}

func allocated(fn func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fn()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}

// With a timer that never fires, those who use it wait for their context.
//
//nolint:paralleltest // The timer is shared.
func TestFakeTimer(t *testing.T) {
	w := find("ThreeFailures")
	for _, c := range Contestants() {
		synctest.Test(t, func(t *testing.T) {
			defer func(c chan time.Time) { fired = c }(fired)
			fired = make(chan time.Time)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			start := time.Now()
			_ = w.run(c, nil, &w.script)([2]context.Context{ctx, ctx}, 1)
			assert.Equal(t, c.has(fakeTimer), time.Since(start) == time.Second, c.Name)
		})
	}
}
