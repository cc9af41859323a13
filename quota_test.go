package retry_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

var errLimited = errors.New("limited")

// asks is a Quota with a clock, for one caller.
type asks struct {
	*retry.Quota

	t   *testing.T
	now time.Time
}

func newAsks(t *testing.T, q *retry.Quota) *asks {
	t.Helper()
	return &asks{q, t, firstAttempt}
}

// take takes n turns that have to be there.
func (a *asks) take(n int) retry.Turn {
	a.t.Helper()
	turn, got, wait := a.Take(a.now, n)
	require.Equal(a.t, n, got, "turns; the next in %v", wait)
	return turn
}

// waits expects no turn, and returns how long to wait.
func (a *asks) waits() time.Duration {
	a.t.Helper()
	_, got, wait := a.Take(a.now, 1)
	require.Zero(a.t, got)
	require.Positive(a.t, wait)
	return wait
}

// gap takes what turns there are, and returns how long it is from one to the next.
func (a *asks) gap() time.Duration {
	a.t.Helper()
	for {
		_, got, wait := a.Take(a.now, 1)
		if got > 0 {
			continue
		}
		a.pass(wait)
		a.take(1)
		return a.waits()
	}
}

func (a *asks) served(turn retry.Turn) { a.Tell(a.now, turn, nil, retry.Verdict{}) }

func (a *asks) refused(turn retry.Turn, after time.Duration) time.Duration {
	return a.Tell(a.now, turn, errLimited, retry.Verdict{Class: retry.RateLimited, After: after})
}

func (a *asks) pass(d time.Duration) { a.now = a.now.Add(d) }

// At the start, two more go for each that has come back, and one more each half second. A turn
// is free after 500 successes.
func TestQuotaStart(t *testing.T) {
	t.Parallel()
	a := newAsks(t, &retry.Quota{})
	turn := a.take(1)
	assert.Equal(t, 10*time.Millisecond, a.waits())
	a.served(turn)
	a.take(2)
	a.waits()
	a.Tell(a.now, turn, errBoom, retry.Verdict{Class: retry.Retryable})
	a.take(2)
	a.waits()
	a.pass(time.Second)
	a.take(2)
	a.waits()
	for range 499 {
		a.served(turn)
	}
	a.take(1_000_000)
}

// Nobody goes before the hold is over. After it, turns come at twice the rate of the successes
// in the cycle that it ended.
func TestQuotaLearns(t *testing.T) {
	t.Parallel()
	a := newAsks(t, &retry.Quota{})
	var turn retry.Turn
	for range 10 {
		turn = a.take(1)
		a.served(turn)
	}
	a.pass(time.Second)
	assert.Equal(t, 4*time.Second, a.refused(turn, 4*time.Second))
	assert.Zero(t, a.refused(turn, 4*time.Second), "of the same burst")
	for range 4 {
		assert.Equal(t, a.now.Add(a.waits()), firstAttempt.Add(5*time.Second))
		a.pass(time.Second - 1)
	}
	a.pass(4)
	next := a.take(1)
	assert.NotEqual(t, turn, next)
	assert.Equal(t, 250*time.Millisecond, a.waits(), "10 in 5 s are 2 a second, and twice that 4")
	a.served(turn) // it was under way
	a.pass(250 * time.Millisecond)
	a.take(1)
	assert.InDelta(t, 5*time.Second/22, a.waits(), 1)
}

// A whole cycle without a refusal, in which somebody had to wait, makes the rate twice as fast.
func TestQuotaRises(t *testing.T) {
	t.Parallel()
	a := newAsks(t, &retry.Quota{})
	turn := a.take(1)
	a.served(turn)
	a.refused(turn, time.Second)
	a.pass(time.Second)
	turn = a.take(1)
	a.served(turn)
	before := a.waits()
	assert.Equal(t, 500*time.Millisecond, before)
	for range 3 {
		a.pass(a.waits())
		a.served(a.take(1))
	}
	assert.Equal(t, before/2, a.waits())
	a.pass(31 * time.Second)
	assert.Equal(t, turn, a.take(1))
	assert.Equal(t, 10*time.Millisecond, a.waits(), "the limit is forgotten")
}

// What is refused before anybody was served says nothing about the rate: the start goes on.
func TestQuotaUsedUpByOthers(t *testing.T) {
	t.Parallel()
	a := newAsks(t, &retry.Quota{})
	a.refused(a.take(1), 20*time.Second)
	a.pass(20 * time.Second)
	turn := a.take(1)
	assert.Equal(t, 10*time.Millisecond, a.waits(), "the first has to come back")
	a.served(turn)
	a.take(2)
}

// While every attempt is refused, holds are too short, and turns come more rarely. After that they
// come as often as before.
func TestQuotaOutage(t *testing.T) {
	t.Parallel()
	a := newAsks(t, &retry.Quota{})
	for turn := a.take(1); a.now.Sub(firstAttempt) < 2*time.Second; a.pass(100 * time.Millisecond) {
		a.served(turn)
	}
	a.refused(a.take(1), time.Second)
	a.pass(time.Second)
	turn := a.take(1)
	pace := a.waits()
	assert.Equal(t, 3*time.Second/40, pace)
	for n := range 10 {
		assert.Equal(t, min(pace<<n, time.Minute), a.waits())
		a.refused(turn, time.Second)
		a.pass(time.Second)
		turn = a.take(1)
	}
	a.served(turn)
	assert.Equal(t, pace, a.waits())
	a.pass(10 * time.Second) // a whole cycle in which somebody had to wait
	a.served(turn)
	a.served(a.take(1))
	assert.Equal(t, pace/2, a.gap())
}

// A success of the cycle before says more than the rate that it had before that.
func TestQuotaOutageIsNone(t *testing.T) {
	t.Parallel()
	a := newAsks(t, &retry.Quota{})
	first := a.take(1)
	a.served(first)
	a.refused(first, time.Second)
	a.pass(time.Second)
	second := a.take(1)
	a.refused(second, 4*time.Second)
	a.pass(4 * time.Second)
	third := a.take(1)
	a.served(second)
	learned := a.waits()
	a.served(third)
	assert.Equal(t, learned, a.waits())
}

// Without a hint, the hold doubles until there is a success.
func TestQuotaBlind(t *testing.T) {
	t.Parallel()
	a := newAsks(t, &retry.Quota{MaxHold: 5 * time.Second})
	for _, want := range []int{250, 500, 1000, 2000, 4000, 5000, 5000} {
		held := a.refused(a.take(1), 0)
		assert.EqualValues(t, want, held.Milliseconds())
		a.pass(held)
	}
	a.served(a.take(1))
	a.pass(5 * time.Second)
	assert.InDelta(t, 17750*time.Millisecond/4, a.refused(a.take(1), 0), 1, "a part of what the refusals took")
}

// A server that hints a day holds others for MaxHold. Several hints of one burst that differ by
// more than their rounding are two limits: the longer one counts.
func TestQuotaHints(t *testing.T) {
	t.Parallel()
	a := newAsks(t, &retry.Quota{})
	turn := a.take(1)
	assert.Equal(t, time.Minute, a.refused(turn, 24*time.Hour))
	assert.Equal(t, time.Minute, a.waits())

	a = newAsks(t, &retry.Quota{})
	turn = a.take(1)
	a.refused(turn, 10*time.Second)
	a.refused(turn, 11*time.Second)
	assert.Equal(t, 10*time.Second, a.waits(), "rounded up")
	a.refused(turn, 20*time.Second)
	assert.Equal(t, 20*time.Second, a.waits())
}

// A success may say that nothing is left.
func TestQuotaUsedUp(t *testing.T) {
	t.Parallel()
	a := newAsks(t, &retry.Quota{})
	turn := a.take(1)
	assert.Equal(t, time.Second, a.Tell(a.now, turn, nil, retry.Verdict{Class: retry.RateLimited, After: time.Second}))
	assert.Equal(t, time.Second, a.waits())
	a.pass(time.Second)
	a.take(1)
	assert.Equal(t, 500*time.Millisecond, a.waits())
}

// Turns that are not used are given back, unless a hold has come between.
func TestQuotaReturn(t *testing.T) {
	t.Parallel()
	a := newAsks(t, &retry.Quota{})
	turn := a.take(1)
	a.waits()
	a.Return(a.now, turn, 1)
	a.served(a.take(1))
	old := a.take(2)
	a.refused(old, time.Second)
	a.Return(a.now, old, 2)
	a.pass(time.Second)
	turn = a.take(1)
	a.waits()
	a.Return(a.now, turn, 1)
	a.take(1)
	(*retry.Quota)(nil).Return(a.now, 1, 1)
}

func TestQuotaNil(t *testing.T) {
	t.Parallel()
	var q *retry.Quota
	_, got, wait := q.Take(firstAttempt, 5)
	assert.Equal(t, 5, got)
	assert.Zero(t, wait)
	assert.Zero(t, q.Tell(firstAttempt, 1, errLimited, retry.Verdict{Class: retry.RateLimited}))
	p := &retry.Policy{Quota: q}
	require.NoError(t, p.Execute(t.Context(), func(context.Context) error { return nil }))
	call := retry.Call{Policy: p}
	assert.True(t, call.Begin(t.Context()))
}

// A clock that goes back holds nobody longer than before.
func TestQuotaClockGoesBack(t *testing.T) {
	t.Parallel()
	a := newAsks(t, &retry.Quota{})
	turn := a.take(1)
	a.served(turn)
	a.refused(turn, 30*time.Second)
	a.pass(-24 * time.Hour)
	a.take(1)
	wait := a.waits()
	assert.LessOrEqual(t, wait, 30*time.Second)
	a.pass(-time.Hour)
	a.take(1)
	assert.LessOrEqual(t, a.waits(), wait)
	a.pass(24 * 365 * time.Hour)
	a.take(1)
}

// Whatever happens: no turn before the end of a hold, at most one hold for a burst of
// refusals, and never a wait that is longer than MaxHold.
func TestQuotaOfAnything(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(4, 7))
	for range 2000 {
		q := &retry.Quota{MaxHold: time.Duration(r.IntN(5)) * time.Second}
		most := q.MaxHold
		if most == 0 {
			most = time.Minute
		}
		now, hold := firstAttempt, time.Time{}
		var turns []retry.Turn
		refusedOf := map[retry.Turn]bool{}
		for range 200 {
			now = now.Add(time.Duration(r.Int64N(int64(time.Second))) / time.Duration(1+r.IntN(1000)))
			switch turn, got, wait := q.Take(now, 1+r.IntN(3)); {
			case got > 0:
				require.False(t, now.Before(hold), "%v before the end of the hold", hold.Sub(now))
				turns = append(turns, turn)
			default:
				require.Positive(t, wait)
				require.LessOrEqual(t, wait, most)
				if r.IntN(3) == 0 {
					now = now.Add(wait)
				}
			}
			if len(turns) == 0 {
				continue
			}
			turn := turns[r.IntN(len(turns))]
			switch r.IntN(6) {
			case 0:
				after := time.Duration(r.IntN(3)) * time.Duration(r.Int64N(int64(10*time.Second)))
				held := q.Tell(now, turn, errLimited, retry.Verdict{Class: retry.RateLimited, After: after})
				if held > 0 {
					require.False(t, refusedOf[turn], "a second hold for one burst")
					refusedOf[turn], hold = true, now.Add(held)
					require.LessOrEqual(t, held, most)
				}
			case 1:
				q.Tell(now, turn, errBoom, retry.Verdict{Class: retry.Retryable})
			default:
				q.Tell(now, turn, nil, retry.Verdict{})
			}
		}
	}
}

// What Execute does behind a held quota: all wait, and go one by one.
func TestQuotaExecute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var events []retry.Event
		var mu sync.Mutex
		p := &retry.Policy{
			Quota: &retry.Quota{}, Jitter: retry.NoJitter, Budget: &retry.Budget{Reserve: retry.NoReserve},
			Observer: retry.ObserverFunc(func(_ context.Context, e retry.Event) {
				mu.Lock()
				defer mu.Unlock()
				if e.Kind == retry.Held {
					events = append(events, e)
				}
			}),
		}
		start := time.Now()
		api := &testkit.Window{Limit: 10, Length: 2 * time.Second}
		work := func(context.Context) error { return api.Ask() }
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() { assert.NoError(t, p.Execute(t.Context(), work)) })
		}
		all.Wait()
		done, refused := api.Answers()
		assert.Equal(t, 100, done)
		assert.LessOrEqual(t, refused, 25, "of 100 calls; each alone would be refused 4 times")
		assert.LessOrEqual(t, time.Since(start), 24*time.Second, "18 s are needed")
		assert.LessOrEqual(t, len(events), refused)
		require.NotEmpty(t, events)
		assert.Equal(t, 2*time.Second, events[0].Delay)
		assert.Equal(t, retry.RateLimited, events[0].Verdict.Class)
	})
}

// A third of 1,000 waiters is canceled: the others have their turns in order, and none is lost.
func TestQuotaLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := &retry.Quota{}
		p := &retry.Policy{Quota: q}
		turn, _, _ := q.Take(time.Now(), 1)
		for range 40 { // so that 80 a second go at first
			q.Tell(time.Now(), turn, nil, retry.Verdict{})
		}
		turn, _, _ = q.Take(time.Now(), 1)
		q.Tell(time.Now(), turn, errLimited, retry.Verdict{Class: retry.RateLimited, After: time.Second})
		synctest.Wait()
		var mu sync.Mutex
		type went struct {
			i  int
			at time.Time
		}
		var order []went
		var all sync.WaitGroup
		canceled := 0
		for i := range 1000 {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if i%3 == 0 {
				canceled++
				time.AfterFunc(time.Duration(rand.Int64N(int64(20*time.Second))), cancel)
			}
			all.Go(func() {
				err := p.Execute(ctx, func(context.Context) error {
					mu.Lock()
					defer mu.Unlock()
					order = append(order, went{i, time.Now()})
					return nil
				})
				assert.True(t, err == nil || i%3 == 0 && errors.Is(err, context.Canceled), "%v", err)
			})
			synctest.Wait() // so that they come in order
		}
		all.Wait()
		first := 0
		for n, w := range order { // those of one instant run in any order
			if w.at.After(order[first].at) {
				first = n
			}
			for _, before := range order[:first] {
				require.Less(t, before.i, w.i)
			}
		}
		assert.Greater(t, order[len(order)-1].at.Sub(order[0].at), time.Second)
		assert.GreaterOrEqual(t, len(order), 1000-canceled)
	})
}

// A call whose time is over before the hold is ends at once, and says how long the hold is.
func TestQuotaTooLate(t *testing.T) {
	t.Parallel()
	held := func() *retry.Quota {
		a := newAsks(t, &retry.Quota{})
		a.refused(a.take(1), 30*time.Second)
		return a.Quota
	}
	for name, tt := range map[string]struct {
		limit  time.Duration
		policy retry.Policy
		state  retry.State
		stop   retry.StopReason
	}{
		"deadline":                   {10 * time.Second, retry.Policy{}, retry.State{}, retry.StopDeadline},
		"elapsed":                    {time.Hour, retry.Policy{MaxElapsed: 10 * time.Second}, retry.State{First: firstAttempt}, retry.StopElapsed},
		"timeout":                    {time.Hour, retry.Policy{Timeout: 10 * time.Second}, retry.State{First: firstAttempt}, retry.StopTimeout},
		"elapsed, the first attempt": {time.Hour, retry.Policy{MaxElapsed: 10 * time.Second}, retry.State{}, retry.StopElapsed},
		"timeout, the first attempt": {time.Hour, retry.Policy{Timeout: 10 * time.Second}, retry.State{}, retry.StopTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := retrytest.NewClock(firstAttempt)
			tt.policy.Quota, tt.policy.Clock = held(), clock
			call := retry.Call{Policy: &tt.policy, State: tt.state}
			ctx, cancel := clock.WithTimeout(t.Context(), tt.limit)
			defer cancel()
			assert.False(t, call.Next(ctx))
			var e *retry.Error
			require.ErrorAs(t, call.Err(), &e)
			assert.Equal(t, tt.stop, e.Stop)
			assert.Equal(t, 30*time.Second, e.RetryAfter)
			assert.Empty(t, clock.Sleeps())
		})
	}
}

// Begin does not wait, and a Stored job is handed back: nothing is counted.
func TestQuotaBegin(t *testing.T) {
	t.Parallel()
	a := newAsks(t, &retry.Quota{})
	a.refused(a.take(1), 10*time.Second)
	clock := retrytest.NewClock(firstAttempt)
	p := &retry.Policy{Quota: a.Quota, Clock: clock, Rand: word(0)}
	call := retry.Call{Policy: p}
	assert.False(t, call.Begin(t.Context()))
	require.NoError(t, call.Err())
	assert.Equal(t, 10*time.Second, call.Delay())

	state := retry.State{Failures: 1, First: firstAttempt}
	job := retry.Stored{Policy: p, State: state, Lost: 1}
	work := func(context.Context) error { return nil }
	assert.Equal(t, retry.Handed, job.Attempt(t.Context(), work))
	require.EqualError(t, job.Err, "retry: the turn of the job has not come")
	assert.Equal(t, 10*time.Second, job.Decision.Delay)
	assert.Equal(t, retry.State{Failures: 2, First: firstAttempt}, job.State, "the lost attempt counts")

	clock.Advance(10 * time.Second)
	assert.True(t, call.Begin(t.Context()))
	job = retry.Stored{Policy: p, State: state}
	assert.Equal(t, retry.Handed, job.Attempt(t.Context(), work), "the turn after that comes later")
	turn, _, _ := a.Take(clock.Now().Add(time.Minute), 1)
	job = retry.Stored{Policy: p, State: state, Turn: turn}
	assert.Equal(t, retry.Done, job.Attempt(t.Context(), work))
}

// The clock of an engine may be wrong by hours. A Quota goes by that of the policy.
func TestQuotaOfAnEngineWithAClock(t *testing.T) {
	t.Parallel()
	for _, off := range []time.Duration{-time.Hour, time.Hour} {
		clock := retrytest.NewClock(firstAttempt)
		p := &retry.Policy{Quota: &retry.Quota{}, Clock: clock, Rand: word(0)}
		job := func() *retry.Stored {
			return &retry.Stored{Policy: p, Now: func() time.Time { return clock.Now().Add(off) }}
		}
		refused := job()
		assert.Equal(t, retry.Again, refused.Attempt(t.Context(), func(context.Context) error {
			return retry.MarkRateLimited(errLimited, 10*time.Second)
		}))
		held := job()
		assert.Equal(t, retry.Handed, held.Attempt(t.Context(), func(context.Context) error { return nil }))
		assert.Equal(t, 10*time.Second, held.Decision.Delay.Round(time.Second))
		_, _, wait := p.Quota.Take(p.Now(), 1) // as a Worker does before a claim
		assert.Equal(t, 10*time.Second, wait)
		clock.Advance(10 * time.Second)
		assert.Equal(t, retry.Done, job().Attempt(t.Context(), func(context.Context) error { return nil }))
	}
}

// A refusal costs no attempt, with a hint or without, and nothing of the budget.
func TestQuotaRefusalsAreFree(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{0, time.Second} {
		p := &retry.Policy{
			MaxAttempts: 2, Quota: &retry.Quota{}, Clock: retrytest.NewClock(firstAttempt),
			Budget: &retry.Budget{Reserve: retry.NoReserve},
		}
		calls := 0
		err := p.Execute(t.Context(), func(context.Context) error {
			if calls++; calls <= 50 {
				return retry.MarkRateLimited(errLimited, after)
			}
			return nil
		})
		require.NoError(t, err)
		calls = -1000
		err = p.Execute(t.Context(), func(context.Context) error { calls++; return retry.MarkRateLimited(errLimited, after) })
		require.ErrorIs(t, err, retry.StopAttempts)
		assert.Equal(t, -1000+102, calls, "100 for free, and 2 attempts")
		p.MaxAttempts, calls = 1, 0
		_ = p.Execute(t.Context(), func(context.Context) error { calls++; return retry.MarkRateLimited(errLimited, after) })
		assert.Equal(t, 1, calls, "no retry is no retry")
	}
}

// oddPacer returns nonsense.
type oddPacer struct{ answers []int }

func (o *oddPacer) Take(time.Time, int) (retry.Turn, int, time.Duration) {
	n := o.answers[0]
	o.answers = o.answers[1:]
	return 0, n, -time.Hour
}
func (o *oddPacer) Return(time.Time, retry.Turn, int) {}

func (o *oddPacer) Tell(time.Time, retry.Turn, error, retry.Verdict) time.Duration {
	return -1
}

func TestPacerOfOnesOwn(t *testing.T) {
	t.Parallel()
	clock := retrytest.NewClock(firstAttempt)
	p := &retry.Policy{Quota: &oddPacer{[]int{0, -7, 1}}, Clock: clock}
	require.NoError(t, p.Execute(t.Context(), func(context.Context) error { return nil }))
	assert.Equal(t, []time.Duration{time.Millisecond, time.Millisecond}, clock.Sleeps())
}

// A turn of a policy that was exchanged for one without a Quota is forgotten, and one of
// another Quota is of an old cycle.
func TestTurnOfAnotherPolicy(t *testing.T) {
	t.Parallel()
	for _, p := range []*retry.Policy{nil, {}, {Quota: &retry.Quota{}}, {Quota: (*retry.Quota)(nil)}} {
		for _, err := range []error{nil, retry.MarkRateLimited(errLimited, time.Second), errBoom} {
			job := retry.Stored{Policy: p, Turn: 7}
			outcome := job.Attempt(t.Context(), func(context.Context) error { return err })
			assert.Equal(t, err == nil, outcome == retry.Done)
			assert.Equal(t, err != nil, outcome == retry.Again)
			call := retry.Call{Policy: p, Turn: 7}
			require.True(t, call.Begin(t.Context()))
			call.End(err)
			stopped, cancel := context.WithCancel(t.Context())
			cancel()
			job = retry.Stored{Policy: p, Turn: 7}
			assert.Equal(t, retry.Handed, job.Attempt(stopped, func(context.Context) error { return err }))
		}
	}
}

// A wait in the line is counted, and the Observer hears of its beginning and its end. A call that
// cannot wait so long does not stand in line for it.
func TestQuotaWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, told := &retry.Quota{}, &lineWaits{}
		began := time.Now()
		turn, _, _ := q.Take(began, 1)
		q.Tell(began, turn, errLimited, retry.Verdict{Class: retry.RateLimited, After: 10 * time.Second})
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				p := &retry.Policy{MaxAttempts: 1, Quota: q, Observer: told}
				var e *retry.Error
				if assert.ErrorAs(t, p.Execute(t.Context(), func(context.Context) error { return errLimited }), &e) {
					assert.InDelta(t, 10*time.Second, e.Waited, float64(time.Second))
				}
			})
		}
		synctest.Wait()
		assert.Equal(t, "3 0", told.String())
		p := &retry.Policy{Quota: q, Timeout: 5 * time.Second, Observer: told}
		assert.ErrorIs(t, p.Execute(t.Context(), func(context.Context) error { return nil }), retry.StopTimeout)
		assert.Equal(t, began, time.Now())
		assert.Equal(t, "4 1", told.String())
		all.Wait()
		assert.Equal(t, "4 4", told.String())
	})
}

// The first of the line goes as soon as somebody has come back.
func TestQuotaWakesTheFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, began := &retry.Policy{Quota: &retry.Quota{}}, time.Now()
		var all sync.WaitGroup
		for _, at := range []time.Duration{0, 3 * time.Millisecond} {
			all.Go(func() {
				assert.NoError(t, p.Execute(t.Context(), func(context.Context) error {
					assert.Equal(t, at, time.Since(began))
					time.Sleep(3 * time.Millisecond)
					return nil
				}))
			})
			synctest.Wait()
		}
		all.Wait()
	})
}

// lineWaits counts the waits that it was told of, and those that are over.
type lineWaits struct{ all, over atomic.Int32 }

func (*lineWaits) Observe(context.Context, retry.Event) {}

func (w *lineWaits) Wait(string) func() {
	w.all.Add(1)
	return func() { w.over.Add(1) }
}

func (w *lineWaits) String() string { return fmt.Sprint(w.all.Load(), " ", w.over.Load()) }

// A call that leaves the end of the line takes no later one along.
func TestQuotaLastOfTheLineLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := &retry.Quota{}
		turn, _, _ := q.Take(time.Now(), 1)
		q.Tell(time.Now(), turn, errLimited, retry.Verdict{Class: retry.RateLimited, After: 10 * time.Second})
		p := &retry.Policy{Quota: q}
		var all sync.WaitGroup
		stand := func(ctx context.Context, want error) {
			all.Go(func() {
				assert.ErrorIs(t, p.Execute(ctx, func(context.Context) error { return nil }), want)
			})
			synctest.Wait()
		}
		ctx, leave := context.WithCancel(t.Context())
		stand(t.Context(), nil)
		stand(ctx, context.Canceled)
		leave()
		synctest.Wait()
		stand(t.Context(), nil)
		all.Wait()
	})
}

// Jobs that ask again by themselves are spread over as long as the hold was, if there are many.
func TestQuotaSpreads(t *testing.T) {
	t.Parallel()
	a := newAsks(t, &retry.Quota{})
	a.refused(a.take(1), 20*time.Second)
	clock := retrytest.NewClock(a.now)
	p := &retry.Policy{Quota: a.Quota, Clock: clock}
	var longest time.Duration
	for range 500 {
		call := retry.Call{Policy: p}
		assert.False(t, call.Begin(t.Context()))
		longest = max(longest, call.Delay())
	}
	assert.Greater(t, longest, 25*time.Second)
	assert.LessOrEqual(t, longest, 50*time.Second)
}
