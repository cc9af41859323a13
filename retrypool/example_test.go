package retrypool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrypool"
)

func ExamplePool() {
	ctx := context.Background()
	pool := &retrypool.Pool{
		Workers: 4,
		Policy:  &retry.Policy{Name: "import", Backoff: retry.Constant(10 * time.Millisecond)},
	}
	task, err := pool.Submit(ctx, func(context.Context) error {
		return errors.New("connection refused") // it waits for its retries without a worker
	})
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println(task.Wait(ctx))

	if _, err := pool.Close(ctx); err != nil {
		fmt.Println(err)
	}
	// Output: import failed after 3 attempts: connection refused
}

// All tasks are submitted and finished with their retries, and then the pool is
// closed. Close alone would hand back the tasks that wait for a retry.
func ExamplePool_Wait() {
	ctx := context.Background()
	pool := &retrypool.Pool{
		Workers: 4,
		Policy:  &retry.Policy{Backoff: retry.Constant(10 * time.Millisecond)},
	}
	var tasks []*retrypool.Task
	for i := range 100 {
		attempts := 0
		task, err := pool.Submit(ctx, func(context.Context) error {
			if attempts++; attempts == 1 && i%10 == 0 {
				return errors.New("connection reset") // every tenth task fails once
			}
			return nil
		})
		if err != nil {
			fmt.Println(err)
		}
		tasks = append(tasks, task)
	}
	if err := pool.Wait(ctx); err != nil {
		fmt.Println("not all have ended:", err)
	}

	succeeded := 0
	for _, task := range tasks {
		if task.Err() == nil {
			succeeded++
		}
	}
	left, err := pool.Close(ctx)
	fmt.Println(succeeded, "succeeded,", len(left), "left,", err)
	// Output: 100 succeeded, 0 left, <nil>
}

// OnEnd counts the ended tasks.
func ExamplePool_progress() {
	ctx := context.Background()
	files := []string{"a.csv", "b.csv", "c.csv", "d.csv"}
	type file struct{} // the key under which the context of a task has its file

	var mu sync.Mutex // because several tasks may end at the same time
	ended, failed := 0, 0
	pool := &retrypool.Pool{
		Workers: 1,
		Policy:  &retry.Policy{Backoff: retry.Constant(time.Millisecond)},
		OnEnd: func(ctx context.Context, t *retrypool.Task) {
			mu.Lock()
			defer mu.Unlock()
			ended++
			result := "imported"
			if t.Err() != nil {
				failed++
				result = t.Err().Error()
			}
			fmt.Printf("%d of %d: %s: %s\n", ended, len(files), ctx.Value(file{}), result)
		},
	}
	for _, name := range files {
		ctx := context.WithValue(ctx, file{}, name)
		_, err := pool.Submit(ctx, func(context.Context) error {
			if name == "c.csv" {
				return retry.MarkFinal(errors.New("no header"))
			}
			return nil
		})
		if err != nil {
			fmt.Println(err)
		}
	}
	if err := pool.Wait(ctx); err != nil { // OnEnd has returned for every task
		fmt.Println(err)
	}
	fmt.Println(failed, "failed")
	// Output:
	// 1 of 4: a.csv: imported
	// 2 of 4: b.csv: imported
	// 3 of 4: c.csv: no header
	// 4 of 4: d.csv: imported
	// 1 failed
}

// A pool continues what another one has left, in the same process.
func ExamplePool_ResumeTask() {
	ctx := context.Background()
	policy := &retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(100 * time.Millisecond)}
	pool := &retrypool.Pool{Policy: policy}
	attempt := make(chan int, 2)
	_, err := pool.Submit(ctx, func(context.Context) error {
		attempt <- 1
		return errors.New("connection refused")
	})
	if err != nil {
		fmt.Println(err)
	}
	<-attempt
	left, err := pool.Close(ctx)
	if err != nil {
		fmt.Println("not all was begun:", err)
	}

	pool = &retrypool.Pool{Policy: policy, Workers: 8}
	for _, task := range left {
		task, err := pool.ResumeTask(task)
		if err != nil {
			fmt.Println(err)
		}
		fmt.Println(task.Wait(ctx))
	}
	// Output: failed after 2 attempts: connection refused
}

// A program stores the tasks that it has not finished, and another process continues
// them. The context of a task has its name, which OnEnd stores with the state.
func ExamplePool_Close() {
	policy := &retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(100 * time.Millisecond)}
	attempt := make(chan int, 2)
	upload := func(context.Context) error {
		attempt <- 1
		return errors.New("connection refused")
	}
	type name struct{} // the key under which the context of a task has its name
	type row struct {
		Job   string
		State retry.State
		At    time.Time
	}

	var mu sync.Mutex
	var stored [][]byte
	pool := &retrypool.Pool{Policy: policy, OnEnd: func(ctx context.Context, t *retrypool.Task) {
		if !errors.Is(t.Err(), retrypool.ErrClosed) {
			return
		}
		state, at := t.State()
		data, err := json.Marshal(row{ctx.Value(name{}).(string), state, at})
		if err != nil {
			fmt.Println(err)
		}
		mu.Lock()
		defer mu.Unlock()
		stored = append(stored, data)
	}}
	ctx := context.Background()
	_, err := pool.Submit(context.WithValue(ctx, name{}, "upload"), upload)
	if err != nil {
		fmt.Println(err)
	}
	<-attempt // the program ends after the first one
	if _, err := pool.Close(ctx); err != nil {
		fmt.Println("not all was begun:", err)
	}

	// The next process continues.
	pool = &retrypool.Pool{Policy: policy}
	for _, data := range stored {
		var r row
		if err := json.Unmarshal(data, &r); err != nil {
			fmt.Println(err)
		}
		task, err := pool.Resume(ctx, r.State, r.At, upload)
		if err != nil {
			fmt.Println(err)
		}
		fmt.Printf("%s: %v\n", r.Job, task.Wait(ctx))
	}
	// Output: upload: failed after 2 attempts: connection refused
}

func ExamplePool_TrySubmit() {
	ctx := context.Background()
	pool := &retrypool.Pool{Workers: 1, Queue: 1}
	begun, finish := make(chan bool), make(chan bool)
	work := func(context.Context) error {
		begun <- true
		<-finish
		return nil
	}
	_, err := pool.TrySubmit(ctx, work)
	<-begun
	fmt.Println(err)
	_, err = pool.TrySubmit(ctx, work)
	fmt.Println(err)
	_, err = pool.TrySubmit(ctx, work)
	fmt.Println(err)
	close(finish)
	<-begun
	// Output:
	// <nil>
	// <nil>
	// retrypool: queue is full
}

func ExampleTask() {
	ctx := context.Background()
	pool := &retrypool.Pool{
		OnEnd: func(context.Context, *retrypool.Task) { fmt.Println("told") },
	}
	task, err := pool.Submit(ctx, func(context.Context) error { panic("index out of range") })
	if err != nil {
		fmt.Println(err)
	}
	<-task.Done()
	var p *retry.PanicError
	fmt.Println(errors.As(task.Err(), &p), p.Value)
	// Output:
	// told
	// true index out of range
}

// Each task stores its result in a variable of its own, which may be read when the task
// has ended.
func ExamplePool_Submit_results() {
	ctx := context.Background()
	pool := &retrypool.Pool{Workers: 4}
	sizes := make([]int, 3)
	for i, name := range []string{"a", "bb", "ccc"} {
		_, err := pool.Submit(ctx, func(context.Context) error {
			sizes[i] = len(name)
			return nil
		})
		if err != nil {
			fmt.Println(err)
		}
	}
	if err := pool.Wait(ctx); err != nil {
		fmt.Println(err)
	}
	fmt.Println(sizes)
	// Output: [1 2 3]
}

// A task ends with its context, also while it waits for a retry.
func ExamplePool_Submit_cancel() {
	ctx, cancel := context.WithCancelCause(context.Background())
	pool := &retrypool.Pool{Policy: &retry.Policy{Backoff: retry.Constant(time.Hour)}}
	failed := make(chan bool, 1)
	task, err := pool.Submit(ctx, func(context.Context) error {
		failed <- true
		return errors.New("connection refused")
	})
	if err != nil {
		fmt.Println(err)
	}
	<-failed
	cancel(errors.New("no longer wanted"))
	err = task.Wait(context.Background())
	fmt.Println(errors.Is(err, context.Canceled), task.Attempts())
	// Output: true 1
}
