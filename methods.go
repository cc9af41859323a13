package retry

import (
	"net"
	"net/url"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/errtree"
)

// askMethods hears what an error says through methods that many libraries
// agree on, the most specific first. A method that panics, as those of typed nil
// pointers do, says nothing, like those of its kind after it.
func (o *opinion) askMethods(err error) {
	o.hear(Verdict{After: hintOf(err)}, false)
	if v := askIs(err); v.Class != Unknown {
		o.hear(v, false)
		return
	}
	if v := askClass(err); v.Class != Unknown {
		o.hear(v, false)
		return
	}
	if v := askCode(err); v.Class != Unknown {
		o.hear(v, false)
		return
	}
	if status := statusOf(err); status != 0 {
		v := statusVerdict(status, o.verdict.After > 0)
		// A 400 may be any refusal. The AWS SDKs say further in which one: the
		// code of a throttled request is on the error beneath.
		o.hear(v, status == 400)
		return
	}
	o.askWeak(err)
}

// silence is deferred around foreign methods.
func silence() { _ = recover() }

// hintOf reads the wait that the error asks for.
func hintOf(err error) (after time.Duration) {
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

// askIs lets an error say that it is a sentinel, as [errors.Is] does.
func askIs(err error) (v Verdict) {
	defer silence()
	if e, ok := err.(interface{ Is(error) bool }); ok {
		for _, s := range sentinels {
			if e.Is(s.err) {
				return s.verdict
			}
		}
	}
	return Verdict{}
}

// askClass reads the methods that answer the question itself.
func askClass(err error) (v Verdict) {
	defer silence()
	if _, ok := err.(interface{ NonRetriable() }); ok { // azcore: having the method is the answer
		return final("permanent")
	}
	if e, ok := err.(interface{ NonRetryable() bool }); ok && e.NonRetryable() { // Temporal
		return final("permanent")
	}
	if e, ok := err.(interface{ CanceledError() bool }); ok && e.CanceledError() { // smithy
		return final("canceled")
	}
	switch e := err.(type) {
	case interface{ Retryable() bool }:
		return answer(e.Retryable())
	case interface{ IsRetryable() bool }:
		return answer(e.IsRetryable())
	case interface{ RetryableError() bool }: // smithy
		return answer(e.RetryableError())
	case interface{ IsRetriable() bool }: // confluent-kafka-go
		return answer(e.IsRetriable())
	case interface{ ShouldRetry() bool }:
		return answer(e.ShouldRetry())
	default:
		return Verdict{}
	}
}

// answer is the verdict of an author who was asked just that: a no counts.
func answer(retryable bool) Verdict {
	if retryable {
		return again("transient")
	}
	return final("permanent")
}

// askCode reads the code that a server gave the error.
func askCode(err error) (v Verdict) {
	defer silence()
	if e, ok := err.(interface{ ErrorCode() string }); ok {
		if v := awsVerdict(e.ErrorCode()); v.Class != Unknown {
			return v
		}
	}
	switch e := err.(type) {
	case interface{ SQLState() string }: // pgx, pq
		return sqlStateVerdict(e.SQLState())
	case interface{ SQLErrorNumber() int32 }: // go-mssqldb
		return sqlServerVerdict(e.SQLErrorNumber())
	case interface{ HasErrorLabel(label string) bool }: // MongoDB
		return mongoVerdict(e.HasErrorLabel)
	default:
		return Verdict{}
	}
}

// statusOf reads the HTTP status, or 0.
func statusOf(err error) (status int) {
	defer silence()
	switch e := err.(type) {
	case interface{ HTTPStatusCode() int }: // smithy
		status = e.HTTPStatusCode()
	case interface{ HTTPCode() int }: // gax
		status = e.HTTPCode()
	case interface{ StatusCode() int }:
		status = e.StatusCode()
	}
	if status < 100 || status > 599 {
		return 0
	}
	return status
}

// askWeak reads methods whose true is a mere hope and whose false says nothing.
func (o *opinion) askWeak(err error) {
	defer silence()
	if e, ok := err.(interface{ SafeToRetry() bool }); ok && e.SafeToRetry() { // pgconn
		o.unsent = true
		o.hear(anew("unsent"), true)
		return
	}
	if e, ok := err.(interface{ Timeout() bool }); ok && e.Timeout() {
		o.hear(again("timeout"), true)
		return
	}
	if e, ok := err.(interface{ Temporary() bool }); ok && e.Temporary() {
		o.hear(again("temporary"), true)
		return
	}
	// smithy's RequestSendError says this about every error of its HTTP client.
	// A reset after the request was written is one of them, so this does not
	// prove that nothing was applied. A bad certificate is another, so whatever
	// is known about the cause counts instead.
	if e, ok := err.(interface{ ConnectionError() bool }); ok && e.ConnectionError() {
		o.send = true
	}
}

// ask returns the answer of the outermost error of the tree that has one. method
// returns the method of an error that answers the question, or nil. A method that
// panics gives no answer.
func ask(err error, method func(error) func() bool, nodes *errtree.Nodes) (yes, answered bool) {
	for err != nil && nodes.Take() {
		if e, ok := err.(*Error); ok { // not asked, because it would count nodes anew
			if e == nil || e.Stop == StopDeadline {
				return e != nil, true
			}
			err = e.Err
			continue
		}
		if m := method(err); m != nil && !passesOn(err) {
			if yes, answered = errtree.Try(m); answered {
				return yes, true
			}
		}
		one, several := errtree.Unwrap(err)
		for _, leg := range several {
			if yes, answered = ask(leg, method, nodes); answered {
				return yes, true
			}
		}
		err = one
	}
	return false, false
}

// passesOn reports whether err only passes the question on to the error that it
// wraps. Such an error is not asked: in a tree that refers to itself, it would ask
// the Error that is asking.
func passesOn(err error) bool {
	switch err.(type) {
	case *url.Error, *net.OpError:
		return true
	default:
		return false
	}
}
