package retry

import (
	"github.com/seed-5ff3c98e/retry/internal/errtree"
	"github.com/seed-5ff3c98e/retry/internal/known"
)

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
// The opinion of node counts as if the error itself had said it: an outer error
// counts before the errors that it wraps, joined errors count in any order, and a
// mark overrules them all. So node should look at the type, value or text of the
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

// ThroughGiveUp is a Classifier for a call around a policy that waits on another scale of
// time: their attempts multiply. It classifies the error that made the inner policy give up, where
// [Classify] would say Final, "gave_up". An unknown error is retried. The verdict has the
// NotApplied of the [*Error]. ThroughGiveUp abstains on errors without an [*Error] in them.
// [Policy.Next] and package retryjob need it not: they look through by themselves.
func ThroughGiveUp(err error) Verdict {
	nodes := errtree.Nodes(errtree.MaxNodes)
	f, _ := throughGiveUp(err, &nodes, func(failure error) known.Fact {
		f := classify(failure, nil)
		if f == (known.Fact{}) {
			f.Category = categoryGaveUp // an opinion: Unknown, and so retried
		}
		return f
	})
	if nodes.Exceeded() {
		return Verdict{}
	}
	return verdictOf(f)
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
