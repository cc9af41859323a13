package retryquota_test

import (
	"context"
	"slices"
	"sync"
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

// engine hands out jobs that are due, and asks for no turns.
type engine struct {
	mu    sync.Mutex
	due   []time.Time // of jobs that are not done
	tries int
	left  int
}

// take takes a job, and reports whether one is due.
func (e *engine) take() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	i := slices.IndexFunc(e.due, func(at time.Time) bool { return !at.After(time.Now()) })
	if i < 0 {
		return false
	}
	e.due = slices.Delete(e.due, i, i+1)
	e.tries++
	return true
}

// settle ends a job, or takes it back.
func (e *engine) settle(outcome retryjob.Outcome, delay time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if outcome == retryjob.Done {
		e.left--
	} else {
		e.due = append(e.due, time.Now().Add(delay))
	}
}

func (e *engine) over() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.left == 0
}

// An engine that hands out jobs before their turn loses little time, however many jobs wait, and
// hands out each of them 6 to 19 times, as 90 runs of each have shown. Jitter and the order of
// goroutines are left to chance, and the race detector shuffles that order: the bounds are wider,
// and of short runs it is the median that counts.
func TestQuotaOfAnEngine(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		jobs, runs int
		most       float64 // times the least that it can take
	}{{60, 3, 3}, {300, 3, 2}, {1000, 1, 1.6}} {
		refused, tries, took := make([]int, tt.runs), make([]int, tt.runs), make([]int, tt.runs)
		for i := range tt.runs {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				refused[i], tries[i] = runEngine(t, tt.jobs)
				took[i] = int(time.Since(start).Milliseconds())
			})
		}
		slices.Sort(refused)
		slices.Sort(tries)
		slices.Sort(took)
		ideal := (tt.jobs - 1) / 50 * 2000
		assert.LessOrEqual(t, refused[tt.runs/2], 8+tt.jobs/10, "of %d jobs", tt.jobs)
		assert.LessOrEqual(t, tries[tt.runs/2], 25*tt.jobs, "of %d jobs", tt.jobs)
		assert.LessOrEqual(t, float64(took[tt.runs/2]), tt.most*float64(ideal), "of %d jobs", tt.jobs)
	}
}

// runEngine has jobs done behind 50 requests in 2 seconds, at 4 × 25 places.
func runEngine(t *testing.T, jobs int) (refused, tries int) {
	t.Helper()
	api := &testkit.Window{Limit: 50, Length: 2 * time.Second}
	e := &engine{due: make([]time.Time, jobs), left: jobs}
	var places sync.WaitGroup
	for range 4 {
		p := &retry.Policy{Quota: &retryquota.Quota{}}
		for range 25 {
			places.Go(func() {
				for !e.over() {
					if !e.take() {
						time.Sleep(20 * time.Millisecond)
						continue
					}
					job := retryjob.Stored{Policy: p}
					outcome := job.Attempt(t.Context(), func(context.Context) error {
						err := api.Ask()
						if err == nil {
							time.Sleep(50 * time.Millisecond)
						}
						return err
					})
					e.settle(outcome, job.Decision.Delay)
				}
			})
		}
	}
	places.Wait()
	_, refused = api.Answers()
	return refused, e.tries
}

// Jobs that are refused for longer than all are held keep no places before those who ask sooner.
func TestPlacesOfLongHints(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := &retryquota.Quota{}
		turn, _, _ := q.Take(nil, 1)
		for range 300 {
			q.Tell(nil, turn, errLimited, retry.Verdict{Class: retry.RateLimited, After: time.Hour})
		}
		time.Sleep(time.Minute)
		api := &testkit.Window{Limit: 10, Length: time.Second}
		ctx, cancel := context.WithCancel(t.Context())
		p := &retry.Policy{Quota: q, FreeRateLimits: 1 << 20}
		ask := func(context.Context) error { return api.Ask() }
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				for ctx.Err() == nil {
					_ = p.Execute(ctx, ask)
				}
			})
		}
		stored := 0
		all.Go(func() {
			for ctx.Err() == nil {
				job := retryjob.Stored{Policy: p}
				if job.Attempt(ctx, ask) == retryjob.Done {
					stored++
				}
				_ = p.Sleep(ctx, job.Decision.Delay)
			}
		})
		time.Sleep(2 * time.Minute)
		cancel()
		all.Wait()
		assert.Greater(t, stored, 1200/21/3)
	})
}

// TestEngineThatLooksRarely: jobs whose turns come between two looks have them at the next, and no more
// of them than a server lets through at once. If answers take a while, all jobs of a look go before the
// first refusal is heard.
func TestEngineThatLooksRarely(t *testing.T) {
	t.Parallel()
	for _, look := range []time.Duration{time.Second, 5 * time.Second, time.Minute} { // as River, asynq, and a daemon
		for _, test := range []struct {
			answer  time.Duration
			times   float64 // of the ideal time
			refused int     // of 1,000
		}{{0, 1.6, 100}, {200 * time.Millisecond, 2.5, 750}, {700 * time.Millisecond, 2.5, 750}} {
			synctest.Test(t, func(t *testing.T) {
				server := &testkit.Window{Limit: 50, Length: 2 * time.Second}
				start := time.Now()
				lookFor(1000, look, test.answer, server)
				ideal := max(look, 2*time.Second) * 1000 / 50
				assert.LessOrEqual(t, float64(time.Since(start)), test.times*float64(ideal), "%v, %v", look, test.answer)
				_, refused := server.Answers()
				assert.LessOrEqual(t, refused, test.refused, "%v, %v", look, test.answer)
			})
		}
	}
}

// lookFor has jobs done by an engine that looks for those that are due.
func lookFor(jobs int, look, answer time.Duration, server *testkit.Window) {
	p := &retry.Policy{Quota: &retryquota.Quota{}}
	due := make([]time.Time, jobs)
	for len(due) > 0 {
		time.Sleep(look)
		var later []time.Time
		var turns []retry.Turn
		ask := func() {
			time.Sleep(answer)
			for _, turn := range turns {
				err := server.Ask()
				v := retry.Classify(err)
				p.Quota.Tell(p, turn, err, v)
				if err != nil {
					later = append(later, time.Now().Add(v.After))
				}
			}
			turns = nil
		}
		for _, at := range due {
			if at.After(time.Now()) {
				later = append(later, at)
				continue
			}
			turn, granted, wait := p.Quota.Take(p, 1)
			if granted == 0 {
				later = append(later, time.Now().Add(wait))
				continue
			}
			if turns = append(turns, turn); answer == 0 {
				ask()
			}
		}
		ask()
		due = later
	}
}

// What a Limiter of the user's lets through at once is its own business.
func TestLineCatchesUpNothing(t *testing.T) {
	t.Parallel()
	clock := &retrytest.Clock{}
	p := &retry.Policy{Clock: clock, Quota: &retryquota.Line{Limiter: &steady{gap: 100 * time.Millisecond}}}
	p.Quota.Take(p, 100)
	clock.Advance(5 * time.Second)
	_, n, _ := p.Quota.Take(p, 100)
	assert.Equal(t, 1, n)
}

// Of a server that has answered nothing, a look after a while knows no more.
func TestIdleTimeWidensNothing(t *testing.T) {
	t.Parallel()
	a := newAsks(t, &retryquota.Quota{})
	a.Take(a.p, 1000)
	a.now = a.now.Add(5 * time.Second)
	_, _, wait := a.Take(a.p, 0)
	assert.Zero(t, wait, "there is a turn")
	_, n, _ := a.Take(a.p, 1000)
	assert.Positive(t, n)
	assert.LessOrEqual(t, n, 2)
}

// An engine that wants ten at each look has more than a turn that was put aside.
func TestLookForTen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, sum := &retryquota.Quota{}, 0
		for range 20 {
			turn, n, _ := q.Take(nil, 10)
			for range n {
				q.Tell(nil, turn, nil, retry.Verdict{})
			}
			sum += n
			time.Sleep(5 * time.Second)
		}
		assert.GreaterOrEqual(t, sum, 170)
	})
}

// Two policies of one Quota with clocks that are 10 s apart gain no turns by that.
func TestTwoClocks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, clock := testkit.LimitedQuota(), &jumping{}
		clock.off.Store(int64(10 * time.Second))
		far, near := &retry.Policy{Quota: q, Clock: clock}, &retry.Policy{Quota: q}
		time.Sleep(30 * time.Second)
		for range 20 {
			q.Take(near, 50)
			time.Sleep(20 * time.Millisecond)
		}
		gap, sum := q.Status(near).Gap, 0
		for range 10 {
			for _, p := range []*retry.Policy{near, far} {
				_, n, _ := q.Take(p, 1000)
				sum += n
				time.Sleep(100 * time.Millisecond)
			}
		}
		assert.LessOrEqual(t, sum, 3*int(2*time.Second/gap)+20)
	})
}

// A place is given up when its owner does not come back in time: while others ask, after a few
// seconds, and while nobody does, after a minute. A turn that was put aside for it is given back.
func TestPlacesAreGivenUp(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		looks []time.Duration // since the beginning
		left  int
	}{
		"in time":                {[]time.Duration{11 * time.Second, 15 * time.Second}, 4},
		"others ask":             {[]time.Duration{12 * time.Second, 20 * time.Second}, 0},
		"others asked before":    {[]time.Duration{9 * time.Second, 20 * time.Second}, 4},
		"nobody asks":            {[]time.Duration{70 * time.Second}, 4},
		"nobody asks for longer": {[]time.Duration{80 * time.Second}, 0},
		"the clock goes back":    {[]time.Duration{-time.Hour}, 4},
		"by more than a day":     {[]time.Duration{-25 * time.Hour}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAsks(t, &retryquota.Quota{})
			a.refused(a.take(1), 10*time.Second)
			a.Take(a.p, 3)
			require.Equal(t, 4, a.Status(a.p).Away, "the one that was refused, and three that wait")
			for _, at := range tt.looks {
				a.now = firstAttempt.Add(at)
				a.Take(a.p, 0)
			}
			assert.Equal(t, tt.left, a.Status(a.p).Away)
		})
	}

	limiter, clock := &steady{gap: 10 * time.Second}, &retrytest.Clock{}
	p := &retry.Policy{Quota: &retryquota.Line{Limiter: limiter}, Clock: clock}
	_, n, _ := p.Quota.Take(p, 2)
	require.Equal(t, 1, n)
	wait := time.Duration(0)
	for _, d := range []time.Duration{10100 * time.Millisecond, 6900 * time.Millisecond} {
		clock.Advance(d)
		_, _, wait = p.Quota.Take(p, 0)
	}
	assert.Zero(t, wait)
}
