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
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrypool"
)

// Jobs that succeed, fail, panic, call Goexit and are canceled go from pool to
// pool, because the pools are closed, some of them in a hurry. Every one ends once
// in every pool that it has been in, and once for good. Not parallel: it counts
// goroutines.
func TestStress(t *testing.T) { //nolint:paralleltest // see above
	const jobs, submitters = 6000, 6
	s := &stress{ends: map[*retrypool.Task]int{}, contexts: map[*retrypool.Task]context.Context{}, final: make([]int, jobs)}
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

	mu       sync.Mutex
	ends     map[*retrypool.Task]int
	contexts map[*retrypool.Task]context.Context // of tasks that have ended
	final    []int                               // ends for good, by job
	handed   int
	cancels  []context.CancelFunc
}

// jobKey is the key of the number of a job.
type jobKey struct{}

func (s *stress) newPool() *retrypool.Pool {
	return &retrypool.Pool{
		Workers: 3,
		Queue:   50,
		Policy:  &retry.Policy{MaxAttempts: 4, Backoff: retry.Constant(2 * time.Millisecond), Jitter: retry.FullJitter},
		OnEnd: func(ctx context.Context, task *retrypool.Task) {
			s.mu.Lock()
			s.ends[task]++
			s.contexts[task] = ctx //nolint:fatcontext // not nested
			s.mu.Unlock()
			if !errors.Is(task.Err(), retrypool.ErrClosed) {
				s.finally(ctx)
			}
		},
	}
}

// finally notes the end of the job of a context.
func (s *stress) finally(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.final[ctx.Value(jobKey{}).(int)]++ //nolint:forcetypeassert // see context
	s.open.Add(-1)
}

// context returns the context of a task, and now and then cancels the contexts
// of others.
func (s *stress) context(r *rand.Rand, number int) context.Context {
	ctx := context.WithValue(context.Background(), jobKey{}, number)
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
	ctx, fn := s.context(r, number), s.operation(r.Uint64())
	_, err := s.pool.Load().Submit(ctx, fn)
	for ; errors.Is(err, retrypool.ErrClosed); _, err = s.pool.Load().Submit(ctx, fn) {
		runtime.Gosched() // until there is another one
	}
	if err == nil {
		s.submitted.Add(1)
	} else {
		s.finally(ctx)
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
	for range 2 {
		wg.Go(func() {
			left, _ := old.Close(ctx)
			for _, task := range left {
				s.mu.Lock()
				s.handed++
				job := s.contexts[task]
				s.mu.Unlock()
				if _, err := next.ResumeTask(task); err == nil {
					s.submitted.Add(1)
				} else if assert.ErrorIs(t, err, context.Canceled) { // by another goroutine
					s.finally(job)
				}
			}
		})
	}
	wg.Wait()
}

// The contexts that tasks come with.
var contexts = []struct {
	name  string
	bytes float64 // a task may cost on average
	next  func(ctx context.Context) context.Context
}{
	{"background", 400, func(context.Context) context.Context { return context.Background() }},
	{"shared", 400, func(ctx context.Context) context.Context { return ctx }},
	{"own", 1000, func(ctx context.Context) context.Context {
		ctx, cancel := context.WithCancel(ctx)
		_ = cancel // it ends with its parent
		return ctx
	}},
}

// fill lets n tasks wait for about an hour, and returns their pool and the
// memory in use that each has added, without its context.
func fill(t *testing.T, n int, next func(context.Context) context.Context) (*retrypool.Pool, float64) {
	t.Helper()
	pool := &retrypool.Pool{Workers: 4, Policy: &retry.Policy{Backoff: retry.Constant(time.Hour)}}
	parent, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	ctxs := make([]context.Context, n)
	for i := range ctxs {
		ctxs[i] = next(parent) //nolint:fatcontext // not nested
		_ = ctxs[i].Done()     // made when it is asked for
	}
	before := testkit.InUse()
	for _, ctx := range ctxs {
		testkit.Must(pool.Submit(ctx, fails))(t)
	}
	settle(t, pool)
	bytes := (testkit.InUse() - before) / float64(n)
	runtime.KeepAlive(ctxs)
	return pool, bytes
}

// settle returns when everything that was submitted so far has been run.
func settle(t *testing.T, pool *retrypool.Pool) {
	t.Helper()
	for range 4 {
		last := testkit.Must(pool.Submit(context.Background(), succeeds))(t)
		require.NoError(t, last.Wait(context.Background()))
	}
}

// A task that waits for its retry is small, without its function, its last error and its
// context. Not parallel: it measures the memory in use.
func TestMemoryOfAWaitingTask(t *testing.T) { //nolint:paralleltest // see above
	testkit.Measures(t)
	for _, c := range contexts { //nolint:paralleltest // see above
		t.Run(c.name, func(t *testing.T) {
			pool, bytes := fill(t, 20_000, c.next)
			assert.LessOrEqual(t, bytes, c.bytes)
			assert.Len(t, shut(t, pool), 20_000)
		})
	}
}

// When a flood is over, its memory is free. Not parallel, likewise.
func TestMemoryIsGivenBack(t *testing.T) { //nolint:paralleltest // see above
	testkit.Measures(t)
	const n = 100_000
	shared, cancelShared := context.WithCancel(t.Context())
	for name, newContext := range map[string]func() (context.Context, context.CancelFunc){ //nolint:paralleltest // see above
		"shared": func() (context.Context, context.CancelFunc) { return shared, cancelShared },
		"own":    func() (context.Context, context.CancelFunc) { return context.WithCancel(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			var pool retrypool.Pool
			before := testkit.InUse()
			at := time.Now().Add(time.Hour)
			tasks, cancels := make([]*retrypool.Task, n), make([]context.CancelFunc, n)
			for i := range n {
				var ctx context.Context
				ctx, cancels[i] = newContext()
				tasks[i] = testkit.Must(pool.Resume(ctx, retry.State{}, at, fails))(t)
			}
			for i := range n { // and not all at once, in as many goroutines
				cancels[i]()
				<-tasks[i].Done()
			}
			assert.Less(t, testkit.InUse()-before, 2.0*n)
			shut(t, &pool)
		})
	}
}

// Likewise the room of a queue.
func TestMemoryOfTheQueueIsGivenBack(t *testing.T) { //nolint:paralleltest // see above
	testkit.Measures(t)
	const n = 100_000
	pool := &retrypool.Pool{Workers: 1, Queue: n}
	before := testkit.InUse()
	begin := make(chan struct{})
	for range n {
		testkit.Must(pool.Submit(context.Background(), func(context.Context) error {
			<-begin
			return nil
		}))(t)
	}
	close(begin)
	require.NoError(t, pool.Wait(t.Context()))
	assert.Less(t, testkit.InUse()-before, 2.0*n)
	shut(t, pool)
}
