package retryhttp

import (
	"context"
	"crypto/rand"
	"net/http"
	"strconv"
)

// Idempotent reports whether a request may be sent again even if it had an
// effect: its method is PUT or DELETE, or one that only reads (GET, HEAD, OPTIONS, TRACE,
// QUERY, and PROPFIND, REPORT and SEARCH of WebDAV), or it has an Idempotency-Key or
// X-Idempotency-Key header. A header with an empty list of values counts too, as in
// net/http: it marks a request without sending the header.
//
// https://www.rfc-editor.org/rfc/rfc9110#section-9.2.2, RFC 10008 (QUERY),
// https://www.iana.org/assignments/http-methods
func Idempotent(req *http.Request) bool {
	switch req.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace,
		http.MethodPut, http.MethodDelete, "QUERY", "PROPFIND", "REPORT", "SEARCH":
		return true
	default:
		return hasKey(req)
	}
}

// hasKey reports whether the server can tell a repeated request.
func hasKey(req *http.Request) bool {
	_, key := req.Header["Idempotency-Key"]
	_, xKey := req.Header["X-Idempotency-Key"]
	return key || xKey
}

// conflictPasses reports whether a 409 means that another request is in progress: that of the same
// key, or any other, for the services whose own clients repeat it. The SDKs that Stainless makes,
// such as those of OpenAI and Anthropic, have X-Stainless-Lang in their requests.
func conflictPasses(req *http.Request) bool {
	return hasKey(req) || req.Header["X-Stainless-Lang"] != nil || req.Header["Stripe-Version"] != nil
}

// RandomKey is a function for [Transport].IdempotencyKey. It returns at least
// 128 random bits as text, without quotes.
func RandomKey(*http.Request) string { return rand.Text() }

// request returns the request of an attempt, with the context ctx.
func (c *call) request(ctx context.Context) (*http.Request, error) {
	_, trusted := c.base.(*http.Transport) // it does not change requests
	own := c.key != "" || c.t.AttemptHeader != "" || c.t.Prepare != nil || c.sent != nil || c.derives()
	if !own && c.body.shared == nil {
		first := c.Attempt() == 1
		if first && !trusted {
			c.kept = keep(c.req)
		}
		trusted = trusted || first || c.kept != nil && c.kept.unchanged(c.req)
		if first || trusted && !hasBody(c.req) {
			c.body.used = true
			return c.req, nil
		}
	}
	body, err := c.body.next()
	if err != nil {
		return nil, &rewindError{Redact(err), c.Last}
	}
	var req *http.Request
	switch {
	case trusted && !own:
		req = c.req.WithContext(ctx)
	case c.kept != nil:
		req = c.kept.request()
	default:
		req = c.req.Clone(ctx)
		req.Trailer = c.req.Trailer // the caller fills it in while the body is read
	}
	req.Body = c.sent.body(body)
	if !own {
		return req, nil
	}
	if req.Header == nil {
		req.Header = http.Header{}
	}
	if c.key != "" {
		req.Header.Set("Idempotency-Key", c.key)
	}
	if c.t.AttemptHeader != "" {
		req.Header.Set(c.t.AttemptHeader, strconv.Itoa(c.Attempt()))
	}
	return req, nil
}

// derives reports whether an attempt may have a context of its own.
func (c *call) derives() bool {
	return c.Policy.Observer != nil && c.Policy.Observer.Attempt != nil || c.limited()
}

// limited reports whether the context of an attempt may have a timeout.
func (c *call) limited() bool { return c.Policy.AttemptTimeout != 0 || c.Policy.Timeout > 0 }
