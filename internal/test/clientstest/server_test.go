package clientstest_test

import (
	"compress/gzip"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// server answers the nth request with the nth step. A test fails if there are
// more requests than steps, or fewer.
type server struct {
	*httptest.Server

	mu       sync.Mutex
	requests []request
}

// request is what arrived. Two that are the same are the same on the wire.
type request struct {
	Method, URI, Host, Body string
	Header, Trailer         http.Header
	ContentLength           int64
}

// step answers a request, whose body has been read.
type step func(w http.ResponseWriter, r *http.Request)

func serve(t *testing.T, steps ...step) *server {
	t.Helper()
	return serveWith(t, httptest.NewServer, steps...)
}

// serveWith takes httptest.NewServer or NewTLSServer.
func serveWith(t *testing.T, start func(http.Handler) *httptest.Server, steps ...step) *server {
	t.Helper()
	s := &server{}
	s.Server = start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := s.record(r)
		if err != nil {
			t.Errorf("the body of %s %s: %v", r.Method, r.RequestURI, err)
		}
		if n > len(steps) {
			t.Errorf("request %d of %d: %s %s", n, len(steps), r.Method, r.RequestURI)
			w.WriteHeader(http.StatusTeapot)
			return
		}
		steps[n-1](w, r)
	}))
	t.Cleanup(func() {
		s.Close()
		assert.Equal(t, len(steps), len(s.got()), "requests") //nolint:testifylint // Len would print them
	})
	return s
}

// record keeps a request and returns its number.
func (s *server) record(r *http.Request) (int, error) {
	body, err := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, request{
		r.Method, r.RequestURI, r.Host, string(body), r.Header.Clone(), r.Trailer.Clone(), r.ContentLength,
	})
	return len(s.requests), err
}

func (s *server) got() []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// assertSame asserts that all requests were the same one.
func (s *server) assertSame(t *testing.T) {
	t.Helper()
	for _, r := range s.got() {
		assert.Equal(t, s.got()[0], r)
	}
}

// answer answers with headers given as key and value pairs.
func answer(status int, contentType, body string, keysAndValues ...string) step {
	return func(w http.ResponseWriter, _ *http.Request) {
		maps.Copy(w.Header(), pairs(keysAndValues))
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func pairs(keysAndValues []string) http.Header {
	h := http.Header{}
	for i := 0; i < len(keysAndValues); i += 2 {
		h.Set(keysAndValues[i], keysAndValues[i+1])
	}
	return h
}

// compressed answers like next, with gzip if the client takes it.
func compressed(next step) step {
	return func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			next(w, r)
			return
		}
		answer := httptest.NewRecorder()
		next(answer, r)
		maps.Copy(w.Header(), answer.Header())
		w.Header().Set("Content-Encoding", "gzip")
		w.WriteHeader(answer.Code)
		z := gzip.NewWriter(w)
		_, _ = z.Write(answer.Body.Bytes())
		_ = z.Close()
	}
}

// truncated answers like next, but the connection ends amid the body.
func truncated(next step) step {
	return func(w http.ResponseWriter, r *http.Request) {
		answer := httptest.NewRecorder()
		next(answer, r)
		maps.Copy(w.Header(), answer.Header())
		w.Header().Set("Content-Length", strconv.Itoa(answer.Body.Len()))
		w.WriteHeader(answer.Code)
		_, _ = w.Write(answer.Body.Bytes()[:answer.Body.Len()/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
}

// reset resets the connection before there is a response.
func reset(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// hangUp closes the connection before there is a response.
func hangUp(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

// hang does something and answers when the client has gone.
func hang(do func()) step {
	return func(_ http.ResponseWriter, r *http.Request) {
		do()
		untilGone(r)
	}
}

// untilGone waits until the client has gone, or for so long that the test has
// failed.
func untilGone(r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-time.After(10 * time.Second):
	}
}
