package retry_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// The benchmarks come in pairs: what the library does, and the loop that a
// careful engineer would write by hand for it, which looks at its context
// before every attempt. `make bench` prints the ratios.

var (
	errBoom  = errors.New("boom")
	errFinal = errors.New("final")
)

//go:noinline
func succeed(context.Context) error { return nil }

//go:noinline
func fail(context.Context) error { return errFinal }

// hand is the loop by hand: attempts, context, classifier, no wait.
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

func BenchmarkSuccess(b *testing.B) {
	ctx := context.Background()
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

// A context that can be canceled makes both loops dearer by the same check.
func BenchmarkSuccessCancelable(b *testing.B) {
	ctx, cancel := context.WithCancel(context.Background())
	b.Cleanup(cancel)
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
	ctx := context.Background()
	p := &retry.Policy{}
	err := retry.MarkFinal(errFinal)
	marked := func(context.Context) error { return err }
	pair(b, func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = hand(ctx, 3, isFinal, fail)
		}
	}, func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = p.Execute(ctx, marked)
		}
	})
}

func BenchmarkFinalByClassifier(b *testing.B) {
	ctx := context.Background()
	p := &retry.Policy{Classifier: finalByClassifier}
	pair(b, func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = hand(ctx, 3, isFinal, fail)
		}
	}, func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_ = p.Execute(ctx, fail)
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

func BenchmarkTenDelays(b *testing.B) {
	pair(b, func(b *testing.B) {
		const initial, limit = 100 * time.Millisecond, 30 * time.Second
		for b.Loop() {
			d := initial
			for range 10 {
				sinkDuration = time.Duration(rand.Int64N(int64(d) + 1))
				d = min(2*d, limit)
			}
		}
	}, func(b *testing.B) {
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
	pair(b, func(b *testing.B) {
		const initial, limit = 100 * time.Millisecond, 30 * time.Second
		for b.Loop() {
			d := initial
			for range 10 {
				sinkDuration = time.Duration(rand.Int64N(int64(d) + 1))
				d = min(2*d, limit)
			}
		}
	}, func(b *testing.B) {
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

func BenchmarkBudgetSuccess(b *testing.B) {
	b.ReportAllocs()
	ctx := context.Background()
	p := &retry.Policy{Budget: &retry.Budget{}}
	for b.Loop() {
		_ = p.Execute(ctx, succeed)
	}
}
