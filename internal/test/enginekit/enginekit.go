// Package enginekit has what the tests of adapters to engines share, besides the conformance suite.
package enginekit

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytest"
	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

// Ends has how jobs have ended, for engines that keep no record of that.
type Ends struct {
	mu      sync.Mutex
	ends    map[string]enginetest.Outcome
	letters map[string]map[string]string
}

// End notes how a job has ended, and which headers it has there if it was given up.
func (e *Ends) End(job string, o enginetest.Outcome, headers map[string]string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ends == nil {
		e.ends, e.letters = map[string]enginetest.Outcome{}, map[string]map[string]string{}
	}
	e.ends[job], e.letters[job] = o, headers
}

// Succeed notes a success.
func (e *Ends) Succeed(job string) {
	e.End(job, enginetest.Outcome{Status: enginetest.Succeeded}, nil)
}

// GiveUp notes a job that was given up.
func (e *Ends) GiveUp(job, reason string, headers map[string]string) {
	e.End(job, enginetest.Outcome{Status: enginetest.GaveUp, Err: reason}, headers)
}

// Outcome implements [enginetest.Queue].
func (e *Ends) Outcome(_ context.Context, job string) (enginetest.Outcome, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ends[job], nil
}

// Headers returns the headers of a job that was given up.
func (e *Ends) Headers(job string) map[string]string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.letters[job]
}

// DeadHeaders is that of an engine whose queues have Ends.
func DeadHeaders(_ context.Context, q enginetest.Queue, job string) (map[string]string, error) {
	type ends interface {
		Headers(job string) map[string]string
	}
	return q.(ends).Headers(job), nil //nolint:forcetypeassert // of Ends
}

// Await waits until a job of a queue has ended, and returns how.
func Await(t testing.TB, q enginetest.Queue, job string) (o enginetest.Outcome) {
	t.Helper()
	until(t, "the job ends", func() bool {
		var err error
		o, err = q.Outcome(t.Context(), job)
		return err == nil && o.Status != enginetest.Open
	})
	return o
}

// until waits until something has happened.
func until(t testing.TB, what string, happened func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !happened(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in a minute: %s", what)
		}
	}
}

// Said has what an adapter has told its OnError.
type Said struct {
	mu  sync.Mutex
	all []string
	n   int // how many of them Next has left behind
}

// Hear notes an error.
func (s *Said) Hear(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, err.Error())
}

// Next returns the latest error since it was asked before, or "".
func (s *Said) Next() (latest string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) > s.n {
		latest = s.all[len(s.all)-1]
	}
	s.n = len(s.all)
	return latest
}

// Ever reports whether an error had this text in it.
func (s *Said) Ever(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.all, func(said string) bool { return strings.Contains(said, text) })
}

// NoPolicy checks that a job is not run while there is no policy for its kind, before its first
// attempt and after it, and that this costs no attempt. The policy that there is at last counts
// from its next attempt on. told returns what the adapter has said of the job meanwhile. With goexit,
// the first attempt ends its goroutine, and is lost. Jobs of other kinds succeed.
func NoPolicy(t *testing.T, q enginetest.Queue, goexit bool, told func() string) {
	t.Helper()
	var policy atomic.Pointer[retry.Policy]
	policyFor := func(kind string) (*retry.Policy, error) {
		if kind != "kind-2" {
			return &retry.Policy{}, nil
		}
		if p := policy.Load(); p != nil {
			return p, nil
		}
		return nil, errors.New("unknown kind")
	}
	var attempts atomic.Int32
	w, err := q.Start(enginetest.Policies{PolicyFor: policyFor}, func(_ context.Context, job string) error {
		if job != "job" {
			return nil
		}
		if attempts.Add(1) == 1 {
			policy.Store(nil)
			if goexit {
				runtime.Goexit()
			}
		}
		return errors.New("boom")
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if err := q.Submit(t.Context(), "kind-2", "job"); err != nil {
		t.Fatal(err)
	}
	refused := func() bool {
		return strings.Contains(told(), `retry: no policy for jobs of kind "kind-2": unknown kind`)
	}
	until(t, "the kind is refused", refused)
	if n := attempts.Load(); n != 0 {
		t.Errorf("attempts without a policy: %d", n)
	}
	policy.Store(&retry.Policy{MaxAttempts: 9, Backoff: retry.Constant(0)})
	until(t, "the first attempt", func() bool { return attempts.Load() == 1 })
	until(t, "the kind is refused again", refused)
	policy.Store(&retry.Policy{MaxAttempts: 3, Backoff: retry.Constant(0)})
	if o := Await(t, q, "job"); o.Status != enginetest.GaveUp || !strings.Contains(o.Err, "failed after 3 attempts: boom") || attempts.Load() != 3 {
		t.Errorf("%v after %d attempts: %s", o.Status, attempts.Load(), o.Err)
	}
}

// Run is a Run of an adapter, and what its OnError is told.
type Run struct {
	Cancel context.CancelFunc
	Faults chan error
	Over   chan error // how it has ended

	t *testing.T
}

// Start starts a Run, which is given what its OnError has to be. The end of the test cancels it.
func Start(t *testing.T, run func(ctx context.Context, onError func(context.Context, error)) error) *Run {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	r := &Run{t: t, Cancel: cancel, Faults: make(chan error, 1000), Over: make(chan error, 1)}
	go func() {
		r.Over <- run(ctx, func(_ context.Context, err error) { r.Faults <- err })
	}()
	t.Cleanup(cancel)
	return r
}

// Fault returns the next error that OnError is told.
func (r *Run) Fault() error {
	r.t.Helper()
	select {
	case err := <-r.Faults:
		return err
	case err := <-r.Over:
		r.t.Fatal("Run has ended:", err)
	case <-time.After(30 * time.Second):
		r.t.Fatal("there is no error")
	}
	return nil
}

// Stop cancels the Run, which has to end without an error.
func (r *Run) Stop() {
	r.t.Helper()
	r.Cancel()
	if err := <-r.Over; err != nil {
		r.t.Fatal(err)
	}
}

// Opens is the Open of an engine whose queues have a type of their own.
func Opens[Q enginetest.Queue](open func(testing.TB) Q) func(testing.TB) enginetest.Queue {
	return func(t testing.TB) enginetest.Queue {
		t.Helper()
		return open(t)
	}
}

// Workers are Runs one after another, on a cable of their own.
type Workers struct {
	cable  *enginetest.Cable
	cancel context.CancelFunc
	over   chan error
	killed atomic.Bool
}

// Work starts Workers. One that has ended is started again if again is true, as whoever runs it does,
// until they are stopped.
func Work(cable *enginetest.Cable, again bool, run func(context.Context) error) *Workers {
	ctx, cancel := context.WithCancel(context.Background())
	w := &Workers{cable: cable, cancel: cancel, over: make(chan error, 1)}
	go func() {
		err := run(ctx)
		for err != nil && again && ctx.Err() == nil {
			time.Sleep(50 * time.Millisecond)
			err = run(ctx)
		}
		w.over <- err
	}()
	return w
}

// Stop implements [enginetest.Workers]. How those end that were killed does not matter.
func (w *Workers) Stop(context.Context) error {
	w.cancel()
	err := <-w.over
	w.over <- nil
	if w.killed.Load() {
		return nil
	}
	return err
}

// Kill implements [enginetest.Workers].
func (w *Workers) Kill() error {
	w.killed.Store(true)
	w.cable.Cut()
	return nil
}

// Returns checks that something is over in time, and on a busy machine a while later. It logs how
// long that took from at on, which is set when it has begun.
func Returns(t *testing.T, over <-chan struct{}, at *time.Time, most time.Duration) {
	t.Helper()
	select {
	case <-over:
		took := time.Since(*at)
		t.Logf("returned after %v", took.Round(time.Millisecond))
		if took > most+5*time.Second {
			t.Errorf("returned after %v, and not %v", took, most)
		}
	case <-time.After(most + time.Minute):
		t.Error("it has not returned")
	}
}

// Deadline checks that a message whose attempts take too long ends after two of them, and that a
// context that is canceled before an attempt costs none. next takes the message, and returns what
// handles it under a policy that has two attempts, no waits, and an Observer of events.
func Deadline(t *testing.T, events *retrytest.Recorder, next func() (handle func(context.Context, func(context.Context) error) error)) {
	t.Helper()
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := next()(canceled, nil); err != nil {
		t.Fatal(err)
	}
	for calls := 0; calls < 2; { // on a busy machine it may be too late before an attempt
		handle := next()
		late, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		err := handle(late, func(ctx context.Context) error {
			calls++
			<-ctx.Done()
			return errors.New("boom")
		})
		cancel()
		if err != nil {
			t.Fatal(err)
		}
	}
	events.Expect(t, "1: boom: retry in 0s", "2: gave up (attempts): boom")
}

// Overtaken checks that a message which runs for a while stays with its worker, and that a worker has
// no say any more, and is told why, when repeat has had the engine give the message to another one.
// start starts a worker that calls a function for the message. The second attempt is the last.
func Overtaken(t *testing.T, while time.Duration, start func(fn func() error) *Run, repeat func() error, why string) (first, second *Run) {
	t.Helper()
	begun, other := make(chan struct{}), make(chan struct{})
	var repeated atomic.Bool
	first = start(func() error {
		close(begun)
		<-other
		return errors.New("boom")
	})
	<-begun
	second = start(func() error {
		if !repeated.Load() {
			t.Error("the message was taken from a worker that lives")
		}
		close(other)
		if err := first.Fault(); !strings.Contains(err.Error(), why) {
			t.Errorf("the first worker is told %q", err)
		}
		return errors.New("boom")
	})
	time.Sleep(while)
	repeated.Store(true)
	if err := repeat(); err != nil {
		t.Fatal(err)
	}
	return first, second
}

// Panicking are policies that panic when they are asked for a wait.
func Panicking() []enginetest.Policies {
	return []enginetest.Policies{
		{Policy: &retry.Policy{Backoff: broken{}}},
		{PolicyFor: func(string) (*retry.Policy, error) { panic("out of range") }},
	}
}

type broken struct{}

// Delay implements [retry.Backoff].
func (broken) Delay(int) time.Duration { panic("out of range") }
