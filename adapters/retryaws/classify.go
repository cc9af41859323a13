package retryaws

import (
	"errors"
	"net"
	"net/http"
	"time"

	awsretry "github.com/aws/aws-sdk-go-v2/aws/retry"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

var sdk = awsretry.IsErrorRetryables(awsretry.DefaultRetryables)

// classify judges the error of an attempt of the SDK. It always has an opinion.
func classify(err error) retry.Verdict {
	v := retry.Classify(err)
	if v.Class == retry.Unknown {
		v.Class = retry.Final
		if sdk.IsErrorRetryable(err).Bool() {
			v.Class = retry.Retryable
		}
	}
	code := codeOf(err)
	_, throttled := awsretry.DefaultThrottleErrorCodes[code]
	resp := responseOf(err) //nolint:bodyclose // the SDK has closed it
	switch {
	case throttled:
		// The first request of a transaction in progress has not been refused.
		v.Class, v.NotApplied, v.Category = retry.RateLimited, code != "TransactionInProgressException", "aws_"+code
	case v.Class == retry.Final:
		return v
	case skewed(err):
		v.NotApplied = true // the server refused the signature
	case resp == nil:
		v.NotApplied = v.NotApplied && unsent(err)
	}
	if resp == nil {
		return v
	}
	answer := *resp
	if throttled {
		answer.StatusCode = http.StatusTooManyRequests // which DynamoDB says with a 400
	}
	said := retryhttp.ClassifyResponse(&answer, time.Now())
	v.After = said.After
	if !throttled {
		v.NotApplied = v.NotApplied || said.NotApplied
	}
	return v
}

func codeOf(err error) string {
	var e interface{ ErrorCode() string }
	if errors.As(err, &e) {
		return e.ErrorCode()
	}
	return ""
}

// responseOf returns the response that an error is about, or nil.
func responseOf(err error) *http.Response {
	var e *smithyhttp.ResponseError
	if errors.As(err, &e) && e.Response != nil {
		return e.Response.Response
	}
	return nil
}

// skewed reports whether the SDK says that it signed the request by a wrong clock. It has
// corrected the clock for the next attempt.
func skewed(err error) bool {
	var e interface{ RetryableError() bool }
	if !errors.As(err, &e) || !e.RetryableError() {
		return false
	}
	switch codeOf(err) {
	case "InvalidSignatureException", "SignatureDoesNotMatch", "AuthFailure", "RequestTimeTooSkewed", "AccessDeniedException":
		return true
	}
	return false
}

// unsent reports whether an attempt without an answer failed at its first step, the lookup
// of the host or the dial.
func unsent(err error) bool {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Op == "dial"
	}
	var lookup *net.DNSError
	return errors.As(err, &lookup)
}
