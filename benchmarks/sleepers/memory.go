package main

import (
	"runtime"
	"runtime/metrics"
)

// memory returns the bytes in use for the heap and for stacks, and for stacks alone.
// The second collection frees what the first has found, and halves stacks that are
// mostly empty again.
func memory() (all, stacks float64) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse), float64(m.StackInuse)
}

// resting reports whether n goroutines or more wait, and none is about to run. It is
// not exact while there are.
func resting(n int) bool {
	states := []metrics.Sample{
		{Name: "/sched/goroutines/waiting:goroutines"},
		{Name: "/sched/goroutines/runnable:goroutines"},
	}
	metrics.Read(states)
	return states[0].Value.Uint64() >= uint64(n) && states[1].Value.Uint64() == 0
}
