package retryhttp

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"sync"
	"sync/atomic"
)

func hasBody(req *http.Request) bool { return req.Body != nil && req.Body != http.NoBody }

// replay has the body for each attempt.
type replay struct {
	req *http.Request

	used   bool    // an attempt has got the caller's own body, which its transport closes
	shared *shared // attempts read from the caller's own body in turn
}

// newReplay finds a way to read the body of a request a second time: GetBody, or
// else Seek, or else up to limit bytes of memory.
func newReplay(req *http.Request, limit int64) replay {
	r := replay{req: req}
	if !hasBody(req) || req.GetBody != nil {
		return r
	}
	if seeker, ok := inside(req.Body).(io.Seeker); ok {
		// A pipe has a Seek method too, which fails.
		if start, err := seeker.Seek(0, io.SeekCurrent); err == nil {
			r.shared = &shared{body: req.Body, source: &seeking{req.Body, seeker, start}}
			return r
		}
	}
	if limit > 0 {
		r.shared = &shared{body: req.Body, source: &buffering{body: req.Body, limit: limit}}
	}
	return r
}

// nopClosers are the types that http.NewRequest wraps a Reader without Close in.
var nopClosers = [...]reflect.Type{
	reflect.TypeOf(io.NopCloser(nil)),
	reflect.TypeOf(io.NopCloser(struct {
		io.Reader
		io.WriterTo
	}{})),
}

// inside returns what a NopCloser is around, such as an io.SectionReader, or the body itself.
func inside(body io.Reader) any {
	for _, t := range nopClosers {
		if reflect.TypeOf(body) == t {
			return reflect.ValueOf(body).Field(0).Interface()
		}
	}
	return body
}

var errOnce = errors.New("it can be read only once")

// next returns the body of the next attempt.
func (r *replay) next() (io.ReadCloser, error) {
	if !r.repeatable() && (r.used || r.shared != nil && r.shared.current != nil) {
		return nil, errOnce // a mark of the caller asked for this attempt
	}
	switch {
	case r.shared != nil:
		return r.shared.next(), nil
	case r.used && hasBody(r.req):
		return r.req.GetBody()
	default:
		r.used = true
		return r.req.Body, nil
	}
}

// repeatable reports whether there can be another attempt.
func (r *replay) repeatable() bool {
	if r.shared != nil {
		return r.shared.source.repeatable()
	}
	return !hasBody(r.req) || r.req.GetBody != nil
}

// finish closes the caller's body if no attempt does so. If there is a response,
// its attempt may still read the body.
func (r *replay) finish(answered bool) {
	switch {
	case r.shared != nil:
		r.shared.finish(answered)
	case !r.used && r.req.Body != nil:
		_ = r.req.Body.Close()
	}
}

// shared is a body that several attempts read in turn. The transport may go on
// reading for an attempt that is over, and may close the body during a Read;
// neither must disturb the next attempt.
type shared struct {
	body   io.Closer
	source source

	reading sync.Mutex // held while the source is read or rewound

	mu      sync.Mutex
	current *turn
	ended   bool // there is no further attempt
	once    sync.Once
}

// source is the origin of a shared body.
type source interface {
	io.Reader
	rewind() error
	repeatable() bool
}

// turn is the body of one attempt.
type turn struct {
	of     *shared
	begun  bool // guarded by of.reading
	closed atomic.Bool
}

func (s *shared) next() *turn {
	t := &turn{of: s}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != nil {
		s.current.closed.Store(true)
	}
	s.current = t
	return t
}

// Read rewinds the source when it is first called, because a Read of the attempt
// before may still be running until then.
func (t *turn) Read(p []byte) (int, error) {
	s := t.of
	s.reading.Lock()
	defer s.reading.Unlock()
	if t.closed.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	if !t.begun {
		t.begun = true
		if err := s.source.rewind(); err != nil {
			return 0, fmt.Errorf("retryhttp: cannot send the body again: %w", err)
		}
	}
	return s.source.Read(p)
}

func (t *turn) Close() error {
	t.closed.Store(true)
	s := t.of
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended && s.current == t {
		s.close()
	}
	return nil
}

func (s *shared) finish(answered bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	if !answered || s.current == nil || s.current.closed.Load() {
		s.close()
	}
}

func (s *shared) close() { s.once.Do(func() { _ = s.body.Close() }) }

// seeking is a source that seeks back to the first position of the body.
type seeking struct {
	io.Reader
	seeker io.Seeker
	start  int64
}

func (s *seeking) rewind() error {
	_, err := s.seeker.Seek(s.start, io.SeekStart)
	return err
}

func (s *seeking) repeatable() bool { return true }

// buffering is a source that keeps what was read and reads on from there.
type buffering struct {
	body  io.Reader
	limit int64

	kept []byte
	pos  int   // in kept
	end  error // the end of the source after kept
	full atomic.Bool
}

func (b *buffering) Read(p []byte) (int, error) {
	if b.pos < len(b.kept) {
		n := copy(p, b.kept[b.pos:])
		b.pos += n
		return n, nil
	}
	if b.end != nil {
		return 0, b.end
	}
	n, err := b.body.Read(p)
	b.end = err
	if b.full.Load() || int64(len(b.kept)+n) > b.limit {
		b.full.Store(true)
		b.kept, b.pos = nil, 0
		return n, err
	}
	b.kept = append(b.kept, p[:n]...)
	b.pos += n
	return n, err
}

func (b *buffering) rewind() error {
	if b.full.Load() {
		return errOnce // the previous attempt has just read too much
	}
	b.pos = 0
	return nil
}

func (b *buffering) repeatable() bool { return !b.full.Load() }

// rewindError reports that the request could not be sent again.
type rewindError struct{ err, last error }

func (e *rewindError) Error() string {
	return fmt.Sprintf("retryhttp: cannot send the body again: %v; after: %v", e.err, e.last)
}

func (e *rewindError) Unwrap() []error { return []error{e.err, e.last} }
