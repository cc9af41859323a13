package enginetest

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// silences are the moments at which a server becomes silent: while a worker waits for jobs,
// and while an attempt is in progress, which then goes on like this.
var silences = []struct {
	name string
	work func(ctx context.Context) error // nil: nothing is in progress
	want Status
}{
	{"idle", nil, Succeeded},
	{"success", func(context.Context) error { return nil }, Succeeded},
	{"failure", func(context.Context) error { return errBoom }, Succeeded},
	{"end", func(context.Context) error { return errFinal }, GaveUp},
	{"stop", func(ctx context.Context) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}, Succeeded},
}

const silencePause = 1500 * time.Millisecond

// Silence lets the server become silent, in both directions and without an end to any
// connection: while a worker waits for jobs, and while an attempt is in progress that
// succeeds, fails, ends the job, or goes on until its worker is stopped. The worker has to
// stop within [Outage.Stops]. When the server answers again, new workers bring the job to its
// end.
func (o *Outage) Silence(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes as long as a worker may take to stop")
	}
	for _, s := range silences {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			cable := NewLink()
			h := &hush{Outage: o, queue: o.Open(t, cable), work: s.work, want: s.want, begun: make(chan struct{}), quiet: make(chan struct{})}
			h.run(t, cable)
		})
	}
}

// hush is a silence in progress.
type hush struct {
	*Outage

	queue        Queue
	work         func(context.Context) error
	want         Status
	begun, quiet chan struct{}
	attempts     atomic.Int64
	succeeded    atomic.Bool
}

func (h *hush) run(t *testing.T, cable *Cable) {
	t.Helper()
	w := h.start(t)
	if err := h.queue.Submit(t.Context(), kind, job); err != nil {
		t.Fatalf("enginetest: submit: %v", err)
	}
	if <-h.begun; h.work == nil {
		h.await(t)
	}
	end := cable.Silence()
	close(h.quiet)
	time.Sleep(silencePause) // until a request is under way
	m, stopped := watch(), time.Now()
	if err := w.Stop(context.Background()); err != nil {
		t.Logf("stop: %v", err)
	}
	took := time.Since(stopped)
	m.end()
	t.Logf("stopped after %v", took.Round(time.Millisecond))
	if took > m.stretch(h.Stops+silencePause, stopped, time.Now()) {
		t.Errorf("enginetest: stopped after %v, and Stops is %v", took, h.Stops)
	}
	end()
	cable.reset()
	if h.work == nil {
		return
	}
	if h.Lost != nil {
		if err := h.Lost(h.queue); err != nil {
			t.Fatalf("enginetest: lost: %v", err)
		}
	}
	w = h.start(t)
	h.await(t)
	if err := w.Stop(context.Background()); err != nil {
		t.Errorf("enginetest: stop: %v", err)
	}
}

func (h *hush) start(t *testing.T) Workers {
	t.Helper()
	p := &retry.Policy{
		Name: "silence", MaxAttempts: outageAttempts, Backoff: retry.Constant(outageWait), Jitter: retry.NoJitter,
	}
	w, err := h.queue.Start(Policies{Policy: p}, h.handle)
	if err != nil {
		t.Fatalf("enginetest: start: %v", err)
	}
	return w
}

// handle is the handler of the workers. After the first attempt, the job ends.
func (h *hush) handle(ctx context.Context, _ string) (err error) {
	defer func() { h.succeeded.Store(err == nil) }()
	switch first := h.attempts.Add(1) == 1; {
	case first && h.work != nil:
		close(h.begun)
		<-h.quiet
		return h.work(ctx)
	case first:
		close(h.begun)
		return nil
	case h.want == GaveUp:
		return errFinal
	default:
		return nil
	}
}

// await returns when the job has ended.
func (h *hush) await(t *testing.T) {
	t.Helper()
	var o Outcome
	for end := time.Now().Add(outagePatience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		var err error
		if o, err = h.queue.Outcome(context.Background(), job); err != nil {
			continue
		}
		if h.Forgets && h.succeeded.Load() {
			o.Status = Succeeded
		}
		if o.Status == h.want {
			return
		}
		if o.Status != Open {
			break
		}
	}
	t.Fatalf("enginetest: the job %v (%s) after %d attempts, want: it %v", o.Status, o.Err, h.attempts.Load(), h.want)
}
