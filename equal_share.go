package retry

import (
	"math"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/sat"
)

// EqualShare is the AttemptTimeout that divides the time left equally among the attempts
// left. When an attempt begins, its timeout is
//
//	time left / attempts left
//
// The time left is what is left of Timeout, or until the deadline of the context of the
// call, whichever ends first. The attempts left are MaxAttempts - State.Failures, with the
// attempt that begins. If an Override has allowed more than MaxAttempts, they are the
// largest MaxAttempts of an Override - State.Failures. The last attempt has all the time
// left, and so no timeout of its own.
//
// The waits are not subtracted, because nobody knows them: they are random, and a server may
// ask for others. A wait shortens the attempts after it, and time that an attempt does not
// use lengthens them. Without waits every attempt takes place, even if each runs until its
// timeout. With waits, one that would end after the time left ends the call, as always.
//
// With neither a Timeout nor a deadline, or with [Unlimited] attempts, there is no attempt
// timeout. [Policy.Validate] reports Unlimited with EqualShare. A Durable [Call] divides only
// the Timeout: the deadline of its context is a limit of one attempt, and the next one has
// another.
const EqualShare time.Duration = math.MinInt64

// equalShare returns the timeout of the attempt after the failures of s if left is the
// time for all attempts left, or 0 for an attempt without a timeout of its own.
func (p *Policy) equalShare(s *State, left time.Duration) time.Duration {
	failures, limit := max(s.Failures, 0), p.limit()
	if failures >= limit {
		limit = p.largestLimit()
	}
	if limit-failures <= 1 || limit == Unlimited || left == sat.Max {
		return 0
	}
	return max(left/time.Duration(limit-failures), 1)
}
