package enginetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"
)

// tally counts the attempts of many jobs. A tenth of the jobs fail once, and a tenth of
// these always.
type tally struct {
	mu    sync.Mutex
	calls map[string]int
}

const manyAttempts = 3

func (c *tally) handle(_ context.Context, name string) error {
	c.mu.Lock()
	c.calls[name]++
	n := c.calls[name]
	c.mu.Unlock()
	switch numberOf(name) % 100 {
	case 0:
		return errBoom
	case 10, 20, 30, 40, 50, 60, 70, 80, 90:
		if n == 1 {
			return errBoom
		}
	}
	return nil
}

func numberOf(name string) (n int) {
	_, _ = fmt.Sscanf(name, "job-%d", &n)
	return n
}

// expectedOf returns what should become of job n.
func expectedOf(n int) (calls int, status Status) {
	switch {
	case n%100 == 0:
		return manyAttempts, GaveUp
	case n%10 == 0:
		return 2, Succeeded
	default:
		return 1, Succeeded
	}
}

// runMany runs many jobs.
func (e *Engine) runMany(t testing.TB) (faults []string) {
	t.Helper()
	p := policy(e.unit(), manyAttempts)
	count := &tally{calls: map[string]int{}}
	q := e.Open(t)
	w, err := q.Start(Policies{Policy: &p}, count.handle)
	if err != nil {
		return []string{"start: " + err.Error()}
	}
	defer func() {
		if err := w.Stop(context.Background()); err != nil {
			faults = append(faults, "stop: "+err.Error())
		}
	}()
	for n := range e.jobs() {
		if err := q.Submit(context.Background(), kind, fmt.Sprintf("job-%d", n)); err != nil {
			return []string{fmt.Sprintf("submit job %d: %v", n, err)}
		}
	}
	for n := range e.jobs() {
		err := e.awaitOne(q, n, count)
		if err != nil {
			faults = append(faults, fmt.Sprintf("job %d: %v", n, err))
		}
		if len(faults) > 10 || errors.Is(err, errOpen) {
			return append(faults, "and so on")
		}
	}
	time.Sleep(2 * e.unit()) // attempts too many would come now
	return append(faults, count.excess(e.jobs())...)
}

// excess returns a fault for every job that was run after its end.
func (c *tally) excess(jobs int) (faults []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for n := range jobs {
		want, _ := expectedOf(n)
		if got := c.calls[fmt.Sprintf("job-%d", n)]; got > want {
			faults = append(faults, fmt.Sprintf("job %d: %d attempts, in Execute %d", n, got, want))
		}
	}
	return faults
}

// errOpen is about a job that does not end.
var errOpen = errors.New("has not ended in time")

// awaitOne waits for the end of job n, and compares it. The patience begins anew with
// every job, because how long all of them take is the engine's and the machine's affair.
func (e *Engine) awaitOne(q Queue, n int, count *tally) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute+3*e.grain()+3*e.unit())
	defer cancel()
	name := fmt.Sprintf("job-%d", n)
	calls, status := expectedOf(n)
	for {
		o, err := q.Outcome(ctx, name)
		if err == nil && o.Status != Open {
			count.mu.Lock()
			defer count.mu.Unlock()
			if got := count.calls[name]; o.Status != status || got != calls {
				return fmt.Errorf("%v after %d attempts, in Execute: %v after %d", o.Status, got, status, calls)
			}
			return nil
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return errOpen
		}
	}
}
