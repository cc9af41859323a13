package retry

import (
	"fmt"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/errtree"
)

// Class says what to do about an error.
type Class uint8

// The classes. Unknown means no opinion; a failure that nobody has an opinion
// about is retried like a Retryable one, unless Overrides["unknown"] says
// otherwise.
const (
	Unknown     Class = iota // no opinion
	Final                    // another attempt cannot help
	Retryable                // another attempt may help
	RateLimited              // another attempt will help later: the server asked for less load
	Pending                  // nothing failed: what is waited for is not there yet
)

var classNames = names[Class]{"unknown", "final", "retryable", "rate_limited", "pending"}

// String returns "unknown", "final", "retryable", "rate_limited" or "pending".
func (c Class) String() string { return classNames.of(c) }

// ParseClass is the inverse of [Class.String].
func ParseClass(s string) (Class, error) { return classNames.parse("class", s) }

// MarshalText returns [Class.String].
func (c Class) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText reads what [Class.MarshalText] writes.
func (c *Class) UnmarshalText(text []byte) (err error) {
	*c, err = ParseClass(string(text))
	return err
}

// Verdict is the result of classifying an error. The zero Verdict abstains;
// anything else is an opinion.
type Verdict struct {
	// The fields fill 32 bytes in this order. The compiler keeps no larger struct
	// in registers, and one in memory makes every failure about 50 % slower.

	// Class decides. Unknown with an After that is not Exact counts as
	// RateLimited.
	Class Class

	// NotApplied says that the operation is proved to have had no effect, so
	// that even a non-idempotent one may be repeated.
	NotApplied bool

	// Progress says that the attempt did some of its work before it failed: the
	// failure is the first of a new count. See [MarkProgress].
	Progress bool

	// Exact says that After is the wait itself, 0 included, in the place of the
	// backoff: neither a lower bound nor spread. The limits of the policy hold.
	Exact bool

	// After is the server's hint: come back no sooner than this. 0 or less
	// means that there is none.
	After time.Duration

	// Category is a short stable label for logs, metrics and
	// [Policy.Overrides]: "timeout", "conn_refused", "http_503", "sql_40001",
	// "exit_75".
	Category string
}

// normalize makes v what the decider reads.
func (v *Verdict) normalize() {
	v.After = max(v.After, 0)
	if v.Class > Pending {
		v.Class = Unknown
	}
	if v.Class == Unknown && v.After > 0 && !v.Exact {
		v.Class = RateLimited
	}
}

// merge returns the verdict about two errors that stand side by side, as in
// errors.Join. The better chance of a retry wins, because the legs are mostly
// alternatives (one error per address that was tried) or a failure and the
// trouble of cleaning up after it; a Final that was said explicitly wins over
// all. The result does not depend on the order.
func (v Verdict) merge(w Verdict, explicit bool) Verdict {
	v.normalize()
	w.normalize()
	notApplied, progress := v.NotApplied && w.NotApplied, v.Progress || w.Progress
	if w.outranks(v, explicit) {
		v = w
	}
	v.NotApplied, v.Progress = notApplied, progress
	return v
}

func (v Verdict) outranks(w Verdict, explicit bool) bool {
	if a, b := v.Class.rank(explicit), w.Class.rank(explicit); a != b {
		return a > b
	}
	if v.After != w.After {
		return v.After > w.After
	}
	if v.Exact != w.Exact {
		return w.Exact // a lower bound and its spread keep both
	}
	if (v.Category == "") != (w.Category == "") {
		return v.Category != ""
	}
	return v.Category < w.Category
}

func (c Class) rank(explicit bool) int {
	switch {
	case c == Final && explicit:
		return 5
	case c == RateLimited:
		return 4
	case c == Retryable:
		return 3
	case c == Pending: // and something failed beside it
		return 2
	case c == Final:
		return 1
	default:
		return 0
	}
}

// Classifier gives its opinion about an error, or abstains with the zero
// [Verdict]. It must be safe for concurrent use where the [Policy] is shared.
type Classifier func(error) Verdict

// Chain returns a Classifier that asks several in order; the first opinion
// wins. Nil ones are left out.
func Chain(cs ...Classifier) Classifier {
	return func(err error) Verdict {
		for _, c := range cs {
			if c == nil {
				continue
			}
			if v := c(err); v != (Verdict{}) {
				return v
			}
		}
		return Verdict{}
	}
}

// On returns a Classifier that gives class c to the errors that are one of the
// targets in the sense of [errors.Is]:
//
//	retry.On(retry.Final, sql.ErrNoRows, ErrNotFound)
func On(c Class, targets ...error) Classifier {
	opinion := Verdict{Class: c}
	if c == Unknown {
		opinion.Category = c.String() // the zero Verdict would abstain
	}
	return func(err error) Verdict {
		for _, target := range targets {
			if errtree.Is(err, target) {
				return opinion
			}
		}
		return Verdict{}
	}
}

// Mark returns err with an explicit verdict that no classifier overrules, not
// even when the marked error is wrapped again; where several marks are nested,
// the outermost counts. A mark of class Unknown means "unknown, retried". The
// text and the tree of err stay as they are. Mark(nil, v) is nil.
func Mark(err error, v Verdict) error {
	if err == nil {
		return nil
	}
	v.normalize()
	beneath, _ := explicit(err)
	return &marked{err: err, verdict: v.after(beneath.Progress)}
}

// MarkFinal marks err as [Final]. MarkFinal(nil) is nil.
func MarkFinal(err error) error { return Mark(err, Verdict{Class: Final}) }

// MarkRetryable marks err as [Retryable] and NotApplied: who says "again" has
// thought about whether the operation may be repeated. MarkRetryable(nil) is
// nil.
func MarkRetryable(err error) error {
	return Mark(err, Verdict{Class: Retryable, NotApplied: true})
}

// MarkRateLimited marks err as [RateLimited] and NotApplied. The next attempt
// comes no sooner than after; 0 or less means that the server gave no hint.
// MarkRateLimited(nil, after) is nil.
func MarkRateLimited(err error, after time.Duration) error {
	return Mark(err, Verdict{Class: RateLimited, After: after, NotApplied: true})
}

// MarkPending marks err as [Pending] and NotApplied: the attempt succeeded in asking,
// and what it asked for is not there yet. It is repeated without limit, costs no attempt
// of those that real failures have, and the [Budget] is not asked. The waits are those
// of the backoff, counted for themselves. Overrides["pending"] gives them a backoff and
// a limit of their own:
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

// MarkProgress marks err as the failure of an attempt that made progress before it
// failed, such as a connection that was up for a while. The counts of failures start
// again, with this one as the first, and so do the backoff and MaxElapsed. Whether err
// is retried is decided as without the mark, which any other mark may stand above or
// beneath. Where a clean end is to be followed by another attempt, return an error of
// yours with this mark. MarkProgress(nil) is nil.
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
	err     error
	verdict Verdict
}

// Error returns the text of the error that was marked, by way of fmt because
// that survives an Error method that panics.
func (m *marked) Error() string { return fmt.Sprint(m.err) }

func (m *marked) Unwrap() error { return m.err }

// ErrLost stands for an attempt without an outcome: the worker died, or its
// lease ran out. It is Retryable and counted. The attempt may have taken effect.
var ErrLost = errLost

var errLost error = &marked{
	err:     lostError{},
	verdict: Verdict{Class: Retryable, Category: "lost"},
}

type lostError struct{}

func (lostError) Error() string { return "retry: worker lost" }

// Classify is the classification of a [Policy] without a Classifier. The first
// of these that has an opinion decides:
//
//  1. A mark of this package: [Mark], [MarkFinal], [MarkRetryable],
//     [MarkRateLimited]. The outermost counts.
//  2. An [*Error] of an inner policy. It is Final, category "gave_up", so that
//     nested policies do not multiply their attempts; but Retryable if the
//     inner context ended, and RateLimited with its hint if the hint was too
//     long to wait for.
//  3. What errors say of themselves: by type (errno, net, DNS, TLS, x509,
//     HTTP/2, encoding and file errors of the standard library) and by method
//     (RetryAfter, Retryable, HTTPStatusCode, SQLState, Timeout, and their kin).
//     Every error of the tree is asked. On a chain the outermost opinion
//     counts, where an error that names its cause is heard before one that only
//     says Timeout or Temporary; of joined errors the better chance counts, in
//     any order.
//
// Otherwise it abstains. context.Canceled is Final and
// context.DeadlineExceeded Retryable: a policy asks its caller's context before
// it classifies, so these come from another one. Text is never looked at.
// Methods that panic are taken as silent, and trees of more than 1000 errors are
// Unknown. Classify(nil) abstains.
//
// Errors that only net/http, database/sql or os/exec can tell apart are the
// business of the packages retryhttp, retrysql and retryexec.
func Classify(err error) Verdict {
	v, found := explicit(err)
	if found == nothing {
		v = inspect(err, nil).after(v.Progress)
	}
	return v
}

// after adds that there was progress.
func (v Verdict) after(progress bool) Verdict {
	v.Progress = v.Progress || progress
	return v
}

// Extend returns [Classify] with the knowledge of one more Classifier. node is
// asked about every single error of the tree, before what Classify knows of that
// error, and its opinion counts as if the error had said so itself: an outer
// error is heard before what it wraps, joined errors in any order, and a mark
// overrules them all. So node looks at the error that it is given, by type,
// value or text, and not into what that wraps:
//
//	var classify = retry.Extend(func(err error) retry.Verdict {
//		if e, ok := err.(*MyError); ok && e.Code == Busy {
//			return retry.Verdict{Class: retry.Retryable, Category: "busy"}
//		}
//		return retry.Verdict{}
//	})
//
// A nil node knows nothing.
func Extend(node Classifier) Classifier {
	return func(err error) Verdict {
		v, found := explicit(err)
		if found == nothing {
			v = inspect(err, node).after(v.Progress)
		}
		return v
	}
}

// ThroughGiveUp is a Classifier for a durable policy around one that blocks: it
// judges the error that made the inner policy give up instead of the fact that
// it did. An error that nothing is known about is retried. It abstains on
// errors without an [*Error] in them.
func ThroughGiveUp(err error) Verdict {
	nodes := errtree.Nodes(errtree.MaxNodes)
	v, _ := throughGiveUp(err, &nodes)
	if nodes.Exceeded() {
		return Verdict{}
	}
	return v
}

// throughGiveUp looks for *Errors, and for *Errors in what they gave up on; it
// reports whether there was one.
func throughGiveUp(err error, nodes *errtree.Nodes) (v Verdict, found bool) {
	for err != nil && nodes.Take() {
		if e, ok := err.(*Error); ok && e != nil {
			return e.causeVerdict(nodes), true
		}
		one, several := errtree.Unwrap(err)
		for _, leg := range several {
			w, ok := throughGiveUp(leg, nodes)
			switch {
			case ok && found:
				v = v.merge(w, false)
			case ok:
				v, found = w, true
			}
		}
		err = one
	}
	return v, found
}

// causeVerdict judges what made e give up.
func (e *Error) causeVerdict(nodes *errtree.Nodes) Verdict {
	if e.Stop == StopRetryAfter || e.Err == nil {
		return e.verdict()
	}
	if v, found := explicit(e.Err); found == mark {
		return v
	}
	if v, found := throughGiveUp(e.Err, nodes); found {
		return v
	}
	v := Classify(e.Err)
	if v == (Verdict{}) {
		v.Category = categoryGaveUp // an opinion: Unknown, and so retried
	}
	return v
}

const categoryGaveUp = "gave_up"

// verdict is what the error of an inner policy means to an outer one.
func (e *Error) verdict() Verdict {
	switch e.Stop {
	case StopDeadline, StopCanceled, StopTimeout:
		return Verdict{Class: Retryable, Category: categoryGaveUp}
	case StopRetryAfter:
		return Verdict{Class: RateLimited, After: max(e.RetryAfter, 0), Category: categoryGaveUp}
	default:
		return Verdict{Class: Final, Category: categoryGaveUp}
	}
}

// finding is what explicit found.
type finding uint8

const (
	nothing finding = iota
	gaveUp          // an *Error of an inner policy
	mark
)

// explicit looks for marks and inner *Errors, none of which is looked into.
// Marks win over *Errors that stand beside them. A mark of progress is not the whole
// answer: it is in the Verdict, whatever else is found.
func explicit(err error) (Verdict, finding) {
	switch e := err.(type) { // without more ado for most errors
	case *marked:
		return e.verdict, mark
	case interface{ Unwrap() error }, interface{ Unwrap() []error }:
		nodes := errtree.Nodes(errtree.MaxNodes)
		return explicitIn(err, &nodes)
	default:
		return Verdict{}, nothing
	}
}

func explicitIn(err error, nodes *errtree.Nodes) (v Verdict, found finding) {
	progress := false
	for nodes.Take() {
		switch e := err.(type) {
		case *progressed:
			progress, err = true, e.err
			continue
		case *marked:
			v, found = e.verdict, mark
		case *Error:
			if e != nil {
				v, found = e.verdict(), gaveUp
			}
		case interface{ Unwrap() error }:
			err, _ = errtree.Try(e.Unwrap)
			continue
		case interface{ Unwrap() []error }:
			legs, _ := errtree.Try(e.Unwrap)
			v, found = explicitAmong(legs, nodes)
		}
		v.Progress = v.Progress || progress
		return v, found
	}
	return Verdict{Progress: progress}, nothing
}

func explicitAmong(legs []error, nodes *errtree.Nodes) (v Verdict, found finding) {
	for _, leg := range legs {
		w, f := explicitIn(leg, nodes)
		progress := v.Progress || w.Progress
		switch {
		case f > found:
			v, found = w, f
		case f == found && f != nothing:
			v = v.merge(w, true)
		}
		v.Progress = progress
	}
	if nodes.Exceeded() {
		return Verdict{}, nothing
	}
	return v, found
}
