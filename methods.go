package retry

import (
	"time"

	"github.com/seed-5ff3c98e/retry/internal/errtree"
)

// askMethods returns what an error says through methods that many libraries
// agree on. A method that panics is taken as silent. The most specific opinion
// counts, and a hint is added to it.
func askMethods(err error) opinion {
	after := hintOf(err)
	o := opinion{verdict: askClass(err)}
	if o.verdict.Class == Unknown {
		o.verdict = askCode(err, after > 0)
	}
	if o.verdict.Class == Unknown {
		o = askWeak(err)
	}
	if o.verdict.Class != Final && after > 0 {
		o.verdict.After = after
	}
	return o
}

// hintOf reads the wait that the error asks for.
func hintOf(err error) (after time.Duration) {
	switch e := err.(type) {
	case interface{ RetryAfter() time.Duration }:
		after, _ = errtree.Try(e.RetryAfter)
	case interface{ GetRetryAfter() time.Duration }: // go-github
		after, _ = errtree.Try(e.GetRetryAfter)
	case interface{ NextRetryDelay() time.Duration }: // Temporal
		after, _ = errtree.Try(e.NextRetryDelay)
	}
	return max(after, 0)
}

// askClass reads the methods that answer the question itself.
func askClass(err error) Verdict {
	switch e := err.(type) {
	case interface{ NonRetriable() }: // azcore: having the method is the answer
		return final("permanent")
	case interface{ NonRetryable() bool }: // Temporal
		if yes(e.NonRetryable) {
			return final("permanent")
		}
	case interface{ CanceledError() bool }: // smithy
		if yes(e.CanceledError) {
			return final("canceled")
		}
	}
	var answer, ok bool
	switch e := err.(type) {
	case interface{ Retryable() bool }:
		answer, ok = errtree.Try(e.Retryable)
	case interface{ IsRetryable() bool }:
		answer, ok = errtree.Try(e.IsRetryable)
	case interface{ RetryableError() bool }: // smithy
		answer, ok = errtree.Try(e.RetryableError)
	case interface{ IsRetriable() bool }: // confluent-kafka-go
		answer, ok = errtree.Try(e.IsRetriable)
	case interface{ ShouldRetry() bool }:
		answer, ok = errtree.Try(e.ShouldRetry)
	}
	switch {
	case !ok:
		return Verdict{}
	case answer:
		return again("transient")
	default:
		return final("permanent")
	}
}

// askCode reads the code that a protocol gave the error. hinted says that the
// error carries a hint as well.
func askCode(err error, hinted bool) (v Verdict) {
	if e, ok := err.(interface{ ErrorCode() string }); ok {
		code, _ := errtree.Try(e.ErrorCode)
		v = awsVerdict(code)
	}
	if v.Class != Unknown {
		return v
	}
	switch e := err.(type) {
	case interface{ SQLState() string }: // pgx, pq
		state, _ := errtree.Try(e.SQLState)
		return sqlStateVerdict(state)
	case interface{ SQLErrorNumber() int32 }: // go-mssqldb
		number, _ := errtree.Try(e.SQLErrorNumber)
		return sqlServerVerdict(number)
	case interface{ HasErrorLabel(label string) bool }: // MongoDB
		return mongoVerdict(func(label string) bool {
			return yes(func() bool { return e.HasErrorLabel(label) })
		})
	}
	var status int
	switch e := err.(type) {
	case interface{ HTTPStatusCode() int }: // smithy
		status, _ = errtree.Try(e.HTTPStatusCode)
	case interface{ HTTPCode() int }: // gax
		status, _ = errtree.Try(e.HTTPCode)
	case interface{ StatusCode() int }:
		status, _ = errtree.Try(e.StatusCode)
	}
	return statusVerdict(status, hinted)
}

// askWeak reads methods whose true is a mere hope and whose false says nothing.
func askWeak(err error) opinion {
	if e, ok := err.(interface{ SafeToRetry() bool }); ok && yes(e.SafeToRetry) { // pgconn
		return opinion{verdict: anew("unsent"), weak: true, unsent: true}
	}
	if e, ok := err.(interface{ Timeout() bool }); ok && yes(e.Timeout) {
		return opinion{verdict: again("timeout"), weak: true}
	}
	if e, ok := err.(interface{ Temporary() bool }); ok && yes(e.Temporary) {
		return opinion{verdict: again("temporary"), weak: true}
	}
	return opinion{}
}

func yes(method func() bool) bool {
	answer, ok := errtree.Try(method)
	return ok && answer
}
