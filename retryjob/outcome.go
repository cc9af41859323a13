package retryjob

import (
	"fmt"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// Outcome says what happens to a job after an attempt.
type Outcome uint8

// The outcomes. The zero Outcome is none: the attempt has not ended.
const (
	_       Outcome = iota
	Done            // the job has succeeded
	Again           // the attempt has failed, and there is another one
	Ended           // the job has failed
	Handed          // the job was not tried, or not to the end: another worker goes on with it
	Refused         // as Handed, and somebody has to hear why
)

// String returns "none", "done", "again", "ended", "handed" or "refused".
func (o Outcome) String() string {
	return nameOf(uint8(o), "none", "done", "again", "ended", "handed", "refused")
}

// Cause says why a job is Handed or Refused.
type Cause uint8

// The causes. The zero Cause is none: the job is neither Handed nor Refused.
const (
	_          Cause = iota
	Stopped          // Handed: the worker stops
	Held             // Handed: the turn of the job has not come
	Aborted          // Handed: the work has called Abort
	NoPolicy         // Refused: there is no policy for the Kind
	NotStarted       // Refused: what the work needs could not be read, see MarkNotStarted
)

// String returns "none", "stopped", "held", "aborted", "no_policy" or "not_started".
func (c Cause) String() string {
	return nameOf(uint8(c), "none", "stopped", "held", "aborted", "no_policy", "not_started")
}

func nameOf(v uint8, names ...string) string {
	if int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("%s(%d)", names[0], v)
}

// MarkNotStarted marks err as the failure of an attempt that could not start, because what it
// needs could not be read: its own row, its configuration, a secret. It is [retry.Pending] and
// NotApplied, has the category "not_started", and does not count toward MaxAttempts. The waits
// grow from 1 second to 10 minutes, and the job ends after a week, if the policy has neither
// MaxElapsed nor Timeout. Overrides["not_started"] changes the waits, and may have a limit,
// which is compared with State.Pending; Overrides["pending"] does not count. The job is
// [Refused], so that its driver reports err.
//
// MarkNotStarted(nil) is nil.
func MarkNotStarted(err error) error {
	return retry.Mark(err, retry.Verdict{Class: retry.Pending, NotApplied: true, NotStarted: true, Category: "not_started"})
}

// HeldError is the Err of a job whose turn has not come: it is due again when it may ask once more.
type HeldError struct {
	For time.Duration // until the turn may come; 0 if that is not known
}

// Error returns the form "retry: the turn has not come, and may come in 30s".
func (e *HeldError) Error() string {
	const text = "retry: the turn has not come"
	if e.For <= 0 {
		return text
	}
	return fmt.Sprintf("%s, and may come in %v", text, e.For)
}
