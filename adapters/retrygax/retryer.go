// Package retrygax makes a [retry.Policy] the retryer of a Google Cloud client call:
//
//	err := getJob(ctx, gax.WithRetry(retrygax.New(policy)))
//
// where getJob stands for a method of a client, such as client.GetJob.
//
// gax owns the loop, and some of a policy is lost in it. It asks after the first failure,
// without the context: so MaxElapsed and Timeout count from the first failure, and a wait
// that the context's deadline forbids is begun. AttemptTimeout, Budget, Observer and Clock
// have no effect, and the call returns the last error. The clients have retries of their
// own for methods that may be repeated; this Retryer replaces them. For other methods set
// NonIdempotent.
package retrygax

import (
	"time"

	"github.com/googleapis/gax-go/v2"
	"github.com/googleapis/gax-go/v2/apierror"
	"google.golang.org/grpc/codes"

	"github.com/seed-5ff3c98e/retry"
)

// New returns the argument of [gax.WithRetry]: a function that makes a Retryer for each
// call. A nil p is the zero Policy. The function is safe for concurrent use.
func New(p *retry.Policy) func() gax.Retryer {
	own := retry.Policy{}
	if p != nil {
		own = *p
	}
	own.Classifier = retry.Chain(own.Classifier, Classify)
	return func() gax.Retryer { return &retryer{policy: &own} }
}

type retryer struct {
	policy *retry.Policy
	state  retry.State
}

// Retry implements [gax.Retryer].
func (r *retryer) Retry(err error) (pause time.Duration, again bool) {
	now := time.Now()
	if r.state.First.IsZero() {
		r.state.First = now
	}
	d := r.policy.Decide(r.state, r.policy.Classify(err), now) // of a call; Next is for jobs
	r.state = d.State
	return d.Delay, d.Retry
}

// Classify is a Classifier of errors of Google APIs that came by gRPC. It abstains on
// others, which [retry.Classify] knows by their HTTP status. Of the codes, UNAVAILABLE and
// DEADLINE_EXCEEDED are Retryable, RESOURCE_EXHAUSTED is RateLimited unless its details say
// otherwise, and all others are Final. ABORTED is Final because the whole
// transaction has to be repeated.
func Classify(err error) retry.Verdict {
	e, ok := apierror.FromError(err)
	if !ok || e.GRPCStatus() == nil {
		return retry.Verdict{}
	}
	v := retry.Classify(e.GRPCStatus().Err())
	if v.Class == retry.Unknown || e.GRPCStatus().Code() == codes.Aborted {
		v.Class = retry.Final
	}
	if v.Category == "" {
		v.Category = "grpc_other"
	}
	return v
}
