// Package verdict makes the verdicts of the protocol packages from the facts of package
// known.
package verdict

import (
	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/known"
)

// Of returns f as a verdict.
func Of(f known.Fact) retry.Verdict {
	return retry.Verdict{
		Class:      retry.Class(f.Class),
		NotApplied: f.Flags.Has(known.NotApplied),
		Progress:   f.Flags.Has(known.Progress),
		Exact:      f.Flags.Has(known.Exact),
		NotStarted: f.Flags.Has(known.NotStarted),
		After:      f.After,
		Category:   f.Category,
	}
}

// Permanent returns the verdict about an error that another attempt cannot
// help.
func Permanent(category string) retry.Verdict { return Of(known.Permanent(category)) }

// Transient returns the verdict about an error of an operation that may have
// taken effect.
func Transient(category string) retry.Verdict { return Of(known.Transient(category)) }

// Unapplied returns the verdict about an error of an operation that had no
// effect.
func Unapplied(category string) retry.Verdict { return Of(known.Unapplied(category)) }

// Throttled returns the verdict about a refusal for load. The operation may
// have taken effect.
func Throttled(category string) retry.Verdict { return Of(known.Throttled(category)) }

// Rejected returns the verdict about a refusal for load of an operation that
// had no effect.
func Rejected(category string) retry.Verdict { return Of(known.Rejected(category)) }
