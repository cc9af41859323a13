//nolint:paralleltest // Allocations are counted for the whole process.
package retry_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
)

// assertAllocs checks that a call of fn allocates nothing, or want times.
func assertAllocs(t *testing.T, want int, fn func()) {
	t.Helper()
	assert.EqualValues(t, want, testing.AllocsPerRun(200, fn))
}

func TestAllocsOfSuccess(t *testing.T) {
	background := context.Background()
	cancelable, cancel := context.WithCancel(t.Context())
	defer cancel()
	deadline, cancelDeadline := context.WithTimeout(t.Context(), time.Hour)
	defer cancelDeadline()
	contexts := map[string]context.Context{"background": background, "cancelable": cancelable, "deadline": deadline}
	policies := map[string]*retry.Policy{
		"nil":      nil,
		"zero":     {},
		"all data": {Name: "task", MaxAttempts: 5, MaxElapsed: time.Hour, Backoff: retry.Fibonacci{}, Jitter: retry.EqualJitter},
		"budget":   {Budget: &retry.Budget{}},
	}
	for kind, ctx := range contexts {
		for name, p := range policies {
			t.Run(kind+", "+name, func(t *testing.T) {
				var err error
				assertAllocs(t, 0, func() { err = p.Execute(ctx, succeed) })
				require.NoError(t, err)

				n, text := 0, name
				assertAllocs(t, 0, func() {
					err = p.Execute(ctx, func(context.Context) error {
						n += len(text)
						return nil
					})
				})
				require.NoError(t, err)
				require.Positive(t, n)

				v := 0
				assertAllocs(t, 0, func() {
					v, err = retry.Do(ctx, p, func(context.Context) (int, error) {
						n++
						return n, nil
					})
				})
				require.NoError(t, err)
				require.Equal(t, n, v)
			})
		}
	}
}

func TestAllocsOfFinal(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	marked := retry.MarkFinal(errBoom)
	wrapped := fmt.Errorf("wrapped: %w", marked)
	tests := []struct {
		name string
		p    retry.Policy
		err  error
	}{
		{"mark", retry.Policy{}, marked},
		{"wrapped mark", retry.Policy{}, wrapped},
		{"mark after a classifier", retry.Policy{Classifier: finalByClassifier}, marked},
		{"classifier", retry.Policy{Classifier: finalByClassifier}, errFinal},
		{"On", retry.Policy{Classifier: retry.On(retry.Final, errFinal)}, errFinal},
		{"Chain", retry.Policy{Classifier: retry.Chain(nil, retry.On(retry.Retryable, errBoom), finalByClassifier)}, errFinal},
		{"with a budget", retry.Policy{Budget: &retry.Budget{}}, marked},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var err error
			fn := func(context.Context) error { return tt.err }
			assertAllocs(t, 0, func() { err = tt.p.Execute(ctx, fn) })
			require.Equal(t, tt.err, err)

			assertAllocs(t, 0, func() {
				_, err = retry.Do(ctx, &tt.p, func(context.Context) (string, error) { return "", tt.err })
			})
			require.Equal(t, tt.err, err)
		})
	}
}

func TestAllocsOfRetries(t *testing.T) {
	cancelable, cancel := context.WithCancel(t.Context())
	defer cancel()
	deadline, cancelDeadline := context.WithTimeout(t.Context(), time.Hour)
	defer cancelDeadline()
	tests := []struct {
		name string
		p    retry.Policy
	}{
		{"unknown", retry.Policy{}},
		{"classifier", retry.Policy{Classifier: finalByClassifier}},
		{"elapsed", retry.Policy{MaxElapsed: time.Hour}},
		{"unlimited", retry.Policy{MaxAttempts: retry.Unlimited}},
		{"reserve", retry.Policy{Budget: &retry.Budget{Ratio: 1, Reserve: 1_000_000}}},
		{"credit", retry.Policy{Budget: richBudget()}},
		{"override", retry.Policy{Overrides: map[string]retry.Override{"unknown": {MaxAttempts: 5}}}},
	}
	for _, tt := range tests {
		for kind, ctx := range map[string]context.Context{"cancelable": cancelable, "deadline": deadline} {
			t.Run(kind+", "+tt.name, func(t *testing.T) {
				p := tt.p
				if p.MaxAttempts == 0 {
					p.MaxAttempts = 4
				}
				p.Backoff = retry.Constant(0)
				calls, runs := 0, 0
				var err error
				assertAllocs(t, 0, func() {
					runs++
					n := 0
					err = p.Execute(ctx, func(context.Context) error {
						calls++
						if n++; n <= 3 {
							return errBoom
						}
						return nil
					})
				})
				require.NoError(t, err)
				require.Equal(t, 4*runs, calls)
			})
		}
	}
}

// richBudget has credit for many retries and keeps it.
func richBudget() *retry.Budget {
	b := &retry.Budget{Reserve: retry.NoReserve, TTL: 1000 * time.Hour}
	deposit(b, time.Now(), 100_000, 1)
	return b
}

// A call that is given up allocates its error and nothing else.
func TestAllocsOfExhausted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	soon, cancelSoon := context.WithTimeout(t.Context(), time.Hour)
	defer cancelSoon()
	dead, kill := context.WithCancel(t.Context())
	kill()
	hinted := retry.MarkRateLimited(errBoom, time.Hour)
	tests := []struct {
		name string
		ctx  context.Context
		p    retry.Policy
		err  error
		stop error
	}{
		{"attempts", ctx, retry.Policy{Backoff: retry.Constant(0)}, errBoom, retry.ErrAttemptsExhausted},
		{"one attempt", ctx, retry.Policy{MaxAttempts: 1}, errBoom, retry.ErrAttemptsExhausted},
		{"budget", ctx, retry.Policy{Budget: &retry.Budget{Reserve: retry.NoReserve}}, errBoom, retry.ErrBudgetExhausted},
		{"elapsed", ctx, retry.Policy{MaxElapsed: time.Minute, Backoff: retry.Constant(time.Hour)}, errBoom, retry.ErrElapsed},
		{"deadline", soon, retry.Policy{Backoff: retry.Constant(2 * time.Hour)}, errBoom, context.DeadlineExceeded},
		{"hint", ctx, retry.Policy{}, hinted, retry.ErrRetryAfterTooLong},
		{"non-idempotent", ctx, retry.Policy{NonIdempotent: true}, errBoom, retry.ErrMaybeApplied},
		{"not started", dead, retry.Policy{}, nil, context.Canceled},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var err error
			fn := func(context.Context) error { return tt.err }
			assertAllocs(t, 1, func() { err = tt.p.Execute(tt.ctx, fn) })
			require.ErrorIs(t, err, tt.stop)

			assertAllocs(t, 1, func() {
				_, err = retry.Do(tt.ctx, &tt.p, func(context.Context) (int, error) { return 0, tt.err })
			})
			require.ErrorIs(t, err, tt.stop)
		})
	}
	t.Run("Next", func(t *testing.T) {
		now := time.Now()
		p := &retry.Policy{}
		s := retry.State{Failures: 2, First: now}
		assertAllocs(t, 1, func() { sinkDecision = p.Next(s, errBoom, now) })
		require.ErrorIs(t, sinkDecision.Err, retry.ErrAttemptsExhausted)
	})
}

func TestAllocsOfNext(t *testing.T) {
	now := time.Now()
	policies := map[string]*retry.Policy{
		"classifier": {MaxAttempts: 10, Classifier: finalByClassifier},
		"elapsed":    {MaxAttempts: 10, MaxElapsed: time.Hour},
		"zero":       {},
		"nil":        nil,
		"override":   {Overrides: map[string]retry.Override{"retryable": {MaxDelay: time.Minute}, "unknown": {MaxDelay: time.Minute}}},
	}
	for name, p := range policies {
		for _, key := range []string{"", "job 42"} {
			t.Run(name+" "+key, func(t *testing.T) {
				s := retry.State{Failures: 1, First: now, Key: key}
				assertAllocs(t, 0, func() { sinkDecision = p.Next(s, errBoom, now) })
				require.True(t, sinkDecision.Retry)
				assertAllocs(t, 0, func() { sinkDecision = p.Decide(s, sinkVerdict, now) })
				require.True(t, sinkDecision.Retry)
				ctx := t.Context()
				assertAllocs(t, 0, func() {
					call := retry.Call{Policy: p, State: s}
					call.Begin(ctx)
					sinkDecision = call.End(errBoom)
				})
				require.True(t, sinkDecision.Retry)
				assertAllocs(t, 0, func() { sinkDuration = p.Delay(s) })
				require.LessOrEqual(t, sinkDuration, time.Minute)
				assertAllocs(t, 0, func() { _, sinkDuration = p.Bounds(3) })
				require.Positive(t, sinkDuration)
			})
		}
	}
}

func TestAllocsOfClassify(t *testing.T) {
	p := &retry.Policy{Classifier: finalByClassifier}
	assertAllocs(t, 0, func() { sinkVerdict = retry.Classify(errBoom) })
	require.Equal(t, retry.Unknown, sinkVerdict.Class)
	assertAllocs(t, 0, func() { sinkVerdict = p.Classify(errFinal) })
	require.Equal(t, retry.Final, sinkVerdict.Class)
	marked := retry.MarkFinal(errBoom)
	assertAllocs(t, 0, func() { sinkVerdict = retry.Classify(marked) })
	require.Equal(t, retry.Final, sinkVerdict.Class)
	sinkVerdict = retry.Verdict{}
}

func TestAllocsOfBudget(t *testing.T) {
	b := &retry.Budget{}
	now := time.Now()
	granted := 0
	assertAllocs(t, 0, func() {
		now = now.Add(time.Millisecond)
		b.Deposit(now)
		if b.TryWithdraw(now) {
			granted++
		}
	})
	require.Positive(t, granted)
	assertAllocs(t, 0, func() { b.TryWithdraw(now) }) // refused
}

func TestAllocsOfDelays(t *testing.T) {
	backoffs := []retry.Backoff{
		retry.Exponential{},
		retry.Exponential{Initial: time.Millisecond, Multiplier: 1.5},
		retry.Linear{},
		retry.Fibonacci{},
		retry.Constant(time.Second),
		retry.Schedule{time.Second, time.Minute},
		retry.Schedule(nil),
	}
	jitters := []retry.Jitter{
		retry.FullJitter, retry.EqualJitter, retry.NoJitter, retry.Proportional(0.1), retry.PlusMinus(time.Second),
	}
	for _, backoff := range backoffs {
		for _, jitter := range jitters {
			t.Run(fmt.Sprintf("%v, %v", backoff, jitter), func(t *testing.T) {
				n := 0
				assertAllocs(t, 0, func() {
					n++
					sinkDuration = jitter.Apply(min(backoff.Delay(n), time.Minute), time.Minute, uint64(n)<<32)
				})
				p := &retry.Policy{Backoff: backoff, Jitter: jitter}
				assertAllocs(t, 0, func() {
					n++
					sinkDuration = p.Delay(retry.State{Failures: n})
				})
				assertAllocs(t, 0, func() {
					n++
					sinkDuration = p.Delay(retry.State{Failures: n, Key: "job 42"})
				})
			})
		}
	}
}
