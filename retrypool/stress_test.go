package retrypool_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrypool"
)

// Jobs that succeed, fail, panic, call Goexit and are canceled go from pool to
// pool, because the pools are closed, some of them in a hurry. Every one ends once
// in every pool that it has been in, and once for good. Not parallel: it counts
// goroutines.
func TestStress(t *testing.T) { //nolint:paralleltest // see above
	const jobs, submitters = 6000, 6
	s := &stress{ends: map[*retrypool.Task]int{}, jobs: map[*retrypool.Task]*job{}, final: make([]int, jobs)}
	s.pool.Store(s.newPool())
	s.open.Store(jobs)

	var wg sync.WaitGroup
	for i := range submitters {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(i)))
			for number := i; number < jobs; number += submitters {
				s.submit(r, number)
			}
		})
	}
	r := rand.New(rand.NewPCG(2, 3))
	for seen := int64(0); s.open.Load() > 0; seen = s.calls.Load() {
		for s.open.Load() > 0 && s.calls.Load() < seen+200 { // let it run for a while
			runtime.Gosched()
		}
		s.replace(t, r)
	}
	wg.Wait()
	assert.Empty(t, shut(t, s.pool.Load()))
	expectGoroutines(t, 0)

	for _, n := range s.ends {
		require.Equal(t, 1, n)
	}
	for number, n := range s.final {
		require.Equal(t, 1, n, "job %d", number)
	}
	assert.Len(t, s.ends, int(s.submitted.Load()), "all tasks have ended")
	assert.Greater(t, s.handed, 100)
	t.Logf("%d calls in %d tasks, %d of them handed back", s.calls.Load(), len(s.ends), s.handed)
}

type stress struct {
	pool      atomic.Pointer[retrypool.Pool]
	open      atomic.Int64 // jobs that have not ended for good
	calls     atomic.Int64
	submitted atomic.Int64

	mu      sync.Mutex
	ends    map[*retrypool.Task]int
	jobs    map[*retrypool.Task]*job // of tasks that have ended
	final   []int                    // ends for good, by job
	handed  int
	cancels []context.CancelFunc
}

type jobKey struct{}

type job struct {
	number int
	fn     func(context.Context) error
}

func (s *stress) newPool() *retrypool.Pool {
	return &retrypool.Pool{
		Workers: 3,
		Queue:   50,
		Policy:  &retry.Policy{MaxAttempts: 4, Backoff: retry.Constant(2 * time.Millisecond), Jitter: retry.FullJitter},
		OnEnd: func(ctx context.Context, task *retrypool.Task) {
			j := ctx.Value(jobKey{}).(*job) //nolint:forcetypeassert // see context
			s.mu.Lock()
			s.ends[task]++
			s.jobs[task] = j
			s.mu.Unlock()
			if !errors.Is(task.Err(), retrypool.ErrClosed) {
				s.finally(j)
			}
		},
	}
}

// finally notes the end of a job.
func (s *stress) finally(j *job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.final[j.number]++
	s.open.Add(-1)
}

// context returns the context of a task, and now and then cancels the contexts
// of others.
func (s *stress) context(r *rand.Rand, j *job) context.Context {
	ctx := context.WithValue(context.Background(), jobKey{}, j)
	if r.IntN(3) == 0 {
		return ctx
	}
	ctx, cancel := context.WithCancel(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancels = append(s.cancels, cancel)
	for len(s.cancels) > 100 {
		i := r.IntN(len(s.cancels))
		s.cancels[i]()
		s.cancels = slices.Delete(s.cancels, i, i+1)
	}
	return ctx
}

func (s *stress) submit(r *rand.Rand, number int) {
	j := &job{number, s.operation(r.Uint64())}
	for {
		_, err := s.pool.Load().Submit(s.context(r, j), j.fn)
		switch {
		case err == nil:
			s.submitted.Add(1)
			return
		case errors.Is(err, retrypool.ErrClosed):
			runtime.Gosched() // until there is another one
		default:
			s.finally(j)
			return
		}
	}
}

// operation returns one whose calls end in all possible ways.
func (s *stress) operation(seed uint64) func(context.Context) error {
	r := rand.New(rand.NewPCG(4, seed))
	return func(ctx context.Context) error {
		s.calls.Add(1)
		switch r.IntN(12) {
		case 0:
			panic("ouch")
		case 1:
			runtime.Goexit()
		case 2:
			return retry.MarkFinal(errBoom)
		case 3:
			return nil
		case 4:
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Microsecond):
			}
			return ctx.Err()
		}
		return errBoom
	}
}

// replace closes the pool, twice at a time, and continues in another.
func (s *stress) replace(t *testing.T, r *rand.Rand) {
	t.Helper()
	next := s.newPool()
	old := s.pool.Swap(next)
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.IntN(1000))*time.Microsecond)
	defer cancel()
	var wg sync.WaitGroup
	for i := range 2 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(5, uint64(i)))
			left, _ := old.Close(ctx)
			for _, task := range left {
				s.mu.Lock()
				s.handed++
				j := s.jobs[task]
				s.mu.Unlock()
				var err error
				if r.IntN(2) == 0 {
					_, err = next.ResumeTask(task)
				} else {
					state, at := task.State()
					_, err = next.Resume(s.context(r, j), state, at, j.fn)
				}
				if err == nil {
					s.submitted.Add(1)
				} else if assert.ErrorIs(t, err, context.Canceled) { // by another goroutine
					s.finally(j)
				}
			}
		})
	}
	wg.Wait()
}
