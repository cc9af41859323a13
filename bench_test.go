package retry_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retryquota"
)

// The benchmarks come in pairs: a call of the library, and a careful
// hand-written loop, which checks its context before every attempt. `make
// bench` prints the ratios.

var (
	errBoom  = errors.New("boom")
	errFinal = errors.New("final")
)

//go:noinline
func succeed(context.Context) error { return nil }

//go:noinline
func fail(context.Context) error { return errFinal }

// hand is the hand-written loop: attempts, context, classifier, no wait.
//
//go:noinline
func hand(ctx context.Context, attempts int, final func(error) bool, fn func(context.Context) error) error {
	var err error
	for range attempts {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		default:
		}
		if err = fn(ctx); err == nil {
			return nil
		}
		if final != nil && final(err) {
			return err
		}
	}
	return err
}

//go:noinline
func handDo(ctx context.Context, attempts int, fn func(context.Context) (int, error)) (v int, err error) {
	for range attempts {
		select {
		case <-ctx.Done():
			return v, context.Cause(ctx)
		default:
		}
		if v, err = fn(ctx); err == nil {
			return v, nil
		}
	}
	return v, err
}

func isFinal(err error) bool { return errors.Is(err, errFinal) }

func finalByClassifier(err error) retry.Verdict {
	if errors.Is(err, errFinal) {
		return retry.Verdict{Class: retry.Final}
	}
	return retry.Verdict{Class: retry.Retryable}
}

func pair(b *testing.B, byHand, ours func(b *testing.B)) {
	b.Helper()
	b.Run("by=hand", byHand)
	b.Run("by=retry", ours)
}

func BenchmarkSuccess(b *testing.B) { benchSuccess(b, context.Background()) }

// A context that can be canceled adds the same check to both loops.
func BenchmarkSuccessCancelable(b *testing.B) {
	ctx, cancel := context.WithCancel(context.Background())
	b.Cleanup(cancel)
	benchSuccess(b, ctx)
}

//nolint:revive // what is measured comes after the benchmark
func benchSuccess(b *testing.B, ctx context.Context) {
	b.Helper()
	p := &retry.Policy{}
	pair(b, func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = hand(ctx, 3, nil, succeed)
		}
	}, func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = p.Execute(ctx, succeed)
		}
	})
}

func BenchmarkSuccessClosure(b *testing.B) {
	ctx := context.Background()
	p := &retry.Policy{}
	pair(b, func(b *testing.B) {
		b.ReportAllocs()
		n := 0
		for b.Loop() {
			_ = hand(ctx, 3, nil, func(context.Context) error { n++; return nil })
		}
	}, func(b *testing.B) {
		b.ReportAllocs()
		n := 0
		for b.Loop() {
			_ = p.Execute(ctx, func(context.Context) error { n++; return nil })
		}
	})
}

func BenchmarkSuccessDo(b *testing.B) {
	ctx := context.Background()
	p := &retry.Policy{}
	one := func(context.Context) (int, error) { return 1, nil }
	pair(b, func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = handDo(ctx, 3, one)
		}
	}, func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, _ = retry.Do(ctx, p, one)
		}
	})
}

func BenchmarkSuccessParallel(b *testing.B) {
	ctx := context.Background()
	p := &retry.Policy{}
	pair(b, func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				_ = hand(ctx, 3, nil, succeed)
			}
		})
	}, func(b *testing.B) {
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				_ = p.Execute(ctx, succeed)
			}
		})
	})
}

func BenchmarkFinalByMark(b *testing.B) {
	err := retry.MarkFinal(errFinal)
	benchFinal(b, &retry.Policy{}, func(context.Context) error { return err })
}

func BenchmarkFinalByClassifier(b *testing.B) {
	benchFinal(b, &retry.Policy{Classifier: finalByClassifier}, fail)
}

func benchFinal(b *testing.B, p *retry.Policy, failing func(context.Context) error) {
	b.Helper()
	ctx := context.Background()
	pair(b, func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = hand(ctx, 3, isFinal, fail)
		}
	}, func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = p.Execute(ctx, failing)
		}
	})
}

func BenchmarkThreeFailures(b *testing.B) {
	ctx := context.Background()
	p := &retry.Policy{MaxAttempts: 4, Backoff: retry.Constant(0), Classifier: finalByClassifier}
	pair(b, func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			n := 0
			_ = hand(ctx, 4, isFinal, func(context.Context) error {
				if n++; n <= 3 {
					return errBoom
				}
				return nil
			})
		}
	}, func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			n := 0
			_ = p.Execute(ctx, func(context.Context) error {
				if n++; n <= 3 {
					return errBoom
				}
				return nil
			})
		}
	})
}

// tenDelays is what a loop of one's own does.
func tenDelays(b *testing.B) {
	const initial, limit = 100 * time.Millisecond, 30 * time.Second
	for b.Loop() {
		d := initial
		for range 10 {
			sinkDuration = time.Duration(rand.Int64N(int64(d) + 1))
			d = min(2*d, limit)
		}
	}
}

func BenchmarkTenDelays(b *testing.B) {
	pair(b, tenDelays, func(b *testing.B) {
		var backoff retry.Backoff = retry.Exponential{Initial: 100 * time.Millisecond, Multiplier: 2}
		var jitter retry.Jitter = retry.FullJitter
		const limit = 30 * time.Second
		for b.Loop() {
			for n := range 10 {
				d := min(backoff.Delay(n+1), limit)
				sinkDuration = jitter.Apply(d, limit, rand.Uint64())
			}
		}
	})
}

// A stateless daemon asks for the delay of every row.
func BenchmarkTenPolicyDelays(b *testing.B) {
	pair(b, tenDelays, func(b *testing.B) {
		b.ReportAllocs()
		p := &retry.Policy{Backoff: retry.Exponential{Initial: 100 * time.Millisecond}}
		for b.Loop() {
			for n := range 10 {
				sinkDuration = p.Delay(retry.State{Failures: n + 1})
			}
		}
	})
}

var (
	sinkDuration time.Duration
	sinkDecision retry.Decision
	sinkVerdict  retry.Verdict
)

func BenchmarkNext(b *testing.B) {
	b.ReportAllocs()
	p := &retry.Policy{MaxAttempts: 10, Classifier: finalByClassifier}
	now := time.Unix(1700000000, 0)
	s := retry.State{Failures: 2, First: now}
	for b.Loop() {
		sinkDecision = p.Next(s, errBoom, now)
	}
}

func BenchmarkClassifyUnknown(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		sinkVerdict = retry.Classify(errBoom)
	}
}

type (
	plainError struct { // no field of interest
		Op, Host, Path, Detail, Hint string
		Attempt                      int
		Started, Ended               time.Time
		Err                          error
	}
	statusOnlyError struct {
		Op         string
		StatusCode int
	}
	responseError struct {
		Code     string
		Response *http.Response
	}
)

func (*plainError) Error() string      { return "plain" }
func (*statusOnlyError) Error() string { return "status" }
func (*responseError) Error() string   { return "response" }

// The errors of clients are known by the fields of their types.
func BenchmarkClassifyStruct(b *testing.B) {
	response := &http.Response{StatusCode: http.StatusTooManyRequests, Header: http.Header{"Retry-After": {"5"}}}
	wrapped := error(&plainError{})
	for range 3 {
		wrapped = fmt.Errorf("wrapped: %w", wrapped)
	}
	for _, bb := range []struct {
		name string
		err  error
	}{
		{"plain", &plainError{}},
		{"wrapped", wrapped},
		{"status", &statusOnlyError{StatusCode: http.StatusServiceUnavailable}},
		{"response", &responseError{Code: "rate_limit_exceeded", Response: response}},
	} {
		b.Run("fields="+bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				sinkVerdict = retry.Classify(bb.err)
			}
		})
	}
}

func BenchmarkBudgetSuccess(b *testing.B) {
	b.ReportAllocs()
	ctx := context.Background()
	p := &retry.Policy{Budget: &retry.Budget{}}
	for b.Loop() {
		_ = p.Execute(ctx, succeed)
	}
}

// openQuota is a Quota that knows no limit.
func openQuota() *retryquota.Quota {
	q := &retryquota.Quota{}
	turn, _, _ := q.Take(nil, 1)
	for range 500 {
		q.Tell(nil, turn, nil, retry.Verdict{})
	}
	return q
}

func BenchmarkQuotaSuccess(b *testing.B) {
	b.ReportAllocs()
	ctx := context.Background()
	p := &retry.Policy{Quota: openQuota()}
	for b.Loop() {
		_ = p.Execute(ctx, succeed)
	}
}

func TestAllocsOfQuota(t *testing.T) {
	p := &retry.Policy{Quota: openQuota()}
	assertAllocs(t, 0, func() { _ = p.Execute(t.Context(), succeed) })
	start := &retry.Policy{Quota: &retryquota.Quota{}}
	assertAllocs(t, 0, func() { _ = start.Execute(t.Context(), succeed) })
}

// assertAllocs checks that a call of fn allocates nothing, or want times.
func assertAllocs(t *testing.T, want int, fn func()) {
	t.Helper()
	assert.EqualValues(t, want, testing.AllocsPerRun(200, fn))
}

// liveContexts are contexts of all kinds that do not end before the test.
func liveContexts(t *testing.T) map[string]context.Context {
	t.Helper()
	cancelable, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	deadline, cancelDeadline := context.WithTimeout(t.Context(), time.Hour)
	t.Cleanup(cancelDeadline)
	return map[string]context.Context{"background": context.Background(), "cancelable": cancelable, "deadline": deadline}
}

func TestAllocsOfSuccess(t *testing.T) {
	policies := map[string]*retry.Policy{
		"nil":      nil,
		"zero":     {},
		"all data": {Name: "task", MaxAttempts: 5, MaxElapsed: time.Hour, Backoff: retry.Fibonacci{}, Jitter: retry.EqualJitter},
		"budget":   {Budget: &retry.Budget{}},
	}
	for kind, ctx := range liveContexts(t) {
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
	for _, tt := range []struct {
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
	} {
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
	for _, tt := range []struct {
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
	} {
		for kind, ctx := range liveContexts(t) {
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

// A call that is given up allocates only its error.
func TestAllocsOfExhausted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	soon, cancelSoon := context.WithTimeout(t.Context(), time.Hour)
	defer cancelSoon()
	dead, kill := context.WithCancel(t.Context())
	kill()
	hinted := retry.MarkRateLimited(errBoom, time.Hour)
	for _, tt := range []struct {
		name string
		ctx  context.Context
		p    retry.Policy
		err  error
		stop error
	}{
		{"attempts", ctx, retry.Policy{Backoff: retry.Constant(0)}, errBoom, retry.StopAttempts},
		{"one attempt", ctx, retry.Policy{MaxAttempts: 1}, errBoom, retry.StopAttempts},
		{"budget", ctx, retry.Policy{Budget: &retry.Budget{Reserve: retry.NoReserve}}, errBoom, retry.StopBudget},
		{"elapsed", ctx, retry.Policy{MaxElapsed: time.Minute, Backoff: retry.Constant(time.Hour)}, errBoom, retry.StopElapsed},
		{"deadline", soon, retry.Policy{Backoff: retry.Constant(2 * time.Hour)}, errBoom, context.DeadlineExceeded},
		{"hint", ctx, retry.Policy{}, hinted, retry.StopRetryAfter},
		{"non-idempotent", ctx, retry.Policy{NonIdempotent: true}, errBoom, retry.StopMaybeApplied},
		{"not started", dead, retry.Policy{}, nil, context.Canceled},
	} {
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
		require.ErrorIs(t, sinkDecision.Err, retry.StopAttempts)
	})
}

func TestAllocsOfNext(t *testing.T) {
	now := time.Now()
	for name, p := range map[string]*retry.Policy{
		"classifier": {MaxAttempts: 10, Classifier: finalByClassifier},
		"elapsed":    {MaxAttempts: 10, MaxElapsed: time.Hour},
		"zero":       {},
		"nil":        nil,
		"override":   {Overrides: map[string]retry.Override{"retryable": {MaxDelay: time.Minute}, "unknown": {MaxDelay: time.Minute}}},
	} {
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
				for _, key := range []string{"", "job 42"} {
					assertAllocs(t, 0, func() {
						n++
						sinkDuration = p.Delay(retry.State{Failures: n, Key: key})
					})
				}
			})
		}
	}
}

// BenchmarkSleepers reports the memory of a caller that waits for its retry, of one that waits
// in a hand-written loop, and of one that stands in the line of a Quota.
func BenchmarkSleepers(b *testing.B) {
	p := &retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(time.Hour)}
	failing := func(context.Context) error { return errBoom }
	pair(b, func(b *testing.B) {
		sleepers(b, func(ctx context.Context) {
			timer := time.NewTimer(time.Hour)
			defer timer.Stop()
			for range 2 {
				if failing(ctx) == nil {
					return
				}
				select {
				case <-timer.C:
				case <-ctx.Done():
					return
				}
			}
		})
	}, func(b *testing.B) {
		sleepers(b, func(ctx context.Context) { _ = p.Execute(ctx, failing) })
	})
	b.Run("by=line", func(b *testing.B) {
		limited := *p
		limited.Quota, limited.MaxRetryAfter = &retryquota.Quota{MaxHold: time.Hour}, time.Hour
		limited.MaxAttempts = 1
		_ = limited.Execute(b.Context(), func(context.Context) error { return retry.MarkRateLimited(errBoom, time.Hour) })
		sleepers(b, func(ctx context.Context) { _ = limited.Execute(ctx, failing) })
	})
}

func sleepers(b *testing.B, call func(context.Context)) {
	const n = 20_000
	for b.Loop() {
		ctx, cancel := context.WithCancel(context.Background())
		before := testkit.InUse()
		var done sync.WaitGroup
		for range n {
			done.Go(func() { call(ctx) })
		}
		for runtime.NumGoroutine() < n {
			runtime.Gosched()
		}
		time.Sleep(200 * time.Millisecond) // until all of them sleep
		b.ReportMetric((testkit.InUse()-before)/n, "B/sleeper")
		cancel()
		done.Wait()
	}
}
