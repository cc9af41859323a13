package retryhttp

import (
	"net/http"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/calls"
)

// DefaultPolicy returns the policy of a [Transport] without one: 3 attempts,
// waits of up to 200ms and 400ms, full jitter, and waits of up to a minute if
// the server asks for them. Every call returns a new Policy, which the caller
// may change.
func DefaultPolicy() *retry.Policy {
	return &retry.Policy{
		Backoff:  retry.Exponential{Initial: 200 * time.Millisecond},
		MaxDelay: 10 * time.Second,
	}
}

var defaultPolicy = DefaultPolicy()

// Transport is an [http.RoundTripper] that sends a request again when an
// attempt fails and another attempt may help: the connection failed, or the server
// answered with a temporary status. The zero Transport is ready to use. It
// is safe for concurrent use, and must be neither changed nor copied after its
// first use. A nil *Transport is a zero Transport; all nil Transports share their
// budgets.
//
// # What is retried
//
// A request is retried after any such failure if it is [Idempotent]. Other requests,
// such as most POST requests, are retried only if the failed attempt certainly had no
// effect: a mark or the server says so (429, 408, 425, 503 with a Retry-After, and others
// of [ClassifyResponse], an HTTP/2 stream refused or beyond a GOAWAY), or
// net/http/httptrace shows that nothing of the request was written. So a Base that calls
// no such hooks cannot prove that it did not connect, and an error of the request's body
// proves nothing. [Classify] and [ClassifyResponse] list the failures. An unknown error
// is Retryable if it came before there was a connection (a custom DialContext failed), or
// if it is not net/http's own and the request is Idempotent. Otherwise it is Final,
// unless the policy's Classifier has an opinion; a Category without a Class makes it
// retried. Every failure is Final if the body cannot be read a second time: it has no
// GetBody, is not an [io.Seeker], and BufferBody does not cover it. The server can end
// the call with X-Should-Retry: false or Stripe-Should-Retry: false.
//
// # What comes back
//
// When retries run out, the last response is returned unchanged, with a nil error
// and its body unread; [Attempts] returns the number of attempts, and [Why] the reason for
// no more: docs/why.md explains each reason, and what to set. A Transport
// returns an error if there is no response, or if the request's context ended. It
// is an [*retry.Error], unless it is Final. [http.Client] wraps errors in an
// error that contains the URL, see [Redact]. If the Timeout of the http.Client has
// ended the request, it keeps only the text of the error: use the policy's Timeout,
// or a context.
//
// Classifier and Observer of the policy get the errors of Base, and
// *[StatusError]. A Final response with a status below 500, such as a 404, is a
// success for Observer and budget, because the server did its work.
//
// The comment of the package says what a Transport costs, what it does about dead connections
// and where its limits are.
type Transport struct {
	// Base makes the attempts. nil means http.DefaultTransport. Close of its
	// response bodies may be called during a Read and must end it.
	Base http.RoundTripper

	// Policy decides. nil means [DefaultPolicy]; a Policy without a Backoff has the
	// waits of DefaultPolicy. Its AttemptTimeout and Timeout last until the
	// response's body is read to the end or closed. Set an AttemptTimeout: see Dead
	// connections above.
	Policy *retry.Policy

	// Budget returns the budget for the retries of a request. nil means one budget
	// for each scheme and host, with default settings except for the Reserve: the
	// retries of one request under Policy, but at least 3 and at most 10. So with more
	// than 11 attempts, a request to a new host may be refused its last retries. A test
	// server that fails every request twice uses the budget up with its second page; [Why]
	// says so, and so does one line in the log of [slog.Default] if the Policy has no
	// Observer. Budgets are kept for the last 512 hosts at least, and for 1,024 at most. How
	// a host is spelled does not matter: the case, the default port, a dot at the end.
	// [NoBudget] means no budget. A Budget in the Policy is used instead, for all hosts
	// together.
	Budget func(*http.Request) retry.Throttle

	// Cooldown, if positive, gives each scheme and host a Quota of package retryquota with this MaxHold,
	// unless the Policy has a Quota: a 429 that one request hears holds back all others to
	// the same host, until the hint or this time has passed, whichever is shorter, and then
	// they go at the rate that the host lets through. They wait before they are sent, and
	// fail at once if their time is over before the hold is. A success whose headers say that
	// nothing is left holds them too.
	//
	// A retry after a rate limit takes nothing from the budget, and costs no attempt, up to
	// 100 times per request, or FreeRateLimits times if the Policy has that. So all requests
	// get through a quota that they share, each in its time; limit that time with the
	// Policy's Timeout or a context.
	//
	// If the requests belong to several tenants with quotas of their own, one tenant's rate
	// limit would hold back all others: use QuotaFor.
	//
	// In the work of a pool or of a retrytable.Worker, the requests wait in the places of their
	// jobs, and jobs of other kinds wait with them: there, a Policy.Quota of the jobs holds them
	// back before they begin.
	Cooldown time.Duration

	// QuotaFor, if not nil, returns the Quota of a request in place of Cooldown, unless the Policy has
	// one: that of a tenant, or of the part of an API that has a limit of its own. The method Of
	// of [retryquota.Keys] has one for each key. nil means none. It must be safe for concurrent use.
	QuotaFor func(*http.Request) retry.Pacer

	// BufferBody is the largest number of bytes of a request's body that are
	// kept in memory, if there is no other way to send the body again. A longer
	// body is sent once. 0 means that no body is kept.
	BufferBody int64

	// IdempotencyKey, if not nil, returns the Idempotency-Key for a request that
	// is not [Idempotent]; [RandomKey] is such a function. All attempts of the
	// request have the same key, and it may be retried like an idempotent one.
	// "" means no key. The server must support such keys.
	//
	// https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/
	IdempotencyKey func(*http.Request) string

	// AttemptHeader is the name of a header that tells the server the number of
	// the attempt, from 1. "" means none.
	AttemptHeader string

	// TrustShouldRetry lets the server turn a refusal into a retry, with
	// X-Should-Retry: true or Stripe-Should-Retry: true. "false" always ends the
	// call.
	TrustShouldRetry bool

	// BodyHints reads the body of a failure whose status may mean more than one thing, for a
	// hint where the headers have none, and for a code that decides the class: see
	// [ClassifyBody]. Up to 64 KiB of JSON or XML are read for up to half a second. All of
	// the body stays readable.
	//
	// It is an option because a Transport does not read bodies otherwise: a body belongs to
	// the caller, and may come slowly. [Do] reads the bodies of failures anyway, and has this
	// switched on.
	BodyHints bool

	// Prepare, if not nil, is called with the request of each attempt before it is
	// sent, and may change it: to sign it, or to add a token. Each attempt has a
	// request of its own, without the changes of earlier attempts. An error is judged as one of
	// Base is, and nothing was sent: a connection that is refused is retried, an unknown error is
	// Final, and so is one of an inner call that gave up, unless a mark or the policy's Classifier
	// says otherwise.
	//
	// It is called for a redirect too, but only if the redirect and all before it stayed at
	// the same server: the same scheme, host and port, or https instead of http. So the
	// token of one server is not sent to another one, nor to a subdomain. Where requests may
	// go to several servers of yours, let CheckRedirect return [http.ErrUseLastResponse], and
	// send a new request.
	Prepare func(*http.Request) error

	// ClassifyResponse, if not nil, is asked about every response, also with a status below
	// 400. With a status of 400 or more, the policy's Classifier is asked about the
	// *[StatusError] first. The zero Verdict leaves the response to the rules above.
	// A Final response is returned. Any other verdict is a failure: for example
	// Retryable for a 200 with an error in it, [retry.Pending] for a 202 without a
	// result yet. Its After counts before the hint of the response: 0 leaves the hint, and a
	// negative one switches it off. A verdict without a Category gets that of the status, such
	// as http_401. resp.Request is the request as Prepare left it. If it reads the body, it must
	// replace Body by a reader of the same bytes.
	//
	// A 401 or 407 had no effect, so a POST is retried too. If it is Retryable and there is a
	// Prepare, the next attempt has another token: it is sent at once, and costs no attempt and
	// no budget. A second 401 in a row is Final.
	ClassifyResponse func(*http.Response) retry.Verdict

	hosts hosts
}

// RoundTrip implements [http.RoundTripper].
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	t = t.orZero()
	p := t.policy()
	c := call{t: t, base: t.base(), req: req}
	c.begin(p, t.budget(p, req))
	return c.roundTrip()
}

// CloseIdleConnections closes the idle connections of Base, if it can, and of its clones.
// [http.Client.CloseIdleConnections] calls it.
func (t *Transport) CloseIdleConnections() {
	if base, ok := t.orZero().base().(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
	t.orZero().hosts.closeIdle()
}

var zeroTransport = &Transport{}

func (t *Transport) orZero() *Transport {
	if t == nil {
		return zeroTransport
	}
	return t
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

// host returns the host of a request.
func (t *Transport) host(req *http.Request) *host {
	return t.hosts.of(req, calls.Reserve(t.policy()), t.Cooldown)
}

// NoBudget is a [Transport]'s Budget function for retries without a budget.
func NoBudget(*http.Request) retry.Throttle { return nil }
