package retrygrpc

import (
	"context"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/calls"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

// DefaultPolicy returns the policy of an [Interceptor] without one, for a caller to
// change: [retryhttp.DefaultPolicy].
func DefaultPolicy() *retry.Policy { return retryhttp.DefaultPolicy() }

var defaultPolicy = DefaultPolicy()

// Interceptor retries the calls of a client. The zero Interceptor is ready to use. It is
// safe for concurrent use, by any number of connections, and must be neither changed nor
// copied then.
//
// The error of a call that was given up is an [*Error], unless it is Final. It
// has the code and the details of the last status, or CANCELLED or DEADLINE_EXCEEDED if
// the caller's context has ended.
//
// The metadata that the caller asked for with grpc.Header and grpc.Trailer are those of
// the last attempt.
type Interceptor struct {
	// Policy decides. nil means [DefaultPolicy]; a Policy without a Backoff has the waits
	// of DefaultPolicy. If an attempt ends by AttemptTimeout and has only waited for a
	// connection, because the call waits until one is ready, the attempt does not count
	// towards MaxAttempts; the deadline of the call, MaxElapsed and Timeout bound it.
	Policy *retry.Policy

	// Idempotent, if not nil, says which methods may be repeated besides those whose
	// proto definition says so. The name has the form "/package.Service/Method". It must
	// be safe for concurrent use. See [Methods].
	Idempotent func(method string) bool

	// Budget returns the budget for the retries of calls to a target, which is the target
	// that was given to grpc.NewClient. nil means a budget with default settings for each
	// target, however the case, the default port or the scheme dns are written. With more
	// than 512 names of targets, all budgets begin again, with their Reserve and no credit,
	// whenever 512 are known and another one comes. [NoBudget] means none. A Budget in the
	// Policy counts instead, for all targets together.
	Budget func(target string) retry.Throttle

	// QuotaFor, if not nil, returns the Quota of a call to a target, if the Policy has none: that of
	// a tenant, which is in the context. The method Of of a retryquota.Keys has one for each key.
	// nil means none. It must be safe for concurrent use.
	QuotaFor func(ctx context.Context, target string) retry.Pacer

	targets targets
}

// DialOptions returns the options that make a connection use the Interceptor. They put it
// behind the interceptors that the options before have chained, and switch off the
// retries that grpc makes itself when a service config asks for them.
func (i *Interceptor) DialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithDisableRetry(),
		grpc.WithChainUnaryInterceptor(i.unary),
		grpc.WithChainStreamInterceptor(i.openStream),
	}
}

// Unary is a [grpc.UnaryClientInterceptor], for a caller that does not want all of
// [Interceptor.DialOptions]. It makes one attempt if the service config has a retryPolicy
// for the method, because it cannot tell whether that is switched off.
func (i *Interceptor) Unary(
	ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
	invoker grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	return i.invoke(ctx, target{cc, method, true}, req, reply, invoker, opts)
}

func (i *Interceptor) unary(
	ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
	invoker grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	return i.invoke(ctx, target{cc, method, false}, req, reply, invoker, opts)
}

// Stream is a [grpc.StreamClientInterceptor]. See [Interceptor.Unary].
func (i *Interceptor) Stream(
	ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string,
	streamer grpc.Streamer, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	return i.stream(ctx, target{cc, method, true}, desc, streamer, opts)
}

func (i *Interceptor) openStream(
	ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string,
	streamer grpc.Streamer, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	return i.stream(ctx, target{cc, method, false}, desc, streamer, opts)
}

// invoke makes a unary call.
func (i *Interceptor) invoke(
	ctx context.Context, t target, req, reply any, invoker grpc.UnaryInvoker, opts []grpc.CallOption,
) error {
	call := i.call(ctx, t)
	a := answers.Get().(*answer) //nolint:forcetypeassert // no others are put there
	a.prepare(t, opts)
	defer call.Abort()
	for call.Next(ctx) {
		a.clear()
		err := invoker(outgoing(&call), t.method, req, reply, t.cc, a.opts...)
		if err == nil {
			if call.Attempt() == 1 {
				a.reuse()
			}
			call.End(nil)
			return nil
		}
		call.EndVerdict(err, a.judge(&call, err, a.told()))
	}
	return ended(call.Err())
}

// call returns what decides about the retries of one call.
func (i *Interceptor) call(ctx context.Context, t target) retry.Call {
	p := calls.Policy(i.Policy, defaultPolicy)
	if i.QuotaFor != nil && p.Quota == nil {
		p = calls.Paced(p, i.QuotaFor(ctx, targetOf(t.cc)))
	}
	return retry.Call{
		Policy:        p,
		Protocol:      classifyCall,
		Unknown:       retry.Final,
		NonIdempotent: !i.idempotent(t.method),
		Budget:        i.budget(p, t.cc),
	}
}

// budget returns the budget for the retries of a call under p.
func (i *Interceptor) budget(p *retry.Policy, cc *grpc.ClientConn) retry.Throttle {
	switch {
	case p.Budget != nil:
		return p.Budget
	case i.Budget != nil:
		return i.Budget(targetOf(cc))
	default:
		return i.targets.budget(cc, calls.Reserve(p))
	}
}

// NoBudget is an [Interceptor]'s Budget function for retries without a budget.
func NoBudget(string) retry.Throttle { return nil }

// previousAttempts is the key of the metadata that tell a server that a call is a retry.
//
// https://github.com/grpc/proposal/blob/master/A6-client-retries.md#exposed-retry-metadata
const previousAttempts = "grpc-previous-rpc-attempts"

// outgoing returns the context of an attempt with its metadata.
func outgoing(call *retry.Call) context.Context {
	n := call.Attempt()
	if n <= 1 {
		return call.Context()
	}
	return metadata.AppendToOutgoingContext(call.Context(), previousAttempts, strconv.Itoa(n-1))
}
