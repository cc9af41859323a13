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
	"github.com/seed-5ff3c98e/retry/retryjob"
	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

// never is later than any script.
const never = 100_000 * time.Hour

// toy is the sketch with a mistake.
type toy struct {
	*sketch

	wrong   string
	handle  enginetest.Handler
	process *process
	kept    sync.Map // policies by kind
}

func newToy(wrong string) *enginetest.Engine {
	e := sketchEngine()
	e.Open = func(testing.TB) enginetest.Queue {
		q := &toy{sketch: newSketch(), wrong: wrong}
		q.stored = func(m message, p enginetest.Policies) retryjob.Stored {
			if wrong == "keeps what is stuck" {
				m.kept.Most = never
			}
			return q.begin(stored(m, p))
		}
		q.settle = func(m *message, s *retryjob.Stored, o retryjob.Outcome) {
			settle(m, s, o)
			q.end(m, s)
		}
		return q
	}
	e.Repeat = func(ctx context.Context, q enginetest.Queue, job string) error {
		q.(*toy).repeat(ctx, job) //nolint:forcetypeassert // made by Open
		return nil
	}
	return e
}

// begin makes the mistakes before an attempt.
func (q *toy) begin(s retryjob.Stored) retryjob.Stored {
	policyFor := s.PolicyFor
	switch q.wrong {
	case "forgets crashes":
		s.Lost = 0
	case "one policy for all kinds":
		s.Kind = "kind-1"
	case "keeps the old policy":
		s.PolicyFor = func(kind string) (*retry.Policy, error) {
			p, err := policyFor(kind)
			kept, _ := q.kept.LoadOrStore(kind, p)
			return kept.(*retry.Policy), err //nolint:forcetypeassert // nothing else is stored
		}
	case "knows no kinds":
		s.Kind = ""
	}
	return s
}

// end makes the mistakes after an attempt.
func (q *toy) end(m *message, s *retryjob.Stored) {
	gaveUp := m.outcome.Status == enginetest.GaveUp
	switch q.wrong {
	case "early":
		m.visible = time.Now().Add(s.Decision.Delay - time.Millisecond)
	case "late":
		m.visible = time.Now().Add(s.Decision.Delay + time.Minute)
	case "counts rate limits":
		m.state.Failures, m.state.RateLimited = m.state.Failures+m.state.RateLimited, 0
	case "forgets when it began":
		m.state.First = time.Time{}
	case "loses failed jobs":
		m.visible = time.Now().Add(never)
	case "runs once more":
		if gaveUp && m.deliveries == 3 {
			m.outcome.Status, m.visible, m.known = enginetest.Open, time.Now(), m.deliveries
		}
	case "loses errors":
		if gaveUp {
			m.outcome.Err = "failed"
		}
	case "says success":
		if gaveUp {
			m.outcome.Status = enginetest.Succeeded
		}
	}
}

// repeat makes the mistakes with a job that arrives twice.
func (q *toy) repeat(ctx context.Context, job string) {
	switch q.wrong {
	case "runs a job again that was done":
		q.process.attempts.Go(func() {
			for o, _ := q.Outcome(ctx, job); o.Status == enginetest.Open; o, _ = q.Outcome(ctx, job) {
				time.Sleep(time.Microsecond)
			}
			_ = q.handle(ctx, job)
		})
		return
	case "runs a job later that was done":
		q.process.attempts.Go(func() {
			time.Sleep(300 * time.Millisecond)
			_ = q.handle(ctx, job)
		})
		return
	case "runs a job three times":
		q.again(job)
		time.Sleep(2 * time.Millisecond)
	case "gives up what comes twice":
		q.mu.Lock()
		q.messages[job].state.Failures = 100
		q.mu.Unlock()
	case "gives up what was done":
		q.process.attempts.Go(func() {
			time.Sleep(300 * time.Millisecond)
			q.mu.Lock()
			defer q.mu.Unlock()
			q.messages[job].outcome.Status = enginetest.GaveUp
		})
	case "stops at what comes twice":
		q.process.cancel()
	}
	q.again(job)
}

func (q *toy) Start(p enginetest.Policies, handle enginetest.Handler) (enginetest.Workers, error) {
	w := &toyWorkers{toy: q}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	q.handle = handle
	switch q.wrong {
	case "does not start":
		return nil, assert.AnError
	case "tells what is not stored":
		handle = func(ctx context.Context, job string) error {
			err := q.handle(ctx, job)
			if err == nil {
				p.Policy.Observer.Event(ctx, retry.Event{Kind: retry.Succeeded, Attempt: 1})
			}
			return err
		}
	case "counts shutdowns":
		handle = func(_ context.Context, job string) error { return q.handle(w.ctx, job) }
	case "retries panics":
		handle = func(ctx context.Context, job string) (err error) {
			defer func() {
				if recover() != nil {
					err = assert.AnError
				}
			}()
			return q.handle(ctx, job)
		}
	}
	w.process = q.start(p, handle)
	q.process = w.process
	return w, nil
}

// toyWorkers makes the mistakes at the end of a process.
type toyWorkers struct {
	*process

	toy    *toy
	ctx    context.Context //nolint:containedctx // of the handler of a process that counts shutdowns
	cancel context.CancelFunc
}

func (w *toyWorkers) Stop(ctx context.Context) error {
	if w.cancel(); w.toy.wrong == "counts shutdowns" {
		time.Sleep(time.Millisecond)
	}
	if w.toy.wrong == "stops late" && w.process.ctx.Err() == nil {
		time.Sleep(time.Minute)
	}
	return w.process.Stop(ctx)
}

func (w *toyWorkers) Kill() error {
	err := w.process.Kill()
	if w.toy.wrong == "loses jobs of the dead" {
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, m := range w.messages {
			m.visible = time.Now().Add(never)
		}
	}
	return err
}

// TestStopsLate shows that a busy machine may be late to change the policy.
func TestStopsLate(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"policy change: fewer attempts", "policy change: more attempts, other waits"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newToy("stops late")
			e.Recovery += time.Minute
			assert.Empty(t, inBubble(t, e, name).Faults)
		})
	}
}

// TestWrong shows that the suite notices each mistake, and by which script.
func TestWrong(t *testing.T) {
	t.Parallel()
	for wrong, script := range map[string]string{
		"early":                          "one failure",
		"late":                           "one failure",
		"counts rate limits":             "hint: free",
		"forgets when it began":          "max elapsed: adds up",
		"loses failed jobs":              "one failure",
		"runs once more":                 "exhausted",
		"loses errors":                   "exhausted",
		"says success":                   "final",
		"retries panics":                 "panic",
		"forgets crashes":                "crash: poison",
		"keeps what is stuck":            "context ignored for ever",
		"counts shutdowns":               "shutdown",
		"loses jobs of the dead":         "crash",
		"tells what is not stored":       "success not stored",
		"one policy for all kinds":       "two kinds",
		"knows no kinds":                 "two kinds",
		"keeps the old policy":           "reload",
		"runs a job again that was done": "arrives twice",
		"runs a job later that was done": "arrives twice",
		"runs a job three times":         "arrives twice",
		"gives up what comes twice":      "arrives twice",
		"gives up what was done":         "arrives twice",
		"stops at what comes twice":      "arrives twice",
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

// TestToldLate shows that the worker of a failure may tell of it when another one has told of the
// end already, also on an engine that differs.
func TestToldLate(t *testing.T) {
	t.Parallel()
	e := sketchEngine()
	e.Open = func(testing.TB) enginetest.Queue { return lateTeller() }
	assert.Empty(t, inBubble(t, e, "max elapsed: adds up").Faults)

	e.Open = func(testing.TB) enginetest.Queue {
		q := lateTeller()
		q.stored = func(m message, p enginetest.Policies) retryjob.Stored {
			s := stored(m, p)
			s.Lost = 0
			return s
		}
		return q
	}
	e.Cannot = map[string]enginetest.Instead{"crash": {Why: "no counts", Told: []string{"1: boom: retry in 50ms", "2: succeeded"}}}
	r := inBubble(t, e, "crash")
	assert.Equal(t, "no counts", r.Cannot, "%q", r.Faults)
}

// lateTeller returns a sketch that tells of a failure when the next attempt may have ended.
func lateTeller() *sketch {
	q := newSketch()
	q.settle = func(m *message, s *retryjob.Stored, o retryjob.Outcome) {
		if o != retryjob.Again {
			settle(m, s, o)
			return
		}
		late, quiet := *s, *s.Policy
		quiet.Observer = nil
		s.Policy = &quiet
		settle(m, s, o)
		go func() {
			time.Sleep(60 * time.Millisecond)
			_ = late.Tell(context.Background())
		}()
	}
	return q
}

// TestPatience shows that a job that does not end is given up on, also if many attempts might
// come.
func TestPatience(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := newToy("loses failed jobs")
		e.Grain = 5 * time.Second
		begun := time.Now()
		assert.NotEmpty(t, e.Check(t, "max elapsed: adds up").Faults)
		assert.Less(t, time.Since(begun), 2*time.Minute)
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
