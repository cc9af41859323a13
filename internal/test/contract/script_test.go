package contract_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"syscall"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryjob"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// A script is an operation and its world.
type script struct {
	policy    retry.Policy
	attempts  []attempt
	context   contextEnd
	refuse    int           // the number of the withdrawal that the Budget refuses, from 0
	scripted  bool          // the Rand returns word each time, and no Key is set
	word      uint64        // 0 or the largest: the shortest or the longest wait of a range
	state     retry.State   // before the first attempt, where the driver can have one
	age       time.Duration // of the first attempt of that state
	elsewhere bool          // the caller of a Call waits
	timed     bool          // a stored job knows when its first attempt began
	text      bool          // its State is stored as text, not as JSON
	late      time.Duration // how much too late its worker comes
	watch     watch         // the driver's Observer and Budget
	exchange  string        // describes the requests of a Transport
}

type attempt struct {
	takes   time.Duration
	obeys   bool // its context ends it
	failure failure
	fate    fate
}

// A fate is what the caller of a Call does with an attempt.
type fate int

const (
	finished fate = iota
	aborted
	forgotten
)

// A watch is who is told about a call.
type watch int

const (
	attempts watch = iota // an Observer with the method Attempt, and the Budget
	events                // the method Observe only, and the Budget
	nobody                // where the waits are known without it
)

// A contextEnd is when the context of the operation ends, counted from the start, and
// whether by a deadline. A negative time is never.
type contextEnd struct {
	after    time.Duration
	deadline bool
}

var (
	errCause       = errors.New("cause")
	errInterrupted = errors.New("interrupted")
)

func (c contextEnd) cause() error {
	if c.deadline {
		return context.DeadlineExceeded
	}
	return errCause
}

// A failure is an error, and what the documents say about it. A nil err is a success.
type failure struct {
	err      error
	mark     *retry.Verdict // of the outermost mark
	progress bool           // there is a MarkProgress
	base     retry.Verdict  // of Classify, as the policy trusts it
	stored   *retry.Verdict // that of a job, if it is another one

	// Of HTTP:
	answer   int  // the status, if there is a response
	harmless bool // the response is no failure, unless the context has ended
	once     bool // the request cannot be sent again: every failure is Final
	unsent   bool // nothing of the request was written
}

// at returns attempt n, which begins some time after the start. After the last attempt,
// and after a hundred years, a failure that is Final ends the script.
func (s *script) at(n int, begins time.Duration) attempt {
	if n <= len(s.attempts) && begins < forever/3 {
		return s.attempts[n-1]
	}
	return attempt{failure: failure{err: retry.MarkFinal(io.EOF), mark: &retry.Verdict{Class: retry.Final}}}
}

// A decoder makes choices from bytes. Without bytes it chooses the first.
type decoder struct{ bytes []byte }

func (d *decoder) n(n int) int {
	if len(d.bytes) == 0 {
		return 0
	}
	b := d.bytes[0]
	d.bytes = d.bytes[1:]
	return int(b) % n
}

// once is true once in n times.
func (d *decoder) once(n int) bool { return d.n(n) == n-1 }

func pick[T any](d *decoder, list ...T) T { return list[d.n(len(list))] }

func (d *decoder) duration() time.Duration {
	const ms, s = time.Millisecond, time.Second
	return pick(d, 0, ms, 100*ms, 500*ms, s, 2*s, 3*s, 5*s, 10*s, 33*s, 60*s, 90*s)
}

// setting is a duration of a policy: often the default, and sometimes out of range.
func (d *decoder) setting() time.Duration {
	if !d.once(3) {
		return 0
	}
	return pick(d, d.duration(), d.duration(), d.duration(), -time.Second, forever)
}

func (d *decoder) hint() time.Duration {
	if d.once(2) {
		return 0
	}
	return pick(d, d.duration(), d.duration(), d.duration(), -time.Second, time.Hour)
}

// stopping is a custom Backoff. It allows a number of retries.
type stopping int

func (b stopping) Delay(n int) time.Duration {
	if n > int(b) {
		return -1
	}
	return time.Duration(n) * time.Second
}

// upper is a custom Jitter: it draws from the upper quarter.
type upper struct{}

func (upper) Apply(d, _ time.Duration, u uint64) time.Duration {
	more, _ := bits.Mul64(u, uint64(d/4)+1)
	return d - d/4 + time.Duration(more)
}

func (d *decoder) backoff() retry.Backoff {
	first := pick(d, 0, time.Second, 100*time.Millisecond, 7*time.Second, 45*time.Second, -1, forever/2)
	return []retry.Backoff{
		nil, nil, retry.Constant(0), retry.Constant(first),
		retry.Fibonacci{Initial: first},
		stopping(d.n(4)),
		retry.Exponential{Initial: first, Multiplier: pick(d, 0, 1, 1.5, 3, 10, 0.5, -1, math.NaN(), math.Inf(1))},
		retry.Linear{Initial: first, Step: pick(d, 0, 3*time.Second, -1, forever)},
		retry.Schedule{first, time.Second, -5, 0, time.Hour}[:pick(d, 3, 5, 1, 0)],
	}[d.n(9)]
}

func (d *decoder) jitter() retry.Jitter {
	return pick[retry.Jitter](d, nil, retry.NoJitter, retry.FullJitter, retry.EqualJitter, retry.Proportional(0.5),
		retry.Proportional(pick(d, 1, 3, -1, math.NaN())), retry.PlusMinus(d.duration()), retry.PlusMinus(-1), upper{})
}

// kinds are the categories that the documents name, and the classes.
var kinds = []string{"unknown", "rate_limited", "retryable", "pending", "custom", "timeout", "gave_up", "http_503", "http_429"}

func (d *decoder) policy() retry.Policy {
	p := retry.Policy{
		Name: pick(d, "", "task"), MaxAttempts: pick(d, 0, 1, 2, 4, 5, 7, retry.Unlimited, -3),
		// 292 years from the start are no limit.
		MaxElapsed: min(d.setting(), forever-1), Timeout: min(d.setting(), forever-1),
		AttemptTimeout: d.setting(), ResetAfter: d.setting(), Backoff: d.backoff(), MaxDelay: d.setting(), Jitter: d.jitter(),
		MaxRetryAfter: d.setting(), FreeRateLimits: pick(d, 0, 0, 1, 2, -1), NonIdempotent: d.once(5),
		Overrides: map[string]retry.Override{},
	}
	for range d.n(4) {
		p.Overrides[pick(d, kinds...)] = retry.Override{
			MaxAttempts: pick(d, 0, 1, 2, 3, 6), Backoff: d.backoff(), MaxDelay: d.setting(), Jitter: d.jitter(),
		}
	}
	if d.once(4) {
		p.AttemptTimeout = retry.EqualShare
	}
	v := d.verdict()
	p.Classifier = pick(d, nil, nil, func(error) retry.Verdict { return v },
		retry.Chain(nil, retry.On(retry.Final, io.ErrUnexpectedEOF), retry.On(retry.Retryable, context.DeadlineExceeded)))
	return p
}

func (d *decoder) verdict() retry.Verdict {
	v := retry.Verdict{
		Class: pick(d, retry.Retryable, retry.Unknown, retry.RateLimited, retry.Pending, retry.Final), Category: pick(d, "", "custom", "not_started"),
		NotApplied: d.once(2), Progress: d.once(6), Exact: d.once(5), After: d.hint(),
	}
	v.NotStarted = v.Category == "custom" // and "not_started" alone says nothing
	return v
}

// The errors of others are known by their methods.
type (
	timeoutError struct{ error }
	hintError    struct {
		error
		after time.Duration
	}
	statusError struct {
		error
		status int
	}
	againError struct {
		error
		again bool
	}
)

func (timeoutError) Timeout() bool            { return true }
func (e hintError) RetryAfter() time.Duration { return e.after }
func (e statusError) HTTPStatusCode() int     { return e.status }
func (e againError) Retryable() bool          { return e.again }

// failure returns a failure of attempt n.
func (d *decoder) failure(n int) failure {
	f := d.leaf(fmt.Errorf("failure %d", n))
	for range d.n(3) {
		after, v := d.hint(), d.verdict()
		switch d.n(9) {
		case 0:
			f.err = fmt.Errorf("wrapped: %w", f.err)
		case 1:
			f.err = errors.Join(errors.New("beside"), f.err)
		case 2:
			f.err, f.progress = retry.MarkProgress(f.err), true
		case 3:
			f.marked(retry.MarkFinal(f.err), retry.Verdict{Class: retry.Final})
		case 4:
			f.marked(retry.MarkRetryable(f.err), retry.Verdict{Class: retry.Retryable, NotApplied: true})
		case 5:
			f.marked(retry.MarkRateLimited(f.err, after), retry.Verdict{Class: retry.RateLimited, NotApplied: true, After: after})
		case 6:
			f.marked(retry.MarkPending(f.err), retry.Verdict{Class: retry.Pending, NotApplied: true})
		case 7:
			f.marked(retry.Mark(f.err, v), v)
		case 8:
			f.marked(retryjob.MarkNotStarted(f.err), retry.Verdict{Class: retry.Pending, NotApplied: true, NotStarted: true, Category: "not_started"})
		}
	}
	return f
}

func (f *failure) marked(err error, v retry.Verdict) {
	f.err, f.mark, f.progress = err, &v, f.progress || v.Progress
}

// leaf is an error without a mark, and the verdict of Classify. What Classify finds
// about NotApplied is not trusted.
func (d *decoder) leaf(err error) failure {
	known := func(err error, class retry.Class, category string) failure {
		return failure{err: err, base: retry.Verdict{Class: class, Category: category}}
	}
	again, after := d.once(2), max(time.Millisecond, d.duration())
	switch d.n(14) {
	case 4:
		return known(timeoutError{err}, retry.Retryable, "timeout")
	case 5:
		return failure{err: hintError{err, after}, base: retry.Verdict{Class: retry.RateLimited, After: after}}
	case 6:
		return known(statusError{err, 503}, retry.Retryable, "http_503")
	case 7:
		return known(statusError{err, 429}, retry.RateLimited, "http_429")
	case 8:
		return known(statusError{err, 404}, retry.Final, "")
	case 9:
		return known(againError{err, again}, map[bool]retry.Class{true: retry.Retryable, false: retry.Final}[again], "")
	case 10:
		return known(fmt.Errorf("%w: %w", err, context.Canceled), retry.Final, "")
	case 11:
		return known(fmt.Errorf("%w: %w", err, context.DeadlineExceeded), retry.Retryable, "timeout")
	case 12:
		return known(fmt.Errorf("%w: %w", err, syscall.ECONNREFUSED), retry.Retryable, "")
	case 13:
		return d.gaveUp(err)
	}
	return failure{err: err}
}

// gaveUp is the error of an inner policy. The mark in it is spent, but for a job.
func (d *decoder) gaveUp(err error) failure {
	inner := &retry.Error{Attempts: 2, Err: retry.MarkRetryable(err), NotApplied: d.once(2), Stop: pick(d, retry.StopAttempts, retry.StopElapsed,
		retry.StopBudget, retry.StopMaybeApplied, retry.StopBackoff, retry.StopDeadline, retry.StopCanceled, retry.StopTimeout,
		retry.StopRetryAfter)}
	v := retry.Verdict{Class: retry.Final, Category: "gave_up"}
	switch inner.Stop {
	case retry.StopDeadline, retry.StopCanceled, retry.StopTimeout:
		v.Class = retry.Retryable
	case retry.StopRetryAfter:
		inner.RetryAfter = 10 * time.Second
		v.Class, v.After = retry.RateLimited, inner.RetryAfter
	}
	return failure{err: inner, base: v, stored: &retry.Verdict{Class: retry.Retryable, After: v.After, NotApplied: inner.NotApplied}}
}

// job makes the script that of a job, to which the failure that an inner policy gave up counts.
func (s *script) job() *script {
	for i := range s.attempts {
		if f := &s.attempts[i].failure; f.stored != nil {
			f.base = *f.stored
		}
	}
	return s
}

// script makes a script.
func (d *decoder) script() *script {
	s := &script{policy: d.policy(), refuse: pick(d, 99, 99, 0, 1, 2), late: pick(d, 0, d.duration())}
	s.context = contextEnd{pick(d, -1, -1, -1, 0, d.duration(), d.duration()+d.duration(), forever/2), d.once(2)}
	s.elsewhere, s.timed, s.text = d.once(4), d.once(2), d.once(2)
	if d.once(3) {
		s.state = retry.State{Failures: pick(d, 1, 2, 4), RateLimited: d.n(2), Pending: pick(d, 0, 3, 12)}
		s.age = pick(d, d.duration(), 8*24*time.Hour)
	}
	switch d.n(4) {
	case 0, 1:
		s.scripted, s.word = true, pick(d, 0, uint64(math.MaxUint64))
		s.policy.Rand = constant(s.word)
	case 2:
		s.policy.Rand = retrytest.NewRand(uint64(d.n(256)))
	case 3:
		s.state.Key = pick(d, "", "job 7")
	}
	if s.watch = pick(d, attempts, events); s.scripted && s.word == 0 && d.once(3) {
		s.watch, s.policy.MaxDelay, s.policy.Overrides = nobody, time.Minute, nil // short waits are exact
	}
	for n := range d.n(10) + 1 {
		a := attempt{takes: d.duration(), obeys: d.once(2), failure: d.failure(n + 1)}
		if d.once(8) {
			a.failure = failure{}
		}
		a.fate = pick(d, finished, finished, finished, finished, finished, finished, aborted, forgotten)
		if s.watch == nobody && a.fate == forgotten {
			a.fate = finished // nobody is told the wait
		}
		s.attempts = append(s.attempts, a)
	}
	return s
}

// constant is a Rand.
type constant uint64

func (c constant) Uint64() uint64 { return uint64(c) }
