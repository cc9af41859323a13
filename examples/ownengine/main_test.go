package main

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

func Example() {
	main()
	// Output:
	// stored: true
	// stored: true
	// sent welcome in attempt 3
	// stored: true
}

// The adapter passes the suite, and is short enough to be read.
func TestConformance(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("main.go")
	require.NoError(t, err)
	assert.LessOrEqual(t, strings.Count(string(source), "\n"), 80)
	enginetest.Run(t, &enginetest.Engine{
		Open: func(testing.TB) enginetest.Queue { return queue{NewQueue()} }, InPlace: true, Recovery: 2 * lease, Jobs: 200,
		Cannot: map[string]enginetest.Instead{"bad queue": {Why: "a queue is in memory, and refuses nothing"}},
	})
}

// queue has the methods by which enginetest drives the engine.
type queue struct{ *Queue }

func (q queue) Submit(_ context.Context, kind, job string) error {
	q.Publish(kind, job)
	return nil
}

func (q queue) Outcome(_ context.Context, job string) (enginetest.Outcome, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch m := q.messages[job]; {
	case m.reason != nil:
		return enginetest.Outcome{Status: enginetest.GaveUp, Err: m.reason.Error()}, nil
	case m.over:
		return enginetest.Outcome{Status: enginetest.Succeeded}, nil
	default:
		return enginetest.Outcome{}, nil
	}
}

func (q queue) Start(p enginetest.Policies, handle enginetest.Handler) (enginetest.Workers, error) {
	w := &workers{queue: &Queue{server: q.server}}
	w.ctx, w.stop = context.WithCancel(context.Background())
	for range 20 {
		w.all.Go(func() { w.run(&Retries{p.Policy, p.PolicyFor}, handle) })
	}
	return w, nil
}

// workers are a process with its connection.
type workers struct {
	queue *Queue
	ctx   context.Context //nolint:containedctx // of the process
	stop  context.CancelFunc
	all   sync.WaitGroup
}

func (w *workers) run(r *Retries, handle enginetest.Handler) {
	for {
		m, err := w.queue.Receive(w.ctx)
		if err != nil {
			return
		}
		_ = r.Handle(w.ctx, w.queue, m, func(ctx context.Context) error { return handle(ctx, m.ID) })
	}
}

func (w *workers) Stop(context.Context) error {
	w.stop()
	w.all.Wait()
	return nil
}

func (w *workers) Kill() error {
	w.queue.cut.Store(true)
	return nil
}
