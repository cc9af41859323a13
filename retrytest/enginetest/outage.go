package enginetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// Outage says how to drive an engine whose workers lose their server again and again in
// [Outage.Run], or hear no more of it in [Outage.Silence].
type Outage struct {
	// Open returns an empty queue that no other test uses, whose workers reach the
	// server over a cable, and connect again when a connection is lost. Submit and
	// Outcome do not use the cable.
	Open func(t testing.TB, cable *Cable) Queue

	// Lost, if not nil, makes the engine notice lost attempts at once,
	// which it would notice after minutes. It is called while all connections work,
	// before workers are started.
	Lost func(q Queue) error

	// Forgets says that the engine keeps no record of successes. Run then relies on the
	// handler's success.
	Forgets bool

	// Stops is within which time workers stop while their server is silent, as the adapter's
	// documentation says, with the default settings of its client. It is for Silence.
	Stops time.Duration

	// Again says that a late answer of an engine's worker may put a job back while another
	// attempt is in progress or waits. Run then only reports which jobs were early, or ran
	// twice at the same time.
	Again bool

	// Twice says that a job may go on twice when a connection is lost, each time with a
	// count of its own, because the engine cannot move a job in one step. Run then only
	// reports which jobs began too often, were early, or ran twice at the same time.
	Twice bool
}

const (
	outageJobs     = 150
	outagePause    = 100 * time.Millisecond // between two jobs
	outageAttempts = 6
	outageWait     = 500 * time.Millisecond
	outageSilence  = 2 * time.Second
	outagePatience = 3 * time.Minute
)

// outageJob returns how a job ends, and how attempt n at it does.
func outageJob(job, n int) (Status, error) {
	switch {
	case job%10 == 3:
		return GaveUp, errFinal
	case job%10 == 7:
		return GaveUp, errBoom
	case n <= job%3:
		return Succeeded, errBoom
	default:
		return Succeeded, nil
	}
}

// Run lets workers handle 150 jobs while their connections are reset and go silent at
// random, in one direction or in both, for up to two seconds. After that, silent
// connections go on or are reset. All jobs have to end, as in Execute. None may begin
// more often than the policy has attempts, be early, or run twice at the same time. An
// attempt whose outcome did not reach the engine is a failure, so jobs that would have
// succeeded may be given up: with [retry.ErrLost], or after the last of all attempts.
func (o *Outage) Run(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	cable := &Cable{faulty: true}
	p := &retry.Policy{
		Name: "outage", MaxAttempts: outageAttempts, Backoff: retry.Constant(outageWait), Jitter: retry.NoJitter,
	}
	s := &sufferer{Outage: o, t: t, queue: o.Open(t, cable), spans: map[string][]span{}}
	s.start(p)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	var submitter sync.WaitGroup
	over := make(chan struct{})
	submitter.Go(func() {
		defer close(over)
		for n := range outageJobs {
			if err := s.queue.Submit(t.Context(), kind, jobName(n)); err != nil {
				t.Errorf("enginetest: submit: %v", err)
			}
			time.Sleep(outagePause)
		}
	})
	begun := time.Now()
	for troubled := true; troubled; {
		select {
		case <-time.After(time.Duration(random.Int64N(int64(outageSilence / 4)))):
			at := time.Since(begun)
			t.Logf("%v: %s", at.Round(time.Millisecond), cable.trouble(random, outageSilence))
		case <-over:
			troubled = false
		}
	}
	submitter.Wait()
	s.await(p)
	for _, w := range s.workers {
		if err := w.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("enginetest: stop: %v", err)
		}
	}
	s.judge()
}

// sufferer is an Outage in progress.
type sufferer struct {
	*Outage

	t       *testing.T
	queue   Queue
	workers []Workers
	ends    [outageJobs]Outcome

	mu    sync.Mutex
	spans map[string][]span
}

func (s *sufferer) start(p *retry.Policy) {
	s.t.Helper()
	w, err := s.queue.Start(Policies{Policy: p}, s.handle)
	if err != nil {
		s.t.Fatalf("enginetest: start: %v", err)
	}
	s.workers = append(s.workers, w)
}

// handle is the handler of the workers.
func (s *sufferer) handle(_ context.Context, job string) error {
	s.mu.Lock()
	n := len(s.spans[job])
	s.spans[job] = append(s.spans[job], span{start: time.Now()})
	s.mu.Unlock()
	time.Sleep(rand.N(50 * time.Millisecond))
	_, err := outageJob(numberOf(job), n+1)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spans[job][n].end = time.Now()
	return err
}

// await returns when all jobs have ended.
func (s *sufferer) await(p *retry.Policy) {
	s.t.Helper()
	begun := time.Now()
	for calm := begun; ; time.Sleep(50 * time.Millisecond) {
		left := s.left()
		switch {
		case left == 0:
			s.t.Logf("all have ended %v after the last trouble", time.Since(begun).Round(time.Millisecond))
			return
		case time.Since(begun) > outagePatience:
			s.t.Errorf("enginetest: %d jobs have not ended after %v", left, outagePatience)
			return
		case s.Lost != nil && time.Since(calm) > 10*time.Second:
			calm = time.Now()
			if err := s.Lost(s.queue); err != nil {
				s.t.Fatalf("enginetest: lost: %v", err)
			}
			s.start(p)
		}
	}
}

// left returns how many jobs have not ended.
func (s *sufferer) left() (left int) {
	for n := range outageJobs {
		if s.ends[n].Status != Open {
			continue
		}
		o, err := s.queue.Outcome(context.Background(), jobName(n))
		s.mu.Lock()
		spans := s.spans[jobName(n)]
		_, failure := outageJob(n, len(spans))
		if err == nil && o.Status == Open && s.Forgets && failure == nil && !spans[len(spans)-1].end.IsZero() {
			o.Status = Succeeded
		}
		s.mu.Unlock()
		if s.ends[n] = o; err != nil || o.Status == Open {
			s.ends[n].Status = Open
			left++
		}
	}
	return left
}

// judge compares what became of the jobs with what should have.
func (s *sufferer) judge() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := range outageJobs {
		want, _ := outageJob(n, 1)
		spans := s.spans[jobName(n)]
		switch o := s.ends[n]; {
		case strings.Contains(o.Err, retry.ErrLost.Error()),
			// No job fails that often by itself, so attempts were lost before the last one.
			o.Status == GaveUp && attemptsOf(o.Err) >= outageAttempts:
			s.t.Logf("job %d was given up after %d attempts: %s", n, len(spans), o.Err)
		case o.Status != want:
			s.t.Errorf("enginetest: job %d: %v (%.100s), want %v", n, o.Status, o.Err, want)
		}
		tell := s.t.Errorf
		if s.Twice {
			tell = s.t.Logf
		}
		if len(spans) > outageAttempts {
			tell("enginetest: job %d: began %d times, and the policy has %d attempts", n, len(spans), outageAttempts)
		}
		if s.Again {
			tell = s.t.Logf
		}
		for _, fault := range earlyFaults(n, spans) {
			tell("enginetest: job %d: %s", n, fault)
		}
	}
}

// attemptsOf returns the number in "failed after 7 attempts".
func attemptsOf(text string) (n int) {
	_, after, _ := strings.Cut(text, " after ")
	_, _ = fmt.Sscanf(after, "%d attempts", &n)
	return n
}

// earlyFaults returns which of the attempts at a job began before they should have.
func earlyFaults(job int, spans []span) (faults []string) {
	for i := range spans[:max(len(spans)-1, 0)] {
		_, err := outageJob(job, i+1)
		waits := errors.Is(err, errBoom) // others would have ended the job
		switch pause := spans[i+1].start.Sub(spans[i].end); {
		case spans[i].end.IsZero() || pause < 0:
			faults = append(faults, fmt.Sprintf("attempt %d began before attempt %d had ended", i+2, i+1))
		case waits && pause < outageWait:
			faults = append(faults, fmt.Sprintf("attempt %d began after %v, and the wait is %v", i+2, pause, outageWait))
		}
	}
	return faults
}
