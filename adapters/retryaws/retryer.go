// Package retryaws makes a [retry.Policy] the retryer of an AWS client:
//
//	cfg.Retryer = func() aws.Retryer { return &retryaws.Retryer{Policy: policy} }
//
// where cfg is the [aws.Config] of config.LoadDefaultConfig, before a client is made of it.
//
// The SDK owns the loop, and some of a policy is lost in it: AttemptTimeout, MaxElapsed,
// Timeout, ResetAfter, FreeRateLimits, Clock and the Observer have no effect, and a hint is
// compared with the context's deadline, but the wait of the backoff is not. Retries at the
// HTTP level see more: give the SDK an http.Client with a retryhttp.Transport and
// aws.NopRetryer, and not both.
//
// A policy around a call of the client would multiply the attempts. With [GaveUp] as its
// Classifier it does not.
//
// # What is retried
//
// The same as with retry.Standard of the SDK, with these differences:
//
//   - A bare 408, 420, 421, 425, 449, 509, 529, and 520 to 599 as far as proxies use them, are retried,
//     because a load balancer or a proxy answers without a code of AWS. The SDK does the
//     same with a bare 429, from v1.48.0 on.
//   - An answer that was cut is retried: its connection was lost.
//   - A certificate that is not trusted is Final. The SDK retries every error of its HTTP
//     client.
//
// An X-Amz-Retry-After (milliseconds), a Retry-After or another header that
// retryhttp.ParseHint reads is followed. The SDK itself reads X-Amz-Retry-After only, and
// waits at most 5 seconds longer than its backoff. Here MaxRetryAfter is the limit, and a
// longer hint ends the call.
//
// With NonIdempotent, a request is repeated if it had no effect:
//
//   - The server throttled it, by a code such as ThrottlingException or SlowDown, whatever
//     the status. TransactionInProgressException is not one of these, since the transaction
//     that it is about may succeed.
//   - The status says so: 408, 420, 421, 425, 429, or 503 with a Retry-After.
//   - The server refused its signature, and the SDK has corrected the clock since.
//   - It failed before it was sent: at the lookup of the host or at the dial.
package retryaws

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsretry "github.com/aws/aws-sdk-go-v2/aws/retry"

	"github.com/seed-5ff3c98e/retry"
)

// Retryer is an [aws.RetryerV2]. The zero Retryer has the zero Policy. It is safe for
// concurrent use; give each client one of its own, as config.WithRetryer does.
type Retryer struct {
	// Policy decides. nil means the zero Policy.
	Policy *retry.Policy
}

var _ aws.RetryerV2 = (*Retryer)(nil)

// IsErrorRetryable implements [aws.Retryer].
func (r *Retryer) IsErrorRetryable(err error) bool {
	p := r.policy()
	v := p.Classify(err)
	return v.Class != retry.Final && (!p.NonIdempotent || v.NotApplied)
}

// MaxAttempts implements [aws.Retryer]: the largest of the policy and its Overrides, which
// RetryDelay tells apart.
func (r *Retryer) MaxAttempts() int {
	d, _ := r.policy().Exhausted(retry.State{Failures: math.MaxInt}, time.Time{})
	if d.Limit == retry.Unlimited {
		return 0 // to the SDK
	}
	return d.Limit
}

// RetryDelay implements [aws.Retryer]. The SDK gives it the number of the attempt that
// failed, from 1.
func (r *Retryer) RetryDelay(attempt int, err error) (time.Duration, error) {
	p := r.policy()
	d := p.Decide(retry.State{Failures: attempt - 1}, p.Classify(err), time.Now()) // of a call; Next is for jobs
	switch {
	case d.Retry:
		return d.Delay, nil
	case d.Stop == retry.StopFinal:
		return 0, err
	default:
		return 0, &retry.Error{
			Policy: p.Name, Attempts: attempt, Stop: d.Stop, RetryAfter: d.Verdict.After, Err: err, State: d.State,
			NotApplied: attempt == 1 && d.Verdict.NotApplied && !d.Verdict.Progress,
		}
	}
}

// GetRetryToken implements [aws.Retryer]: it asks the Budget.
func (r *Retryer) GetRetryToken(ctx context.Context, err error) (func(error) error, error) {
	p, now := r.policy(), time.Now()
	after := p.Classify(err).After
	if deadline, ok := ctx.Deadline(); ok && deadline.Sub(now) <= after {
		return nil, &retry.Error{Policy: p.Name, Stop: retry.StopDeadline, RetryAfter: after, Err: err}
	}
	if p.Budget != nil && !p.Budget.TryWithdraw(now) {
		return nil, &retry.Error{Policy: p.Name, Stop: retry.StopBudget, RetryAfter: after, Err: err}
	}
	// The attempt pays, by the token of its own.
	return func(error) error { return nil }, nil
}

// GetInitialToken implements [aws.Retryer]: a success pays into the Budget.
func (r *Retryer) GetInitialToken() func(error) error {
	return func(err error) error {
		if budget := r.policy().Budget; err == nil && budget != nil {
			budget.Deposit(time.Now())
		}
		return nil
	}
}

// GetAttemptToken implements [aws.RetryerV2].
func (r *Retryer) GetAttemptToken(context.Context) (func(error) error, error) {
	return r.GetInitialToken(), nil
}

// policy returns the Policy with the SDK's knowledge.
func (r *Retryer) policy() *retry.Policy {
	p := retry.Policy{}
	if r.Policy != nil {
		p = *r.Policy
	}
	p.Classifier = retry.Chain(p.Classifier, classify)
	return &p
}

// GaveUp is a Classifier for a policy around calls of a client: an error after which the
// client has used up its attempts is Final, category "gave_up". It abstains on other
// errors.
func GaveUp(err error) retry.Verdict {
	var exhausted *awsretry.MaxAttemptsError
	if errors.As(err, &exhausted) {
		return retry.Verdict{Class: retry.Final, Category: "gave_up"}
	}
	return retry.Verdict{}
}
