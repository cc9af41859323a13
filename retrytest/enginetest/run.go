package enginetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// Result is how an engine did one script.
type Result struct {
	Script string
	Cannot string        // why the engine cannot keep the promise, if it differs as it said
	Faults []string      // where it differs from Execute
	Late   time.Duration // the most that an attempt was late, where workers were idle
}

// Run runs all scripts, each as a parallel subtest, and returns what it saw when all of
// them have ended. The one with many jobs runs after the others, because it keeps the
// machine busy, and they look at the time. A script fails if the engine differs from
// Execute, or, if it is in [Engine.Cannot], from what is said there.
func Run(t *testing.T, e *Engine) []Result {
	t.Helper()
	names := Scripts()
	for name := range e.Cannot {
		if name == manyJobs {
			t.Errorf("enginetest: Cannot[%q]: every engine has to do this", name)
		} else if !slices.Contains(names, name) {
			t.Errorf("enginetest: Cannot[%q]: there is no such script; there are %q", name, names)
		}
	}
	results := make([]Result, len(names))
	check := func(t *testing.T, i int) {
		t.Helper()
		results[i] = e.check(t, names[i])
		report(t, &results[i])
	}
	t.Run("scripts", func(t *testing.T) {
		for i, name := range names {
			if name != manyJobs {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					check(t, i)
				})
			}
		}
	})
	t.Run(manyJobs, func(t *testing.T) { check(t, slices.Index(names, manyJobs)) })
	return results
}

func report(t *testing.T, r *Result) {
	t.Helper()
	if r.Cannot != "" {
		t.Logf("differs, as declared (%s): %q", r.Cannot, r.Faults)
		return
	}
	for _, fault := range r.Faults {
		t.Error(fault)
	}
}

// check runs one script.
func (e *Engine) check(t testing.TB, name string) Result {
	t.Helper()
	if name == manyJobs {
		return Result{Script: name, Faults: e.runMany(t)}
	}
	all := scripts(e)
	s := &all[slices.IndexFunc(all, func(s script) bool { return s.name == name })]
	want := s.expected(e)
	got, err := e.run(t, s, want)
	r := Result{Script: name, Faults: e.faults(s, got, want, err), Late: s.late(got, want)}
	if instead, declared := e.Cannot[name]; declared {
		if other := instead.unlike(got, r.Faults); other != "" {
			r.Faults = append([]string{other}, r.Faults...)
		} else {
			r.Cannot = instead.Why
		}
	}
	return r
}

// faults returns where an engine differs from Execute. The error is that of run.
func (e *Engine) faults(s *script, got, want *record, err error) []string {
	switch {
	case err != nil && got != nil:
		return []string{fmt.Sprintf("%v; attempts: %d; events: %q", err, len(got.attempts), got.timeline)}
	case err != nil:
		return []string{err.Error()}
	case s.judge != nil:
		return s.judge(e, got, want)
	default:
		return append(exactly(e, got, want), punctual(e, s, got, want)...)
	}
}

// play is a script in progress on an engine.
type play struct {
	script  *script
	rec     *retrytest.Recorder
	release chan struct{} // closed at the end of the test: lets attempts of killed workers go
	entered chan int      // the attempts that have begun

	mu       sync.Mutex
	attempts []span
}

const (
	job     = "job-1"
	nextJob = "job-2" // succeeds
)

// run runs a script on the engine. After an error, got is nil if the job was not submitted.
func (e *Engine) run(t testing.TB, s *script, want *record) (got *record, err error) {
	t.Helper()
	const attemptsSeen = 1000
	pl := &play{
		script: s, rec: &retrytest.Recorder{},
		release: make(chan struct{}), entered: make(chan int, attemptsSeen),
	}
	q := e.Open(t)
	d := &director{engine: e, play: pl, queue: q}
	ctx, cancel := context.WithTimeout(context.Background(), e.patience(s, want))
	defer cancel()
	t.Cleanup(func() {
		close(pl.release)
		for _, w := range d.started {
			_ = w.Stop(context.Background()) // what is left of it
		}
	})
	if err := d.start(&s.policy); err != nil {
		return nil, err
	}
	if err := q.Submit(ctx, pl.policy(&s.policy), job); err != nil {
		return nil, fmt.Errorf("submit: %w", err)
	}
	outcome, err := d.direct(ctx)
	if err == nil {
		time.Sleep(2 * e.unit()) // an attempt too many would come now
		pl.told(len(want.events), e.grain())
	}
	got = &record{attempts: pl.seen(), events: pl.rec.Events(), timeline: pl.rec.Timeline(), outcome: outcome}
	if err == nil && slices.ContainsFunc(s.steps, func(s step) bool { return s.act == panics || s.act == confuses }) {
		err = d.another(ctx) // the worker lives
	}
	return got, err
}

// told waits until the Observer was told of n events, for as long as it may be told late:
// an engine may tell it when the end of the job is stored already.
func (pl *play) told(n int, limit time.Duration) {
	for end := time.Now().Add(limit); len(pl.rec.Events()) < n && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
}

// patience is how long a script may take.
func (e *Engine) patience(s *script, want *record) time.Duration {
	d := 10 * time.Second
	for _, ev := range want.events {
		d += ev.Delay + e.grain()
	}
	for _, step := range s.steps {
		d += step.took + e.grain()
		if step.act != returns {
			d += e.recovery()
		}
	}
	return d
}

func (pl *play) policy(p *retry.Policy) *retry.Policy {
	q := *p
	q.Observer = retry.Observers(pl.rec, p.Observer)
	return &q
}

// handler returns the handler of workers under p.
func (pl *play) handler(p *retry.Policy) Handler {
	return func(ctx context.Context, name string) error {
		if name != job {
			return nil
		}
		i, begun := pl.begin(p)
		if !begun { // a busy machine is late to stop these workers
			<-ctx.Done()
			return ctx.Err()
		}
		return pl.attempt(ctx, i)
	}
}

// attempt does what the script says of attempt i.
func (pl *play) attempt(ctx context.Context, i int) error {
	if i >= len(pl.script.steps) {
		pl.finish(i)
		return retry.MarkFinal(errors.New("an attempt too many"))
	}
	step := pl.script.steps[i]
	pl.entered <- i
	switch step.act {
	case dies:
		pl.finish(i)
		<-pl.release
		return context.Canceled
	case shuts:
		<-ctx.Done()
		pl.finish(i)
		return errors.New("signal: interrupt") // not the context's, as from a child process
	case panics:
		pl.finish(i)
		panic("out of range")
	case returns, switches, confuses:
	}
	if step.took > 0 {
		time.Sleep(step.took)
	}
	pl.finish(i)
	return step.err
}

// begin begins an attempt of workers under p, unless it is one for workers under another
// policy, which are not there yet.
func (pl *play) begin(p *retry.Policy) (i int, begun bool) {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	i = len(pl.attempts)
	if s := pl.script; i > 0 && i <= len(s.steps) && s.steps[i-1].act == switches && p != s.then {
		return i, false
	}
	pl.attempts = append(pl.attempts, span{start: time.Now()})
	return i, true
}

func (pl *play) finish(i int) {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	pl.attempts[i].end = time.Now()
}

func (pl *play) seen() []span {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	return slices.Clone(pl.attempts)
}

// director does to the workers what the script says.
type director struct {
	engine  *Engine
	play    *play
	queue   Queue
	workers Workers   // those that run
	started []Workers // all of them
}

func (d *director) start(p *retry.Policy) error {
	w, err := d.queue.Start(d.play.policy(p), d.play.handler(p))
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	d.workers = w
	d.started = append(d.started, w)
	return nil
}

// direct follows the job to its end.
func (d *director) direct(ctx context.Context) (Outcome, error) {
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for {
		select {
		case i := <-d.play.entered:
			if err := d.act(ctx, i); err != nil {
				return Outcome{}, err
			}
		case <-poll.C:
			if o, err := d.queue.Outcome(ctx, job); err == nil && o.Status != Open && len(d.play.entered) == 0 {
				return o, nil
			}
		case <-ctx.Done():
			return Outcome{}, errors.New("the job has not ended in time")
		}
	}
}

// act does to the workers what step i says.
func (d *director) act(ctx context.Context, i int) error {
	s, p := d.play.script, &d.play.script.policy
	for _, step := range s.steps[:i] {
		if step.act == switches {
			p = s.then
		}
	}
	switch s.steps[i].act {
	case dies:
		if err := d.workers.Kill(); err != nil {
			return fmt.Errorf("kill: %w", err)
		}
	case switches:
		if err := d.decided(ctx); err != nil {
			return err
		}
		p = s.then
		fallthrough
	case shuts:
		if err := d.workers.Stop(ctx); err != nil {
			return fmt.Errorf("stop: %w", err)
		}
	case returns, panics, confuses:
		return nil
	}
	return d.start(p)
}

// decided waits until the policy has decided about the first failure.
func (d *director) decided(ctx context.Context) error {
	for len(d.play.rec.Events()) == 0 {
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return errors.New("the Observer was not told of the first failure")
		}
	}
	return nil
}

// another checks that the workers run another job.
func (d *director) another(ctx context.Context) error {
	quiet := d.play.script.policy
	if err := d.queue.Submit(ctx, &quiet, nextJob); err != nil {
		return fmt.Errorf("submit another job: %w", err)
	}
	for {
		select {
		case <-time.After(10 * time.Millisecond):
			if o, err := d.queue.Outcome(ctx, nextJob); err == nil && o.Status == Succeeded {
				return nil
			}
		case <-ctx.Done():
			return errors.New("no other job runs after this one")
		}
	}
}
