//nolint:testpackage // What the contestants do is not exported.
package peers

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
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

// A peer that says that its delays differ has to say how, and the other way round.
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

// Where two things are ready at once, select takes either, so that what may happen
// does in so many runs.
const runs = 200

func TestContextThatHasEnded(t *testing.T) {
	t.Parallel()
	dead, cancel := context.WithCancel(t.Context())
	cancel()
	for _, form := range []form{static, withValue, overLocals} {
		w := &Workload{Name: "dead", form: form, policy: usual}
		for _, c := range Contestants() {
			s := script{trace: &trace{}}
			err := w.run(c, s.op(dead, c), &s)([2]context.Context{dead, dead}, 1)
			assert.Equal(t, c.has(callsDead), len(s.trace.calls) > 0, c.Name)
			if !c.has(callsDead) {
				assert.ErrorIs(t, err, context.Canceled, c.Name)
			}
		}
	}
}

// The context ends while the operation runs or, worse, when the library asks for
// Done the first time, the second, and so on. No second attempt may see that.
func TestContextThatEnds(t *testing.T) {
	t.Parallel()
	w := &Workload{form: overLocals, policy: policy{attempts: 4}, script: script{failures: 10}}
	for _, c := range Contestants() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			calls := 0
			for range runs {
				calls += afterCancel(t, c, w, 0)
				for question := 1; question <= 8; question++ {
					calls += afterCancel(t, c, w, question)
				}
			}
			assert.Equal(t, c.has(callsCanceled), calls > 0, "%d calls", calls)
		})
	}
}

// afterCancel returns how many attempts c makes, the first not counted, although
// the context has ended: with that question, or during the first call if it is 0.
func afterCancel(t *testing.T, c *Contestant, w *Workload, question int) int {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked := &endsWhenAsked{Context: ctx, cancel: cancel, question: question}
	s := w.script
	s.trace = &trace{}
	if question == 0 {
		s.trace.onCall = cancel
	}
	err := w.run(c, nil, &s)([2]context.Context{asked, asked}, 1)
	assert.Error(t, err)
	late := 0
	for _, call := range s.trace.calls[min(1, len(s.trace.calls)):] {
		if call.ended {
			late++
		}
	}
	return late
}

// endsWhenAsked is a context that ends in the moment when it is asked for Done for
// the so many-th time.
type endsWhenAsked struct {
	context.Context //nolint:containedctx // it is one
	cancel          context.CancelFunc
	question        int
}

func (c *endsWhenAsked) Done() <-chan struct{} {
	if c.question--; c.question == 0 {
		c.cancel()
	}
	return c.Context.Done()
}

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
