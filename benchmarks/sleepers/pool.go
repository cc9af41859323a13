package main

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrypool"
)

// onlyOurs is because the others have no pool.
func onlyOurs() []string { return []string{"retry"} }

// poolUnder measures the memory of n tasks that wait for their retry, each with the
// context that next makes of their parent.
func poolUnder(next func(parent context.Context) context.Context) func(string, int) ([]figure, error) {
	return func(_ string, n int) ([]figure, error) {
		parent, cancel := context.WithCancel(context.Background())
		defer cancel()
		contexts := make([]context.Context, n)
		for i := range contexts {
			contexts[i] = next(parent) //nolint:fatcontext // not nested
			_ = contexts[i].Done()     // made when it is asked for
		}
		bytes, err := pool(contexts)
		return []figure{{bytes, "B/task"}}, err
	}
}

func noContext(context.Context) context.Context { return context.Background() }

func sharedContext(parent context.Context) context.Context { return parent }

func ownContext(parent context.Context) context.Context {
	ctx, cancel := context.WithCancel(parent)
	_ = cancel // it ends with its parent
	return ctx
}

var hourly = &retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(time.Hour), Jitter: retry.NoJitter}

// pool returns the bytes of a task under each of the contexts.
func pool(contexts []context.Context) (float64, error) {
	before, _ := memory()
	p := &retrypool.Pool{Policy: hourly}
	var calls atomic.Int64
	fail := func(context.Context) error { calls.Add(1); return errFailed }
	for _, ctx := range contexts {
		if _, err := p.Submit(ctx, fail); err != nil {
			return 0, err
		}
	}
	if err := settlePool(p); err != nil {
		return 0, err
	}
	after, _ := memory()
	n := len(contexts)
	left, err := p.Close(context.Background())
	if err != nil {
		return 0, err
	}
	runtime.KeepAlive(contexts)
	if calls.Load() != int64(n) || len(left) != n {
		return 0, fmt.Errorf("%d calls of %d, of which %d waited", calls.Load(), n, len(left))
	}
	return (after - before) / float64(n), nil
}

// settlePool returns when everything that was submitted has been run: as many more
// tasks as there are workers have, and each came after all of those.
func settlePool(p *retrypool.Pool) error {
	for range runtime.GOMAXPROCS(0) {
		t, err := p.Submit(context.Background(), func(context.Context) error { return nil })
		if err != nil {
			return err
		}
		if err := t.Wait(context.Background()); err != nil {
			return err
		}
	}
	return nil
}
