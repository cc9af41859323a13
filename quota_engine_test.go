package retry_test

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
func (e *engine) settle(outcome retry.Outcome, delay time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if outcome == retry.Done {
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
// hands out each of them a few times.
func TestQuotaOfAnEngine(t *testing.T) {
	t.Parallel()
	for jobs, most := range map[int]float64{60: 1.6, 300: 1.6, 1000: 1.25} {
		synctest.Test(t, func(t *testing.T) {
			api := &testkit.Window{Limit: 50, Length: 2 * time.Second}
			e := &engine{due: make([]time.Time, jobs), left: jobs}
			start := time.Now()
			var places sync.WaitGroup
			for range 4 {
				p := &retry.Policy{Quota: &retry.Quota{}}
				for range 25 {
					places.Go(func() {
						for !e.over() {
							if !e.take() {
								time.Sleep(20 * time.Millisecond)
								continue
							}
							job := retry.Stored{Policy: p}
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
			_, refused := api.Answers()
			assert.LessOrEqual(t, refused, 8+jobs/10, "of %d jobs", jobs)
			ideal := time.Duration((jobs-1)/api.Limit) * api.Length
			assert.LessOrEqual(t, time.Since(start).Seconds(), most*ideal.Seconds(), "of %d jobs", jobs)
			assert.LessOrEqual(t, e.tries, 10*jobs, "of %d jobs", jobs)
		})
	}
}
