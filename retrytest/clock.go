package retrytest

import (
	"cmp"
	"container/heap"
	"context"
	"slices"
	"sync"
	"time"
)

// Clock is a clock that moves by itself: a sleep advances the time and returns.
// Meanwhile it runs, in order, everything that is due: deadlines of its
// contexts and functions given to [Clock.At].
//
// The zero value is ready and starts at 2000-01-01 00:00:00 UTC, as bubbles of
// testing/synctest do. A Clock must not be copied after its first use. It is a
// [retry.Clock] with both optional methods, so that
// [retry.Policy.AttemptTimeout] is measured by it too.
//
// A Clock starts no goroutine, and holds no lock while it runs a function, which
// may use the Clock as it likes. It is safe for concurrent use, but concurrent
// sleeps add up: after two sleeps of a second at once, two seconds have passed,
// in an order left to chance. So use one goroutine per Clock, and test
// concurrent code with testing/synctest.
type Clock struct {
	mu     sync.Mutex
	now    time.Time // zero stands for start
	events events
	seen   int // events, which numbers them
	sleeps []time.Duration
}

// event is something to be done at an instant in the future.
type event struct {
	at     time.Time
	number int // of its arrival
	fn     func()
	place  int // in the heap; -1 when it has left that
}

// events is a heap: in order of time, and at the same instant in order of arrival.
type events []*event

func (e *events) Len() int { return len(*e) }

func (e *events) Less(i, j int) bool {
	a, b := (*e)[i], (*e)[j]
	return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.number, b.number)) < 0
}

func (e *events) Swap(i, j int) {
	all := *e
	all[i], all[j] = all[j], all[i]
	all[i].place, all[j].place = i, j
}

func (e *events) Push(x any) {
	added := x.(*event) //nolint:forcetypeassert // nothing else is in it
	added.place = len(*e)
	*e = append(*e, added)
}

func (e *events) Pop() any {
	last := len(*e) - 1
	removed := (*e)[last]
	(*e)[last], *e = nil, (*e)[:last]
	removed.place = -1
	return removed
}

// start is when a zero Clock starts.
var start = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)

// NewClock returns a Clock that starts at the wall time of an instant. The zero
// Time means the start of the zero Clock.
func NewClock(start time.Time) *Clock {
	return &Clock{now: start.Round(0)} // without its monotonic reading
}

// Now returns the current time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.read()
}

// After sleeps for d and returns a channel that holds the time then. It knows
// no context, and always sleeps to the end. If code waits for a channel or for
// its context, [Clock.SleepContext] tells which came first.
func (c *Clock) After(d time.Duration) <-chan time.Time {
	c.record(d)
	c.Advance(d)
	ch := make(chan time.Time, 1)
	ch <- c.Now()
	return ch
}

// SleepContext sleeps for d and returns nil. If ctx ends meanwhile, even in the
// last instant, it stops there and returns the error of ctx. If ctx is done
// already, it returns that error at once, and there was no sleep.
func (c *Clock) SleepContext(ctx context.Context, d time.Duration) error {
	if isDone(ctx) {
		return ctx.Err()
	}
	c.record(d)
	return c.AdvanceContext(ctx, d)
}

// Sleeps returns the durations of all sleeps so far, in order. A sleep that a
// context cut short has its full duration. Sleeps of 0 or less and Advance do not
// count.
func (c *Clock) Sleeps() []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.sleeps)
}

// Advance moves the time on by d, like an operation that takes d. If d is 0 or
// less, it does nothing.
func (c *Clock) Advance(d time.Duration) {
	_ = c.AdvanceContext(context.Background(), d) // never ends
}

// AdvanceContext moves the time on by d, like an operation that takes d unless
// its context ends. It is SleepContext without a record in Sleeps.
func (c *Clock) AdvanceContext(ctx context.Context, d time.Duration) error {
	d = max(d, 0)
	for !isDone(ctx) {
		fn, left := c.step(d)
		if fn == nil {
			return nil
		}
		fn()
		d = left
	}
	return ctx.Err()
}

// Taking returns an operation that takes d and then calls fn. If its context
// ends before that, it stops there and returns the error of the context.
func (c *Clock) Taking(d time.Duration, fn func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := c.AdvanceContext(ctx, d); err != nil {
			return err
		}
		return fn(ctx)
	}
}

// At runs fn when d has passed from now, on the goroutine that moves the time.
// Functions for the same instant run in the order of their calls of At. If d is
// 0 or less, fn runs before At returns.
//
// If fn moves the time itself, that is added to the sleep that it runs in.
func (c *Clock) At(d time.Duration, fn func()) {
	if c.schedule(c.Now().Add(d), fn) == nil {
		fn()
	}
}

// read returns the current time, under the lock.
func (c *Clock) read() time.Time {
	if c.now.IsZero() {
		c.now = start
	}
	return c.now
}

func (c *Clock) record(d time.Duration) {
	if d <= 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sleeps = append(c.sleeps, d)
}

// step moves the time on by d, but no further than to the next event. It returns
// the function of that event, if there is one, and the rest of d. It takes a
// duration instead of an instant, so that the sleeps of several goroutines add
// up in any order.
func (c *Clock) step(d time.Duration) (fn func(), left time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	end := c.read().Add(d)
	if len(c.events) == 0 || c.events[0].at.After(end) {
		c.now = end
		return nil, 0
	}
	next := c.events[0]
	heap.Remove(&c.events, 0)
	c.now = next.at
	return next.fn, end.Sub(next.at)
}

// schedule runs fn at t. It returns nil if t is not in the future.
func (c *Clock) schedule(t time.Time, fn func()) *event {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !t.After(c.read()) {
		return nil
	}
	c.seen++
	e := &event{at: t, number: c.seen, fn: fn}
	heap.Push(&c.events, e)
	return e
}

// remove removes an event, if there is one and it has not happened yet.
func (c *Clock) remove(e *event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e != nil && e.place >= 0 {
		heap.Remove(&c.events, e.place)
	}
}

// Mock is a clock that stands still until Add is called. *clock.Mock of
// github.com/benbjohnson/clock and of its successor
// github.com/filecoin-project/go-clock are Mocks as they are.
type Mock interface {
	Now() time.Time
	After(d time.Duration) <-chan time.Time
	Add(d time.Duration)
}

// AutoClock is a [retry.Clock] on top of a [Mock]: a wait on it advances the
// mock. Make one with [Auto].
//
// It is safe for concurrent use. Waits are made one after another, because a
// Mock allows one Add at a time. So concurrent waits add up, as on a [Clock].
type AutoClock struct {
	mock Mock

	mu     sync.Mutex
	sleeps []time.Duration
}

// Auto returns a clock that advances mock by itself.
//
// If a [retry.Policy] has the mock itself as its Clock, the test must call Add
// while the policy waits, and an Add before the wait has no effect on it. Auto
// begins the wait first, and then adds.
//
// The mock does not govern [retry.Policy.AttemptTimeout]; for that, use [Clock].
func Auto(mock Mock) *AutoClock { return &AutoClock{mock: mock} }

// Now returns the time of the mock.
func (a *AutoClock) Now() time.Time { return a.mock.Now() }

// After advances the mock by d and returns a channel that holds the time then.
// Functions that the mock runs meanwhile must not wait on this clock.
func (a *AutoClock) After(d time.Duration) <-chan time.Time {
	if d <= 0 {
		// The mock is not asked: benbjohnson's can hang when several
		// goroutines wait for no time at once.
		ch := make(chan time.Time, 1)
		ch <- a.Now()
		return ch
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sleeps = append(a.sleeps, d)
	ch := a.mock.After(d)
	a.mock.Add(d)
	return ch
}

// Sleeps returns the durations of all waits so far, in order. Waits of 0 or less
// do not count.
func (a *AutoClock) Sleeps() []time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.sleeps)
}
