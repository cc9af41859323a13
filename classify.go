package retry

import (
	"github.com/seed-5ff3c98e/retry/internal/errtree"
	"github.com/seed-5ff3c98e/retry/internal/known"
)

// Classify returns the verdict that p acts on. It asks in this order: a mark of this
// package, p.Classifier, and the rest of [Classify]. The NotApplied of [Classify]
// does not count: see [Policy].NonIdempotent.
func (p *Policy) Classify(err error) Verdict {
	return verdictOf(p.orZero().classify(err, false, nil, Unknown))
}

// classify is Classify for a Call: timedOut says that the attempt's own timeout has
// ended the attempt while the caller's context was not done; the error may not show
// this. protocol, if not nil, takes the place of [Classify]; errors that it
// leaves Unknown become unknown.
func (p *Policy) classify(err error, timedOut bool, protocol Classifier, unknown Class) known.Fact {
	var said known.Fact
	found := nothing
	if !known.Mute(err) {
		if said, found = explicit(err); found == mark {
			return said
		}
	}
	f := said
	var v Verdict // only one: two would be on the stack of every caller that waits
	if p.Classifier != nil {
		v = p.Classifier(err)
		if f := v.fact(); f.Class != known.Unknown || f != (known.Fact{}) {
			f.Flags |= said.Flags & known.Progress
			return f
		}
	}
	switch {
	case timedOut:
		f = known.Transient("timeout")
	case protocol != nil:
		v = protocol(err)
		f = v.fact()
	case found != gaveUp:
		f = inspect(err, nil)
		f.Flags &^= known.NotApplied // true of the step that failed, not of all that fn has done
	}
	if f.Class == known.Unknown && f.After <= 0 {
		f.Class = known.Class(unknown)
	}
	f.Flags |= said.Flags & known.Progress
	return f
}

// Classify is the classification of a [Policy] without a Classifier. The first
// of these that has an opinion decides:
//
//  1. A mark of this package, such as [MarkFinal]. The outermost counts.
//  2. An [*Error] of an inner policy. It is Final, category "gave_up", so that
//     nested policies do not multiply their attempts. But it is Retryable if the
//     inner context or Timeout ended, and RateLimited with its hint if the hint was
//     too long to wait for. To [Policy.Next] and a job of package retryjob, which wait on
//     another scale of time, it counts as the failure that was given up.
//  3. The errors themselves: by type (of the standard library), by method (RetryAfter, Retryable,
//     HTTPStatusCode, SQLState, Timeout, and the like), and by code (of databases, gRPC, Connect,
//     Kubernetes, AMQP, Kafka, LDAP and mail servers, and the HTTP status of usual fields). The
//     headers of an HTTP response in an error give its hint. A code that says more than the
//     status decides, such as insufficient_quota. Every error of the tree is asked. On a chain
//     the outermost opinion counts, but an error that names its cause counts before one that
//     only says Timeout or Temporary. Of joined errors the more retryable opinion counts.
//
// NotApplied is right for an operation of one step. It is set if a dial or a lookup
// failed, or if the server says that it did nothing, but not for an errno alone.
//
// If none of the three has an opinion, Classify abstains. context.Canceled is Final and
// context.DeadlineExceeded Retryable: a policy checks its caller's context before it
// classifies, so these errors come from another context. Text is never searched, but a few
// variables of errors.New are known by the whole of it, such as sql.ErrNoRows, and so is a status
// line, such as "404 Not Found". A method that panics gives no opinion, and a tree of more than
// 1000 errors is Unknown. Classify(nil) abstains.
//
// docs/why.md has the tables, and docs/recipes.md, "What is Final, and only not there yet", shows
// how to wait for a name that does not exist yet, and the like. Packages retryhttp, retrysql and
// retryexec classify the errors that only net/http, database/sql or os/exec can tell apart.
func Classify(err error) Verdict { return verdictOf(classify(err, nil)) }

// classify is Classify with also, which may be nil, asked about single errors.
func classify(err error, also Classifier) known.Fact {
	f, found := explicit(err)
	if found == nothing {
		progress := f.Flags & known.Progress
		f = inspect(err, also)
		f.Flags |= progress
	}
	return f
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
		f.Flags |= progress.Flags
		return f, found
	}
	return progress, nothing
}

func explicitAmong(legs []error, nodes *errtree.Nodes) (f known.Fact, found finding) {
	for _, leg := range legs {
		g, ok := explicitIn(leg, nodes)
		progress := (f.Flags | g.Flags) & known.Progress
		switch {
		case ok > found:
			f, found = g, ok
		case ok == found && ok != nothing:
			f = f.Merge(g, true)
		}
		f.Flags |= progress
		if nodes.Exceeded() { // the other legs may be a million
			return known.Fact{}, nothing
		}
	}
	return f, found
}

// inspect asks every error of the tree, after also where there is one.
func inspect(err error, also Classifier) known.Fact {
	if also == nil {
		return known.Tree(err, panicked)
	}
	return known.Tree(err, func(err error) (known.Fact, bool) {
		if v := also(err); v != (Verdict{}) {
			return v.fact(), true
		}
		return panicked(err)
	})
}

func panicked(err error) (known.Fact, bool) {
	_, ok := err.(*PanicError)
	return known.Permanent("panic"), ok
}

// Classifier gives its opinion about an error, or abstains with the zero
// [Verdict]. It must be safe for concurrent use where the [Policy] is shared.
type Classifier func(error) Verdict

// Chain returns a Classifier that asks cs in order; the first opinion wins. Nil
// Classifiers are skipped.
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

// On returns a Classifier that gives class c to errors in which [errors.Is]
// finds one of the targets:
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

// Extend returns [Classify] with the knowledge of one more Classifier. node is
// asked about every single error of the tree, before Classify looks at that error.
// The opinion of node counts as if the error itself had said it. So node should look at the type,
// value or text of the given error, and not at the errors that it wraps:
//
//	var classify = retry.Extend(func(err error) retry.Verdict {
//		if e, ok := err.(*MyError); ok && e.Code == Busy {
//			return retry.Verdict{Class: retry.Retryable, Category: "busy"}
//		}
//		return retry.Verdict{}
//	})
//
// A nil node has no opinion.
func Extend(node Classifier) Classifier {
	return func(err error) Verdict { return verdictOf(classify(err, node)) }
}

// classifyJob is classify for a job whose State is kept elsewhere. The *Error of a policy
// inside is judged by the failure that was given up, whoever called it a give-up: the job
// waits on another scale of time, so the attempts do not multiply in the way of nested loops.
func (p *Policy) classifyJob(err error, timedOut bool, protocol Classifier, unknown Class) known.Fact {
	f := p.classify(err, timedOut, protocol, unknown)
	if f.Category != categoryGaveUp {
		return f
	}
	if _, found := explicit(err); found == mark {
		return f
	}
	nodes := errtree.Nodes(errtree.MaxNodes)
	g, found := throughGiveUp(err, &nodes, func(failure error) known.Fact {
		return p.classify(failure, timedOut, protocol, unknown)
	})
	if !found || nodes.Exceeded() {
		return f
	}
	g.Flags |= f.Flags & known.Progress
	return g
}

// throughGiveUp looks for *Errors, and for *Errors in their last errors, and asks judge about
// the failures that these gave up. It reports whether there was one.
func throughGiveUp(err error, nodes *errtree.Nodes, judge func(error) known.Fact) (f known.Fact, found bool) {
	for err != nil && nodes.Take() {
		if e, ok := err.(*Error); ok && e != nil {
			return e.cause(nodes, judge), true
		}
		one, several := errtree.Unwrap(err)
		for _, leg := range several {
			g, ok := throughGiveUp(leg, nodes, judge)
			if nodes.Exceeded() {
				return known.Fact{}, false // the other legs may be a million
			}
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

// cause judges the failure that e gave up.
func (e *Error) cause(nodes *errtree.Nodes, judge func(error) known.Fact) known.Fact {
	f := e.fact()
	if e.Err == nil {
		return f
	}
	g, found := explicit(e.Err)
	if found != mark {
		var nested bool
		if g, nested = throughGiveUp(e.Err, nodes, judge); !nested {
			g = judge(e.Err)
		}
	}
	// A context that ended and a server that asks to wait do not make a job Final, whatever
	// the failure looks like then.
	if found == mark || f.Class == known.Final || g.Class != known.Final && g.Class != known.Unknown {
		f = g
	}
	if f.Class != known.Final {
		f.After = max(f.After, e.RetryAfter)
	}
	if f.Class == known.Unknown && f.After > 0 {
		f.Class = known.Retryable // the wait may be that of a Budget
	}
	f.Flags &^= known.NotApplied // of the last attempt; it says nothing about those before it
	f.Flags = f.Flags.With(known.NotApplied, e.NotApplied)
	return f
}

const categoryGaveUp = "gave_up"

// fact classifies the error of an inner policy for an outer one.
func (e *Error) fact() (f known.Fact) {
	switch e.Stop {
	case StopDeadline, StopCanceled, StopTimeout:
		f = known.Transient(categoryGaveUp)
	case StopRetryAfter:
		f = known.Throttled(categoryGaveUp)
		f.After = max(e.RetryAfter, 0)
	default:
		f = known.Permanent(categoryGaveUp)
	}
	if e.Attempts == 0 && e.Err == nil {
		f.Flags |= known.NotApplied
	}
	return f
}
