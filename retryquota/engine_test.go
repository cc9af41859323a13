package retryquota_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retryjob"
	"github.com/seed-5ff3c98e/retry/retryquota"
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
// hands out each of them a few times: in the median, because jitter and the order of goroutines
// are left to chance.
func TestQuotaOfAnEngine(t *testing.T) {
	t.Parallel()
	for jobs, most := range map[int]float64{60: 2.5, 300: 1.8, 1000: 1.6} {
		const runs = 3
		var refused, tries, took [runs]int
		for i := range runs {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				refused[i], tries[i] = runEngine(t, jobs)
				took[i] = int(time.Since(start).Milliseconds())
			})
		}
		slices.Sort(refused[:])
		slices.Sort(tries[:])
		slices.Sort(took[:])
		ideal := (jobs - 1) / 50 * 2000
		assert.LessOrEqual(t, refused[runs/2], 8+jobs/10, "of %d jobs", jobs)
		assert.LessOrEqual(t, tries[runs/2], 15*jobs, "of %d jobs", jobs)
		assert.LessOrEqual(t, float64(took[runs/2]), most*float64(ideal), "of %d jobs", jobs)
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
