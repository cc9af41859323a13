package drivers_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// stage is where a driver plays a scenario: on a retrytest.Clock, or on the clock of a
// synctest bubble.
type stage struct {
	*testing.T
	*scenario
	policy retry.Policy  // with clock, budget and observer
	budget *retry.Budget // nil means none
	ctx    context.Context
	now    func() time.Time

	// sleep returns nil when the time has passed, or the error of a context that
	// ends first.
	sleep func(context.Context, time.Duration) error

	withTimeout func(context.Context, time.Duration) (context.Context, context.CancelFunc)

	begin time.Time
	last  error // of the last attempt

	mu     sync.Mutex // a driver may work on several goroutines
	course course
}

// course is the recorded course of an operation.
type course struct {
	attempts []time.Duration // when they began, since the start
	events   []retry.Event
	err      error
	first    time.Duration // the First of its State, since the start
	left     int           // retries in the budget
}

// driver makes the attempts of an operation, and returns how it ended.
type driver func(*stage) error

// onClock plays a scenario on a retrytest.Clock.
func (sc *scenario) onClock(t *testing.T, drive driver) course {
	t.Helper()
	clock := retrytest.NewClock(sc.start)
	s := &stage{T: t, scenario: sc, policy: sc.policy, now: clock.Now, sleep: clock.AdvanceContext, withTimeout: clock.WithTimeout}
	s.policy.Clock = clock
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	if sc.cancel > 0 {
		clock.At(sc.cancel, func() { cancel(errHopeless) })
	}
	s.ctx = ctx
	if sc.timeout > 0 {
		var stop context.CancelFunc
		s.ctx, stop = clock.WithTimeout(ctx, sc.timeout)
		defer stop()
	}
	return s.play(drive)
}

// inBubble plays a scenario on the system's clock, in a bubble of package synctest.
func (sc *scenario) inBubble(t *testing.T, drive driver) (c course) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &stage{T: t, scenario: sc, policy: sc.policy, now: time.Now, sleep: sleep, withTimeout: context.WithTimeout}
		ctx, cancel := context.WithCancelCause(context.Background())
		defer cancel(nil)
		if sc.cancel > 0 {
			defer time.AfterFunc(sc.cancel, func() { cancel(errHopeless) }).Stop()
		}
		s.ctx = ctx
		if sc.timeout > 0 {
			var stop context.CancelFunc
			s.ctx, stop = context.WithTimeout(ctx, sc.timeout)
			defer stop()
		}
		c = s.play(drive)
	})
	return c
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// play runs the driver.
func (s *stage) play(drive driver) course {
	s.Helper()
	s.policy.Rand, s.policy.Observer = retrytest.NewRand(s.seed), s
	if b := s.scenario.budget; b != nil {
		s.budget = &retry.Budget{Ratio: b.ratio, Reserve: b.reserve, TTL: time.Minute}
		s.policy.Budget = s.budget
	}
	s.policy.Classifier = s.classifier()
	s.begin = s.now()
	err := drive(s)
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.course.err = err
	if e := s.course.gaveUp(); e != nil { // the start is not the same on every clock
		s.course.first, e.State.First = e.State.First.Sub(s.begin), time.Time{}
	}
	for s.budget != nil && s.budget.TryWithdraw(now) {
		s.course.left++
	}
	return s.course
}

// Observe implements [retry.Observer].
func (s *stage) Observe(_ context.Context, e retry.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.course.events = append(s.course.events, e)
}

// classifier returns the Classifier of the scenario. It checks that the context is
// asked before the error.
func (s *stage) classifier() retry.Classifier {
	classify := retry.Chain(s.policy.Classifier)
	return func(err error) retry.Verdict {
		assert.NoError(s, s.ctx.Err(), "seed %d: %v is classified", s.seed, err)
		return classify(err)
	}
}

// op makes the next attempt of the script.
func (s *stage) op(ctx context.Context) error {
	o := s.outcome(s.attempt())
	if o.heed == ignores {
		_ = s.sleep(context.Background(), o.took)
		return s.returns(o.err)
	}
	err := s.sleep(ctx, o.took)
	switch {
	case err == nil, o.heed == hurries:
		return s.returns(o.err)
	case o.heed == hides:
		return s.returns(errHidden)
	default:
		return s.returns(err)
	}
}

// attempt notes an attempt, and returns the number of attempts before it.
func (s *stage) attempt() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.course.attempts = append(s.course.attempts, s.now().Sub(s.begin))
	return len(s.course.attempts) - 1
}

func (s *stage) returns(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = err
	return err
}

// waits returns the waits that were announced.
func (c *course) waits() (waits []time.Duration) {
	for _, e := range c.events {
		if e.Kind == retry.Retrying {
			waits = append(waits, e.Delay)
		}
	}
	return waits
}

// verdicts returns the verdicts about the failures.
func (c *course) verdicts() (verdicts []retry.Verdict) {
	for _, e := range c.events {
		if e.Kind != retry.Succeeded {
			verdicts = append(verdicts, e.Verdict)
		}
	}
	return verdicts
}

// stop returns why the operation was given up; StopNone means that it succeeded.
func (c *course) stop() retry.StopReason {
	if len(c.events) == 0 {
		return retry.StopNone
	}
	return c.events[len(c.events)-1].Stop
}

// gaveUp returns the error of an operation that was given up, or nil after a success or
// a Final error.
func (c *course) gaveUp() *retry.Error {
	if c.stop() == retry.StopFinal {
		return nil
	}
	e, _ := c.err.(*retry.Error)
	return e
}

// cutWait reports whether the operation ended while it waited.
func (c *course) cutWait() bool {
	n := len(c.waits())
	return n > 0 && n == len(c.attempts)
}

// The following functions remove what a driver cannot tell from both courses
// before they are compared.

// forgetEvents removes the State's First too, which is not set if nothing asks for it.
func (c *course) forgetEvents() { c.events, c.first = nil, 0 }

func (c *course) forgetWaited() {
	if e := c.gaveUp(); e != nil {
		e.Waited = 0
	}
}

// forgetTimedOut removes the verdict about an attempt that Policy.Timeout has ended.
func (c *course) forgetTimedOut() {
	if c.stop() == retry.StopTimeout {
		c.events[len(c.events)-1].Verdict = retry.Verdict{}
	}
}

func (c *course) forgetApplied() {
	for i := range c.events {
		if e := &c.events[i]; e.Kind != retry.Succeeded {
			e.Verdict.NotApplied = true
		}
	}
}

func (c *course) forgetStatus() {
	for i := range c.events {
		if v := &c.events[i].Verdict; v.Category == unknownStatus {
			v.Category = ""
		}
	}
}
