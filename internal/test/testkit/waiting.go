package testkit

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// stuck is a clock whose waits are over when it is closed, or panic.
type stuck struct {
	over   chan time.Time
	panics *atomic.Bool
}

func (stuck) Now() time.Time { return time.Unix(1, 0) }

func (s stuck) After(time.Duration) <-chan time.Time {
	if s.panics.Load() {
		panic("out of time")
	}
	return s.over
}

// CountsWaiting checks how many calls of the policy "a" an Observer counts as waiting, at each
// instant. It is called in a bubble of synctest.
func CountsWaiting(t *testing.T, o retry.Observer, waiting func() float64) {
	t.Helper()
	want := func(n float64, why string) {
		t.Helper()
		if got := waiting(); got != n {
			t.Errorf("%s: %v wait, not %v", why, got, n)
		}
	}
	clock := stuck{make(chan time.Time), new(atomic.Bool)}
	run := func(ctx context.Context, wait time.Duration, attempts int) {
		p := &retry.Policy{Name: "a", MaxAttempts: attempts, Backoff: retry.Constant(wait), Observer: o, Clock: clock}
		_ = p.Execute(ctx, func(context.Context) error { return ErrPeer })
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for n := range 20 {
		go run(t.Context(), 1, 2) // the shortest wait
		go run(ctx, time.Hour, n+1)
	}
	synctest.Wait()
	want(39, "all but one, which has no retry")
	cancel()
	synctest.Wait()
	want(20, "half of them are canceled")
	close(clock.over)
	synctest.Wait()
	want(0, "the waits are over")
	clock.panics.Store(true)
	Isolated(func() { run(t.Context(), 1, 2) })
	want(0, "a wait has panicked")

	p := &retry.Policy{Name: "a", MaxAttempts: 100, Backoff: retry.Constant(5 * time.Millisecond), Jitter: retry.NoJitter, Observer: o}
	go func() { _ = p.Execute(t.Context(), func(context.Context) error { return ErrPeer }) }()
	time.Sleep(time.Millisecond)
	for range 98 {
		time.Sleep(5 * time.Millisecond)
		want(1, "one call that waits again and again")
	}
	time.Sleep(time.Second)
	want(0, "it is over")
}
