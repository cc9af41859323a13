package drivers_test

import (
	"context"
	"net/http"

	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func ok(req *http.Request) *http.Response {
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: req}
}

// request returns a request and a Transport for it. Every second Transport has the
// budget in place of the policy, and the request then says whether it is idempotent.
func request(s *stage) (*http.Request, *retryhttp.Transport) {
	if s.policy.Backoff == nil { // HTTP has a default of its own
		s.policy.Backoff = retry.Exponential{}
	}
	t := &retryhttp.Transport{Policy: &s.policy, Budget: retryhttp.NoBudget}
	method := http.MethodGet
	if s.seed%2 == 1 {
		t.Budget = func(*http.Request) retry.Throttle { return s.budget }
		if s.policy.NonIdempotent {
			method = http.MethodPost
		}
		s.policy.Budget, s.policy.NonIdempotent = nil, false
	}
	req, err := http.NewRequestWithContext(s.ctx, method, "http://127.0.0.1/", nil)
	require.NoError(s, err)
	return req, t
}

// transport makes the attempts in the Base of a Transport.
func transport(s *stage) error {
	req, t := request(s)
	t.Base = roundTripper(func(req *http.Request) (*http.Response, error) {
		if err := s.op(req.Context()); err != nil {
			return nil, err
		}
		return ok(req), nil
	})
	resp, err := t.RoundTrip(req)
	require.Equal(s, err == nil, resp != nil, "seed %d", s.seed)
	if err == nil {
		require.NoError(s, resp.Body.Close())
		last := s.course.events[len(s.course.events)-1]
		require.Equal(s, last.Attempt, retryhttp.Attempts(resp), "seed %d", s.seed)
	}
	return err
}

// reader makes the attempts in the function of Do that reads the response.
func reader(s *stage) error {
	req, t := request(s)
	var ctx context.Context
	t.Base = roundTripper(func(req *http.Request) (*http.Response, error) {
		ctx = req.Context() //nolint:fatcontext // of the attempt, under which the body would be read
		return ok(req), nil
	})
	return retryhttp.Do(&http.Client{Transport: t}, nil, req, func(*http.Response) error { return s.op(ctx) })
}
