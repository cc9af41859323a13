package retryjob

import "fmt"

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
	NotStarted       // Refused: what the work needs could not be read, see retry.MarkNotStarted
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
