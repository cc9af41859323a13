package contract_test

import (
	"fmt"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// A run is what the documents say about a script, one line for each event.
type run struct {
	*script
	call  bool // the driver is a Call, which tells its decisions
	apart bool // the driver is a Stored: no Budget, and the deadline of the context limits nothing
	lines []string

	// What only the driver knows: the waits that it drew, and why it stopped.
	drawn   []time.Duration
	stopped retry.StopReason

	start, now, ends time.Time // ends: when the context does
	state            retry.State
	calls            int // of the operation
	number           int // of the attempt; it starts again after progress, as do the waits
	waited           time.Duration
	withdrawals      int
	answer           int // the status of the last response
}

func (r *run) log(format string, args ...any) {
	r.lines = append(r.lines, fmt.Sprintf("%12v ", r.now.Sub(r.start))+fmt.Sprintf(format, args...))
}

// tell is log for what only an Observer and a Budget see.
func (r *run) tell(format string, args ...any) {
	if r.watch != nobody {
		r.log(format, args...)
	}
}

// live runs the script in the way of Execute.
func (r *run) live() {
	if r.state.First.IsZero() {
		r.state.First = r.now
	}
	r.number = counts(r.state)
	for {
		if stop := r.over(); stop != retry.StopNone {
			r.gaveUp(stop, retry.Verdict{})
			r.returned(stop, 0)
			return
		}
		f, fate := r.attempt(), finished
		if r.call {
			fate = r.at(r.calls, 0).fate
		}
		switch fate {
		case finished:
		case aborted:
			r.told(retry.ErrLost)
			r.number--
			continue
		case forgotten:
			f.failure = failure{err: fmt.Errorf("retry: Call.End was not called for attempt %d", r.number), mark: &retry.Verdict{Class: retry.Retryable}}
		}
		if f.harmless && !r.ended() {
			f.err = nil
		}
		if r.told(f.err); f.err == nil {
			r.succeeded()
			return
		}
		d, hint := r.decide(f)
		if d.stop != retry.StopNone {
			r.gaveUp(d.stop, d.verdict)
		} else {
			r.tell("retrying %d after %v: %v%s", r.number, d.delay, showVerdict(d.verdict), r.elapsed())
		}
		if r.call && fate == finished {
			r.log("%v", d)
		}
		if d.stop != retry.StopNone {
			r.returned(d.stop, hint)
			return
		}
		if !r.call || !r.elsewhere || fate == finished {
			r.wait(d.delay)
		}
	}
}

// told tells an Observer how an attempt ended.
func (r *run) told(err error) {
	if r.watch == attempts {
		r.log("attempt %d ends: %v", r.number, err)
	}
}

// counts is the number of attempts that a state counts.
func counts(s retry.State) int { return s.Failures + s.RateLimited + s.Pending }

func (r *run) ended() bool { return !r.ends.IsZero() && !r.now.Before(r.ends) }

// over says why the whole call is over.
func (r *run) over() retry.StopReason {
	switch {
	case r.ended() && r.context.deadline:
		return retry.StopDeadline
	case r.ended():
		return retry.StopCanceled
	case timedOut(&r.policy, r.state.First, r.now):
		return retry.StopTimeout
	}
	return retry.StopNone
}

// An outcome is the end of an attempt.
type outcome struct {
	failure
	lasted time.Duration
	late   bool // AttemptTimeout was over
}

func (r *run) attempt() outcome {
	r.calls++
	r.number++
	if r.watch == attempts {
		r.log("attempt %d begins", r.number)
	}
	r.log("attempt %d", r.calls)
	a, begin := r.at(r.calls, r.now.Sub(r.start)), r.now
	r.now = begin.Add(a.takes)
	out := outcome{failure: a.failure}
	if end := r.attemptEnds(begin); a.obeys && !end.IsZero() && !r.now.Before(end) {
		r.now = end
		out.failure = failure{err: errInterrupted, unsent: a.failure.unsent, once: a.failure.once}
	}
	out.lasted = r.now.Sub(begin)
	limit := r.attemptTimeout(begin)
	out.late = out.answer == 0 && limit > 0 && out.lasted >= limit
	r.answer = out.answer
	return out
}

// attemptEnds is when the context of an attempt ends, or zero.
func (r *run) attemptEnds(begin time.Time) (end time.Time) {
	earlier := func(t time.Time) {
		if end.IsZero() || t.Before(end) {
			end = t
		}
	}
	if !r.ends.IsZero() {
		earlier(r.ends)
	}
	if limit := r.attemptTimeout(begin); limit > 0 {
		earlier(begin.Add(limit))
	}
	if r.policy.Timeout > 0 {
		earlier(r.state.First.Add(r.policy.Timeout))
	}
	return end
}

// attemptTimeout is the timeout of an attempt, or 0.
func (r *run) attemptTimeout(begin time.Time) time.Duration {
	if r.policy.AttemptTimeout != retry.EqualShare {
		return max(r.policy.AttemptTimeout, 0)
	}
	limit := r.policy.MaxAttempts
	if limit <= 0 {
		limit = 3
	}
	d, _ := exhausted(&r.policy, retry.State{}, time.Time{})
	largest := d.limit
	attempts := limit - r.state.Failures
	if attempts <= 0 {
		attempts = largest - r.state.Failures
	}
	end := time.Time{}
	if r.policy.Timeout > 0 {
		end = r.state.First.Add(r.policy.Timeout)
	}
	if r.context.deadline && !r.apart && !r.ends.IsZero() && (end.IsZero() || r.ends.Before(end)) {
		end = r.ends
	}
	if attempts <= 1 || limit == retry.Unlimited || end.IsZero() {
		return 0
	}
	return max(end.Sub(begin)/time.Duration(attempts), 1)
}

// decide is Call.End for a failure. It also returns RetryAfter of the error.
func (r *run) decide(f outcome) (d decision, hint time.Duration) {
	v := verdict(&r.policy, f.failure, f.late)
	if stop := r.over(); stop != retry.StopNone { // the failure is not classified; it counts
		d = decision{state: r.state, counted: true, stop: stop}
		d.state.Failures++
		if f.answer > 0 && !r.ended() && stop != retry.StopTimeout {
			d.verdict = v
		}
		return d, 0
	}
	if r.policy.ResetAfter > 0 && f.lasted >= r.policy.ResetAfter {
		v.Progress = true
	}
	d = decide(&r.policy, r.apart, r.state, v, r.now, r.draw)
	if r.state = d.state; v.Progress {
		r.number, r.waited = 1, 0
	}
	hint = max(d.verdict.After, 0)
	if d.stop == retry.StopNone && r.context.deadline && !r.ends.IsZero() && !r.now.Add(d.delay).Before(r.ends) {
		d.stop = retry.StopDeadline
	}
	if d.stop == retry.StopNone && v.Class != retry.Pending && !r.apart {
		allowed := r.watch == nobody || r.withdrawals != r.refuse
		r.withdrawals++
		r.tell("withdraw: %v", allowed)
		if !allowed {
			d.stop, hint = retry.StopBudget, d.delay
		}
	}
	return d, hint
}

// draw takes the wait that the driver drew, if it is in the range. If a limit has
// refused the wait and the driver does not tell it, it is the shortest that is refused.
func (r *run) draw(first time.Time, w span) time.Duration {
	refuses := map[retry.StopReason]time.Time{}
	if r.context.deadline && !r.ends.IsZero() {
		refuses[retry.StopDeadline] = r.ends
	}
	if r.policy.MaxElapsed > 0 && !first.IsZero() {
		refuses[retry.StopElapsed] = first.Add(r.policy.MaxElapsed).Add(1)
	}
	if r.policy.Timeout > 0 && !first.IsZero() {
		refuses[retry.StopTimeout] = first.Add(r.policy.Timeout)
	}
	slack := 1 + w.hi>>50 // of floating point
	hint, hi := w.lo, w.hi
	switch {
	case r.scripted && r.word == 0:
		w.hi = w.lo
	case r.scripted:
		w.lo = w.hi
	}
	for _, limit := range refuses { // "the addition never crosses the deadline", nor another limit
		if left := limit.Sub(r.now); w.hint && left <= hi {
			w.lo, w.hi = hint, max(min(w.hi, left-1), hint)
		}
	}
	if len(r.drawn) == 0 {
		return min(max(w.lo, refuses[r.stopped].Sub(r.now)), w.hi)
	}
	d := r.drawn[0]
	if r.drawn = r.drawn[1:]; d < w.lo-slack || d-slack > w.hi {
		r.log("the wait is not in %v to %v", w.lo, w.hi)
	}
	return d
}

// wait waits, until the context ends. A Call does not count waits made elsewhere.
func (r *run) wait(d time.Duration) {
	r.now = r.now.Add(d)
	if !r.ends.IsZero() && !r.now.Before(r.ends) {
		r.now = r.ends
	} else if !r.call || !r.elsewhere {
		r.waited = sum(r.waited, d)
	}
}

func (r *run) elapsed() string { return fmt.Sprintf(", %v since the first", r.now.Sub(r.state.First)) }

func (r *run) succeeded() {
	r.tell("deposit")
	r.tell("succeeded %d%s", r.number, r.elapsed())
	if r.call {
		r.log("%v", decision{state: r.state})
	}
	r.log("returned %s", result(r.answer, r.number, false))
}

func (r *run) gaveUp(stop retry.StopReason, v retry.Verdict) {
	r.tell("gave up %d: %v: %v%s", r.number, stop, showVerdict(v), r.elapsed())
}

// returned is the error of a call, or the response that a Transport returns instead.
func (r *run) returned(stop retry.StopReason, hint time.Duration) {
	cause := error(nil)
	switch {
	case r.ended():
		cause = r.context.cause()
	case r.answer > 0:
		r.log("returned %s", result(r.answer, r.number, stop != retry.StopFinal))
		return
	case stop == retry.StopFinal:
		r.log("returned failure %d", r.calls)
		return
	}
	r.log("returned %v, %d attempts, waited %v, retry after %v, failure %d, %v", stop, r.number, r.waited, hint, r.calls, cause)
}

// result is the success of a call: a Transport returns a response.
func result(status, attempts int, gaveUp bool) string {
	if status == 0 {
		return "nil"
	}
	return fmt.Sprintf("status %d, %d attempts, gave up: %v", status, attempts, gaveUp)
}

// stored runs the script in the way of a loop over Next: it knows no context, no
// timeout of an attempt, no Budget, and tells nobody.
func (r *run) stored() {
	for {
		r.number = counts(r.state)
		if d, over := exhausted(&r.policy, r.state, r.now); over {
			r.log("%v", d)
			r.returned(d.stop, 0)
			return
		}
		r.calls++
		r.log("attempt %d", r.calls)
		a := r.at(r.calls, r.now.Sub(r.start))
		if r.now = r.now.Add(a.takes); a.failure.err == nil {
			r.log("%v", decision{state: r.state})
			r.log("returned nil")
			return
		}
		v := verdict(&r.policy, a.failure, false)
		d := decide(&r.policy, true, r.state, v, r.now, r.draw)
		r.log("%v", d)
		r.state, r.number = d.state, counts(d.state)
		if d.stop != retry.StopNone {
			r.returned(d.stop, max(d.verdict.After, 0))
			return
		}
		r.now = r.now.Add(d.delay).Add(r.late)
	}
}
