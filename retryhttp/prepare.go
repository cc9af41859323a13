package retryhttp

import (
	"net/http"

	"github.com/seed-5ff3c98e/retry"
)

// send makes an attempt. In [Do], the request of each redirect is prepared: see hops.
func (c *call) send(req *http.Request) (*http.Response, error) {
	if c.read == nil {
		if err := c.prepare(req); err != nil {
			return nil, err
		}
	}
	return c.transport().RoundTrip(req)
}

// prepare calls Prepare, unless a redirect has led to another server: what Prepare adds would
// be a secret of the first one.
func (c *call) prepare(req *http.Request) error {
	if c.t.Prepare == nil || strayed(req) {
		return nil
	}
	err := c.t.Prepare(req)
	if err != nil {
		c.unready = &unready{err, req.Response == nil}
		if req.Body != nil {
			_ = req.Body.Close()
		}
	}
	return err
}

// unready is why an attempt ended before a request was sent.
type unready struct {
	err   error
	first bool // nothing was sent before, as to a server that redirects
}

// unprepared ends an attempt that could not be prepared.
func (c *call) unprepared() {
	err := Redact(c.unready.err)
	v := c.Verdict(err)
	if v.Class == retry.Unknown && v.Category == "" {
		v.Class = retry.Final
	}
	v.NotApplied = c.unready.first
	c.decide(err, v)
}

// strayed reports whether one of the redirects that led to a request led to another server:
// another scheme, host or port. The way back does not count, because the other server has
// chosen it. Only from http to https, the server is the same.
func strayed(req *http.Request) bool {
	for req.Response != nil { // the redirect
		from := req.Response.Request
		if from == nil || from.URL == nil || req.URL == nil {
			return true
		}
		old, now := origin{from.URL.Scheme, from.URL.Host}.clean(), origin{req.URL.Scheme, req.URL.Host}.clean()
		if old.host != now.host || old.scheme != now.scheme && (old.scheme != "http" || now.scheme != "https") {
			return true
		}
		req = from
	}
	return false
}
