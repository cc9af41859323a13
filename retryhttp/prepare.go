package retryhttp

import (
	"net/http"
	"net/url"
	"slices"
	"sync"

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
