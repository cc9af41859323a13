package retryhttp

import (
	"errors"
	"net/http"

	"github.com/seed-5ff3c98e/retry"
)

// Do sends a request and calls read with its response as part of the attempt: a
// body that breaks off, or does not come in time, is retried. A [Transport] cannot
// retry it, because it has returned by then. Do closes the body.
//
//	err := retryhttp.Do(client, nil, req, func(resp *http.Response) error {
//		return json.NewDecoder(resp.Body).Decode(&result)
//	})
//
// read must not be nil. It is called for responses with a status below 400; others are failures,
// a *[StatusError]. So the error tells whether the request succeeded; it is an
// [*retry.Error] unless it is Final. read starts over in each attempt, and must
// discard the data of an earlier one. An unknown error of read is Final, as with a
// Transport: a body that is not valid JSON will not be valid next time. Bodies are
// read after the server has acted, so only [Idempotent] requests are retried after
// an error of read.
//
// client makes the attempts, with its redirects, cookies and Timeout; nil means
// [http.DefaultClient]. The body of a failure is read for [StatusError].Body anyway, so it
// also gives hints and decides the class, as with BodyHints of a Transport. If client's
// transport is an unwrapped Transport, Do uses the options and budgets of that Transport, and
// its policy if p is nil. Its Base then makes the attempts, so the retries do not multiply.
// Otherwise a nil p is [DefaultPolicy], and only p can have a budget. A p without a Backoff has the
// waits of DefaultPolicy. The errors do not contain the secrets of URLs; see [Redact]. For Observer
// and budget, every status of 400 or more is a failure.
func Do(client *http.Client, p *retry.Policy, req *http.Request, read func(*http.Response) error) error {
	if req == nil || read == nil {
		return errors.New("retryhttp: Do without a request or without a function that reads")
	}
	return do(client, p, req, read, nil)
}

// do is Do, with what sets headers of each request, if it is not nil.
func do(client *http.Client, p *retry.Policy, req *http.Request, read func(*http.Response) error, ask func(http.Header)) error {
	if client == nil {
		client = http.DefaultClient
	}
	t, ok := client.Transport.(*Transport)
	base := client.Transport
	if ok {
		t = t.orZero()
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
	c := &call{t: t, base: clientTransport{&own}, req: req, read: read, ask: ask}
	own.Transport = hops{base, c}
	c.begin(p, budget)
	_, err := c.roundTrip() //nolint:bodyclose // consume has closed it
	return err
}

// unbudgeted has the options of Do without a Transport, which would keep the
// budgets.
var unbudgeted = &Transport{Budget: NoBudget}

// hops watches the requests of an attempt of Do: more than one if there are
// redirects.
type hops struct {
	base http.RoundTripper
	call *call
}

// RoundTrip notes that the request was served: a server that redirects to another
// method has done its work. It prepares a copy, because an http.Client takes what it finds in
// the headers of the first request along to any host.
func (h hops) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != h.call.req.Method {
		h.call.served = true
	}
	if h.call.t.Prepare == nil && h.call.ask == nil {
		return h.roundTrip(req)
	}
	own := req.Clone(req.Context())
	if own.Header == nil {
		own.Header = http.Header{}
	}
	if h.call.ask != nil {
		h.call.ask(own.Header)
	}
	own.Trailer = req.Trailer // the caller fills it in while the body is read
	if err := h.call.prepare(own); err != nil {
		return nil, err
	}
	resp, err := h.roundTrip(own)
	if resp != nil && (resp.Request == own || resp.Request == nil) {
		resp.Request = req
	}
	return resp, err
}

func (h hops) roundTrip(req *http.Request) (*http.Response, error) {
	if base, ok := h.base.(*http.Transport); ok && !h.call.fresh {
		return h.call.route(base, req).RoundTrip(req)
	}
	return h.base.RoundTrip(req)
}

// clientTransport makes the attempts of Do.
type clientTransport struct{ client *http.Client }

func (t clientTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	return t.client.Do(req) // if there is an error and a response too, its body is closed
}
