package retry

import (
	"fmt"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/known"
	"github.com/seed-5ff3c98e/retry/internal/show"
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

// MarshalText returns [Class.String].
func (c Class) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// UnmarshalText is the inverse of [Class.MarshalText].
func (c *Class) UnmarshalText(text []byte) (err error) {
	*c, err = classNames.parse("class", string(text))
	return err
}

// Verdict is the result of classifying an error. The zero Verdict abstains;
// anything else is an opinion.
type Verdict struct {
	// Class decides. Unknown with an After that is not Exact counts as
	// RateLimited.
	Class Class

	// NotApplied says that the operation certainly had no effect, so even a
	// non-idempotent operation may be repeated. A mark says so, or the server's
	// answer, or a step failed before the first byte of the operation was sent.
	NotApplied bool

	// Progress says that the attempt did some of its work before it failed: the
	// failure is the first of a new count. See [MarkProgress].
	Progress bool

	// Exact says that After, 0 included, is the wait itself instead of a lower
	// bound: it replaces the backoff and is not spread. The limits of the
	// policy hold.
	Exact bool

	// NotStarted says that the attempt could not start, if the Class is Pending: see
	// [MarkNotStarted].
	NotStarted bool

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

func (n names[T]) parse(what, text string) (T, error) {
	for i, name := range n {
		if name == text {
			return T(i), nil
		}
	}
	return 0, fmt.Errorf("retry: unknown %s %s", what, show.Quote(text))
}
