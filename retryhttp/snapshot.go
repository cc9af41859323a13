package retryhttp

import (
	"net/http"
	"net/url"
	"slices"
	"sync"
)

// snapshot is a copy of the caller's request. Attempts get the request itself as long
// as the RoundTripper does not change it. It should not; if it does, the next attempt
// gets a request made from the snapshot.
type snapshot struct {
	of     http.Request
	url    url.URL
	fields []field
	values []string // of all header fields, one after the other
}

type field struct {
	name string
	n    int // the number of its values; -1 for nil
}

// Snapshots are pooled because one is taken of every request, and it is seldom
// used.
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

// unchanged reports whether a request is still the same, without regard to its
// body.
func (s *snapshot) unchanged(req *http.Request) bool {
	if req.Method != s.of.Method || req.Host != s.of.Host || req.URL != s.of.URL || req.URL != nil && *req.URL != s.url ||
		req.ContentLength != s.of.ContentLength || req.Close != s.of.Close || len(req.Header) != len(s.fields) ||
		len(req.TransferEncoding) != len(s.of.TransferEncoding) || len(req.Trailer) != len(s.of.Trailer) {
		return false
	}
	values := s.values
	for _, f := range s.fields {
		n := max(f.n, 0)
		if now, ok := req.Header[f.name]; !ok || f.n < 0 != (now == nil) || !slices.Equal(now, values[:n]) {
			return false
		}
		values = values[n:]
	}
	return true
}

// request returns a copy of the request. The body is not copied.
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

// release puts the snapshot back into the pool, without its references.
func (s *snapshot) release() {
	if s == nil {
		return
	}
	clear(s.fields)
	clear(s.values)
	*s = snapshot{fields: s.fields[:0], values: s.values[:0]}
	snapshots.Put(s)
}
