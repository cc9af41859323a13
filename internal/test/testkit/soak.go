package testkit

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// Waited is a context that counts the functions that wait for its end.
type Waited struct {
	context.Context //nolint:containedctx // a context of its own kind

	Waiters atomic.Int64
}

// AfterFunc implements what package context asks a parent for.
func (w *Waited) AfterFunc(f func()) (stop func() bool) {
	w.Waiters.Add(1)
	stopped := sync.OnceFunc(func() { w.Waiters.Add(-1) })
	stopFunc := context.AfterFunc(w.Context, f)
	return func() bool {
		stopped()
		return stopFunc()
	}
}

// Value hides that w has a parent of package context, which would be asked in place of w.
func (w *Waited) Value(key any) any { return context.WithoutCancel(w.Context).Value(key) }

// Ledger counts what an Observer is told: the attempts that have begun, the ends of them, and events.
type Ledger struct{ Begun, Ended, Events atomic.Int64 }

// Observer returns that which is told.
func (l *Ledger) Observer() *retry.Observer {
	return &retry.Observer{
		Event: func(context.Context, retry.Event) { l.Events.Add(1) },
		Attempt: func(ctx context.Context, _ int) (context.Context, func(error)) {
			l.Begun.Add(1)
			return ctx, func(error) { l.Ended.Add(1) }
		},
	}
}

// Soak calls round again and again for a second, or as long as RETRY_TEST_SOAK says: 10m, for
// example. When idle reports that nothing is in progress, the process holds on to no more than
// after a fifth of the time.
func Soak(t *testing.T, round func(), idle func() bool) {
	t.Helper()
	span, err := time.ParseDuration(cmp.Or(os.Getenv("RETRY_TEST_SOAK"), "1s"))
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	rounds := func(until time.Duration) (goroutines, descriptors int, heap uint64) {
		for time.Since(began) < until {
			round()
		}
		for !idle() {
			runtime.Gosched()
		}
		for range 3 {
			runtime.GC()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		open, _ := os.ReadDir("/proc/self/fd") // Linux
		return runtime.NumGoroutine(), len(open), m.HeapAlloc
	}
	goroutines, descriptors, heap := rounds(span / 5)
	lateGoroutines, lateDescriptors, lateHeap := rounds(span)
	t.Logf("%d goroutines, %d descriptors and %d bytes, %d, %d and %d after a fifth of the time",
		lateGoroutines, lateDescriptors, lateHeap, goroutines, descriptors, heap)
	if lateGoroutines > goroutines+20 || lateDescriptors > descriptors+20 || float64(lateHeap) > 1.05*float64(heap)+256<<10 {
		t.Error("goroutines, descriptors or bytes of the heap have grown")
	}
}

// GrowsLikeTheInput checks that fn, which is given a function that makes its input in a size,
// allocates no more than in proportion to it.
func GrowsLikeTheInput[T any](t *testing.T, fn func(T), input func(bytes int) T) {
	t.Helper()
	const size = 20 << 10
	allocated := func(in T) uint64 {
		var before, after runtime.MemStats
		fn(in)
		runtime.ReadMemStats(&before)
		fn(in)
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	small, large := allocated(input(size)), allocated(input(10*size))
	if large > 12*small+16<<10 {
		t.Errorf("%d bytes for %d, %d for %d", small, size, large, 10*size)
	}
}

// InUse returns the bytes of heap and stacks that the program holds.
func InUse() float64 {
	runtime.GC()
	runtime.GC() // what the first one only took out of pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}

// Measures skips a test that measures memory under the race detector, which needs its own.
func Measures(t *testing.T) {
	t.Helper()
	if Race {
		t.Skip("the race detector allocates too")
	}
}

// NoLeaks runs the tests of a package, and fails if a goroutine is left that waits for what
// nobody can reach any more. Before Go 1.27 it only runs the tests. Call it from TestMain.
func NoLeaks(m *testing.M) {
	code := m.Run()
	if profile := pprof.Lookup("goroutineleak"); profile != nil && code == 0 {
		var leaked bytes.Buffer
		err := profile.WriteTo(&leaked, 1)
		if first, _, _ := bytes.Cut(leaked.Bytes(), []byte("\n")); err != nil || string(first) != "goroutineleak profile: total 0" {
			fmt.Fprintln(os.Stderr, "leaked goroutines:", err, leaked.String())
			code = 1
		}
	}
	os.Exit(code)
}
