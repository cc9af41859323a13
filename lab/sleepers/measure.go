package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/metrics"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// measurement is one kind of benchmark.
type measurement struct {
	name      string // for -what
	benchmark string
	n         int // of sleepers, if nothing else is asked for
	peers     func() []string
	run       func(by string, n int) ([]figure, error)
	times     int // how often it is done; 0 means for every one of n
}

// figure is a value and its unit.
type figure struct {
	value float64
	unit  string
}

var measurements = []measurement{
	{name: "sleepers", benchmark: "Sleepers", n: 100_000, peers: peerNames, run: sleepers, times: 1},
	{name: "pool-none", benchmark: "Pool/context=none", n: 1_000_000, peers: onlyOurs, run: poolUnder(noContext), times: 1},
	{name: "pool-shared", benchmark: "Pool/context=shared", n: 1_000_000, peers: onlyOurs, run: poolUnder(sharedContext), times: 1},
	{name: "pool-own", benchmark: "Pool/context=own", n: 1_000_000, peers: onlyOurs, run: poolUnder(ownContext), times: 1},
	{name: "cancel", benchmark: "Cancel", n: 10_000, peers: peerNames, run: cancellation, times: cancels},
	{name: "accuracy", benchmark: "Accuracy", n: 300, peers: peerNames, run: accuracy},
}

// measure makes one measurement and prints its line. n is 0 for the usual number.
func measure(what, by string, n int, out io.Writer) error {
	i := slices.IndexFunc(measurements, func(m measurement) bool { return m.name == what })
	if i < 0 {
		return fmt.Errorf("there is no measurement %q", what)
	}
	m := measurements[i]
	if n <= 0 {
		n = m.n
	}
	figures, err := m.run(by, n)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "Benchmark%s/by=%s %d", m.benchmark, by, cmp.Or(m.times, n))
	for _, f := range figures {
		fmt.Fprintf(out, " %.0f %s", f.value, f.unit)
	}
	fmt.Fprintln(out)
	return nil
}

// sleepers measures the memory of n calls that sleep.
func sleepers(by string, n int) ([]figure, error) {
	before, stacksBefore := memory()
	d, err := lull(by, n, time.Hour)
	if err != nil {
		return nil, err
	}
	after, stacks := memory()
	if err := d.check(); err != nil {
		return nil, err
	}
	return []figure{
		{(after - before) / float64(n), "B/sleeper"},
		{(stacks - stacksBefore) / float64(n), "stack-B/sleeper"},
	}, nil
}

// cancellation measures how long it takes to wake n calls that sleep: the median of
// several times, because a time is short and one interruption is long.
func cancellation(by string, n int) ([]figure, error) {
	goroutines := runtime.NumGoroutine()
	times := make([]time.Duration, cancels)
	left := 0
	for i := range times {
		d, err := lull(by, n, time.Hour)
		if err != nil {
			return nil, err
		}
		runtime.GC() // now rather than meanwhile
		start := time.Now()
		d.cancel()
		d.returned.Wait()
		times[i] = time.Since(start)
		if calls := d.calls.Load(); calls != int64(n) {
			return nil, fmt.Errorf("%d attempts after the cancel", calls-int64(n))
		}
		left = max(left, leftAbove(goroutines))
	}
	slices.Sort(times)
	return []figure{{float64(times[cancels/2]), "ns/op"}, {float64(left), "goroutines-left"}}, nil
}

const cancels = 5

// leftAbove returns how many goroutines there are above the number. Those that have
// only to end are given the time.
func leftAbove(number int) int {
	deadline := time.Now().Add(5 * time.Second)
	for {
		left := max(runtime.NumGoroutine()-number, 0)
		if left == 0 || time.Now().After(deadline) {
			return left
		}
		time.Sleep(time.Millisecond)
	}
}

// accuracy measures how much later than asked for the second attempt of n calls
// is made, one after the other.
func accuracy(by string, n int) ([]figure, error) {
	const wait = 10 * time.Millisecond
	p, err := peerNamed(by)
	if err != nil {
		return nil, err
	}
	call := p.prepare(wait)
	late := make([]time.Duration, 0, n)
	for range n {
		var failed time.Time
		err := call(context.Background(), func(context.Context) error {
			if failed.IsZero() {
				failed = time.Now()
				return errFailed
			}
			late = append(late, time.Since(failed)-wait)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(late)
	return []figure{
		{float64(late[len(late)*50/100]), "p50-ns"},
		{float64(late[len(late)*99/100]), "p99-ns"},
	}, nil
}

var (
	errFailed   = errors.New("failed")
	errRestless = errors.New("some are about to run")
)

// dormitory is where calls sleep.
type dormitory struct {
	n        int
	cancel   context.CancelFunc
	calls    atomic.Int64
	awake    atomic.Int64 // have returned
	returned sync.WaitGroup
}

// lull puts n calls to sleep.
func lull(by string, n int, wait time.Duration) (*dormitory, error) {
	p, err := peerNamed(by)
	if err != nil {
		return nil, err
	}
	d := sleep(p, n, wait)
	deadline := time.Now().Add(time.Minute)
	for quiet := 0; quiet < 3; quiet++ {
		time.Sleep(10 * time.Millisecond)
		if err = d.check(); err != nil || !resting(n) {
			quiet = -1
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("they do not fall asleep: %w", cmp.Or(err, errRestless))
		}
	}
	return d, nil
}

// sleep starts n calls, which always fail. There is as little as can be beneath
// them: a goroutine starts with 2 KiB of stack, and what a contestant makes of that
// is its own doing.
func sleep(p peer, n int, wait time.Duration) *dormitory {
	ctx, cancel := context.WithCancel(context.Background())
	d := &dormitory{n: n, cancel: cancel}
	call, fail := p.prepare(wait), d.fail
	d.returned.Add(n)
	for range n {
		go func() {
			_ = call(ctx, fail)
			d.awake.Add(1)
			d.returned.Done()
		}()
	}
	return d
}

func (d *dormitory) fail(context.Context) error {
	d.calls.Add(1)
	return errFailed
}

// check reports whether all calls sleep, and none did anything else.
func (d *dormitory) check() error {
	if calls, awake := d.calls.Load(), d.awake.Load(); calls != int64(d.n) || awake != 0 {
		return fmt.Errorf("%d calls of %d, of which %d have returned", calls, d.n, awake)
	}
	return nil
}

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
