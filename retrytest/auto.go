package retrytest

import (
	"slices"
	"sync"
	"time"
)

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
