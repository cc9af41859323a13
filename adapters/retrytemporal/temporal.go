package retrytemporal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/temporal"

	"github.com/seed-5ff3c98e/retry"
)

// handover is how long an activity waits that a shutdown sends back. At once, it might
// come to the worker that is going away.
const handover = time.Second

// New returns an interceptor for a worker that has the server retry activities as p says;
// nil means the zero Policy. It is safe for concurrent use, and several workers may have
// it. The error says what is wrong with p.
func New(p *retry.Policy) (interceptor.WorkerInterceptor, error) {
	if p == nil {
		p = &retry.Policy{}
	}
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("retrytemporal: %w", err)
	}
	return &adapter{policy: p}, nil
}

type adapter struct {
	interceptor.WorkerInterceptorBase

	policy *retry.Policy
}

// InterceptActivity implements [interceptor.WorkerInterceptor]. It is called for each
// attempt.
func (a *adapter) InterceptActivity(
	_ context.Context, next interceptor.ActivityInboundInterceptor,
) interceptor.ActivityInboundInterceptor {
	t := &attempt{policy: a.policy}
	t.Next = next
	return t
}

// attempt is an attempt of an activity.
type attempt struct {
	interceptor.ActivityInboundInterceptorBase

	policy *retry.Policy
	beats  *heartbeats
}

// Init implements [interceptor.ActivityInboundInterceptor].
func (t *attempt) Init(outbound interceptor.ActivityOutboundInterceptor) error {
	t.beats = &heartbeats{}
	t.beats.Next = outbound
	return t.Next.Init(t.beats)
}

// ExecuteActivity implements [interceptor.ActivityInboundInterceptor].
func (t *attempt) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (result any, err error) {
	info := activity.GetInfo(ctx)
	if info.IsLocalActivity {
		return t.Next.ExecuteActivity(ctx, in)
	}
	defer func() {
		if r := recover(); r != nil { // of a function of the policy
			result, err = nil, failure(retry.Decision{}, panicked(r))
		}
	}()
	if err := t.conflict(info.RetryPolicy); err != nil {
		return nil, temporal.NewNonRetryableApplicationError(err.Error(), "retrytemporal", nil)
	}
	state, lost := t.beats.load(ctx, &info)
	call := retry.Call{Policy: t.policy, Classify: classify, State: state, Stored: true}
	if over, exhausted := call.Lost(ctx, lost); exhausted {
		return nil, failure(over, over.Err)
	}
	if !call.Begin(ctx) {
		return nil, t.handOver(ctx, &call, cmp.Or(call.Err(), context.Cause(ctx)))
	}
	result, err = t.run(call.Context(), in) //nolint:contextcheck // ctx, or a child of it
	return t.after(ctx, &call, result, err)
}

// conflict returns an error if the server would end the activity before the policy does.
func (t *attempt) conflict(p *temporal.RetryPolicy) error {
	switch {
	case p == nil:
		return nil
	case len(p.NonRetryableErrorTypes) > 0:
		return fmt.Errorf("retrytemporal: RetryPolicy.NonRetryableErrorTypes is %q: must be empty, because the policy decides",
			p.NonRetryableErrorTypes)
	case p.MaximumAttempts > 0:
		// The server counts what the policy does not, as interruptions by a shutdown.
		return fmt.Errorf("retrytemporal: RetryPolicy.MaximumAttempts is %d: must be 0, because the policy has the limit",
			p.MaximumAttempts)
	}
	return nil
}

// run runs the activity. A panic is an error that ends it.
func (t *attempt) run(ctx context.Context, in *interceptor.ExecuteActivityInput) (result any, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = retry.MarkFinal(panicked(r))
		}
	}()
	return t.Next.ExecuteActivity(ctx, in)
}

// panicked returns the error of a panic.
func panicked(r any) error { return fmt.Errorf("panic: %v\n\n%s", r, debug.Stack()) }

// after decides what follows an attempt. ctx ends with the worker, by a timeout of the
// server's, or when the activity is canceled.
func (t *attempt) after(ctx context.Context, call *retry.Call, result any, err error) (any, error) {
	switch {
	case err == nil:
		call.End(nil)
		return result, nil
	case errors.Is(err, activity.ErrResultPending), errors.Is(ctx.Err(), context.DeadlineExceeded):
		call.Abort() // somebody else ends the activity, or the server's timeout has ended the attempt
		return result, err
	case temporal.IsCanceledError(context.Cause(ctx)):
		call.End(err)
		return result, err
	case call.Interrupted(err): // the worker stops, or the activity is paused
		return nil, t.handOver(ctx, call, err)
	}
	d := call.End(err)
	if d.Retry {
		t.beats.store(ctx, d.State)
		return nil, failure(d, err)
	}
	return nil, failure(d, d.Err)
}

// handOver has the activity run again. The attempt is not counted.
func (t *attempt) handOver(ctx context.Context, call *retry.Call, err error) error {
	t.beats.store(ctx, call.State)
	return failure(retry.Decision{Retry: true, Delay: handover}, err)
}

// failure returns what tells the server what was decided about err.
func failure(d retry.Decision, err error) error {
	options := temporal.ApplicationErrorOptions{Cause: err, NonRetryable: !d.Retry}
	kind := d.Verdict.Category
	if kind == "" {
		kind = d.Verdict.Class.String()
	}
	if own, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		kind, options.Category, options.Details = own.Type(), own.Category(), details(own)
	}
	if d.Retry { // no delay would be the server's own
		options.NextRetryDelay = max(d.DelayCeil(time.Millisecond), time.Millisecond)
		if !d.Counted {
			options.Category = temporal.ApplicationErrorCategoryBenign
		}
	}
	return temporal.NewApplicationErrorWithOptions(err.Error(), kind, options)
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

// classify knows what activities say with errors of the SDK.
var classify = retry.Extend(func(err error) retry.Verdict {
	if e, ok := err.(*temporal.ApplicationError); ok { //nolint:errorlint // is called for each error of the tree
		switch {
		case e.NonRetryable():
			return retry.Verdict{Class: retry.Final}
		case e.NextRetryDelay() > 0:
			return retry.Verdict{Class: retry.Retryable, After: e.NextRetryDelay()}
		}
	}
	return retry.Verdict{}
})
