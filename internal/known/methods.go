package known

import (
	"context"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/errtree"
)

// methods returns what the methods of an error say: whether to retry it, or else its HTTP
// status, and the wait that it asks for. Here and below, a method that panics, as on a
// typed nil pointer, gives no opinion, and the methods after it in the same function are
// not asked.
func methods(err error) (f Fact, status int, after time.Duration) {
	after = wish(err)
	if f = specific(err); f.Class == Unknown {
		f, status = Fact{}, statusOf(err)
	}
	return f, status, after
}

// wish returns the wait that the error asks for.
func wish(err error) (after time.Duration) {
	defer silence()
	if e, ok := err.(interface{ RetryAfter() time.Duration }); ok {
		after = max(e.RetryAfter(), 0)
	}
	if e, ok := err.(interface{ GetRetryAfter() time.Duration }); ok && after == 0 { // go-github
		after = max(e.GetRetryAfter(), 0)
	}
	if e, ok := err.(interface{ NextRetryDelay() time.Duration }); ok && after == 0 { // Temporal
		after = max(e.NextRetryDelay(), 0)
	}
	return after
}

// silence recovers from panics of foreign methods. Defer it.
func silence() { _ = recover() }

// specific classifies an error by the methods that say whether to retry it, and by
// codes, in the order of how much they say.
func specific(err error) Fact {
	if f := identity(err); f.Class != Unknown {
		return f
	}
	if f := answer(err); f.Class != Unknown {
		return f
	}
	return code(err)
}

// identity lets an error say that it is a sentinel, as [errors.Is] does.
func identity(err error) (f Fact) {
	defer silence()
	if e, ok := err.(interface{ Is(error) bool }); ok {
		for _, s := range sentinels {
			if e.Is(s.err) {
				return s.fact
			}
		}
	}
	return Fact{}
}

// answer reads the methods that say whether to retry. What their yes and their no mean is what
// the page of each says, and no more:
//
//	NonRetriable()        having it: do not retry (azcore, sdk/internal/errorinfo)
//	NonRetryable()        yes: do not retry; no: the server's policy decides (go.temporal.io/sdk/temporal)
//	CanceledError()       yes: the context has ended, in whichever way (aws-sdk-go-v2/aws); no: nothing
//	Retryable()           yes, no: whether to retry (a convention of many modules)
//	IsRetryable()         the same
//	ShouldRetry()         the same
//	RetryableError()      yes, no: whether to retry (aws-sdk-go-v2/aws/retry, RetryableError)
//	IsRetriable()         yes: retry; no: nothing, only transactional producers say yes (confluent-kafka-go)
//	Unavailable() and the like: having it (github.com/containerd/errdefs)
//
// Those of hopes, below them, say less.
func answer(err error) (f Fact) {
	defer silence()
	if _, ok := err.(interface{ NonRetriable() }); ok {
		return Permanent("permanent")
	}
	if e, ok := err.(interface{ NonRetryable() bool }); ok && e.NonRetryable() {
		return Permanent("permanent")
	}
	if e, ok := err.(interface{ CanceledError() bool }); ok && e.CanceledError() &&
		!errtree.Is(err, context.DeadlineExceeded) {
		return Permanent("canceled")
	}
	switch e := err.(type) {
	case interface{ Retryable() bool }:
		return yesOrNo(e.Retryable())
	case interface{ IsRetryable() bool }:
		return yesOrNo(e.IsRetryable())
	case interface{ RetryableError() bool }:
		return yesOrNo(e.RetryableError())
	case interface{ ShouldRetry() bool }:
		return yesOrNo(e.ShouldRetry())
	case interface{ IsRetriable() bool }:
		if e.IsRetriable() {
			return Transient("transient")
		}
		return Fact{}
	case interface{ Unavailable() }:
		return Transient("unavailable")
	case interface{ NotFound() }:
		return Permanent("not_found")
	case interface{ InvalidParameter() }:
		return Permanent("invalid")
	case interface{ Unauthorized() }, interface{ Forbidden() }:
		return Permanent("permission")
	default:
		return Fact{}
	}
}

// yesOrNo returns the fact of a method that says whether to retry. Its false
// counts too.
func yesOrNo(retryable bool) Fact {
	if retryable {
		return Transient("transient")
	}
	return Permanent("permanent")
}

// code reads a server's code from the error.
func code(err error) (f Fact) {
	defer silence()
	word := said(err)
	if f := AWS(word); f.Class != Unknown {
		return f
	}
	switch e := err.(type) {
	case interface{ SQLState() string }: // pgx, pq
		return Postgres(e.SQLState(), err)
	case interface{ Field(name byte) string }: // go-pg, pgdriver
		return Postgres(e.Field('C'), err)
	case interface{ SQLErrorNumber() int32 }: // go-mssqldb
		return SQLServer(e.SQLErrorNumber())
	case interface{ HasErrorLabel(label string) bool }: // MongoDB
		return Mongo(e.HasErrorLabel)
	default:
		return Fact{}
	}
}

// said returns the code that an error has a method for, or "".
func said(err error) string {
	defer silence()
	switch e := err.(type) {
	case interface{ Reason() string }: // gax
		return e.Reason()
	case interface{ ErrorCode() string }:
		return e.ErrorCode()
	case interface{ Code() string }: // aws-sdk-go, the first
		return e.Code()
	default:
		return ""
	}
}
