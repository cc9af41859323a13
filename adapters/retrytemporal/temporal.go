package retrytemporal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/engine"
	"github.com/seed-5ff3c98e/retry/retryjob"
)

// Retries makes a Temporal server retry activities as a policy says. It is safe for
// concurrent use, and must not be changed after Configure, which may set up several workers.
type Retries struct {
	// Policy decides. nil means the zero Policy.
	Policy *retry.Policy

	// PolicyFor, if not nil, returns the policy for a kind of jobs, which is the type of the
	// activity: see [retryjob.PolicyFor]. The method Get of a retrypolicies.Policies is one.
	// An activity of a kind without a policy comes again after a second.
	PolicyFor func(kind string) (*retry.Policy, error)
}

// Configure puts an interceptor before the others. The error says what is wrong.
func (r *Retries) Configure(options *worker.Options) error {
	switch err := r.Policy.Validate(); {
	case options == nil:
		return errors.New("retrytemporal: options is nil")
	case err != nil:
		return fmt.Errorf("retrytemporal: %w", err)
	}
	options.Interceptors = append([]interceptor.WorkerInterceptor{&adapter{Retries: r}}, options.Interceptors...)
	return nil
}

// ownPrefix begins the names of the SDK's own activities, which make and end sessions: they
// have a RetryPolicy that they rely on.
const ownPrefix = "internalSession"

type adapter struct {
	interceptor.WorkerInterceptorBase
	*Retries
}

// InterceptActivity implements [interceptor.WorkerInterceptor], for each attempt.
func (a *adapter) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	t := &attempt{Retries: a.Retries}
	t.Next = next
	return t
}

// attempt is an attempt of an activity.
type attempt struct {
	interceptor.ActivityInboundInterceptorBase
	*Retries
	beats heartbeats
}

// Init implements [interceptor.ActivityInboundInterceptor].
func (t *attempt) Init(outbound interceptor.ActivityOutboundInterceptor) error {
	t.beats.Next = outbound
	return t.Next.Init(&t.beats)
}

// ExecuteActivity implements [interceptor.ActivityInboundInterceptor].
func (t *attempt) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (result any, err error) {
	info := activity.GetInfo(ctx)
	switch p := cmp.Or(info.RetryPolicy, &temporal.RetryPolicy{}); {
	case info.IsLocalActivity, strings.HasPrefix(info.ActivityType.Name, ownPrefix):
		return t.Next.ExecuteActivity(ctx, in)
	case len(p.NonRetryableErrorTypes) > 0:
		return nil, refuse("NonRetryableErrorTypes is %q: must be empty, because the policy decides", p.NonRetryableErrorTypes)
	case p.MaximumAttempts > 0: // the server counts more than the policy, as interruptions by a shutdown
		return nil, refuse("MaximumAttempts is %d: must be 0, because the policy has the limit", p.MaximumAttempts)
	}
	state, lost := t.beats.load(ctx, &info)
	job := retryjob.Stored{Policy: t.Policy, PolicyFor: t.PolicyFor, Kind: info.ActivityType.Name, Protocol: classify, State: state, Lost: lost}
	settled, returned := false, false // settled by others than the policy
	outcome := job.Attempt(ctx, func(attempt context.Context) error {
		defer func() {
			late := errors.Is(ctx.Err(), context.DeadlineExceeded) && (err != nil || !returned)
			if late || errors.Is(err, activity.ErrResultPending) {
				settled = true // by the server's timeout, or by who completes the activity
				job.Abort()
			}
		}()
		result, err = t.Next.ExecuteActivity(attempt, in)
		if returned = true; err != nil && temporal.IsCanceledError(context.Cause(ctx)) {
			settled = true
			return retry.MarkFinal(err)
		}
		return err
	})
	engine.Tell(ctx, &job) // the server stores it afterwards
	d := job.Decision
	switch {
	case outcome == retryjob.Done || settled:
		return result, cmp.Or(err, job.Err)
	case outcome == retryjob.Ended:
		return nil, failure(d, d.Err)
	case outcome == retryjob.Refused:
		d.Counted = true // which is to be seen
	}
	t.beats.store(ctx, job.State, job.Lost)
	return nil, failure(d, job.Err)
}

// refuse ends an activity that the server would end before the policy does.
func refuse(format string, value any) error {
	return temporal.NewNonRetryableApplicationError(fmt.Sprintf("retrytemporal: RetryPolicy."+format, value), "retrytemporal", nil)
}

// failure returns what tells the server what was decided about err. It has no Cause, because
// the text of an error has those of its causes.
func failure(d retry.Decision, err error) error {
	options := temporal.ApplicationErrorOptions{NonRetryable: !d.Retry}
	kind := cmp.Or(d.Verdict.Category, d.Verdict.Class.String())
	if own, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		kind, options.Category, options.Details = own.Type(), own.Category(), details(own)
	}
	if d.Retry { // no delay would be the server's own
		options.NextRetryDelay = max(engine.Ceil(d.Delay, time.Millisecond), time.Millisecond)
		if !d.Counted {
			options.Category = temporal.ApplicationErrorCategoryBenign
		}
	}
	return temporal.NewApplicationErrorWithOptions(engine.Text(err.Error(), engine.MaxError), kind, options)
}

// details returns the details of an error of the activity's, of which the SDK says only
// when more are asked for than there are.
func details(e *temporal.ApplicationError) (all []any) {
	defer func() { _ = recover() }() // the SDK panics at a nil
	for {
		more, into := make([]any, len(all)+1), make([]any, len(all)+1)
		for i := range more {
			into[i] = &more[i]
		}
		if e.Details(into...) != nil {
			return all
		}
		all = more
	}
}

// classify is the Protocol of an attempt. It has the NotApplied that Execute would count: an
// activity has steps, and an error that it returns is about one of them.
func classify(err error) retry.Verdict {
	v := ofSDK(err)
	v.NotApplied = v.NotApplied && new(retry.Policy).Classify(err).NotApplied
	return v
}

// ofSDK knows what activities say with errors of the SDK.
var ofSDK = retry.Extend(func(err error) retry.Verdict {
	switch e, ok := err.(*temporal.ApplicationError); { //nolint:errorlint // is called for each error of the tree
	case ok && e.NonRetryable():
		return retry.Verdict{Class: retry.Final}
	case ok && e.NextRetryDelay() > 0:
		return retry.Verdict{Class: retry.Retryable, After: e.NextRetryDelay()}
	}
	return retry.Verdict{}
})
