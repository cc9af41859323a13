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

// ThroughGiveUp is a Classifier for a durable policy around a policy that
// blocks. It classifies the error that made the inner policy give up, where
// [Classify] would say Final, "gave_up". An unknown error is retried. The verdict has
// NotApplied only if there was no earlier attempt, or if a mark says so. ThroughGiveUp
// abstains on errors without an [*Error] in them.
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
