package retry

import (
	"fmt"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/errtree"
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

// ParseClass is the inverse of [Class.String].
func ParseClass(s string) (Class, error) { return classNames.parse("class", s) }

// MarshalText returns [Class.String].
func (c Class) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText is the inverse of [Class.MarshalText].
func (c *Class) UnmarshalText(text []byte) (err error) {
	*c, err = ParseClass(string(text))
	return err
}

// Verdict is the result of classifying an error. The zero Verdict abstains;
// anything else is an opinion.
type Verdict struct {
	// Class decides. Unknown with an After that is not Exact counts as
	// RateLimited.
	Class Class

	// NotApplied says that the operation certainly had no effect, so that even
	// a non-idempotent one may be repeated. It may rest on a mark, on an answer of
	// the server that says so, or on a step that failed before the first byte of
	// the operation was sent.
	NotApplied bool

	// Progress says that the attempt did some of its work before it failed: the
	// failure is the first of a new count. See [MarkProgress].
	Progress bool

	// Exact says that After, 0 included, is the wait itself instead of a lower
	// bound: it replaces the backoff and is not spread. The limits of the
	// policy hold.
	Exact bool

	// After is the server's hint: come back no sooner than this. 0 or less
	// means that there is none.
	After time.Duration

	// Category is a short stable label for logs, metrics and
	// [Policy.Overrides]: "timeout", "conn_refused", "http_503", "sql_40001",
	// "exit_75".
	Category string
}

// fact returns v as a Fact, the form used inside the package. The receiver is a
// pointer because a copy would wait for the stores of the single fields.
func (v *Verdict) fact() known.Fact {
	flags := bit(v.NotApplied)*known.NotApplied | bit(v.Progress)*known.Progress | bit(v.Exact)*known.Exact
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
		After:      f.After,
		Category:   f.Category,
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
// the outermost counts. A mark of class Unknown means "unknown, retried", and has the
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
	return &marked{err: err, fact: f.WithProgressOf(beneath)}
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
// MaxAttempts, and the [Budget] is not asked. The backoff counts pending attempts apart
// from failures. Overrides["pending"] gives them a backoff and a limit of their own:
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
// is retried is decided as without the mark; it may be combined with any other mark,
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

// ErrLost stands for an attempt without an outcome: the worker died, or its
// lease ran out. It is Retryable and counted. The attempt may have taken effect.
var ErrLost = errLost

var errLost error = &marked{
	err:  lostError{},
	fact: known.Transient("lost"),
}

type lostError struct{}

func (lostError) Error() string { return "retry: worker lost" }

// Classify returns the verdict that p acts on. In this order: a mark of this
// package, p.Classifier, and the rest of [Classify], of which NotApplied does not
// count: see [Policy].NonIdempotent.
func (p *Policy) Classify(err error) Verdict {
	return verdictOf(p.orZero().classify(err, false, nil, Unknown))
}

// classify is Classify for a Call: timedOut says that the attempt's own timeout has
// ended it while its caller's context lived on, which the driver knows and the error
// need not. protocol, if not nil, takes the place of [Classify]; errors that it
// leaves Unknown become unknown.
func (p *Policy) classify(err error, timedOut bool, protocol Classifier, unknown Class) known.Fact {
	var said known.Fact
	found := nothing
	if !known.Mute(err) {
		if said, found = explicit(err); found == mark {
			return said
		}
	}
	if p.Classifier != nil {
		v := p.Classifier(err)
		if f := v.fact(); f.Class != known.Unknown || f != (known.Fact{}) {
			return f.WithProgressOf(said)
		}
	}
	f := said
	switch {
	case timedOut:
		f = known.Transient("timeout")
	case protocol != nil:
		f = protocolFact(protocol, err)
	case found != gaveUp:
		f = inspect(err, nil)
		f.Flags &^= known.NotApplied // true of the step that failed, not of all that fn has done
	}
	if f.Class == known.Unknown && f.After <= 0 {
		f.Class = known.Class(unknown)
	}
	return f.WithProgressOf(said)
}

// protocolFact is a function of its own to keep the stack of classify small.
//
//go:noinline
func protocolFact(protocol Classifier, err error) known.Fact {
	v := protocol(err)
	return v.fact()
}

// Classify is the classification of a [Policy] without a Classifier. The first
// of these that has an opinion decides:
//
//  1. A mark of this package: [Mark], [MarkFinal], [MarkRetryable],
//     [MarkRateLimited]. The outermost counts.
//  2. An [*Error] of an inner policy. It is Final, category "gave_up", so that
//     nested policies do not multiply their attempts; but Retryable if the
//     inner context or Timeout ended, and RateLimited with its hint if the hint was too
//     long to wait for.
//  3. The errors themselves: by type (errno, net, DNS, TLS, x509, HTTP/2,
//     encoding and file errors of the standard library), by method
//     (RetryAfter, Retryable, HTTPStatusCode, SQLState, Timeout, and the like), and
//     by code: of gRPC, Connect, Kubernetes and AMQP errors, and the HTTP status in
//     a field StatusCode. Every error of the tree is asked. On a chain the outermost
//     opinion counts, but an error that names its cause counts before one that only says
//     Timeout or Temporary. Of joined errors the more retryable opinion counts, in any
//     order.
//
// NotApplied is the answer for an operation of one step: a dial or a lookup failed, or
// the server says that it did nothing. An errno alone does not say so.
//
// Otherwise it abstains. context.Canceled is Final and context.DeadlineExceeded
// Retryable: a policy asks its caller's context before it classifies, so these
// come from another context. The text of errors is never read. A method that
// panics gives no opinion, and a tree of more than 1000 errors is Unknown.
// Classify(nil) abstains.
//
// Packages retryhttp, retrysql and retryexec classify the errors that only
// net/http, database/sql or os/exec can tell apart.
func Classify(err error) Verdict { return verdictOf(classify(err, nil)) }

// classify is Classify with also, which may be nil, asked about single errors.
func classify(err error, also Classifier) known.Fact {
	f, found := explicit(err)
	if found == nothing {
		f = inspect(err, also).WithProgressOf(f)
	}
	return f
}

// Extend returns [Classify] with the knowledge of one more Classifier. node is
// asked about every single error of the tree, before what Classify knows of that
// error, and its opinion counts as if the error had said so itself: an outer
// error counts before the errors that it wraps, joined errors in any order, and
// a mark overrules them all. So node looks at the type, value or text of the
// given error, and not at the errors that it wraps:
//
//	var classify = retry.Extend(func(err error) retry.Verdict {
//		if e, ok := err.(*MyError); ok && e.Code == Busy {
//			return retry.Verdict{Class: retry.Retryable, Category: "busy"}
//		}
//		return retry.Verdict{}
//	})
//
// A nil node gives no opinion.
func Extend(node Classifier) Classifier {
	return func(err error) Verdict { return verdictOf(classify(err, node)) }
}

// ThroughGiveUp is a Classifier for a durable policy around a policy that
// blocks. It classifies the error that made the inner policy give up, where
// [Classify] would say Final, "gave_up". An unknown error is retried. The last error
// proves that nothing was applied only if there was no attempt before it, or by a mark.
// ThroughGiveUp abstains on errors without an [*Error] in them.
func ThroughGiveUp(err error) Verdict {
	nodes := errtree.Nodes(errtree.MaxNodes)
	f, _ := throughGiveUp(err, &nodes)
	if nodes.Exceeded() {
		return Verdict{}
	}
	return verdictOf(f)
}

// throughGiveUp looks for *Errors, and for *Errors in their last errors. It
// reports whether there was one.
func throughGiveUp(err error, nodes *errtree.Nodes) (f known.Fact, found bool) {
	for err != nil && nodes.Take() {
		if e, ok := err.(*Error); ok && e != nil {
			return e.cause(nodes), true
		}
		one, several := errtree.Unwrap(err)
		for _, leg := range several {
			g, ok := throughGiveUp(leg, nodes)
			switch {
			case ok && found:
				f = f.Merge(g, false)
			case ok:
				f, found = g, true
			}
		}
		err = one
	}
	return f, found
}

// cause classifies the error that made e give up.
func (e *Error) cause(nodes *errtree.Nodes) known.Fact {
	if e.Stop == StopRetryAfter || e.Err == nil {
		return e.fact()
	}
	if f, found := explicit(e.Err); found == mark {
		return f
	}
	if f, found := throughGiveUp(e.Err, nodes); found {
		return f
	}
	f := classify(e.Err, nil)
	if f == (known.Fact{}) {
		f.Category = categoryGaveUp // an opinion: Unknown, and so retried
	}
	if e.Attempts > 1 { // the last failure says nothing about the attempts before it
		f.Flags &^= known.NotApplied
	}
	return f
}

const categoryGaveUp = "gave_up"

// fact classifies the error of an inner policy for an outer one.
func (e *Error) fact() known.Fact {
	switch e.Stop {
	case StopDeadline, StopCanceled, StopTimeout:
		return known.Transient(categoryGaveUp)
	case StopRetryAfter:
		f := known.Throttled(categoryGaveUp)
		f.After = max(e.RetryAfter, 0)
		return f
	default:
		return known.Permanent(categoryGaveUp)
	}
}

// finding is a result of explicit.
type finding uint8

const (
	nothing finding = iota
	gaveUp          // an *Error of an inner policy
	mark
)

// explicit looks for marks and inner *Errors, and does not look inside them. Marks
// win over *Errors beside them. A mark of progress is not the whole answer: it is in
// the Fact, whatever else is found.
func explicit(err error) (known.Fact, finding) {
	switch e := err.(type) {
	case *marked:
		return e.fact, mark
	case interface{ Unwrap() error }, interface{ Unwrap() []error }:
		nodes := errtree.Nodes(errtree.MaxNodes)
		return explicitIn(err, &nodes)
	default:
		return known.Fact{}, nothing
	}
}

func explicitIn(err error, nodes *errtree.Nodes) (f known.Fact, found finding) {
	var progress known.Fact
	for nodes.Take() {
		switch e := err.(type) {
		case *progressed:
			progress.Flags, err = known.Progress, e.err
			continue
		case *marked:
			f, found = e.fact, mark
		case *Error:
			if e != nil {
				f, found = e.fact(), gaveUp
			}
		case interface{ Unwrap() error }:
			err, _ = errtree.Try(e.Unwrap)
			continue
		case interface{ Unwrap() []error }:
			legs, _ := errtree.Try(e.Unwrap)
			f, found = explicitAmong(legs, nodes)
		}
		return f.WithProgressOf(progress), found
	}
	return progress, nothing
}

func explicitAmong(legs []error, nodes *errtree.Nodes) (f known.Fact, found finding) {
	for _, leg := range legs {
		g, ok := explicitIn(leg, nodes)
		both := f.WithProgressOf(g)
		switch {
		case ok > found:
			f, found = g, ok
		case ok == found && ok != nothing:
			f = f.Merge(g, true)
		}
		f = f.WithProgressOf(both)
	}
	if nodes.Exceeded() {
		return known.Fact{}, nothing
	}
	return f, found
}
