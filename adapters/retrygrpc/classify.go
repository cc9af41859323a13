package retrygrpc

import (
	"slices"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed-5ff3c98e/retry"
)

// categories are the labels of the codes. Codes that gRPC does not know have
// categoryOther, so that a server cannot make up labels.
var categories = [...]string{
	codes.OK:                 "grpc_ok",
	codes.Canceled:           "grpc_cancelled",
	codes.Unknown:            "grpc_unknown",
	codes.InvalidArgument:    "grpc_invalid_argument",
	codes.DeadlineExceeded:   "grpc_deadline_exceeded",
	codes.NotFound:           "grpc_not_found",
	codes.AlreadyExists:      "grpc_already_exists",
	codes.PermissionDenied:   "grpc_permission_denied",
	codes.ResourceExhausted:  "grpc_resource_exhausted",
	codes.FailedPrecondition: "grpc_failed_precondition",
	codes.Aborted:            "grpc_aborted",
	codes.OutOfRange:         "grpc_out_of_range",
	codes.Unimplemented:      "grpc_unimplemented",
	codes.Internal:           "grpc_internal",
	codes.Unavailable:        "grpc_unavailable",
	codes.DataLoss:           "grpc_data_loss",
	codes.Unauthenticated:    "grpc_unauthenticated",
}

const categoryOther = "grpc_other"

func category(c codes.Code) string {
	if int64(c) < int64(len(categories)) {
		return categories[c]
	}
	return categoryOther
}

// classifyCall judges the failure of one call. It keeps NotApplied only if a status says
// so: an interceptor behind this one may have made a call of its own
// that failed, after that of the caller.
func classifyCall(err error) retry.Verdict {
	v := classifyTree(err)
	if v.NotApplied {
		s, ok := status.FromError(err)
		v.NotApplied = ok && judgeCall(s.Err()).NotApplied
	}
	return v
}

var classifyTree = retry.Extend(judgeCall)

// refusal reports whether a server may use a code to say that it has not begun with a call.
func refusal(c codes.Code) bool { return c == codes.Unavailable || c == codes.ResourceExhausted }

// Classify judges the failure of an operation that consists of gRPC calls, for a policy
// around all of them. It judges as an [Interceptor] does, except that ABORTED is
// Retryable and without effect: a transaction or a read-modify-write that was aborted is
// to be repeated from its beginning. Errors that are not a status are judged by
// [retry.Classify].
//
// Its NotApplied is about the call or transaction that failed, and not about the whole
// operation. A policy with NonIdempotent trusts its Classifier, so such a policy may have
// Classify only if nothing before the failure had an effect.
func Classify(err error) retry.Verdict { return classifyOperation(err) }

var classifyOperation = retry.Extend(judgeOperation)

// On returns a Classifier that gives class c to the statuses with one of these codes, with
// the hint of the server, if there is one. It abstains on the rest:
//
//	retry.Policy{Classifier: retrygrpc.On(retry.Retryable, codes.Internal)}
func On(c retry.Class, in ...codes.Code) retry.Classifier {
	return func(err error) retry.Verdict {
		s, ok := status.FromError(err)
		if !ok || err == nil || !slices.Contains(in, s.Code()) {
			return retry.Verdict{}
		}
		after, _ := retryInfo(s)
		return retry.Verdict{Class: c, After: after, Category: category(s.Code())}
	}
}

// judgeOperation is judgeCall for what consists of calls.
func judgeOperation(err error) retry.Verdict {
	v := judgeCall(err)
	if v.Category == categories[codes.Aborted] {
		v.Class, v.NotApplied = retry.Retryable, true
	}
	return v
}

// judgeCall judges one error of a tree: as retry.Classify does, but what that leaves Unknown, and
// a transaction that has to be repeated from its beginning, is Final for a single call.
func judgeCall(err error) retry.Verdict {
	e, ok := err.(interface{ GRPCStatus() *status.Status })
	if !ok {
		return retry.Verdict{}
	}
	s := e.GRPCStatus()
	v := retry.Classify(s.Err())
	switch {
	case s.Code() == codes.Internal && reset(s.Message()):
		v.Class = retry.Retryable
	case s.Code() == codes.Aborted, v.Class == retry.Unknown:
		v.Class = retry.Final
	}
	if v.Category == "" {
		v.Category = category(s.Code())
	}
	return v
}

// resets are the texts of grpc-go for streams that a broken connection or a proxy has
// ended. grpc-go has no type for them. A server may send the same text: no more is
// concluded from it than that an idempotent call may be repeated.
var resets = []string{
	"stream terminated by RST_STREAM with error code: ",
	"server closed the stream without sending trailers",
}

func reset(message string) bool {
	return slices.ContainsFunc(resets, func(text string) bool { return strings.Contains(message, text) })
}

// maxDetails bounds how many details of a status are looked at: a server can send millions.
const maxDetails = 100

// retryInfo returns the hint in the first details of a status. A duration that is not valid
// is none.
func retryInfo(s *status.Status) (after time.Duration, ok bool) {
	details := s.Proto().GetDetails()
	for _, detail := range details[:min(len(details), maxDetails)] {
		var info errdetails.RetryInfo
		if !detail.MessageIs(&info) || detail.UnmarshalTo(&info) != nil {
			continue
		}
		if d := info.GetRetryDelay(); d.CheckValid() == nil {
			after, ok = max(after, d.AsDuration()), true
		}
	}
	return after, ok
}

// Error is the error of a call that was given up: a [*retry.Error] that is a status too,
// as all errors of gRPC calls are. [errors.As] finds the *retry.Error in it.
type Error struct{ err *retry.Error }

// Error returns the text of the *retry.Error.
func (e *Error) Error() string { return e.err.Error() }

// Unwrap returns the *retry.Error.
func (e *Error) Unwrap() error { return e.err }

// GRPCStatus returns the status: CANCELLED or DEADLINE_EXCEEDED if the caller's context
// or the policy's Timeout has ended the call, and otherwise that of Err,
// with its details. The message is the text of the Error.
func (e *Error) GRPCStatus() *status.Status {
	s := &spb.Status{Code: int32(codes.Unknown)}
	if last, ok := status.FromError(e.err.Err); ok && e.err.Err != nil {
		s = last.Proto() // a copy
	}
	switch {
	case e.err.Stop == retry.StopCanceled:
		s.Code = int32(codes.Canceled)
	case e.err.Stop == retry.StopDeadline && e.err.Cause != nil, e.err.Stop == retry.StopTimeout:
		s.Code = int32(codes.DeadlineExceeded)
	}
	s.Message = e.Error()
	return status.FromProto(s)
}

// ended returns what a call returns that has ended with err.
func ended(err error) error {
	if e, ok := err.(*retry.Error); ok { //nolint:errorlint // the error of the call, not of an inner policy
		return &Error{e}
	}
	return err
}
