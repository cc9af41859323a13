package retryquota_test

import (
	"context"
	"errors"
	"fmt"
	"math"
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
	"github.com/seed-5ff3c98e/retry/retryjob"
	"github.com/seed-5ff3c98e/retry/retryquota"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

var (
	errLimited   = errors.New("limited")
	errBoom      = errors.New("boom")
	firstAttempt = time.Date(2026, 11, 21, 6, 48, 0, 0, time.UTC)
)

// word is a Rand that always draws the same.
type word uint64

func (w word) Uint64() uint64 { return uint64(w) }

// asks is a Quota with a clock, for one caller.
type asks struct {
	*retryquota.Quota

	t   *testing.T
	now time.Time
	p   *retry.Policy
}

// Now implements [retry.Clock].
func (a *asks) Now() time.Time { return a.now }

// After implements [retry.Clock].
func (*asks) After(time.Duration) <-chan time.Time { return nil }

func newAsks(t *testing.T, q *retryquota.Quota) *asks {
	t.Helper()
	a := &asks{Quota: q, t: t, now: firstAttempt}
	a.p = &retry.Policy{Clock: a}
	return a
}

// take takes n turns that have to be there.
func (a *asks) take(n int) retry.Turn {
	a.t.Helper()
	turn, got, wait := a.Take(a.p, n)
	require.Equal(a.t, n, got, "turns; the next in %v", wait)
	return turn
}

func (a *asks) refused(turn retry.Turn, after time.Duration) {
	a.Tell(a.p, turn, errLimited, retry.Verdict{Class: retry.RateLimited, After: after})
}

// What Execute does behind a held quota: all wait, and go one by one.
func TestQuotaExecute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var events []retry.Event
		var mu sync.Mutex
		p := &retry.Policy{
			Quota: &retryquota.Quota{}, Jitter: retry.NoJitter, Budget: &retry.Budget{Reserve: retry.NoReserve},
			Observer: &retry.Observer{Event: func(_ context.Context, e retry.Event) {
				mu.Lock()
				defer mu.Unlock()
				if e.Kind == retry.Held {
					events = append(events, e)
				}
			}},
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

// steady is a limiter with a turn in each gap.
type steady struct {
	gap  time.Duration
	next time.Time
	told int // attempts, of turns as they were taken
}

// Take implements [retryquota.Limiter].
func (s *steady) Take(now time.Time, n int) (retry.Turn, int, time.Duration) {
	if wait := s.next.Sub(now); n == 0 || wait > 0 {
		return 0, 0, max(wait, 0)
	}
	s.next = now.Add(s.gap)
	return 0, 1, s.gap
}

// Return implements [retryquota.Limiter].
func (s *steady) Return(_ time.Time, _ retry.Turn, n int) {
	s.next = s.next.Add(-time.Duration(n) * s.gap)
}

// Tell implements [retryquota.Limiter].
func (s *steady) Tell(_ time.Time, turn retry.Turn, _ error, _ retry.Verdict) time.Duration {
	s.told += 1 - int(turn)
	return 0
}

// A Limiter that does not number its turns is asked and told once for each attempt.
func TestLineTurnZero(t *testing.T) {
	t.Parallel()
	limiter, clock := &steady{gap: time.Second}, &retrytest.Clock{}
	began := clock.Now()
	p := &retry.Policy{Quota: &retryquota.Line{Limiter: limiter}, Clock: clock}
	for range 5 {
		require.NoError(t, p.Execute(t.Context(), func(context.Context) error { return nil }))
	}
	assert.Equal(t, 4*time.Second, clock.Now().Sub(began))
	assert.Equal(t, 5, limiter.told)
}

// A third of 1,000 waiters is canceled: the others have their turns in order, and none is lost.
func TestQuotaLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := &retry.Policy{Quota: &retryquota.Line{Limiter: &steady{gap: 12500 * time.Microsecond}}}
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
	held := func() *retryquota.Quota {
		a := newAsks(t, &retryquota.Quota{})
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
			e := testkit.As[*retry.Error](t, call.Err())
			assert.Equal(t, tt.stop, e.Stop)
			assert.Equal(t, 30*time.Second, e.RetryAfter)
			assert.Empty(t, clock.Sleeps())
		})
	}
}

// Begin does not wait, and a Stored job is handed back: nothing is counted.
func TestQuotaBegin(t *testing.T) {
	t.Parallel()
	a := newAsks(t, &retryquota.Quota{})
	a.refused(a.take(1), 10*time.Second)
	clock := retrytest.NewClock(firstAttempt)
	p := &retry.Policy{Quota: a.Quota, Clock: clock, Rand: word(0)}
	call := retry.Call{Policy: p}
	assert.False(t, call.Begin(t.Context()))
	require.NoError(t, call.Err())
	assert.InDelta(t, 10*time.Second, call.Delay, 1e7)

	state := retry.State{Failures: 1, First: firstAttempt}
	job := retryjob.Stored{Policy: p, State: state, Lost: 1}
	work := func(context.Context) error { return nil }
	assert.Equal(t, retryjob.Handed, job.Attempt(t.Context(), work))
	require.ErrorAs(t, job.Err, new(*retryjob.HeldError))
	assert.InDelta(t, 10*time.Second, job.Decision.Delay, 1e7)
	assert.Equal(t, retry.State{Failures: 2, First: firstAttempt}, job.State, "the lost attempt counts")

	clock.Advance(10*time.Second + call.Delay%time.Second)
	assert.True(t, call.Begin(t.Context()))
	job = retryjob.Stored{Policy: p, State: state}
	assert.Equal(t, retryjob.Handed, job.Attempt(t.Context(), work), "the turn after that comes later")
	turn, _, _ := a.Take(&retry.Policy{Clock: clock}, 1)
	job = retryjob.Stored{Policy: p, State: state, Turn: turn}
	assert.Equal(t, retryjob.Done, job.Attempt(t.Context(), work))
}

// The clock of an engine may be wrong by hours. A Quota goes by that of the policy.
func TestQuotaOfAnEngineWithAClock(t *testing.T) {
	t.Parallel()
	for _, off := range []time.Duration{-time.Hour, time.Hour} {
		clock := retrytest.NewClock(firstAttempt)
		p := &retry.Policy{Quota: &retryquota.Quota{}, Clock: clock, Rand: word(0)}
		job := func() *retryjob.Stored {
			return &retryjob.Stored{Policy: p, Now: func() time.Time { return clock.Now().Add(off) }}
		}
		refused := job()
		assert.Equal(t, retryjob.Again, refused.Attempt(t.Context(), func(context.Context) error {
			return retry.MarkRateLimited(errLimited, 10*time.Second)
		}))
		held := job()
		assert.Equal(t, retryjob.Handed, held.Attempt(t.Context(), func(context.Context) error { return nil }))
		assert.Equal(t, 10*time.Second, held.Decision.Delay.Round(time.Second))
		_, _, wait := p.Quota.Take(p, 1) // as a Worker does before a claim
		assert.InDelta(t, 10*time.Second, wait, 1e7)
		clock.Advance(10*time.Second + wait%time.Second)
		assert.Equal(t, retryjob.Done, job().Attempt(t.Context(), func(context.Context) error { return nil }))
	}
}

// A refusal costs no attempt, with a hint or without, and nothing of the budget.
func TestQuotaRefusalsAreFree(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{0, time.Second} {
		p := &retry.Policy{
			MaxAttempts: 2, Quota: &retryquota.Quota{}, Clock: retrytest.NewClock(firstAttempt),
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

// ending panics when an attempt ends.
func ending(context.Context, int) (context.Context, func(error)) {
	return nil, func(error) { panic("the end") }
}

// A turn is given back if the time of the call is over when it has come, and told if the Observer
// panics. The first turn of a Quota is the only one until then.
func TestQuotaKeepsNoTurn(t *testing.T) {
	t.Parallel()
	old := retry.State{First: firstAttempt.Add(-time.Hour)}
	for name, use := range map[string]func(p *retry.Policy){
		"Begin": func(p *retry.Policy) {
			call := retry.Call{Policy: p, State: old}
			assert.False(t, call.Begin(t.Context()))
			assert.ErrorIs(t, call.Err(), retry.StopTimeout)
		},
		"Next": func(p *retry.Policy) {
			call := retry.Call{Policy: p, State: old}
			assert.False(t, call.Next(t.Context()))
			assert.ErrorIs(t, call.Err(), retry.StopTimeout)
		},
		"a panic": func(p *retry.Policy) {
			p.Observer = &retry.Observer{Attempt: ending}
			assert.Panics(t, func() { _ = p.Execute(t.Context(), func(context.Context) error { return errBoom }) })
		},
	} {
		p := &retry.Policy{Quota: &retryquota.Quota{}, Timeout: time.Minute, Clock: retrytest.NewClock(firstAttempt)}
		use(p)
		_, granted, _ := p.Quota.Take(p, 1)
		assert.Equal(t, 1, granted, name)
	}
}

// A turn of a policy that was exchanged for one without a Quota is forgotten, and one of
// another Quota is of an old cycle.
func TestTurnOfAnotherPolicy(t *testing.T) {
	t.Parallel()
	for _, p := range []*retry.Policy{nil, {}, {Quota: &retryquota.Quota{}}, {Quota: (*retryquota.Quota)(nil)}} {
		for _, err := range []error{nil, retry.MarkRateLimited(errLimited, time.Second), errBoom} {
			job := retryjob.Stored{Policy: p, Turn: 7}
			outcome := job.Attempt(t.Context(), func(context.Context) error { return err })
			assert.Equal(t, err == nil, outcome == retryjob.Done)
			assert.Equal(t, err != nil, outcome == retryjob.Again)
			call := retry.Call{Policy: p, Turn: 7}
			require.True(t, call.Begin(t.Context()))
			call.End(err)
			stopped, cancel := context.WithCancel(t.Context())
			cancel()
			job = retryjob.Stored{Policy: p, Turn: 7}
			assert.Equal(t, retryjob.Handed, job.Attempt(stopped, func(context.Context) error { return err }))
		}
	}
}

// A turn goes back to the Quota that has given it if the policy is exchanged for one with another
// Quota, or with none. Each has one turn at its start.
func TestTurnOfAnExchangedPolicy(t *testing.T) {
	t.Parallel()
	for name, now := range map[string]*retry.Policy{"none": {}, "another": {Quota: &retryquota.Quota{}}, "no policy": nil} {
		for _, own := range []bool{true, false} { // of the policy, or of the job
			given, p := &retryquota.Quota{}, &retry.Policy{}
			turn, _, _ := given.Take(nil, 1)
			job := retryjob.Stored{Policy: p, PolicyFor: func(string) (*retry.Policy, error) { return now, nil }, Turn: turn}
			if p.Quota = given; own {
				job.Policy, job.Quota = nil, given
			}
			outcome := job.Attempt(t.Context(), func(context.Context) error { return nil })
			assert.Equal(t, name == "no policy" && own, outcome == retryjob.Refused, name)
			_, n, _ := given.Take(nil, 1)
			assert.Equal(t, 1, n, "%s, %v", name, own)
			if now != nil && now.Quota != nil {
				_, n, _ = now.Quota.Take(nil, 1)
				assert.Equal(t, 1, n, "%s, %v", name, own)
				now.Quota = &retryquota.Quota{}
			}
		}
	}
}

// A wait in the line is counted, and the Observer hears of its beginning and its end. A call that
// cannot wait so long does not stand in line for it.
func TestQuotaWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, told := &retryquota.Quota{}, &lineWaits{}
		began := time.Now()
		turn, _, _ := q.Take(nil, 1)
		q.Tell(nil, turn, errLimited, retry.Verdict{Class: retry.RateLimited, After: 10 * time.Second})
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				p := &retry.Policy{MaxAttempts: 1, Quota: q, Observer: told.Observer()}
				var e *retry.Error
				if assert.ErrorAs(t, p.Execute(t.Context(), func(context.Context) error { return errLimited }), &e) {
					assert.InDelta(t, 10*time.Second, e.Waited, float64(time.Second))
				}
			})
		}
		synctest.Wait()
		assert.Equal(t, "3 0", told.String())
		p := &retry.Policy{Quota: q, Timeout: 5 * time.Second, Observer: told.Observer()}
		assert.ErrorIs(t, p.Execute(t.Context(), func(context.Context) error { return nil }), retry.StopTimeout)
		assert.Equal(t, began, time.Now())
		assert.Equal(t, "3 0", told.String())
		all.Wait()
		assert.Equal(t, "3 3", told.String())
	})
}

// The first of the line goes as soon as somebody has come back, at the start and after it.
func TestQuotaWakesTheFirst(t *testing.T) {
	t.Parallel()
	for before, window := range map[int]int{0: 1, 500: 2} { // with one more each half a second
		synctest.Test(t, func(t *testing.T) {
			q := &retryquota.Quota{}
			for range before {
				turn, _, _ := q.Take(nil, 1)
				q.Tell(nil, turn, nil, retry.Verdict{})
			}
			p, began := &retry.Policy{Quota: q}, time.Now()
			var all sync.WaitGroup
			for i := range window + 1 {
				all.Go(func() {
					assert.NoError(t, p.Execute(t.Context(), func(context.Context) error {
						assert.Equal(t, time.Duration(i/window)*3*time.Millisecond, time.Since(began))
						time.Sleep(3 * time.Millisecond)
						return nil
					}))
				})
				synctest.Wait()
			}
			all.Wait()
		})
	}
}

// lineWaits counts the waits that it was told of, and those that are over.
type lineWaits struct{ all, over atomic.Int32 }

func (w *lineWaits) Observer() *retry.Observer {
	return &retry.Observer{Wait: func(string) func() {
		w.all.Add(1)
		return func() { w.over.Add(1) }
	}}
}

func (w *lineWaits) String() string { return fmt.Sprint(w.all.Load(), " ", w.over.Load()) }

// A call that leaves the end of the line takes no later one along.
func TestQuotaLastOfTheLineLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := &retryquota.Quota{}
		turn, _, _ := q.Take(nil, 1)
		q.Tell(nil, turn, errLimited, retry.Verdict{Class: retry.RateLimited, After: 10 * time.Second})
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

// No number of turns that somebody asks for, returns or tells without need harms the others.
func TestQuotaNumbers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, served := range []int{0, 500} {
			q := &retryquota.Quota{}
			turn, _, _ := q.Take(nil, 1)
			for range served {
				q.Tell(nil, turn, nil, retry.Verdict{})
			}
			for _, n := range []int{math.MaxInt, math.MaxInt32, -1, math.MinInt} {
				_, granted, wait := q.Take(nil, n)
				assert.LessOrEqual(t, granted, max(n, 2), "of %d", n)
				assert.GreaterOrEqual(t, granted, 0, "of %d", n)
				assert.Less(t, wait, time.Minute)
				q.Return(nil, turn, n)
				q.Return(nil, turn|1<<30, n)
			}
			p := &retry.Policy{Quota: q}
			began := time.Now()
			for range 10 {
				require.NoError(t, p.Execute(t.Context(), func(context.Context) error { return nil }))
			}
			assert.Less(t, time.Since(began), 5*time.Second)
		}
	})
}
