package retrygrpc

import (
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/seed-5ff3c98e/retry"
)

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
	if e, ok := err.(*retry.Error); ok { //nolint:errorlint // that of the call, not one of an inner policy
		return &Error{e}
	}
	return err
}
