package retry

import (
	"fmt"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/known"
)

// Mark returns err with an explicit verdict that no classifier overrules, not
// even when the marked error is wrapped again. If several marks are nested, the
// outermost counts. A mark of class Unknown means "unknown, retried", and has the
// category "unknown" if it says no more. The text and the tree of err stay as they are.
// Mark(nil, v) is nil.
func Mark(err error, v Verdict) error {
	if err == nil {
		return nil
	}
	f := v.fact().Normal()
	if f == (known.Fact{}) {
		f.Category = Unknown.String() // the zero Fact would abstain
	}
	beneath, _ := explicit(err)
	f.Flags |= beneath.Flags & known.Progress
	return &marked{err: err, fact: f}
}

// Marked returns the verdict of the mark that decides about err, and whether there is one. A
// driver asks it where a mark counts for more than what it knows by itself.
func Marked(err error) (v Verdict, ok bool) {
	f, found := explicit(err)
	if found != mark {
		return Verdict{}, false
	}
	return verdictOf(f), true
}

// MarkFinal marks err as [Final]. MarkFinal(nil) is nil.
func MarkFinal(err error) error { return Mark(err, Verdict{Class: Final}) }

// MarkRetryable marks err as [Retryable] and NotApplied: the caller asserts that the
// operation may be repeated. MarkRetryable(nil) is nil.
func MarkRetryable(err error) error {
	return Mark(err, Verdict{Class: Retryable, NotApplied: true})
}

// MarkRateLimited marks err as [RateLimited] and NotApplied. The next attempt
// comes no sooner than after; 0 or less means that the server gave no hint.
// MarkRateLimited(nil, after) is nil.
func MarkRateLimited(err error, after time.Duration) error {
	return Mark(err, Verdict{Class: RateLimited, After: after, NotApplied: true})
}

// MarkPending marks err as [Pending] and NotApplied: the operation asked for a result
// that is not there yet. It is repeated without limit, does not count toward
// MaxAttempts, and the [Budget] is not asked. The server has answered, so the count of
// failures starts again: MaxAttempts limits the failures in a row. Timeout and MaxElapsed go
// on. The backoff counts pending attempts and failures separately. Overrides["pending"] gives pending attempts their own backoff and
// limit:
//
//	policy := &retry.Policy{
//		Timeout:   10 * time.Minute,
//		Overrides: map[string]retry.Override{"pending": {Backoff: retry.Constant(5 * time.Second)}},
//	}
//
// MarkPending(nil) is nil.
func MarkPending(err error) error {
	return Mark(err, Verdict{Class: Pending, NotApplied: true})
}

// notStarted is the category of MarkNotStarted, and its kind in the Overrides.
const notStarted = "not_started"

// MarkNotStarted marks err as the failure of an attempt that could not start, because what it
// needs could not be read: its own row, its configuration, a secret. It is [Pending] and
// NotApplied, has the category "not_started", and does not count toward MaxAttempts. The waits
// grow from 1 second to 10 minutes, and the job ends after a week, if the policy has neither
// MaxElapsed nor Timeout. Overrides["not_started"] changes the waits, and may have a limit,
// which is compared with State.Pending; Overrides["pending"] does not count. A job of package
// retryjob is Refused, so that its driver reports err.
//
// MarkNotStarted(nil) is nil.
func MarkNotStarted(err error) error {
	return Mark(err, Verdict{Class: Pending, NotApplied: true, NotStarted: true, Category: notStarted})
}

// MarkProgress marks err as the failure of an attempt that made progress before it
// failed, such as a connection that was up for a while. The counts of failures start
// again with this failure as the first; the backoff, MaxElapsed and Timeout start again too. The
// mark does not change whether err is retried. A poll needs no such mark, see [MarkPending]. It may be combined with any other mark,
// in any order. If another attempt is to follow a clean end, return an error of your
// own with this mark. MarkProgress(nil) is nil.
func MarkProgress(err error) error {
	if err == nil {
		return nil
	}
	return &progressed{err: err}
}

type progressed struct{ err error }

// Error returns the text of the error that was marked.
func (p *progressed) Error() string { return fmt.Sprint(p.err) }

func (p *progressed) Unwrap() error { return p.err }

type marked struct {
	err  error
	fact known.Fact
}

// Error returns the text of the error that was marked, by way of fmt because
// that survives an Error method that panics.
func (m *marked) Error() string { return fmt.Sprint(m.err) }

func (m *marked) Unwrap() error { return m.err }

// ErrLost stands for an attempt without an outcome: the worker died, its lease ran out, or
// [Call.End] was not called. It is Retryable and counted. The attempt may have taken effect.
var ErrLost = errLost

var errLost error = &marked{
	err:  lostError{},
	fact: known.Transient("lost"),
}

type lostError struct{}

func (lostError) Error() string { return "retry: worker lost" }
