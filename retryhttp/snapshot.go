package retryhttp

import (
	"net/http"
	"net/url"
	"sync"
)

// snapshot is a request as the caller made it. The first attempt gets that itself; if
// its RoundTripper changes it, which it should not, the next attempt is none the worse.
type snapshot struct {
	of     http.Request
	url    url.URL
	fields []field
	values []string // of all fields, one after the other
}

type field struct {
	name string
	n    int // how many values it has; -1 for nil
}

// A snapshot is taken of every request and seldom used.
var snapshots = sync.Pool{New: func() any { return new(snapshot) }}

func keep(req *http.Request) *snapshot {
	s := snapshots.Get().(*snapshot) //nolint:forcetypeassert // see New
	s.of = *req
	if req.URL != nil {
		s.url = *req.URL
	}
	for name, values := range req.Header {
		n := len(values)
		if values == nil {
			n = -1
		}
		s.fields = append(s.fields, field{name, n})
		s.values = append(s.values, values...)
	}
	return s
}

// request returns a copy of the request, whose body is not copied.
func (s *snapshot) request() *http.Request {
	req := s.of
	if req.URL != nil {
		u := s.url
		req.URL = &u
	}
	if req.Header != nil {
		req.Header = make(http.Header, len(s.fields))
	}
	values := s.values
	for _, f := range s.fields {
		if f.n < 0 {
			req.Header[f.name] = nil
			continue
		}
		req.Header[f.name] = append([]string{}, values[:f.n]...)
		values = values[f.n:]
	}
	return &req
}

// release gives the snapshot back. Nothing that it refers to is kept alive.
func (s *snapshot) release() {
	if s == nil {
		return
	}
	clear(s.fields)
	clear(s.values)
	*s = snapshot{fields: s.fields[:0], values: s.values[:0]}
	snapshots.Put(s)
}
