package retryhttp

import (
	"errors"
	"net/http"

	"github.com/seed-5ff3c98e/retry"
)

// Do sends a request and has its response read by a function, which is part of
// the attempt: a body that breaks off, or does not come in time, is retried. A
// [Transport] cannot do that, because it has returned by then. Do closes the body.
//
//	err := retryhttp.Do(client, nil, req, func(resp *http.Response) error {
//		return json.NewDecoder(resp.Body).Decode(&result)
//	})
//
// read is called for responses with a status below 400; others are failures, a
// *[StatusError]. So the error tells whether the request succeeded; it is an
// [*retry.Error] unless it is Final. read starts over in each attempt, and must not
// keep what an earlier one left. What nobody knows of its errors is Final, as with
// a Transport: a body that is no JSON will not become some. Bodies are read after
// the server has acted, so only requests that are [Idempotent] are retried for
// them.
//
// The attempts are those of client, with its redirects, cookies and Timeout; nil
// means [http.DefaultClient]. If its transport is a Transport, and not wrapped in
// another one, that one's options, its budgets and, where p is nil, its policy apply
// to Do, and its Base makes the attempts: the retries do not multiply. Otherwise a
// nil p is [DefaultPolicy], and there is no budget but that of p. Secrets in URLs
// are not in the errors; see [Redact]. To Observer and budget, every status of 400
// or more is a failure.
func Do(client *http.Client, p *retry.Policy, req *http.Request, read func(*http.Response) error) error {
	if req == nil || read == nil {
		return errors.New("retryhttp: Do without a request or without a function that reads")
	}
	if client == nil {
		client = http.DefaultClient
	}
	t, ok := client.Transport.(*Transport)
	base := client.Transport
	if ok {
		base = t.Base
	} else {
		t = unbudgeted
	}
	if base == nil {
		base = http.DefaultTransport
	}
	if p == nil {
		p = t.policy()
	}
	budget := t.budget(p, req)
	own := *client
	c := &call{t: t, base: clientTransport{&own}, req: req, read: read}
	own.Transport = hops{base, c}
	c.begin(p, budget)
	_, err := c.roundTrip() //nolint:bodyclose // consume has closed it
	return err
}

// unbudgeted are the options where there is no Transport to keep a budget.
var unbudgeted = &Transport{Budget: NoBudget}

// hops sees the requests of an attempt of Do: more than one if there are redirects.
type hops struct {
	base http.RoundTripper
	call *call
}

// RoundTrip notes that the request was served: a server that wants another one to
// be made with another method has done its work.
func (h hops) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != h.call.req.Method {
		h.call.served = true
	}
	return h.base.RoundTrip(req)
}

// clientTransport makes the attempts of Do.
type clientTransport struct{ client *http.Client }

func (t clientTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.client.Do(req)
	if err != nil {
		return nil, err // where there is a response as well, its body is closed
	}
	return resp, nil
}

// consume lets the caller read the response of an attempt.
func (c *call) consume(resp *http.Response) {
	c.resp = nil
	defer resp.Body.Close()
	err := Redact(c.read(resp))
	if err == nil {
		c.drain(resp)
		c.End(nil)
		return
	}
	c.Classify = classifyBody
	c.decide(err, c.Verdict(err))
}
