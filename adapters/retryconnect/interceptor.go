package retryconnect

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"sync"

	"connectrpc.com/connect"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/calls"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

// DefaultPolicy returns the policy of an [Interceptor] without one, for a caller to
// change: [retryhttp.DefaultPolicy].
func DefaultPolicy() *retry.Policy { return retryhttp.DefaultPolicy() }

var defaultPolicy = DefaultPolicy()

// Interceptor is a [connect.Interceptor] that retries the calls of clients. The zero
// Interceptor is ready to use. It is safe for concurrent use, and must be neither changed
// nor copied then. Give each server one of its own, because it has one budget.
//
// The error of a call that was given up is an [*retry.Error] around the last
// [*connect.Error], unless it is Final. If the caller's context has ended, it is a
// *connect.Error with code canceled or deadline_exceeded around the *retry.Error.
type Interceptor struct {
	// Policy decides. nil means [DefaultPolicy]; a Policy without a Backoff has the waits
	// of DefaultPolicy. The Interceptor has a budget with default settings except for the
	// Reserve, the retries of one call under Policy, but at least 3 and at most 10; a Budget
	// in the Policy takes its place.
	Policy *retry.Policy

	// Idempotent, if not nil, says which procedures may be repeated besides those whose
	// definition says so. The name has the form "/package.Service/Method". It must be safe
	// for concurrent use.
	Idempotent func(procedure string) bool

	// QuotaFor, if not nil, returns the Quota of a call, if the Policy has none: that of a tenant,
	// which is in the context. The method Of of a retryquota.Keys has one for each key. nil means
	// none. It must be safe for concurrent use.
	QuotaFor func(ctx context.Context) retry.Pacer

	budget retry.Budget
	once   sync.Once // for the Reserve of the budget
}

var _ connect.Interceptor = (*Interceptor)(nil)

// WrapUnary implements [connect.Interceptor].
func (i *Interceptor) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		if !req.Spec().IsClient {
			return next(ctx, req)
		}
		return i.unary(ctx, req, next)
	}
}

// WrapStreamingClient implements [connect.Interceptor].
func (i *Interceptor) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return func(ctx context.Context, spec connect.Spec) connect.StreamingClientConn {
		if spec.StreamType != connect.StreamTypeServer {
			return next(ctx, spec) // a server may have acted on some of the requests
		}
		return i.stream(ctx, spec, next)
	}
}

// WrapStreamingHandler implements [connect.Interceptor]. It returns next.
func (i *Interceptor) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return next
}

// previousAttempts is the header that tells a server that a call is a retry.
//
// https://github.com/grpc/proposal/blob/master/A6-client-retries.md#exposed-retry-metadata
const previousAttempts = "Grpc-Previous-Rpc-Attempts"

// call returns what decides about the retries of one call.
func (i *Interceptor) call(ctx context.Context, spec connect.Spec) retry.Call {
	p := calls.Policy(i.Policy, defaultPolicy)
	if i.QuotaFor != nil && p.Quota == nil {
		p = calls.Paced(p, i.QuotaFor(ctx))
	}
	i.once.Do(func() { i.budget.Reserve = calls.Reserve(p) })
	return retry.Call{
		Policy:        p,
		Protocol:      classifyCall,
		Unknown:       retry.Final,
		NonIdempotent: !i.idempotent(spec),
		Budget:        &i.budget,
	}
}

func (i *Interceptor) unary(ctx context.Context, req connect.AnyRequest, next connect.UnaryFunc) (connect.AnyResponse, error) {
	call := i.call(ctx, req.Spec())
	defer call.Abort()
	for call.Next(ctx) {
		attempt, connections := watched(&call)
		resp, err := next(attempt, retryOf(req, call.Attempt()))
		if err == nil {
			call.End(nil)
			return resp, nil
		}
		call.EndVerdict(err, judge(&call, err, connections))
	}
	return nil, ended(call.Err())
}

// retryOf returns the request of an attempt. A retry has a header of its own, because
// HTTP/2 may read that of an attempt before when it is over.
func retryOf(req connect.AnyRequest, attempt int) connect.AnyRequest {
	if attempt <= 1 {
		return req
	}
	header := req.Header().Clone()
	header.Set(previousAttempts, strconv.Itoa(attempt-1))
	return &request{req, header}
}

type request struct {
	connect.AnyRequest

	header http.Header
}

// Header returns the header of the attempt.
func (r *request) Header() http.Header { return r.header }

func (i *Interceptor) idempotent(spec connect.Spec) bool {
	return spec.IdempotencyLevel != connect.IdempotencyUnknown || i.Idempotent != nil && i.Idempotent(spec.Procedure)
}

// ended gives the error of a call whose context has ended the code for that.
func ended(err error) error {
	e, ok := err.(*retry.Error) //nolint:errorlint // that of the call, not one of an inner policy
	var last *connect.Error
	switch {
	case !ok:
		return err
	case e.Stop == retry.StopCanceled:
		return connect.NewError(connect.CodeCanceled, err)
	case e.Stop == retry.StopDeadline && e.Cause != nil, e.Stop == retry.StopTimeout:
		return connect.NewError(connect.CodeDeadlineExceeded, err)
	case !errors.As(err, &last):
		return connect.NewError(connect.CodeUnknown, err)
	default:
		return err
	}
}
