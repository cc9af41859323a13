//nolint:testpackage // What the contestants do is not exported.
package peers

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"testing"
)

// The raw output says what it was measured with: testing prints the rest.
func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("test.bench"); f != nil && f.Value.String() != "" {
		fmt.Println("go:", runtime.Version())
	}
	os.Exit(m.Run())
}

func BenchmarkSuccess(b *testing.B)             { bench(b, "Success") }
func BenchmarkSuccessClosure(b *testing.B)      { bench(b, "SuccessClosure") }
func BenchmarkSuccessValue(b *testing.B)        { bench(b, "SuccessValue") }
func BenchmarkSuccessParallel(b *testing.B)     { bench(b, "SuccessParallel") }
func BenchmarkFinal(b *testing.B)               { bench(b, "Final") }
func BenchmarkFinalMarked(b *testing.B)         { bench(b, "FinalMarked") }
func BenchmarkThreeFailures(b *testing.B)       { bench(b, "ThreeFailures") }
func BenchmarkThreeFailuresTimers(b *testing.B) { bench(b, "ThreeFailuresTimers") }
func BenchmarkExhausted(b *testing.B)           { bench(b, "Exhausted") }
func BenchmarkExhaustedTimers(b *testing.B)     { bench(b, "ExhaustedTimers") }
func BenchmarkTenDelays(b *testing.B)           { bench(b, "TenDelays") }
func BenchmarkTenDelaysParallel(b *testing.B)   { bench(b, "TenDelaysParallel") }
func BenchmarkFailOnceParallel(b *testing.B)    { bench(b, "FailOnceParallel") }

// bench measures all contestants in a random order, so that over many rounds none
// always follows the same one. The contexts can be canceled, as those of requests
// can, and are not.
func bench(b *testing.B, workload string) {
	b.Helper()
	w := find(workload)
	contestants := Contestants()
	rand.Shuffle(len(contestants), func(i, j int) {
		contestants[i], contestants[j] = contestants[j], contestants[i]
	})
	for _, c := range contestants {
		if !w.Takes(c) {
			continue
		}
		b.Run("by="+c.Name, func(b *testing.B) {
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			run := w.run(c, succeed, &w.script)
			b.ReportAllocs()
			b.ResetTimer()
			w.repeat(run, [2]context.Context{ctx, ctx}, b.N)
		})
	}
}

// repeat makes n calls, from all cores if the workload says so.
func (w *Workload) repeat(run func([2]context.Context, int) error, ctxs [2]context.Context, n int) {
	if !w.parallel {
		_ = run(ctxs, n)
		return
	}
	cores := runtime.GOMAXPROCS(0)
	var done sync.WaitGroup
	for core := range cores {
		done.Go(func() { _ = run(ctxs, n*(core+1)/cores-n*core/cores) })
	}
	done.Wait()
}
