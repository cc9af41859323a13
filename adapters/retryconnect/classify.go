package retryconnect

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

// classifyCall judges the failure of one call. It keeps NotApplied only if a server says
// so; connections knows if nothing was sent.
func classifyCall(err error) retry.Verdict {
	v := classifyTree(err)
	if v.NotApplied {
		var e *connect.Error
		v.NotApplied = errors.As(err, &e) && judgeCall(e).NotApplied
	}
	return v
}

var classifyTree = retry.Extend(judgeCall)

// Classify judges the failure of an operation that consists of calls, for a policy around
// all of them. It judges as an [Interceptor] does, except that aborted is Retryable and
// without effect: a transaction that was aborted is to be repeated from its beginning.
// Errors of other kinds are judged by [retry.Classify].
//
// Its NotApplied is about the call or transaction that failed, and not about the whole
// operation. A policy with NonIdempotent trusts its Classifier, so such a policy may have
// Classify only if nothing before the failure had an effect.
func Classify(err error) retry.Verdict { return classifyOperation(err) }

var classifyOperation = retry.Extend(func(err error) retry.Verdict {
	v := judgeCall(err)
	if v.Category == category(connect.CodeAborted) {
		v.Class, v.NotApplied = retry.Retryable, true
	}
	return v
})

// judgeCall judges one error of a tree.
func judgeCall(err error) retry.Verdict {
	e, ok := err.(*connect.Error) //nolint:errorlint // asked about every error of the tree
	if !ok {
		return retry.Verdict{}
	}
	switch e.Code() {
	case connect.CodeUnavailable, connect.CodeResourceExhausted, connect.CodePermissionDenied, connect.CodeDeadlineExceeded:
		return heard(e)
	default:
	}
	v := retry.Verdict{Class: retry.Final, Category: category(e.Code())}
	v.After, _ = hint(e)
	if lost(e) {
		v.Class = retry.Retryable
	}
	return v
}

// heard is what retry.Classify says about an error, with what it cannot know: the time now, and
// whether a server of connect or gRPC has said it. A Retry-After with the code unavailable may be
// of a proxy that has lost the answer, because connect gives that code to 502 and 504 too.
func heard(e *connect.Error) retry.Verdict {
	v := retry.Classify(e)
	if strings.HasPrefix(v.Category, "grpc_") {
		v.Category = category(e.Code())
	}
	if v.Class == retry.Final {
		return v
	}
	_, detailed := retryInfo(e)
	after, hinted := hint(e)
	v.After = max(v.After, after)
	if hinted && e.Code() != connect.CodeDeadlineExceeded {
		v.Class, v.NotApplied = retry.RateLimited, true
	}
	v.NotApplied = v.NotApplied && connect.IsWireError(e) && (detailed || e.Code() != connect.CodeUnavailable)
	return v
}

// lost reports whether an error of a code that is Final stands for a connection that was
// lost: connect calls a reset canceled, and an answer that breaks off unknown or internal.
func lost(e *connect.Error) bool {
	switch e.Code() {
	case connect.CodeCanceled, connect.CodeUnknown, connect.CodeInternal:
		return !connect.IsWireError(e) &&
			(errors.Is(e, syscall.ECONNRESET) || errors.Is(e, syscall.EPIPE) || errors.Is(e, io.ErrUnexpectedEOF))
	default:
		return false
	}
}

// category returns the label of a code. Codes that connect does not know share one.
func category(c connect.Code) string {
	if c < connect.CodeCanceled || c > connect.CodeUnauthenticated {
		return "connect_other"
	}
	return "connect_" + c.String()
}

// hint returns when the server wants the client back: what is said in the details, or in
// the headers.
func hint(e *connect.Error) (after time.Duration, ok bool) {
	if after, ok = retryInfo(e); ok {
		return after, ok
	}
	return retryhttp.ParseHint(http.StatusServiceUnavailable, e.Meta(), time.Now())
}

// maxDetails bounds how many details of an error are looked at: a server can send millions.
const maxDetails = 100

// retryInfoType is what details with a hint are called.
var retryInfoType = string((&errdetails.RetryInfo{}).ProtoReflect().Descriptor().FullName())

// retryInfo returns the hint in the first details.
func retryInfo(e *connect.Error) (after time.Duration, ok bool) {
	details := e.Details()
	for _, detail := range details[:min(len(details), maxDetails)] {
		if detail.Type() != retryInfoType {
			continue
		}
		message, err := detail.Value()
		info, is := message.(*errdetails.RetryInfo)
		if err != nil || !is {
			continue
		}
		if d := info.GetRetryDelay(); d.CheckValid() == nil {
			after, ok = max(after, d.AsDuration()), true
		}
	}
	return after, ok
}

// pushbackKey is the trailer with which a server decides about retries.
//
// https://github.com/grpc/proposal/blob/master/A6-client-retries.md#pushback
const pushbackKey = "Grpc-Retry-Pushback-Ms"

// pushedBack is the verdict v about err with what the server says about retries.
func pushedBack(v retry.Verdict, err error) retry.Verdict {
	var e *connect.Error
	if !errors.As(err, &e) {
		return v
	}
	pushback := e.Meta().Values(pushbackKey)
	if len(pushback) == 0 {
		return v
	}
	ms, parseErr := strconv.ParseInt(pushback[0], 10, 32)
	if parseErr != nil || ms < 0 || len(pushback) > 1 {
		v.Class = retry.Final
		return v
	}
	if v.Class == retry.Final {
		return v // a wait is no reason to repeat what cannot succeed
	}
	v.Class = retry.RateLimited
	v.NotApplied = v.NotApplied || connect.IsWireError(e) && (e.Code() == connect.CodeResourceExhausted || e.Code() == connect.CodeUnavailable)
	if wait := time.Duration(ms) * time.Millisecond; wait >= v.After {
		v.After, v.Exact = wait, true
	}
	return v
}

// connections counts those that an attempt has asked for and got. That it got none is the
// proof that it was not sent: an error alone may come from anything that a client does.
type connections struct{ asked, got atomic.Int32 }

// watched returns the context of an attempt, and what counts its connections, which is nil
// if nothing depends on it.
func watched(call *retry.Call) (context.Context, *connections) {
	if !call.NonIdempotent && !call.Policy.NonIdempotent {
		return call.Context(), nil
	}
	c := &connections{}
	return httptrace.WithClientTrace(call.Context(), &httptrace.ClientTrace{
		GetConn: func(string) { c.asked.Add(1) },
		GotConn: func(httptrace.GotConnInfo) { c.got.Add(1) },
	}), c
}

// unsent reports whether it is certain that nothing of an attempt was written. A client
// that does not tell when it asks for a connection proves nothing.
func (c *connections) unsent() bool { return c.asked.Load() > 0 && c.got.Load() == 0 }

// judge judges the failure of an attempt.
func judge(call *retry.Call, err error, c *connections) retry.Verdict {
	v := pushedBack(call.Verdict(err), err)
	switch {
	case c == nil:
	case c.unsent():
		v.NotApplied = true
	case c.got.Load() > 1 && v.Category == category(connect.CodeOf(err)):
		// A redirect, or other retries behind this one: a refusal speaks for the last
		// request only.
		v.NotApplied = false
	}
	return v
}
