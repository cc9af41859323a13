package retryconnect

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/genproto/googleapis/rpc/errdetails"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

// classifyCall judges the failure of one call.
var classifyCall = retry.Extend(judgeCall)

// Classify judges the failure of an operation that consists of calls, for a policy around
// all of them. It judges as an [Interceptor] does, except that aborted is Retryable and
// without effect: a transaction that was aborted is to be repeated from its beginning.
// Errors of other kinds are judged by [retry.Classify].
func Classify(err error) retry.Verdict { return classifyOperation(err) }

var classifyOperation = retry.Extend(func(err error) retry.Verdict {
	v := judgeCall(err)
	if v.Category == category(connect.CodeAborted) {
		v.Class, v.NotApplied = retry.Retryable, true
	}
	return v
})

// judgeCall judges one error of a tree. That there was no connection is known from the
// error that a *connect.Error of this process wraps.
func judgeCall(err error) retry.Verdict {
	e, ok := err.(*connect.Error) //nolint:errorlint // asked about every error of the tree
	if !ok {
		return retry.Verdict{}
	}
	after, hinted := hint(e)
	v := retry.Verdict{Class: retry.Final, After: after, Category: category(e.Code())}
	switch e.Code() {
	case connect.CodeUnavailable:
		v.Class = retry.Retryable
		if hinted {
			v.Class, v.NotApplied = retry.RateLimited, true
		}
	case connect.CodeResourceExhausted:
		if hinted {
			v.Class, v.NotApplied = retry.RateLimited, true
		}
	case connect.CodeDeadlineExceeded:
		v.Class = retry.Retryable
	default: // Final
	}
	return v
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
	for _, detail := range e.Details() {
		message, err := detail.Value()
		info, is := message.(*errdetails.RetryInfo)
		if err != nil || !is {
			continue
		}
		if d := info.GetRetryDelay(); d.CheckValid() == nil {
			after, ok = max(after, d.AsDuration()), true
		}
	}
	if ok {
		return after, ok
	}
	return retryhttp.ParseHint(http.StatusServiceUnavailable, e.Meta(), time.Now())
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
	exhausted := e.Code() == connect.CodeResourceExhausted && v.Category == category(e.Code())
	if v.Class == retry.Final && !exhausted {
		return v // a wait is no reason to repeat what cannot succeed
	}
	v.Class = retry.RateLimited
	v.NotApplied = v.NotApplied || exhausted || e.Code() == connect.CodeUnavailable
	if wait := time.Duration(ms) * time.Millisecond; wait >= v.After {
		v.After, v.Exact = wait, true
	}
	return v
}
