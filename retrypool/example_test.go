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

func ExamplePool_Close() {
	ctx := context.Background()
	policy := &retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(100 * time.Millisecond)}
	attempt := make(chan int, 2)
	upload := func(context.Context) error {
		attempt <- 1
		return errors.New("connection refused")
	}

	pool := &retrypool.Pool{Policy: policy}
	jobs := map[*retrypool.Task]string{} // names of the tasks
	task, err := pool.Submit(ctx, upload)
	if err != nil {
		fmt.Println(err)
	}
	jobs[task] = "upload"
	<-attempt // the program ends after the first one

	type row struct {
		Job   string
		State retry.State
		At    time.Time
	}
	left, err := pool.Close(ctx)
	if err != nil {
		fmt.Println("not all was begun:", err)
	}
	var stored [][]byte
	for _, task := range left {
		state, at := task.State()
		data, err := json.Marshal(row{jobs[task], state, at})
		if err != nil {
			fmt.Println(err)
		}
		stored = append(stored, data)
	}

	// The next pool continues.
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
		OnEnd: func(_ context.Context, t *retrypool.Task) { fmt.Println("told:", t.Err()) },
	}
	task, err := pool.Submit(ctx, func(context.Context) error { panic("index out of range") })
	if err != nil {
		fmt.Println(err)
	}
	<-task.Done()
	var p *retrypool.PanicError
	fmt.Println(errors.As(task.Err(), &p))
	// Output:
	// told: retrypool: task panicked: index out of range
	// true
}
