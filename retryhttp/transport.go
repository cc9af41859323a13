package retryhttp

import (
	"net/http"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// DefaultPolicy returns the policy of a [Transport] without one, for a caller to
// change: 3 attempts, waits of up to 200ms and 400ms, full jitter, and waits of
// up to a minute where the server asks for them. Every call returns a new one.
func DefaultPolicy() *retry.Policy {
	return &retry.Policy{
		Backoff:  retry.Exponential{Initial: 200 * time.Millisecond},
		MaxDelay: 10 * time.Second,
	}
}

var defaultPolicy = DefaultPolicy()

// Transport is an [http.RoundTripper] that sends a request again when an
// attempt fails and another one may help: because the connection failed, or
// because the server answered with a status that says so. The zero Transport is
// ready to use. It is safe for concurrent use, and must be neither changed nor
// copied then.
//
// # What is retried
//
// A request is retried after any such failure if it is [Idempotent]. Others, such
// as most with POST, are retried only if the failed attempt is known to have had
// no effect: the server says so (429, 408, 421, 425, or 503 with a Retry-After),
// or net/http/httptrace saw that nothing of the request was written. [Classify]
// and [ClassifyResponse] list the failures. An error that nobody knows is Retryable if
// it came before there was a connection (a custom DialContext failed), or if it is not
// net/http's own and the request is Idempotent. Otherwise it is Final, unless the
// policy's Classifier has an opinion; give it a Category without a Class to have it
// retried. Final is also every failure of a request whose body cannot
// be had a second time: it has no GetBody, is no [io.Seeker], and BufferBody does
// not cover it. The server has the last word: X-Should-Retry: false and
// Stripe-Should-Retry: false end the call.
//
// # What comes back
//
// What is retried to no avail is still a response: the last one is returned as
// it came, with a nil error and its body unread; [Attempts] tells how many there
// were. A Transport returns an error if there is no response, or if the request's
// context ended; it is then an [*retry.Error], unless it is Final. The wrapper
// that [http.Client] puts around errors contains the URL, see [Redact].
//
// The errors that Classifier and Observer of the policy see are those of the
// transport beneath, and *[StatusError]. A refusal that another attempt cannot
// change, a 404 for one, is a success in the eyes of Observer and budget: the
// server did its work.
//
// # What it costs
//
// An idempotent request is sent as it is, the caller's own, and allocates nothing here
// if it succeeds at once: whatever Base is, unless the policy has an AttemptTimeout or
// the request gets a header of the options below. Further attempts get a copy if Base
// has changed the request, which it should not, or if there is a body; the body itself
// is not copied. A request that is not idempotent is watched with
// [net/http/httptrace], in a copy per attempt.
//
// # Limits
//
// A Transport beneath another one, or beneath [Do], has tried what can be tried: the
// outer one does not retry what the inner one has given up. The deprecated
// Request.Cancel ends an attempt for good, but not a wait: use the context. Cookies
// that a failed attempt sets are lost, because an http.Client sees the last response
// only; with Do it sees all.
type Transport struct {
	// Base makes the attempts. nil means http.DefaultTransport. The bodies of its
	// responses must allow Close during a Read, and end that.
	Base http.RoundTripper

	// Policy decides. nil means that of [DefaultPolicy]; one without a Backoff has
	// the waits of that. Its AttemptTimeout and Timeout go on until the response's
	// body is read to the end or closed. It is a good idea to have one with HTTP/2:
	// net/http itself waits up to a minute there before it gives up on a connection.
	Policy *retry.Policy

	// Budget returns the budget for the retries of a request. nil means one for
	// each scheme and host, of default settings but for its Reserve, which is
	// large enough for all retries of one request, from 3 to 10; they are kept
	// for the 512 hosts used last, or a few more. [NoBudget] means none. A Budget
	// in the Policy counts instead, for all hosts together.
	Budget func(*http.Request) retry.Throttle

	// Cooldown, if positive, makes a rate limit hold back all requests to the
	// same scheme and host: after a RateLimited failure with a hint, such as a
	// 429 with Retry-After, none is sent until the hint has passed, or this time
	// if it is shorter. The requests wait before they are sent, as for a hint of
	// their own, and fail at once with a hint if that would take too long. The
	// Observer does not see that wait; a request that is refused is an attempt.
	Cooldown time.Duration

	// BufferBody is up to how many bytes of a request's body are kept in memory
	// while they are sent, if there is no other way to send them again. A body
	// that turns out to be longer is sent once. 0 means that none is kept.
	BufferBody int64

	// IdempotencyKey, if not nil, returns the Idempotency-Key for a request that
	// is not [Idempotent], such as [RandomKey]: all of its attempts have the
	// same, and it may be retried like an idempotent one. "" means none. The
	// server must know such keys.
	//
	// https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/
	IdempotencyKey func(*http.Request) string

	// AttemptHeader is the name of a header that tells the server the number of
	// the attempt, from 1. "" means none.
	AttemptHeader string

	// TrustShouldRetry lets the server turn a refusal into a retry, with
	// X-Should-Retry: true or Stripe-Should-Retry: true. Their "false" is always
	// heeded.
	TrustShouldRetry bool

	// BodyHints looks for a hint in the body of a failure whose headers have
	// none: see [ParseBodyHint]. Up to 64 KiB of JSON are read for up to a second;
	// the body stays readable, as far as it has come by then.
	BodyHints bool

	// Prepare, if not nil, is called with the request of each attempt before it is
	// sent, and may change it: to sign it, or to give it a token. The request is the
	// attempt's own, and what an earlier attempt was given is not in it. An error is
	// Final unless a mark or the policy's Classifier says otherwise; nothing was sent.
	Prepare func(*http.Request) error

	// Classify, if not nil, is asked about every response, those with a status below
	// 400 too, after the policy's Classifier has been asked about the *[StatusError]
	// of one of 400 or more. The zero Verdict leaves the response to the rules above.
	// Final is an answer, and returned. Anything else is a failure: Retryable for a
	// 200 with an error in it, [retry.Pending] for a 202 whose result is to be waited
	// for. A body that Classify reads has to be put back, by a Body that reads it
	// again.
	Classify func(*http.Response) retry.Verdict

	hosts hosts
}

// RoundTrip implements [http.RoundTripper].
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	p := t.policy()
	c := call{t: t, base: t.base(), req: req}
	c.begin(p, t.budget(p, req))
	return c.roundTrip()
}

// CloseIdleConnections closes the idle connections of Base, if it can.
// [http.Client.CloseIdleConnections] calls it.
func (t *Transport) CloseIdleConnections() {
	if base, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

func (t *Transport) base() http.RoundTripper {
	if t.Base == nil {
		return http.DefaultTransport
	}
	return t.Base
}

func (t *Transport) policy() *retry.Policy {
	if t.Policy == nil {
		return defaultPolicy
	}
	return t.Policy
}

// budget returns the budget for the retries of a request under p.
func (t *Transport) budget(p *retry.Policy, req *http.Request) retry.Throttle {
	switch {
	case p.Budget != nil:
		return p.Budget
	case t.Budget != nil:
		return t.Budget(req)
	default:
		return &t.host(req).budget
	}
}

// The Reserve of the budget of a host. A request may use up its attempts while the
// host is new, but many are not worth a storm.
const leastReserve, mostReserve = 3, 10

// host returns what is known of the host of a request.
func (t *Transport) host(req *http.Request) *host {
	return t.hosts.of(req, max(leastReserve, min(t.policy().MaxAttempts-1, mostReserve)))
}

// NoBudget is a [Transport]'s Budget function for retries without a budget.
func NoBudget(*http.Request) retry.Throttle { return nil }
