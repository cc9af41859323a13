package enginetest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/seed-5ff3c98e/retry/retrypool"
	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

// poolQueue is a retrypool. Closing it and resuming what it hands back is a shutdown.
type poolQueue struct {
	pool  *retrypool.Pool
	fn    func(job string) func(context.Context) error
	tasks map[string]*retrypool.Task
	left  map[string]*retrypool.Task // handed back
}

func openPool(testing.TB) enginetest.Queue {
	return &poolQueue{tasks: map[string]*retrypool.Task{}, left: map[string]*retrypool.Task{}}
}

func (q *poolQueue) Submit(_ context.Context, _, job string) error {
	task, err := q.pool.Submit(context.Background(), q.fn(job))
	q.tasks[job] = task
	return err
}

func (q *poolQueue) Start(p enginetest.Policies, handle enginetest.Handler) (enginetest.Workers, error) {
	policy := p.Policy
	if p.PolicyFor != nil {
		policy, _ = p.PolicyFor("kind-1") // a pool has one
	}
	q.pool = &retrypool.Pool{Workers: 4, Policy: policy}
	q.fn = func(job string) func(context.Context) error {
		return func(ctx context.Context) error { return handle(ctx, job) }
	}
	for job, task := range q.left {
		state, at := task.State()
		task, err := q.pool.Resume(context.Background(), state, at, q.fn(job))
		if err != nil {
			return nil, err
		}
		q.tasks[job] = task
	}
	clear(q.left)
	return &poolWorkers{queue: q, pool: q.pool}, nil
}

func (q *poolQueue) Outcome(_ context.Context, job string) (enginetest.Outcome, error) {
	task := q.tasks[job]
	select {
	case <-task.Done():
	default:
		return enginetest.Outcome{}, nil
	}
	switch err := task.Err(); {
	case err == nil:
		return enginetest.Outcome{Status: enginetest.Succeeded}, nil
	case errors.Is(err, retrypool.ErrClosed):
		return enginetest.Outcome{}, nil
	default:
		return enginetest.Outcome{Status: enginetest.GaveUp, Err: err.Error()}, nil
	}
}

type poolWorkers struct {
	queue *poolQueue
	pool  *retrypool.Pool
}

func (w *poolWorkers) Stop(context.Context) error {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	left, _ := w.pool.Close(now) // the error is that of now
	for job, task := range w.queue.tasks {
		for _, l := range left {
			if l == task {
				w.queue.left[job] = task
			}
		}
	}
	return nil
}

// Kill forgets the pool, which is all that anybody can do about it.
func (w *poolWorkers) Kill() error { return nil }

const (
	inMemory   = "tasks are in memory"
	onePolicy  = "a pool has one policy"
	tellsWaits = "a pool tells a wait before it begins, and stores nothing"
)

func TestPool(t *testing.T) { //nolint:tparallel // bubbles cannot be parallel
	t.Parallel()
	testInBubbles(t, &enginetest.Engine{
		Open: openPool, Grain: time.Nanosecond, Recovery: time.Nanosecond, InPlace: true,
		Cannot: map[string]enginetest.Instead{
			"bad queue":                {Why: inMemory},
			"success not stored":       {Why: inMemory, Told: []string{"1: succeeded"}},
			"crash":                    {Why: inMemory, Endless: true},
			"crash: poison":            {Why: inMemory, Endless: true},
			"crash: not idempotent":    {Why: inMemory, Endless: true},
			"crash after a failure":    {Why: inMemory, Endless: true, Told: []string{"1: boom: retry in 50ms"}},
			"given up inside":          {Why: "a task of a pool is a call", Told: []string{"1: gave up (final): calling: failed after 2 attempts: busy"}},
			"not started":              {Why: tellsWaits, Told: []string{"1: no row: retry in 50ms", "2: no row: retry in 100ms", "3: succeeded"}},
			"panic of an observer":     {Why: tellsWaits, Told: []string{"1: boom: retry in 50ms"}},
			"context ignored for ever": {Why: inMemory, Endless: true},
			"two kinds": {Why: onePolicy, Told: []string{
				"1: boom: retry in 50ms", "1: boom: retry in 50ms", // of the two jobs
				"2: boom: retry in 100ms", "2: boom: retry in 100ms",
				"3: boom: retry in 200ms", "3: gave up (final): an attempt too many",
				"4: succeeded",
			}},
			"reload": {Why: onePolicy, Told: []string{
				"1: boom: retry in 500ms", "2: boom: retry in 500ms", "3: boom: retry in 500ms",
				"4: gave up (final): an attempt too many",
			}},
		},
	})
}
