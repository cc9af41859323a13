package enginetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// Result is how an engine did one script.
type Result struct {
	Script string
	Cannot string        // why the engine cannot keep the promise, if it differs as it said, or why it was left out
	Faults []string      // where it differs from Execute
	Late   time.Duration // the most that an attempt was late, where workers were idle
}

// Run runs all scripts, each as a parallel subtest, and returns what it saw when all of
// them have ended. The script with many jobs runs after the others, because it keeps the
// machine busy, and the others measure time. On a machine that others keep busy, all may take
// longer. A script fails if the engine differs from Execute, or from [Engine.Cannot] if the
// script is there.
func Run(t *testing.T, e *Engine) []Result {
	t.Helper()
	names := Scripts()
	for name := range e.Cannot {
		if name == manyJobs {
			t.Errorf("enginetest: Cannot[%q]: every engine has to do this", name)
		} else if !slices.Contains(names, name) {
			t.Errorf("enginetest: Cannot[%q]: there is no such script; there are %q", name, names)
		} else if name == arrivesTwice && e.Repeat == nil {
			t.Errorf("enginetest: Cannot[%q]: it is left out, because Repeat is nil", name)
		} else if name == badQueue && e.OpenTwo != nil {
			t.Errorf("enginetest: Cannot[%q]: an engine that has OpenTwo has to do this", name)
		}
	}
	watched := *e
	watched.machine = watch()
	defer watched.machine.end()
	e = &watched
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
	if r.Cannot != "" && len(r.Faults) == 0 {
		t.Logf("left out (%s)", r.Cannot)
		return
	}
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
	if name == arrivesTwice && e.Repeat == nil {
		return Result{Script: name, Cannot: "no test can have the engine deliver twice"}
	}
	if e.without(name) {
		if why := e.Cannot[name].Why; why != "" || e.InPlace && name != badQueue {
			return Result{Script: name, Cannot: cmp.Or(why, "jobs stay where they are")}
		}
		return Result{Script: name, Faults: []string{"enginetest: the Engine lacks a function for this script, and does not say why"}}
	}
	if name == badQueue {
		return Result{Script: name, Faults: e.runBeside(t)}
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
	}
	faults := append(exactly(e, got, want), punctual(e, s, got, want)...)
	if s.other != nil {
		for _, fault := range e.faults(s.other, got.other, want.other, nil) {
			faults = append(faults, "of the other kind: "+fault)
		}
	}
	return faults
}

// play is a job of a script in progress on an engine.
type play struct {
	script  *script
	kind    string
	job     string
	rec     *retrytest.Recorder
	current atomic.Pointer[retry.Policy] // what PolicyFor has for the kind
	release chan struct{}                // closed at the end of the test: lets attempts of killed workers go
	entered chan int                     // the attempts that have begun
	acted   chan struct{}                // closed when what the attempt waits for has happened

	mu       sync.Mutex
	attempts []span
}

const (
	kind      = "kind-1"
	otherKind = "kind-2"
	job       = "job-1"
	nextJob   = "job-2" // succeeds
	otherJob  = "job-3" // of the other kind
)

func newPlay(s *script, kind, job string) *play {
	const attemptsSeen = 1000
	pl := &play{
		script: s, kind: kind, job: job, rec: &retrytest.Recorder{},
		release: make(chan struct{}), entered: make(chan int, attemptsSeen), acted: make(chan struct{}),
	}
	pl.current.Store(pl.policy(&s.policy))
	return pl
}

// record returns what happened to the job.
func (pl *play) record(outcome Outcome) *record {
	return &record{attempts: pl.seen(), events: pl.rec.Events(), timeline: pl.rec.Timeline(), outcome: outcome}
}

// run runs a script on the engine. After an error, got is nil if the job was not submitted.
func (e *Engine) run(t testing.TB, s *script, want *record) (got *record, err error) {
	t.Helper()
	pl := newPlay(s, kind, job)
	d := &director{engine: e, play: pl, plays: []*play{pl}, queue: e.Open(t)}
	if s.other != nil {
		d.plays = append(d.plays, newPlay(s.other, otherKind, otherJob))
	}
	ctx, cancel := e.machine.within(e.patience(s, want))
	defer cancel()
	t.Cleanup(func() {
		for _, pl := range d.plays {
			close(pl.release)
		}
		for _, w := range d.started {
			_ = w.Stop(context.Background()) // what is left of it
		}
	})
	if err := d.start(&s.policy); err != nil {
		return nil, err
	}
	for _, pl := range d.plays {
		if err := e.submit(ctx, d.queue, pl); err != nil {
			return nil, fmt.Errorf("submit: %w", err)
		}
	}
	outcome, err := d.direct(ctx)
	var other Outcome
	if err == nil && s.other != nil {
		other, err = d.ended(ctx, otherJob)
	}
	if err == nil {
		outcome, err = d.linger(ctx, outcome)
		pl.told(len(want.events), e.grain())
	}
	got = pl.record(outcome)
	got.over = d.over
	if s.other != nil {
		d.plays[1].told(len(want.other.events), e.grain())
		got.other = d.plays[1].record(other)
	}
	if err == nil && s.name == headers {
		got.headers, err = e.DeadHeaders(ctx, d.queue, job)
	}
	if err == nil && (s.has(panics, confuses, repeats, refuses) || s.name == largest) {
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
	if s.has(sticks) && e.Cannot[s.name].Endless {
		return d
	}
	for _, ev := range want.events {
		d += ev.Delay + e.grain()
	}
	for _, step := range s.steps {
		d += step.took + e.grain()
		if step.act != returns {
			d += e.recovery()
		}
	}
	if limit := s.policy.MaxElapsed; limit > 0 { // however many attempts fit into it
		d = min(d, 2*limit+10*e.grain())
	}
	if s.has(repeats) { // the script lingers
		d += e.grain() + 10*e.unit()
	}
	if s.other != nil {
		d += e.patience(s.other, want.other)
	}
	return d
}

func (pl *play) policy(p *retry.Policy) *retry.Policy {
	q := *p
	q.Observer = retry.Observers(pl.rec.Observer(), p.Observer, &retry.Observer{Event: pl.reload})
	return &q
}

// reload exchanges the policy of the kind when it has decided about a step that says so: the next
// attempt may begin before anybody else hears of that, on a busy machine.
func (pl *play) reload(context.Context, retry.Event) {
	n := len(pl.rec.Events())
	if steps := pl.script.steps; n <= len(steps) && steps[n-1].act == reloads {
		pl.current.Store(pl.policy(pl.script.then))
	}
}

// handler returns the handler of workers under p.
func (d *director) handler(p *retry.Policy) Handler {
	return func(ctx context.Context, name string) error {
		n := slices.IndexFunc(d.plays, func(pl *play) bool { return pl.job == name })
		if n < 0 {
			return nil
		}
		pl := d.plays[n]
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
	case repeats, refuses, outlives, sticks:
		select {
		case <-pl.acted:
		case <-pl.release:
		}
	case returns, switches, confuses, reloads:
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
