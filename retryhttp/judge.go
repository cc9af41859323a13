package retryhttp

import (
	"context"
	"errors"
	"net/http"

	"github.com/seed-5ff3c98e/retry"
)

// judge finds the verdict about a failure. Where the caller's Classifier has no
// opinion about it, classified is what counts.
func (c *call) judge(err, classified error, timedOut bool) {
	v := c.asked(err)
	switch {
	case v != retry.Verdict{}:
	case timedOut:
		v = retry.Verdict{Class: retry.Retryable, Category: "timeout"}
	default:
		v = Classify(classified)
	}
	if v == (retry.Verdict{}) {
		v.Class = retry.Final // what may be retried is known here
	}
	interrupted := timedOut || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
	if c.sent.nothing(interrupted) {
		v.NotApplied = true
	}
	c.decree(v)
}

// refused judges a response with the status of a failure. It returns nil if that
// is for the caller to deal with.
func (c *call) refused(resp *http.Response) error {
	after, hinted := ParseHint(resp.StatusCode, resp.Header, c.caller.Now())
	if !hinted && c.t.BodyHints && heeded(resp.StatusCode) {
		after, hinted = peekHint(resp)
	}
	err := c.statusError(resp, after)
	v := c.asked(err)
	if v == (retry.Verdict{}) {
		v = c.judgeAnswer(resp, err, hinted)
	}
	c.fresh = c.fresh || resp.StatusCode == http.StatusMisdirectedRequest
	if v.Class == retry.RateLimited && v.After > 0 && c.t.Cooldown > 0 {
		c.t.host(c.answered(resp)).coolDown(c.caller.Now().Add(min(v.After, c.t.Cooldown)))
	}
	if v.Class == retry.Final && c.read == nil && isAnswer(resp.StatusCode) {
		return nil
	}
	if c.read != nil {
		err.Body = excerpt(resp, v.Class == retry.Final)
		c.resp = nil
	}
	c.decree(v)
	return err
}

// judgeAnswer knows what the server wants, and what this call can do.
func (c *call) judgeAnswer(resp *http.Response, err *StatusError, hinted bool) retry.Verdict {
	if c.t.TrustShouldRetry && shouldRetry(resp.Header) == "true" {
		return retry.Verdict{Class: retry.Retryable, NotApplied: true, After: err.After, Category: "should_retry"}
	}
	v := judgeStatus(resp, err.After, hinted, c.key != "" || hasKey(c.req))
	if resp.StatusCode == http.StatusMisdirectedRequest {
		// Another connection may lead elsewhere, once.
		if _, ok := afresh(c.base, c.req); !ok || c.fresh {
			v.Class = retry.Final
		}
	}
	return v
}

// asked asks the Classifier of the caller's policy.
func (c *call) asked(err error) retry.Verdict {
	if c.caller.Classifier == nil {
		return retry.Verdict{}
	}
	return c.caller.Classifier(err)
}

// decree makes v the verdict, if the request can be sent again at all.
func (c *call) decree(v retry.Verdict) {
	if v.Class != retry.Final && !c.body.repeatable() {
		v = retry.Verdict{Class: retry.Final, After: v.After, Category: "body_not_replayable"}
	}
	v.NotApplied = v.NotApplied && !c.served
	c.verdict = v
}

// isAnswer reports whether a final status says that the server did its work.
func isAnswer(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusMisdirectedRequest, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	default:
		return status < 500
	}
}
