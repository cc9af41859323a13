// Package known classifies the errors that are known without a user's Classifier:
// statuses, SQL states and numbers, errnos, types, methods, and the codes of AWS
// and MongoDB. One row has one fact.
//
// The root package turns facts into verdicts; the packages of protocols read the
// same tables.
package known

import (
	"fmt"
	"strings"
	"time"
)

// Class says what to do about an error. It has the values of retry.Class.
type Class uint8

// The classes.
const (
	Unknown Class = iota
	Final
	Retryable
	RateLimited
	Pending
)

// Fact is what is known about an error. The zero Fact means that nothing is
// known.
//
// It has four fields and 32 bytes, because the compiler keeps nothing larger in
// registers, and a classification passes it on a dozen times.
type Fact struct {
	Class    Class
	Flags    Flags
	After    time.Duration
	Category string
}

// Flags are the fields of a verdict that are true or false.
type Flags uint8

// The flags.
const (
	NotApplied Flags = 1 << iota // the operation certainly had no effect
	Progress                     // the attempt did some of its work
	Exact                        // After is the wait itself
	NotStarted                   // the attempt could not start; with Pending
)

// Has reports whether all flags of g are set.
func (f Flags) Has(g Flags) bool { return f&g == g }

// With returns f, with the flags of g added if so is true.
func (f Flags) With(g Flags, so bool) Flags {
	if so {
		f |= g
	}
	return f
}

// Permanent returns the fact about an error that another attempt cannot help.
func Permanent(category string) Fact { return Fact{Class: Final, Category: category} }

// Transient returns the fact about an error of an operation that may have taken
// effect.
func Transient(category string) Fact { return Fact{Class: Retryable, Category: category} }

// Unapplied returns the fact about an error of an operation that had no effect.
func Unapplied(category string) Fact {
	return Fact{Class: Retryable, Flags: NotApplied, Category: category}
}

// Throttled returns the fact about a refusal for load. The operation may have
// taken effect.
func Throttled(category string) Fact { return Fact{Class: RateLimited, Category: category} }

// Rejected returns the fact about a refusal for load of an operation that had
// no effect.
func Rejected(category string) Fact {
	return Fact{Class: RateLimited, Flags: NotApplied, Category: category}
}

// Normal returns f as the decider reads it: a hint without a class is a rate limit,
// unknown classes are Unknown, negative hints are 0, and only what is Pending was not started.
func (f Fact) Normal() Fact {
	f.After = max(f.After, 0)
	if f.Class > Pending {
		f.Class = Unknown
	}
	if f.Class == Unknown && f.After > 0 && !f.Flags.Has(Exact) {
		f.Class = RateLimited
	}
	if f.Class != Pending {
		f.Flags &^= NotStarted
	}
	return f
}

// Merge returns the fact about two joined errors, as in errors.Join. The more retryable
// one wins, because joined errors are usually alternatives (one error per address that
// was tried) or a failure and an error of the cleanup after it. An explicit Final wins
// over all. The result does not depend on the order.
func (f Fact) Merge(g Fact, explicit bool) Fact {
	f, g = f.Normal(), g.Normal()
	flags := f.Flags&g.Flags&NotApplied | (f.Flags|g.Flags)&Progress
	if g.outranks(f, explicit) {
		f = g
	}
	f.Flags = f.Flags&(Exact|NotStarted) | flags
	return f
}

func (f Fact) outranks(g Fact, explicit bool) bool {
	if a, b := f.Class.rank(explicit), g.Class.rank(explicit); a != b {
		return a > b
	}
	if f.After != g.After {
		return f.After > g.After
	}
	if f.Flags.Has(Exact) != g.Flags.Has(Exact) {
		return g.Flags.Has(Exact) // a lower bound and its spread keep both
	}
	if (f.Category == "") != (g.Category == "") {
		return f.Category != ""
	}
	return f.Category < g.Category
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

// Misspelt returns what to write in place of a category that is meant for a status or a SQLSTATE and
// is not written as these are, or "": no failure would have it.
func Misspelt(category string) string {
	status := strings.TrimLeft(strings.TrimPrefix(strings.ToLower(category), "http"), "_- ")
	state := strings.TrimLeft(strings.TrimPrefix(strings.TrimPrefix(category, "sql"), "state"), "_- ")
	digit := func(c byte) bool { return c >= '0' && c <= '9' }
	switch {
	case len(status) == len("5xx") && digit(status[0]) && status[1:] == "xx":
		return fmt.Sprintf(`each status, such as "http_%c00", or a class`, status[0])
	case len(status) == len("503") && digit(status[0]) && digit(status[1]) && digit(status[2]) && category != "http_"+status:
		return fmt.Sprintf("%q", "http_"+status)
	case len(state) == len("40001") && digit(state[0]) && strings.ToUpper(state) == state && category != "sql_"+state:
		return fmt.Sprintf("%q", "sql_"+state)
	default:
		return ""
	}
}
