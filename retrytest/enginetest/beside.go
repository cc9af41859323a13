package enginetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// Both returns a queue that is two: the first has the jobs of the kind kind-1, and the second
// those of others. Workers are those of both.
func Both(first, second Queue) Queue {
	return &both{first: first, second: second, of: map[string]Queue{}}
}

type both struct {
	first, second Queue

	mu sync.Mutex
	of map[string]Queue // jobs
}

func (b *both) Submit(ctx context.Context, of, job string) error {
	q := b.second
	if of == kind {
		q = b.first
	}
	b.mu.Lock()
	b.of[job] = q
	b.mu.Unlock()
	return q.Submit(ctx, of, job)
}

func (b *both) Outcome(ctx context.Context, job string) (Outcome, error) {
	b.mu.Lock()
	q := b.of[job]
	b.mu.Unlock()
	return q.Outcome(ctx, job)
}

func (b *both) Start(p Policies, handle Handler) (Workers, error) {
	first, err := b.first.Start(p, handle)
	if err != nil {
		return nil, err
	}
	second, err := b.second.Start(p, handle)
	if err != nil {
		return nil, errors.Join(err, first.Stop(context.Background()))
	}
	return bothWorkers{first, second}, nil
}

type bothWorkers struct{ first, second Workers }

func (b bothWorkers) Stop(ctx context.Context) error {
	return errors.Join(b.second.Stop(ctx), b.first.Stop(ctx))
}

func (b bothWorkers) Kill() error { return errors.Join(b.first.Kill(), b.second.Kill()) }

// besides is how many jobs each of the two queues has.
const besides = 6

// beside is a bad queue and a good one in progress.
type beside struct {
	spoiled chan struct{} // closed when the bad queue is bad
	begun   chan struct{} // takes one for an attempt in the bad queue
	mended  atomic.Bool

	mu    sync.Mutex
	calls map[string]int
}

// handle fails for the jobs of the bad queue until it is mended, except for one. Of those of the
// good one, one succeeds at once, one is given up, and the others fail once.
func (b *beside) handle(ctx context.Context, name string) error {
	b.mu.Lock()
	b.calls[name]++
	first := b.calls[name] == 1
	b.mu.Unlock()
	if strings.HasPrefix(name, "bad-") {
		return b.handleBad(ctx, name)
	}
	switch {
	case name == "good-1":
		return errFinal
	case first && name != "good-0":
		return errBoom
	default:
		return nil
	}
}

func (b *beside) handleBad(ctx context.Context, name string) error {
	select {
	case b.begun <- struct{}{}:
	default:
	}
	select {
	case <-b.spoiled:
	case <-ctx.Done():
		return ctx.Err()
	}
	if name == "bad-0" || b.mended.Load() {
		return nil
	}
	return errBoom
}

// runBeside spoils a queue while another one has jobs.
func (e *Engine) runBeside(t testing.TB) (faults []string) {
	t.Helper()
	ctx, cancel := e.machine.within(e.besidePatience() + 2*time.Minute)
	defer cancel()
	b := &beside{spoiled: make(chan struct{}), begun: make(chan struct{}, 1), calls: map[string]int{}}
	q, spoil := e.OpenTwo(t)
	p := policy(e.unit(), 1000, func(p *retry.Policy) { p.Backoff = retry.Constant(e.unit()) }) // as often as it takes
	w, err := q.Start(Policies{Policy: &p}, b.handle)
	if err != nil {
		return []string{"start: " + err.Error()}
	}
	defer func() {
		if err := w.Stop(context.Background()); err != nil {
			faults = append(faults, "stop: "+err.Error())
		}
	}()
	if err := submitAll(ctx, q, kind, "bad"); err != nil {
		return []string{err.Error()}
	}
	select {
	case <-b.begun:
	case <-ctx.Done():
		return []string{"the jobs of the bad queue do not begin"}
	}
	mend, err := spoil()
	close(b.spoiled)
	if err != nil {
		return []string{"spoil: " + err.Error()}
	}
	time.Sleep(time.Second) // in which what the two share is used up, if it can be
	if err := submitAll(ctx, q, otherKind, "good"); err != nil {
		return []string{err.Error()}
	}
	faults = e.awaitAll(ctx, q, "good", e.besidePatience(), func(n int) Status {
		if n == 1 {
			return GaveUp
		}
		return Succeeded
	})
	b.mended.Store(true)
	if err := mend(); err != nil {
		return append(faults, "mend: "+err.Error())
	}
	return append(faults, e.awaitAll(ctx, q, "bad", 2*time.Minute, func(int) Status { return Succeeded })...)
}

// besidePatience is how long the jobs of the good queue may take: they fail once.
func (e *Engine) besidePatience() time.Duration { return e.unit() + 2*e.grain() + e.recovery() }

func submitAll(ctx context.Context, q Queue, kind, prefix string) error {
	for n := range besides {
		if err := q.Submit(ctx, kind, fmt.Sprintf("%s-%d", prefix, n)); err != nil {
			return fmt.Errorf("submit %s-%d: %w", prefix, n, err)
		}
	}
	return nil
}

// awaitAll waits for the ends of all jobs of a queue, for a limited time in all.
func (e *Engine) awaitAll(
	ctx context.Context, q Queue, prefix string, limit time.Duration, want func(n int) Status,
) (faults []string) {
	begun := time.Now()
	early := func() bool { return time.Since(begun) < e.machine.stretch(limit, begun, time.Now()) }
	for n := range besides {
		name := fmt.Sprintf("%s-%d", prefix, n)
		o, err := q.Outcome(ctx, name)
		for ; (err != nil || o.Status == Open) && early(); o, err = q.Outcome(ctx, name) {
			time.Sleep(10 * time.Millisecond)
		}
		if o.Status != want(n) || err != nil {
			faults = append(faults, fmt.Sprintf("%s: %v (%.100s, %v), want: %v", name, o.Status, o.Err, err, want(n)))
		}
	}
	return faults
}
