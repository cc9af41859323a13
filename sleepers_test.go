package retry_test

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// BenchmarkSleepers reports the memory of a caller that waits for its retry,
// next to one that waits in a loop by hand.
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
}

func sleepers(b *testing.B, call func(context.Context)) {
	const n = 20_000
	for b.Loop() {
		ctx, cancel := context.WithCancel(context.Background())
		before := memory()
		var done sync.WaitGroup
		for range n {
			done.Go(func() { call(ctx) })
		}
		for runtime.NumGoroutine() < n {
			runtime.Gosched()
		}
		time.Sleep(200 * time.Millisecond) // until all of them sleep
		b.ReportMetric(float64(memory()-before)/n, "B/sleeper")
		cancel()
		done.Wait()
	}
}

func memory() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}
