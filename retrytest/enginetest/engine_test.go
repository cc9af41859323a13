package enginetest_test

import (
	"context"
	_ "embed"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/retryjob"
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

// The methods by which enginetest drives the sketch.

func newSketch() *sketch {
	return &sketch{messages: map[string]*message{}, stored: stored, settle: settle}
}

func (q *sketch) Submit(_ context.Context, kind, job string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.messages[job] = &message{kind: kind}
	return nil
}

func (q *sketch) Outcome(_ context.Context, job string) (enginetest.Outcome, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.messages[job].outcome, nil
}

func (q *sketch) Start(p enginetest.Policies, handle enginetest.Handler) (enginetest.Workers, error) {
	return q.start(p, handle), nil
}

func (q *sketch) start(p enginetest.Policies, handle enginetest.Handler) *process {
	ctx, cancel := context.WithCancel(context.Background())
	w := &process{&worker{sketch: q, policies: p, handle: handle, ctx: ctx}, cancel}
	w.attempts.Go(w.poll)
	return w
}

// again makes a message visible that a worker has.
func (q *sketch) again(job string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.messages[job].visible = time.Time{}
}

// process is a worker that polls.
type process struct {
	*worker

	cancel context.CancelFunc
}

// poll receives every millisecond.
func (w *process) poll() {
	for {
		select {
		case <-time.After(time.Millisecond):
			w.receive()
		case <-w.ctx.Done():
			return
		}
	}
}

func (w *process) Stop(context.Context) error {
	w.cancel()
	w.attempts.Wait()
	return nil
}

// Kill has the worker lose its messages. They stay hidden for a while.
func (w *process) Kill() error {
	w.cancel()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.messages {
		if m.worker == w.worker {
			m.worker = nil
		}
	}
	return nil
}

func sketchEngine() *enginetest.Engine {
	var labels map[string]string
	return &enginetest.Engine{
		Open:        func(testing.TB) enginetest.Queue { return newSketch() },
		SubmitLarge: func(ctx context.Context, q enginetest.Queue, kind, job string) error { return q.Submit(ctx, kind, job) },
		SubmitWith: func(ctx context.Context, q enginetest.Queue, kind, job string, headers map[string]string) error {
			labels = headers
			return q.Submit(ctx, kind, job)
		},
		DeadHeaders: func(context.Context, enginetest.Queue, string) (map[string]string, error) { return labels, nil },
		RefuseDead: func(context.Context, enginetest.Queue) (func() error, error) {
			return func() error { return nil }, nil
		},
		OpenTwo: openTwo,
		Grain:   2 * time.Millisecond, Recovery: hidden + 2*time.Millisecond, Jobs: 1000,
		Repeat: func(_ context.Context, q enginetest.Queue, job string) error {
			q.(*sketch).again(job) //nolint:forcetypeassert // made by Open
			return nil
		},
	}
}

// TestSketch shows that an engine can pass all scripts, and that none is left out.
func TestSketch(t *testing.T) {
	t.Parallel()
	for _, name := range enginetest.Scripts() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := sketchEngine()
			r := inBubble(t, e, name)
			assert.Empty(t, r.Faults)
			assert.Empty(t, r.Cannot)
			e.Grain = 10 * time.Second // far more than its Unit
			assert.Empty(t, inBubble(t, e, name).Faults)
		})
	}
}

// TestSketchOnTheClock is TestSketch without bubbles, as adapters are tested.
func TestSketchOnTheClock(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes ten seconds")
	}
	e := sketchEngine()
	e.Grain, e.Recovery = time.Second, 5*time.Second
	for _, r := range enginetest.Run(t, e) {
		assert.Empty(t, r.Cannot, r.Script)
	}
}

//go:embed sketch_test.go
var sketchFile string

// TestSketchIsSmall counts the lines of code, without the imports.
func TestSketchIsSmall(t *testing.T) {
	t.Parallel()
	_, code, found := strings.Cut(sketchFile, "\n)\n")
	require.True(t, found)
	lines := 0
	for line := range strings.Lines(code) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
			lines++
		}
	}
	t.Log(lines)
	assert.LessOrEqual(t, lines, 61)
}

// TestLeftOut shows that a script is left out if the engine cannot do its act.
func TestLeftOut(t *testing.T) {
	t.Parallel()
	e := sketchEngine()
	e.Repeat = nil
	r := inBubble(t, e, "arrives twice")
	assert.Equal(t, enginetest.Result{Script: "arrives twice", Cannot: "no test can have the engine deliver twice"}, r)
	e.RefuseDead = nil
	r = inBubble(t, e, "refused dead letter")
	assert.Equal(t, []string{"enginetest: the Engine lacks a function for this script, and does not say why"}, r.Faults)
	e.Cannot = map[string]enginetest.Instead{"refused dead letter": {Why: "it has none"}}
	assert.Equal(t, enginetest.Result{Script: "refused dead letter", Cannot: "it has none"}, inBubble(t, e, "refused dead letter"))
}

// TestHeadersAreLost shows that a header which an engine loses is a fault.
func TestHeadersAreLost(t *testing.T) {
	t.Parallel()
	e := sketchEngine()
	e.DeadHeaders = func(context.Context, enginetest.Queue, string) (map[string]string, error) {
		return map[string]string{"x-request-id": "4711", "x-tenant": "a", "retry-mine": "b"}, nil
	}
	require.Len(t, inBubble(t, e, "headers").Faults, 1)
}

// On a machine that takes five times as long for what it does, all may take five times as long.
func TestMachine(t *testing.T) {
	t.Parallel()
	begun := time.Unix(1_800_000_000, 0)
	m := &enginetest.Machine{}
	for i := range 100 {
		m.Note(begun.Add(time.Duration(i)*time.Second), time.Millisecond, time.Millisecond)
	}
	assert.Equal(t, time.Minute, m.Stretch(time.Minute, begun, begun.Add(time.Hour)))
	assert.Equal(t, time.Minute, m.Stretch(time.Minute, begun, begun), "nobody has looked")
	busy := begun.Add(time.Hour)
	for i := range 100 {
		m.Note(busy.Add(time.Duration(i)*time.Second), 5*(time.Millisecond+enginetest.Allowance), 5*time.Millisecond)
	}
	assert.Equal(t, time.Minute, m.Stretch(time.Minute, begun, busy.Add(-1)))
	assert.Equal(t, 5*time.Minute, m.Stretch(time.Minute, busy, busy.Add(time.Hour)))
	assert.Equal(t, time.Minute, (*enginetest.Machine)(nil).Stretch(time.Minute, begun, busy))

	stood := &enginetest.Machine{} // for a second, and looked only after what it had delayed
	stood.Note(begun.Add(1100*time.Millisecond), time.Second, time.Millisecond)
	assert.Greater(t, stood.Stretch(time.Second, begun, begun.Add(1050*time.Millisecond)), 2*time.Second)
}

func TestWatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, m := range []*enginetest.Machine{nil, enginetest.Watch()} {
			begun := time.Now()
			ctx, cancel := m.Within(time.Minute)
			<-ctx.Done()
			cancel()
			assert.InDelta(t, time.Minute, time.Since(begun), float64(enginetest.Tick))
			if m != nil {
				assert.Equal(t, time.Minute, m.Stretch(time.Minute, begun, time.Now()))
				m.End()
			}
		}
	})
}

// spoil has the sketch store nothing. Its messages come again.
func (q *sketch) spoil() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.settle = func(m *message, _ *retryjob.Stored, _ retryjob.Outcome) { m.visible = time.Now().Add(hidden) }
}

func (q *sketch) mend() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.settle = settle
}

func openTwo(testing.TB) (q enginetest.Queue, spoil func() (func() error, error)) {
	bad := newSketch()
	return enginetest.Both(bad, newSketch()), func() (func() error, error) {
		bad.spoil()
		return func() error { bad.mend(); return nil }, nil
	}
}

// TestBadQueueIsWrong shows that the suite notices a bad queue that holds up the other one, and
// one whose jobs are lost.
func TestBadQueueIsWrong(t *testing.T) {
	t.Parallel()
	e := sketchEngine()
	e.OpenTwo = func(testing.TB) (enginetest.Queue, func() (func() error, error)) {
		bad, good := newSketch(), newSketch()
		return enginetest.Both(bad, good), func() (func() error, error) {
			bad.spoil()
			good.spoil()
			return func() error { bad.mend(); return nil }, nil
		}
	}
	assert.Len(t, inBubble(t, e, "bad queue").Faults, 6)

	e.OpenTwo = func(testing.TB) (enginetest.Queue, func() (func() error, error)) {
		bad := newSketch()
		return enginetest.Both(bad, newSketch()), func() (func() error, error) {
			bad.spoil()
			return func() error { return nil }, nil
		}
	}
	assert.Len(t, inBubble(t, e, "bad queue").Faults, 6)

	e.OpenTwo = nil
	e.InPlace = true
	assert.NotEmpty(t, inBubble(t, e, "bad queue").Faults, "it does not say why")
}
