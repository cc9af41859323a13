package retryjob

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/sat"
	"github.com/seed-5ff3c98e/retry/internal/show"
)

var errNoPolicy = errors.New("PolicyFor has returned nil, and there is no Policy for all kinds")

// PolicyFor returns the policy for a kind of jobs: the policy that own returns, or p if own
// returns nil or an error. If p is nil too, PolicyFor returns an error. If own is nil, it returns
// p. If own panics, the error is a [*retry.PanicError]. The method Get of a
// retrypolicies.Policies can be own.
func PolicyFor(kind string, p *retry.Policy, own func(kind string) (*retry.Policy, error)) (_ *retry.Policy, err error) {
	if own == nil {
		return p, nil
	}
	defer func() {
		if v := recover(); v != nil {
			err = panicked(v, "PolicyFor")
		}
	}()
	switch q, err := own(kind); {
	case err == nil && q != nil:
		return q, nil
	case p != nil:
		return p, nil
	default:
		return nil, fmt.Errorf("retry: no policy for jobs of kind %s: %w", show.Quote(kind), cmp.Or(err, errNoPolicy))
	}
}

// longestStart is the longest wait after MarkNotStarted.
const longestStart = 10 * time.Minute

// Early returns wait, which is how much too early the job is by a due time that is stored
// with it. A wait of less than 0 is 0. A wait that is longer than twice the longest of the
// policy, hints included, is cut to that, because a stranger may have written the due time:
// put the job back with a due time that follows from the result. If there is no policy, the
// wait is not cut.
func (s *Stored) Early(wait time.Duration) (early time.Duration) {
	if early = max(wait, 0); early == 0 {
		return 0
	}
	p, err := PolicyFor(s.Kind, s.Policy, s.PolicyFor)
	if err != nil {
		return early
	}
	defer func() { _ = recover() }() // of a Backoff: it ends the job when the attempt begins
	longest := max(handover, p.LongestWait())
	if s.State.Pending > 0 {
		longest = max(longest, longestStart)
	}
	return min(early, sat.Add(longest, longest))
}
