package enginetest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// exactly compares what an engine did with what Execute did.
func exactly(e *Engine, got, want *record) []string {
	faults := sameEnd(got, want)
	if !slices.Equal(got.timeline, want.timeline) && !slices.Equal(got.inOrder(), want.inOrder()) {
		faults = append(faults, fmt.Sprintf("the Observer was told %q, by Execute %q", got.timeline, want.timeline))
	}
	if len(got.attempts) != len(want.attempts) {
		return append(faults, fmt.Sprintf("%d attempts, in Execute %d", len(got.attempts), len(want.attempts)))
	}
	for i := 1; i < len(got.attempts); i++ {
		wait, asked := got.wait(i), want.wait(i)
		if wait < asked-e.Early && asked > 0 {
			faults = append(faults, fmt.Sprintf("attempt %d came %v after the one before, and so %v early",
				i+1, wait, asked-wait))
		}
	}
	return faults
}

// inOrder is the timeline in the order of the attempts: each worker tells when its outcome is
// stored, and the next one may be faster. Where attempts are counted anew, it stays as it is.
func (r *record) inOrder() []string {
	events := slices.Clone(r.events)
	if slices.ContainsFunc(events, func(e retry.Event) bool { return e.Verdict.Progress }) {
		return r.timeline
	}
	end := func(e retry.Event) int { // which comes after the failure, if there was no further attempt
		if e.Kind == retry.Retrying {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(events, func(a, b retry.Event) int { return cmp.Or(a.Attempt-b.Attempt, end(a)-end(b)) })
	var rec retrytest.Recorder
	for _, e := range events {
		rec.Observer().Event(context.Background(), e)
	}
	return rec.Timeline()
}

// punctual is a fault for every attempt that was later than the engine's grain, on a machine whose
// plain timers were not late.
func punctual(e *Engine, s *script, got, want *record) (faults []string) {
	if len(got.attempts) != len(want.attempts) {
		return nil
	}
	for i := 1; i < len(got.attempts); i++ {
		most := e.grain()
		if s.steps[i-1].act != returns {
			most += e.recovery()
		}
		most = e.machine.stretch(most, got.attempts[i-1].end, got.attempts[i].start)
		if late := got.wait(i) - want.wait(i); late > most {
			faults = append(faults, fmt.Sprintf("attempt %d came %v late, more than %v", i+1, late, most))
		}
	}
	return faults
}

// unlike returns how what happened differs from what was declared. got is nil if the
// script could not begin.
func (i Instead) unlike(got *record, faults []string) string {
	switch {
	case i.Why == "":
		return "enginetest: Cannot: Why is empty"
	case got == nil:
		return "enginetest: Cannot: the script could not begin"
	case len(faults) == 0:
		return fmt.Sprintf("enginetest: Cannot says %q, but the engine does as Execute does", i.Why)
	case !slices.Equal(got.timeline, i.Told) && !slices.Equal(got.inOrder(), i.Told):
		return fmt.Sprintf("enginetest: Cannot says that the Observer is told %q, but it was told %q", i.Told, got.timeline)
	case i.Endless != (got.outcome.Status == Open):
		return fmt.Sprintf("enginetest: Cannot says Endless: %v, but the job %v", i.Endless, got.outcome.Status)
	default:
		return ""
	}
}

// wait returns the time between attempt i, counted from 0, and the one before.
func (r *record) wait(i int) time.Duration {
	return r.attempts[i].start.Sub(r.attempts[i-1].end)
}

// sameEnd compares the ends.
func sameEnd(got, want *record) []string {
	switch {
	case got.outcome.Status != want.outcome.Status:
		return []string{fmt.Sprintf("the job %v, in Execute it %v", got.outcome.Status, want.outcome.Status)}
	case !strings.Contains(got.outcome.Err, want.outcome.Err) && got.outcome.Err != "":
		return []string{fmt.Sprintf("the engine keeps the error %q, Execute returns %q", got.outcome.Err, want.outcome.Err)}
	default:
		return nil
	}
}

// loosely is for a panic: how its error reads is the adapter's business.
func loosely(e *Engine, got, want *record) []string {
	cut := func(r *record) *record {
		q := *r
		q.outcome.Err, q.timeline = "", nil
		for _, line := range r.timeline {
			before, _, _ := strings.Cut(line, ")")
			q.timeline = append(q.timeline, before)
		}
		return &q
	}
	return exactly(e, cut(got), cut(want))
}

// survived is for a panic of the Observer, which changes nothing about the job.
func survived(_ *Engine, got, _ *record) []string {
	if n := len(got.attempts); got.outcome.Status != Succeeded || n != 2 {
		return []string{fmt.Sprintf("the job %v after %d attempts", got.outcome.Status, n)}
	}
	return nil
}

// ended is for a panic of a function of the policy.
func ended(_ *Engine, got, _ *record) []string {
	if n := len(got.attempts); got.outcome.Status != GaveUp || n > 2 {
		return []string{fmt.Sprintf("the job %v after %d attempts", got.outcome.Status, n)}
	}
	return nil
}

// deadAfter is for a job that has to be given up, after some attempts at most.
func deadAfter(most int) func(e *Engine, got, want *record) []string {
	return func(_ *Engine, got, _ *record) []string {
		n := len(got.attempts)
		if got.outcome.Status != GaveUp || n > most {
			return []string{fmt.Sprintf("the job %v after %d attempts (%.100s)", got.outcome.Status, n, got.outcome.Err)}
		}
		return nil
	}
}

// labeled is for a job with headers of the user's.
func labeled(e *Engine, got, want *record) []string {
	faults := deadAfter(len(want.attempts))(e, got, want)
	for name, value := range userHeaders {
		if got.headers[name] != value {
			faults = append(faults, fmt.Sprintf("the header %s is %q, and was %q", name, got.headers[name], value))
		}
	}
	return faults
}

// once is for a job that arrives twice. The engine may run the second delivery, or leave
// it. The job ends with a success, and is not run again when that is stored.
func once(_ *Engine, got, _ *record) (faults []string) {
	if got.outcome.Status != Succeeded {
		faults = append(faults, fmt.Sprintf("the job %v", got.outcome.Status))
	}
	if n := len(got.attempts); n > 2 {
		faults = append(faults, fmt.Sprintf("%d attempts at a job that arrived twice", n))
	}
	for i, attempt := range got.attempts {
		if !attempt.start.Before(got.over) {
			faults = append(faults, fmt.Sprintf("attempt %d began when the job had succeeded", i+1))
		}
	}
	return faults
}

// passedOn is for a job whose first attempt does not end. Another one succeeds, and what the first
// returns then changes nothing.
func passedOn(_ *Engine, got, _ *record) []string {
	if n := len(got.attempts); got.outcome.Status != Succeeded || n != 2 {
		return []string{fmt.Sprintf("the job %v after %d attempts (%s)", got.outcome.Status, n, got.outcome.Err)}
	}
	return nil
}

// boundedBy is for a script whose number of attempts depends on how late they are: the
// limit of time ends it, counted from the first attempt.
func boundedBy(limit time.Duration) func(e *Engine, got, want *record) []string {
	return func(_ *Engine, got, want *record) (faults []string) {
		n := len(got.attempts)
		if got.outcome.Status != GaveUp {
			faults = append(faults, fmt.Sprintf("the job %v", got.outcome.Status))
		}
		if n < 2 || n > len(want.attempts) {
			faults = append(faults, fmt.Sprintf("%d attempts, in Execute %d", n, len(want.attempts)))
		}
		if n > 0 {
			if took := got.attempts[n-1].start.Sub(got.attempts[0].start); took > limit+limit/10 { // a busy machine
				faults = append(faults, fmt.Sprintf("the last attempt began %v after the first, later than %v", took, limit))
			}
		}
		// The worker of a failure may tell of it after that of the end.
		ends := slices.DeleteFunc(slices.Clone(got.events), func(e retry.Event) bool { return e.Kind == retry.Retrying })
		if len(ends) != 1 || ends[0].Stop != retry.StopElapsed {
			faults = append(faults, fmt.Sprintf("the Observer was told %q", got.timeline))
		}
		return faults
	}
}

// late returns the most that an attempt was late, where nothing happened to the worker.
func (s *script) late(got, want *record) (late time.Duration) {
	if got == nil || len(got.attempts) != len(want.attempts) {
		return 0
	}
	for i := 1; i < len(got.attempts); i++ {
		if s.steps[i-1].act == returns {
			late = max(late, got.wait(i)-want.wait(i))
		}
	}
	if s.other != nil {
		late = max(late, s.other.late(got.other, want.other))
	}
	return late
}
