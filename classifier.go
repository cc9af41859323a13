package retry

import "github.com/seed-5ff3c98e/retry/internal/errtree"

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
