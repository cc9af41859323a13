package retrypool_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrypool"
)

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

// A server that stops gives its tasks some time, and stores the unfinished ones.
func ExamplePool_Close_shutdown() {
	pool := &retrypool.Pool{Policy: &retry.Policy{Backoff: retry.Constant(time.Hour)}}
	server := &http.Server{ReadHeaderTimeout: time.Second}
	tried := make(chan bool, 1)
	_, err := pool.Submit(context.Background(), func(context.Context) error {
		tried <- true
		return errors.New("webhook: 503")
	})
	if err != nil {
		fmt.Println(err)
	}
	<-tried

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = server.Shutdown(ctx) // no new tasks
	left, err := pool.Close(ctx)
	if err != nil {
		fmt.Println("interrupted:", err)
	}
	for _, task := range left {
		state, _ := task.State()
		fmt.Println("to be stored:", state.Failures, "failure")
	}
	// Output: to be stored: 1 failure
}
