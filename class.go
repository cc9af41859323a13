package retry

import (
	"fmt"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/known"
)

// Class says what to do about an error.
type Class uint8

// The classes. Unknown means no opinion; an Unknown failure is retried like a
// Retryable one, unless Overrides["unknown"] says otherwise.
const (
	Unknown     Class = iota // no opinion
	Final                    // another attempt cannot help
	Retryable                // another attempt may help
	RateLimited              // another attempt will help later: the server asked for less load
	Pending                  // nothing failed: the awaited result is not there yet
)

var classNames = names[Class]{"unknown", "final", "retryable", "rate_limited", "pending"}

// String returns "unknown", "final", "retryable", "rate_limited" or "pending".
func (c Class) String() string { return classNames.of(c) }

// Verdict is the result of classifying an error. The zero Verdict abstains;
// anything else is an opinion.
type Verdict struct {
	// Class decides. Unknown with an After that is not Exact counts as
	// RateLimited.
	Class Class

	// NotApplied says that the operation certainly had no effect, so even a non-idempotent one
	// may be repeated: by a mark, by the server's answer, or because nothing of it was sent.
	NotApplied bool

	// Progress says that the attempt did some of its work before it failed. See [MarkProgress].
	Progress bool

	// Exact says that After, 0 included, is the wait itself instead of a lower bound: it replaces
	// the backoff and is not spread. The limits of the policy hold.
	Exact bool

	// NotStarted says that the attempt could not start, if the Class is Pending: see
	// MarkNotStarted in package retryjob.
	NotStarted bool

	// After is the server's hint: come back no sooner than this. 0 or less means none.
	After time.Duration

	// Category is a short stable label for logs, metrics and
	// [Policy.Overrides]: "timeout", "conn_refused", "http_503", "sql_40001",
	// "exit_75".
	Category string
}

// fact returns v as a Fact, the form used inside the package. The receiver is a
// pointer because a copy would wait for the stores of the single fields.
func (v *Verdict) fact() known.Fact {
	flags := bit(v.NotApplied)*known.NotApplied | bit(v.Progress)*known.Progress |
		bit(v.Exact)*known.Exact | bit(v.NotStarted)*known.NotStarted
	return known.Fact{Class: known.Class(v.Class), Flags: flags, After: v.After, Category: v.Category}
}

func bit(b bool) (f known.Flags) {
	if b {
		f = 1
	}
	return f
}

// verdictOf returns f as a Verdict.
func verdictOf(f known.Fact) Verdict {
	return Verdict{
		Class:      Class(f.Class),
		NotApplied: f.Flags.Has(known.NotApplied),
		Progress:   f.Flags.Has(known.Progress),
		Exact:      f.Flags.Has(known.Exact),
		NotStarted: f.Flags.Has(known.NotStarted),
		After:      f.After,
		Category:   f.Category,
	}
}

// names has the names of a small enumeration, in the order of its values.
type names[T ~uint8] []string

func (n names[T]) of(v T) string {
	if int(v) < len(n) {
		return n[v]
	}
	return fmt.Sprintf("%s(%d)", n[0], uint8(v))
}

// Mark returns err with an explicit verdict that no classifier overrules, not
// even when the marked error is wrapped again. The outermost mark counts. One of class Unknown means
// "unknown, retried". The text and the tree of err stay as they are. Mark(nil, v) is nil.
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
// MaxAttempts, and the [Budget] is not asked. The server has answered, so MaxAttempts limits the
// failures in a row. Timeout and MaxElapsed go on. The backoff counts pending attempts and failures
// separately. Overrides["pending"] gives pending attempts their own backoff and limit:
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

// notStarted is the category of a failure that is NotStarted, and its kind in the Overrides.
const notStarted = "not_started"

// MarkProgress marks err as the failure of an attempt that made progress before it
// failed, such as a connection that was up for a while. The counts of failures start
// again with this failure as the first; the backoff, MaxElapsed and Timeout start again too. The
// mark does not change whether err is retried, and may be combined with any other, in any order. A
// poll needs no such mark, see [MarkPending]. If another attempt is to follow a clean end, return
// an error of your own with this mark. MarkProgress(nil) is nil.
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
