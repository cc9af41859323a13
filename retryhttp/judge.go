package retryhttp

import (
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
	if c.sent.nothing(timedOut) {
		v.NotApplied = true
	}
	c.decree(v)
}

// refused judges a response with the status of a failure. It returns nil if that
// is for the caller to deal with.
func (c *call) refused(resp *http.Response) error {
	after, hinted := ParseHint(resp.StatusCode, resp.Header, c.given.Now())
	if !hinted && c.t.BodyHints && heeded(resp.StatusCode) {
		after = peekHint(resp)
	}
	err := c.statusError(resp, after)
	v := c.asked(err)
	if v == (retry.Verdict{}) {
		v = c.judgeStatus(resp, err)
	}
	if v.Class == retry.RateLimited && v.After > 0 && c.t.Cooldown > 0 {
		c.t.host(c.req).coolDown(c.given.Now().Add(min(v.After, c.t.Cooldown)))
	}
	if v.Class == retry.Final && c.read == nil && isAnswer(resp.StatusCode) {
		return nil
	}
	if c.read != nil {
		err.Body = read(resp.Body, drainSize)
		_ = resp.Body.Close()
		c.resp = nil
	}
	c.decree(v)
	return err
}

// judgeStatus knows what the server wants, and what this call can do.
func (c *call) judgeStatus(resp *http.Response, err *StatusError) retry.Verdict {
	if c.t.TrustShouldRetry && shouldRetry(resp.Header) == "true" {
		return retry.Verdict{Class: retry.Retryable, NotApplied: true, After: err.After, Category: "should_retry"}
	}
	v := judgeStatus(resp, err, c.key != "" || hasKey(c.req))
	if resp.StatusCode == http.StatusMisdirectedRequest {
		// Another connection may lead elsewhere, once.
		if _, ok := afresh(c.base); !ok || c.fresh {
			v.Class = retry.Final
		}
		c.fresh = true
	}
	return v
}

// asked asks the Classifier of the caller's policy.
func (c *call) asked(err error) retry.Verdict {
	if c.given.Classifier == nil {
		return retry.Verdict{}
	}
	return c.given.Classifier(err)
}

// decree makes v the verdict, if the request can be sent again at all.
func (c *call) decree(v retry.Verdict) {
	if v.Class != retry.Final && !c.body.again() {
		v = retry.Verdict{Class: retry.Final, After: v.After, Category: "body_not_replayable"}
	}
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
