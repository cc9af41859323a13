package testkit

import (
	"context"
	"fmt"
	"reflect"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// Stuck is a clock whose waits are over when Over is closed, or panic.
type Stuck struct {
	Over   chan time.Time
	Panics atomic.Bool
}

// Now implements [retry.Clock].
func (*Stuck) Now() time.Time { return time.Unix(1, 0) }

// After implements [retry.Clock].
func (s *Stuck) After(time.Duration) <-chan time.Time {
	if s.Panics.Load() {
		panic("out of time")
	}
	return s.Over
}

// CountsWaiting checks how many calls of the policy "a" an Observer counts as waiting, at each
// instant. It is called in a bubble of synctest.
func CountsWaiting(t *testing.T, o *retry.Observer, waiting func() float64) {
	t.Helper()
	want := func(n float64, why string) {
		t.Helper()
		if got := waiting(); got != n {
			t.Errorf("%s: %v wait, not %v", why, got, n)
		}
	}
	clock := &Stuck{Over: make(chan time.Time)}
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
	close(clock.Over)
	synctest.Wait()
	want(0, "the waits are over")
	clock.Panics.Store(true)
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

// TakesDefaults checks which waits calls to servers take from the default policy of their driver if a
// policy has no Backoff, and that they leave the policy as it is. Each call fails until it gives up.
func TakesDefaults(t *testing.T, calls ...func(*testing.T, *retry.Policy)) {
	t.Helper()
	const ms = time.Millisecond
	for name, tt := range map[string]struct {
		p    retry.Policy
		want []time.Duration
	}{
		"nothing is set": {retry.Policy{}, []time.Duration{200 * ms, 400 * ms, 800 * ms, 1600 * ms, 3200 * ms, 6400 * ms, 10_000 * ms}},
		"MaxDelay":       {retry.Policy{MaxDelay: 300 * ms}, []time.Duration{200 * ms, 300 * ms, 300 * ms}},
		"a Backoff":      {retry.Policy{Backoff: retry.Linear{Initial: 20_000 * ms}}, []time.Duration{20_000 * ms, 30_000 * ms}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var recorder retrytest.Recorder
			p := tt.p
			p.MaxAttempts, p.Jitter = len(tt.want)+1, retry.NoJitter
			p.Clock, p.Observer = &retrytest.Clock{}, recorder.Observer()
			p.Budget = &retry.Budget{Reserve: 100}
			before := p
			var want []time.Duration
			for _, call := range append(calls, calls...) {
				call(t, &p)
				want = append(want, tt.want...)
			}
			recorder.ExpectWaits(t, want...)
			if !reflect.DeepEqual(before, p) {
				t.Errorf("the policy was %v, and is %v", before, p)
			}
		})
	}
}

// EveryWay returns policies that take every way through the loop: each has something else that has to
// happen around an attempt.
func EveryWay() map[string]*retry.Policy {
	return map[string]*retry.Policy{
		"nil":             nil,
		"zero":            {},
		"unlimited":       {MaxAttempts: retry.Unlimited},
		"attempt timeout": {AttemptTimeout: time.Hour},
		"max elapsed":     {MaxElapsed: time.Hour},
		"observer":        {Observer: &retry.Observer{Event: func(context.Context, retry.Event) {}}},
		"budget":          {Budget: &retry.Budget{Reserve: 1000}},
		"classifier":      {Classifier: retry.On(retry.Retryable, ErrPeer)},
		"no delay":        {Backoff: retry.Constant(0)},
	}
}

// Still is a clock that stands still: the contexts of attempts do not end by themselves.
type Still struct{ At time.Time }

// Now implements [retry.Clock].
func (s Still) Now() time.Time { return s.At }

// After implements [retry.Clock]. The wait does not end.
func (Still) After(time.Duration) <-chan time.Time { return nil }

// AttemptContext returns ctx, without a limit.
func (Still) AttemptContext(ctx context.Context, _ time.Duration) (context.Context, context.CancelFunc) {
	return ctx, func() {}
}

// LateContext is a context whose end is noticed when Over is closed.
type LateContext struct {
	context.Context //nolint:containedctx // it is one

	Over chan struct{}
}

// Done implements [context.Context].
func (c LateContext) Done() <-chan struct{} { return c.Over }

// Tracer notes attempts and events in its Log. The context of an attempt has its number, under [Key].
type Tracer struct{ Log []string }

// Observer returns the Observer that notes.
func (tr *Tracer) Observer() *retry.Observer {
	return &retry.Observer{
		Attempt: func(ctx context.Context, n int) (context.Context, func(error)) {
			tr.Log = append(tr.Log, fmt.Sprint("begin ", n))
			return context.WithValue(ctx, Key{}, n), func(err error) {
				tr.Log = append(tr.Log, fmt.Sprintf("end %d: %v", n, err))
			}
		},
		Event: func(_ context.Context, e retry.Event) { tr.Log = append(tr.Log, fmt.Sprint(e.Kind, " ", e.Attempt)) },
	}
}
