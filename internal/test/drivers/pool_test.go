package drivers_test

import (
	"context"
	"encoding/json"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrypool"
)

// inPool makes the attempts as a task of a pool.
func inPool(s *stage) error {
	pool := &retrypool.Pool{Workers: 1, Policy: &s.policy}
	task, err := pool.Submit(s.ctx, s.op)
	if err != nil {
		return err
	}
	return task.Wait(context.Background())
}

// inPools moves the task to another pool whenever it waits.
func inPools(s *stage) error {
	const mostPools = 40
	pool := &retrypool.Pool{Workers: 1, Policy: &s.policy}
	task, err := pool.Submit(s.ctx, s.op)
	for n := 1; err == nil; n++ {
		if n == mostPools {
			return task.Wait(context.Background())
		}
		select {
		case <-task.Done():
			return task.Err()
		case <-time.After(1700*ms + 8009):
		}
		left, _ := pool.Close(context.Background())
		if len(left) == 0 {
			return task.Err()
		}
		state, at := left[0].State()
		data, _ := json.Marshal(state)
		state = retry.State{}
		_ = json.Unmarshal(data, &state)
		pool = &retrypool.Pool{Workers: 1, Policy: &s.policy}
		task, err = pool.Resume(s.ctx, state, at, s.op)
	}
	return err
}
