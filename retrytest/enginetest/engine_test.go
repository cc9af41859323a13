package enginetest_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

// testInBubbles is enginetest.Run for an engine in memory, on the clock of a bubble.
func testInBubbles(t *testing.T, e *enginetest.Engine) {
	t.Helper()
	t.Run("scripts", func(t *testing.T) {
		for _, name := range enginetest.Scripts() {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				r := inBubble(t, e, name)
				enginetest.Report(t, &r)
				assert.Zero(t, r.Late)
			})
		}
	})
}

func inBubble(t *testing.T, e *enginetest.Engine, name string) (r enginetest.Result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { r = e.Check(t, name) })
	return r
}

// toy is an engine in memory that counts deliveries, as many engines do, and keeps the
// State and the count that belongs to it beside each job. It does one thing wrong.
type toy struct {
	wrong string

	mu   sync.Mutex
	jobs map[string]*toyJob
}

type toyJob struct {
	state      retry.State
	known      int // deliveries that state knows of
	deliveries int
	due        time.Time
	owner      *toyWorkers // runs it
	outcome    enginetest.Outcome
}

func openToy(wrong string) func(testing.TB) enginetest.Queue {
	return func(testing.TB) enginetest.Queue {
		return &toy{wrong: wrong, jobs: map[string]*toyJob{}}
	}
}

func (q *toy) Submit(_ context.Context, _ *retry.Policy, job string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.jobs[job] = &toyJob{due: time.Now()}
	return nil
}

func (q *toy) Outcome(_ context.Context, job string) (enginetest.Outcome, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.jobs[job].outcome, nil
}

type toyWorkers struct {
	q      *toy
	p      *retry.Policy
	handle enginetest.Handler
	ctx    context.Context //nolint:containedctx // of the process
	cancel context.CancelFunc
	wg     sync.WaitGroup
	dead   bool
}

func (q *toy) Start(p *retry.Policy, handle enginetest.Handler) (enginetest.Workers, error) {
	if q.wrong == "does not start" {
		return nil, assert.AnError
	}
	w := &toyWorkers{q: q, p: p, handle: handle}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.wg.Go(w.poll)
	return w, nil
}

// poll starts what is due, every millisecond.
func (w *toyWorkers) poll() {
	for {
		select {
		case <-time.After(time.Millisecond):
			w.claim()
		case <-w.ctx.Done():
			return
		}
	}
}

func (w *toyWorkers) claim() {
	w.q.mu.Lock()
	defer w.q.mu.Unlock()
	for name, job := range w.q.jobs {
		if job.outcome.Status == enginetest.Open && job.owner == nil && !job.due.After(time.Now()) {
			job.owner = w
			job.deliveries++
			w.wg.Go(func() { w.attempt(name, job, *job) })
		}
	}
}

// attempt runs a job once. was is a copy of the job.
func (w *toyWorkers) attempt(name string, job *toyJob, was toyJob) {
	defer func() {
		if r := recover(); r != nil { // of a function of the policy
			w.settle(job, func() { job.outcome.Status = enginetest.GaveUp })
		}
	}()
	call := retry.Call{Policy: w.p, State: was.state}
	lost := was.deliveries - was.known - 1
	if w.q.wrong == "forgets crashes" {
		lost = 0
	}
	if d, exhausted := call.Lost(w.ctx, lost); exhausted {
		w.settle(job, func() { job.outcome = enginetest.Outcome{Status: enginetest.GaveUp, Err: d.Err.Error()} })
		return
	}
	if w.ctx.Err() != nil || !call.Begin(w.ctx) {
		w.settle(job, func() { job.known = job.deliveries; job.state = call.State })
		return
	}
	err := w.run(call.Context(), name)
	if w.ctx.Err() != nil && err != nil && w.q.wrong != "counts shutdowns" {
		call.Abort()
		w.settle(job, func() { job.known = job.deliveries; job.state = call.State })
		return
	}
	d := call.End(err)
	w.settle(job, func() { w.decide(job, d) })
}

func (w *toyWorkers) decide(job *toyJob, d retry.Decision) {
	switch {
	case d.Retry:
		job.state, job.known, job.due = d.State, job.deliveries, time.Now().Add(d.Delay)
	case d.Err == nil:
		job.outcome.Status = enginetest.Succeeded
	default:
		job.outcome = enginetest.Outcome{Status: enginetest.GaveUp, Err: d.Err.Error()}
	}
	switch w.q.wrong {
	case "early":
		job.due = time.Now().Add(d.Delay - time.Millisecond)
	case "late":
		job.due = time.Now().Add(d.Delay + time.Minute)
	case "counts rate limits":
		job.state.Failures, job.state.RateLimited = job.state.Failures+job.state.RateLimited, 0
	case "forgets when it began":
		job.state.First = time.Time{}
	case "loses failed jobs":
		job.due = time.Now().Add(100000 * time.Hour)
	case "runs once more":
		if job.outcome.Status == enginetest.GaveUp && job.deliveries == 3 {
			job.outcome.Status, job.due, job.known = enginetest.Open, time.Now(), job.deliveries
		}
	case "loses errors":
		if job.outcome.Status == enginetest.GaveUp {
			job.outcome.Err = "failed"
		}
	case "says success":
		if !d.Retry {
			job.outcome.Status = enginetest.Succeeded
		}
	}
}

func (w *toyWorkers) run(ctx context.Context, name string) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = retry.MarkFinal(assert.AnError)
			if w.q.wrong == "retries panics" {
				err = assert.AnError
			}
		}
	}()
	return w.handle(ctx, name)
}

// settle writes the end of an attempt, unless the process is dead.
func (w *toyWorkers) settle(job *toyJob, write func()) {
	w.q.mu.Lock()
	defer w.q.mu.Unlock()
	if job.owner == w && !w.dead {
		job.owner = nil
		write()
	}
}

func (w *toyWorkers) Stop(context.Context) error {
	if w.q.wrong == "stops late" && w.ctx.Err() == nil {
		time.Sleep(time.Minute)
	}
	w.cancel()
	w.wg.Wait()
	return nil
}

func (w *toyWorkers) Kill() error {
	w.cancel()
	w.q.mu.Lock()
	defer w.q.mu.Unlock()
	w.dead = true
	for _, job := range w.q.jobs {
		if job.owner == w && w.q.wrong != "loses jobs of the dead" {
			job.owner = nil
		}
	}
	return nil
}

func newToy(wrong string) *enginetest.Engine {
	return &enginetest.Engine{Open: openToy(wrong), Grain: 2 * time.Millisecond, Recovery: time.Millisecond, Jobs: 1000}
}

func TestToy(t *testing.T) {
	t.Parallel()
	for _, name := range enginetest.Scripts() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newToy("")
			assert.Empty(t, inBubble(t, e, name).Faults)
			e.Grain = 10 * time.Second // far more than its Unit
			assert.Empty(t, inBubble(t, e, name).Faults)
		})
	}
}

// TestStopsLate shows that a busy machine may be late to change the policy.
func TestStopsLate(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"policy change: fewer attempts", "policy change: more attempts, other waits"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newToy("stops late")
			e.Recovery = time.Minute
			assert.Empty(t, inBubble(t, e, name).Faults)
		})
	}
}

// TestWrong shows that the suite notices each mistake, and by which script.
func TestWrong(t *testing.T) {
	t.Parallel()
	for wrong, script := range map[string]string{
		"early":                  "one failure",
		"late":                   "one failure",
		"counts rate limits":     "hint: free",
		"forgets when it began":  "max elapsed: adds up",
		"loses failed jobs":      "one failure",
		"runs once more":         "exhausted",
		"loses errors":           "exhausted",
		"says success":           "final",
		"retries panics":         "panic",
		"forgets crashes":        "crash: poison",
		"counts shutdowns":       "shutdown",
		"loses jobs of the dead": "crash",
	} {
		t.Run(wrong, func(t *testing.T) {
			t.Parallel()
			require.NotEmpty(t, inBubble(t, newToy(wrong), script).Faults)
		})
	}
	t.Run("many jobs", func(t *testing.T) {
		t.Parallel()
		require.NotEmpty(t, inBubble(t, newToy("runs once more"), "many jobs").Faults)
		e := newToy("loses failed jobs")
		e.Jobs = 10
		assert.Equal(t, []string{"job 0: has not ended in time", "and so on"}, inBubble(t, e, "many jobs").Faults)
	})
}

// TestCannot shows that an engine has to differ as it says, and no otherwise.
func TestCannot(t *testing.T) {
	t.Parallel()
	forgets := []string{"1: gave up (final): an attempt too many"}
	const why = "no counts"
	for _, test := range []struct {
		wrong, script string
		instead       enginetest.Instead
		fault         string
	}{
		{"forgets crashes", "crash: not idempotent", enginetest.Instead{Why: why, Told: forgets}, ""},
		{"forgets crashes", "crash: not idempotent", enginetest.Instead{Told: forgets}, "Why is empty"},
		{"forgets crashes", "crash: not idempotent", enginetest.Instead{Why: why}, "the Observer is told []"},
		{
			"forgets crashes", "crash: not idempotent",
			enginetest.Instead{Why: why, Told: forgets, Endless: true},
			"Endless: true, but the job gave up",
		},
		{"", "crash: not idempotent", enginetest.Instead{Why: why, Told: forgets}, "does as Execute does"},
		{"loses jobs of the dead", "crash: poison", enginetest.Instead{Why: why, Endless: true}, ""},
		{"loses jobs of the dead", "crash: poison", enginetest.Instead{Why: why}, "Endless: false, but the job open"},
		{"does not start", "crash: poison", enginetest.Instead{Why: why, Endless: true}, "could not begin"},
	} {
		t.Run(test.wrong+" "+test.fault, func(t *testing.T) {
			t.Parallel()
			e := newToy(test.wrong)
			e.Cannot = map[string]enginetest.Instead{test.script: test.instead}
			r := inBubble(t, e, test.script)
			if test.fault == "" {
				assert.Equal(t, why, r.Cannot)
				return
			}
			assert.Empty(t, r.Cannot)
			assert.Contains(t, r.Faults[0], test.fault)
		})
	}
}
