package retry

import (
	"context"
)

// StopReason says why a call was given up. The zero StopReason means that it
// was not given up. docs/why.md explains each reason and its text, and what to set.
//
// It is an error so that [errors.Is] can ask an [*Error] for it:
//
//	if errors.Is(err, retry.StopBudget) {
type StopReason uint8

// The reasons to stop.
const (
	StopNone         StopReason = iota
	StopFinal                   // the error is Final
	StopAttempts                // MaxAttempts failures were counted
	StopElapsed                 // the next attempt would start later than MaxElapsed
	StopDeadline                // the context's deadline has passed, or comes before the next attempt
	StopCanceled                // the context was canceled
	StopBudget                  // the local Budget has no retry left
	StopRetryAfter              // the server's hint is longer than MaxRetryAfter
	StopMaybeApplied            // NonIdempotent, and the failed attempt may have taken effect
	StopTimeout                 // Timeout has passed, or comes before the next attempt
	StopBackoff                 // the Backoff says that there is no other attempt
)

var stopNames = names[StopReason]{
	"none", "final", "attempts", "elapsed", "deadline", "canceled", "budget", "retry_after", "maybe_applied",
	"timeout", "backoff",
}

// Error returns the reason in lower case: "none", "final", "attempts",
// "elapsed", "deadline", "canceled", "budget", "retry_after", "maybe_applied",
// "timeout", "backoff".
func (r StopReason) Error() string { return stopNames.of(r) }

// MarshalText returns [StopReason.Error].
func (r StopReason) MarshalText() ([]byte, error) { return []byte(stopNames.of(r)), nil }

// UnmarshalText is the inverse of [StopReason.MarshalText].
func (r *StopReason) UnmarshalText(text []byte) (err error) {
	*r, err = stopNames.parse("stop reason", string(text))
	return err
}

// ended returns the error with which a context of that end is done, or nil.
func (r StopReason) ended() error {
	switch r {
	case StopDeadline:
		return context.DeadlineExceeded
	case StopCanceled:
		return context.Canceled
	default:
		return nil
	}
}
