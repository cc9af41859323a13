package peers

import (
	"context"
	"time"
)

// Workload is what all contestants do alike. The benchmark has its name.
type Workload struct {
	Name  string
	Title string

	form     form
	policy   policy
	script   script
	parallel bool // from all cores
}

type form int

const (
	static     form = iota // an operation without variables
	withValue              // the same with a result
	overLocals             // a closure, and a context for every call
	delaysOnly
)

// policy is what a contestant is set up with: errFinal ends a call, every other
// error is retried.
type policy struct {
	attempts int
	wait     time.Duration // before every retry, or exponential
	marked   bool          // the operation says itself that errFinal is final
}

// exponential stands for waits of 100 ms ×2 ≤ 30 s with full jitter or, where that
// is not to be had, with the nearest.
const (
	exponential time.Duration = -1
	initial                   = 100 * time.Millisecond
	limit                     = 30 * time.Second
)

// tick is the shortest wait there is. With it a benchmark measures what it takes
// to set up a timer and to receive from it. Anything longer would add the time
// that the system takes to wake a thread, which is the same for everyone and a
// hundred times as much.
const tick = time.Nanosecond

var (
	usual       = policy{attempts: 3, wait: exponential}
	usualMarked = policy{attempts: 3, wait: exponential, marked: true}
)

// Workloads returns all of them in the order of the tables.
func Workloads() []*Workload {
	const failures = 3
	return []*Workload{
		{Name: "Success", Title: "success, static function", policy: usual},
		{Name: "SuccessClosure", Title: "success, closure over locals, a context per call", form: overLocals, policy: usual},
		{Name: "SuccessValue", Title: "success with a value", form: withValue, policy: usual},
		{Name: "SuccessParallel", Title: "success from all cores", policy: usual, parallel: true},
		{Name: "Final", Title: "final error at once", form: overLocals, policy: usual, script: script{end: errFinal}},
		{
			Name: "FinalMarked", Title: "final error at once, which the operation says itself",
			form: overLocals, policy: usualMarked, script: script{end: errFinal},
		},
		{
			Name: "ThreeFailures", Title: "3 failures, then success, without waits",
			form: overLocals, policy: policy{attempts: failures + 1}, script: script{failures: failures},
		},
		{
			Name: "ThreeFailuresTimers", Title: "3 failures, then success, with timers",
			form: overLocals, policy: policy{attempts: failures + 1, wait: tick}, script: script{failures: failures},
		},
		{
			Name: "Exhausted", Title: "gives up after 5 failures, without waits",
			form: overLocals, policy: policy{attempts: 5}, script: script{failures: 5},
		},
		{
			Name: "ExhaustedTimers", Title: "gives up after 5 failures, with timers",
			form: overLocals, policy: policy{attempts: 5, wait: tick}, script: script{failures: 5},
		},
		{Name: "TenDelays", Title: "computes ten delays", form: delaysOnly},
		{Name: "TenDelaysParallel", Title: "computes ten delays on every core", form: delaysOnly, parallel: true},
		{
			Name: "FailOnceParallel", Title: "fails once, then success, with a timer, from all cores",
			form: overLocals, policy: policy{attempts: 3, wait: tick}, script: script{failures: 1}, parallel: true,
		},
	}
}

func find(name string) *Workload {
	for _, w := range Workloads() {
		if w.Name == name {
			return w
		}
	}
	return nil
}

// Takes reports whether c can do the work at all.
func (w *Workload) Takes(c *Contestant) bool {
	return (w.form != delaysOnly || c.delays != nil) && (!w.policy.marked || c.markFinal != nil)
}

// run returns the work of c: n calls, to be made with any of two contexts, and the
// error of the last.
func (w *Workload) run(c *Contestant, o *op, s *script) func(ctxs [2]context.Context, n int) error {
	if w.form == delaysOnly {
		return func(_ [2]context.Context, n int) error {
			var waits [10]time.Duration
			c.delays.draw(n, &waits)
			return nil
		}
	}
	if w.policy.marked {
		s = s.mark(c.markFinal)
	}
	calls := c.new(w.policy)
	switch w.form {
	case overLocals:
		return func(ctxs [2]context.Context, n int) error { return calls.closure(ctxs, n, s) }
	case withValue:
		return func(ctxs [2]context.Context, n int) error {
			_, err := calls.value(ctxs[0], n, o)
			return err
		}
	default:
		return func(ctxs [2]context.Context, n int) error { return calls.static(ctxs[0], n, o) }
	}
}
