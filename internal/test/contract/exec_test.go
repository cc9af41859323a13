package contract_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryexec"
	"github.com/seed-5ff3c98e/retry/retryjob"
)

// childEnv makes the test binary a command that exits with its value.
const childEnv = "RETRY_CONTRACT_CHILD"

func TestMain(m *testing.M) {
	if code, ok := os.LookupEnv(childEnv); ok {
		n, err := strconv.Atoi(code)
		if err != nil {
			n = 1
		}
		os.Exit(n)
	}
	os.Exit(m.Run())
}

// firstCode is the exit status of the first attempt that fails; the second has the
// next one. None of them has a meaning.
const firstCode = 10

// testRun makes every attempt a process, one script in sixty. Its time passes before it is
// started. Only an exit status comes back from a failure. So the Classifier knows the verdict
// about the error behind each status, and the errors are restored for the stage.
func testRun(t *testing.T, d *decoder) {
	t.Helper()
	if !d.once(60) {
		return
	}
	s := newStage(t, d.script().attentive())
	s.state = retry.State{}
	p := s.policy
	if s.watch != nobody {
		s.watch = events // an Observer of attempts would see the statuses
		s.policy.Observer = &retry.Observer{Event: func(ctx context.Context, e retry.Event) {
			e.Err = s.original(t, e.Err, s.calls)
			s.Observe(ctx, e)
		}}
	}
	s.policy.Classifier = func(error) (v retry.Verdict) {
		v, marked := retry.Marked(s.last)
		if !marked && p.Classifier != nil {
			v = p.Classifier(s.last)
		}
		if marked && v == (retry.Verdict{}) {
			v.Category = "unknown" // an opinion
		}
		return v
	}
	err := retryexec.Run(s.ctx, &s.policy, func(ctx context.Context) *exec.Cmd {
		code := 0
		if s.operation(ctx) != nil {
			code = firstCode + s.calls - 1
		}
		cmd := exec.CommandContext(ctx, os.Args[0])
		// The race detector would let every child sleep for a second at its end.
		cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", childEnv+"="+strconv.Itoa(code))
		return cmd
	})
	s.returned(s.original(t, err, s.calls))
	s.policy.Classifier = p.Classifier
	s.compare(t, (*run).live)
}

// original restores the error of an attempt.
func (s *stage) original(t *testing.T, err error, call int) error {
	t.Helper()
	if e, ok := err.(*retry.Error); ok {
		e.Err, e.Cut = s.original(t, e.Err, s.kept), s.original(t, e.Cut, s.cut)
		return e
	}
	var exit *exec.ExitError
	switch {
	case err == nil || err == s.of(call):
		return err
	case errors.As(err, &exit):
		assert.Equal(t, firstCode+call-1, exit.ExitCode())
	default: // it was not started, because its context has ended
		assert.True(t, errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded), "%v", err)
	}
	return s.of(call)
}

// testStored delivers a job until it has ended. The worker of the first delivery stops, or
// limits its attempts, with the context of the script; other workers go on.
func testStored(t *testing.T, d *decoder) {
	t.Helper()
	s := newStage(t, d.script().job())
	s.decides = true
	if s.state.First = s.start.Add(-s.age); s.elsewhere { // a stranger wrote it
		s.state.First = s.start.Add(s.age)
	}
	ctx, state, lost := s.ctx, s.state, 0
	for outcome := retryjob.Handed; outcome != retryjob.Done && outcome != retryjob.Ended; {
		if s.loses(s.calls) {
			s.calls++
			s.log("attempt %d is lost", s.calls)
			lost++
			continue
		}
		if s.failures = (failures{}); lost > 0 {
			s.last = retry.ErrLost
		}
		job := retryjob.Stored{Policy: &s.policy, State: state, Lost: lost, Now: s.now}
		outcome = job.Attempt(ctx, func(ctx context.Context) error {
			err := s.operation(ctx)
			if s.at(s.calls, 0).fate == aborted {
				job.Abort()
			}
			return err
		})
		s.log("%v", outcome)
		require.Equal(t, job.State, job.Decision.State)
		if d := job.Decision; outcome == retryjob.Handed {
			s.log("%v", decision{d.Counted, d.Limit, d.Stop, d.Delay, d.State, d.Verdict})
			ctx = context.Background()
		} else {
			s.decided(d)
			require.Equal(t, outcome == retryjob.Ended, d.Err != nil)
		}
		require.NoError(t, job.Tell(context.Background()))
		require.NoError(t, job.Tell(context.Background()), "which is told once")
		state, lost = s.restore(t, job.State), job.Lost
		s.clock.Advance(sum(job.Decision.Delay, s.late))
	}
	s.compare(t, (*run).job)
}

// loses reports whether the worker dies in the attempt after n others.
func (s *script) loses(n int) bool { return n < len(s.attempts) && s.attempts[n].fate == forgotten }

// job runs the script in the way of a job whose State is kept elsewhere.
func (r *run) job() {
	r.apart = true
	for lost := 0; ; {
		if r.loses(r.calls) {
			r.calls++
			r.log("attempt %d is lost", r.calls)
			lost++
			continue
		}
		o, d := r.delivered(lost)
		r.log("%v", o)
		r.log("%v", d)
		switch r.state, lost = d.state, 0; o {
		case retryjob.Done:
			r.tell("succeeded %d%s", counts(d.state)+1, r.elapsed())
			return
		case retryjob.Ended:
			r.tell("gave up %d: %v: %v%s", counts(d.state), d.stop, showVerdict(d.verdict), r.elapsed())
			return
		case retryjob.Again:
			r.tell("retrying %d after %v: %v%s", counts(d.state), d.delay, showVerdict(d.verdict), r.elapsed())
		case retryjob.Handed: // to a worker that does not stop
			r.ends = time.Time{}
		}
		r.now = r.now.Add(d.delay).Add(r.late)
	}
}

// delivered is one delivery of the job, after so many lost attempts.
func (r *run) delivered(lost int) (retryjob.Outcome, decision) {
	p := &r.policy
	if r.state.First.After(r.now) { // "a First that is not in the future"
		r.state.First = r.now
	}
	if lost > 0 { // "it becomes a failure with ErrLost before the next attempt begins"
		r.state.Failures += lost - 1
		if p.NonIdempotent {
			return r.judged(wasLost)
		}
		r.state.Failures++
	}
	if d, over := exhausted(p, r.state, r.now); over {
		return retryjob.Ended, d
	}
	handed := decision{delay: time.Second}
	if r.ended() {
		handed.state = r.state
		return retryjob.Handed, handed
	}
	r.number = counts(r.state)
	f, final := r.attempt(), false
	handed.state = r.state
	if f.mark != nil {
		final = f.mark.Class == retry.Final
	}
	switch stopped := r.ended(); {
	case r.at(r.calls, 0).fate == aborted:
		r.told(retry.ErrLost)
		return retryjob.Handed, handed
	case f.err == nil:
		r.told(nil)
		return retryjob.Done, decision{state: r.state}
	case stopped && !r.context.deadline && !p.NonIdempotent && !final: // "the job is handed back"
		r.told(f.err)
		return retryjob.Handed, handed
	default:
		r.told(f.err)
		f.late = f.late && !stopped // "as usual"
		return r.judged(f)
	}
}

// wasLost is the outcome of an attempt in another worker that may have taken effect.
var wasLost = outcome{failure: failure{err: retry.ErrLost, mark: &retry.Verdict{Class: retry.Retryable}}}

// judged decides about a failure. "The deadline of the context does not limit the waits", and
// "the Budget of the Policy is neither asked nor told".
func (r *run) judged(f outcome) (retryjob.Outcome, decision) {
	ends := r.ends
	r.ends = time.Time{}
	d, _ := r.decide(f)
	switch r.ends = ends; {
	case d.stop != retry.StopNone:
		return retryjob.Ended, d
	case d.verdict.NotStarted:
		return retryjob.Refused, d
	}
	return retryjob.Again, d
}
