package main

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
	"github.com/seed-5ff3c98e/retry/retrypolicies"
)

// service answers with the response of a backend, which it calls under the
// policy "backend".
type service struct {
	backend  string
	policies retrypolicies.Policies
	retries  atomic.Int64
}

// newService returns a service with the policies of a file, which has to be valid.
func newService(file, backend string) (*service, error) {
	s := &service{backend: backend}
	s.policies.Parts = map[string]retrypolicies.Parts{
		// One budget and one observer are kept while the program runs, also when
		// the policies change. The backend fails half of all requests, so that a
		// success has to pay for a retry.
		"backend": {Budget: &retry.Budget{Ratio: 1, Reserve: 1000}, Observer: &retry.Observer{Event: s.observe}},
	}
	return s, s.policies.LoadFile(file)
}

func (s *service) observe(_ context.Context, e retry.Event) {
	if e.Kind == retry.Retrying {
		s.retries.Add(1)
	}
}

// ServeHTTP looks the policy up for every call, and so sees a change at once.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	policy, err := s.policies.Get("backend")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	req, err := http.NewRequestWithContext(r.Context(), http.MethodGet, s.backend, nil)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	var answer []byte
	err = retryhttp.Do(nil, policy, req, func(resp *http.Response) error {
		answer, err = io.ReadAll(resp.Body)
		return err
	})
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	_, _ = w.Write(answer)
}

// flaky is a backend that fails every other request.
type flaky struct{ requests atomic.Int64 }

// ServeHTTP implements [http.Handler].
func (f *flaky) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	if f.requests.Add(1)%2 == 1 {
		http.Error(w, "busy", http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, "hello")
}
