package retryhttp

import (
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// StatusError is a failure with a response. A [Transport] gives it to the
// Classifier and the Observer of its policy; the caller gets the response. [Do]
// returns it.
//
// Its text has no part that may be secret: no user, password, query or fragment
// of the URL, no headers and no body.
type StatusError struct {
	Method     string
	URL        string // scheme, host and path
	StatusCode int
	After      time.Duration // the server's hint, or 0
	Body       []byte        // up to 4 KiB of the body; only from Do

	verdict retry.Verdict // about the response that it stands for
}

func (c *call) statusError(resp *http.Response, after time.Duration) *StatusError {
	req := c.answered(resp)
	shown := c.shown
	switch {
	case req.URL != c.req.URL:
		shown = address(req.URL)
	case shown == "":
		shown = address(req.URL)
		c.shown = shown
	}
	return &StatusError{Method: req.Method, URL: shown, StatusCode: resp.StatusCode, After: after}
}

// address returns the parts of a URL that may be shown.
func address(u *url.URL) string {
	if u == nil {
		return ""
	}
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	return shown.String()
}

// Error returns the form "GET https://example.com/path: 503 Service
// Unavailable".
func (e *StatusError) Error() string {
	method := e.Method
	if method == "" {
		method = http.MethodGet
	}
	text := method + " " + e.URL + ": " + strconv.Itoa(e.StatusCode)
	if name := http.StatusText(e.StatusCode); name != "" {
		text += " " + name
	}
	return text
}

// HTTPStatusCode returns StatusCode. [retry.Classify] asks for it.
func (e *StatusError) HTTPStatusCode() int { return e.StatusCode }

// RetryAfter returns After. [retry.Classify] asks for it.
func (e *StatusError) RetryAfter() time.Duration { return e.After }

// NonRetryable reports whether the response says more than its status, and so ends the call:
// with a code such as insufficient_quota, or X-Should-Retry: false. [retry.Classify] asks for
// it, so that a policy around [Do] does not repeat what Do has ended.
func (e *StatusError) NonRetryable() bool {
	return e.verdict.Class == retry.Final && statusVerdict(e.StatusCode, true).Class != retry.Final
}
