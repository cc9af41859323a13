package retryhttp_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

// countedFile is a file whose Close is counted.
type countedFile struct {
	*os.File
	closed atomic.Int64
}

func (f *countedFile) Close() error {
	f.closed.Add(1)
	return f.File.Close()
}

// countedSeeker is an io.Seeker at an offset.
type countedSeeker struct {
	*bytes.Reader
	closed atomic.Int64
}

func (s *countedSeeker) Close() error {
	s.closed.Add(1)
	return nil
}

// orReader returns the seeker or, if there is a limit for a copy, no more than a reader.
func (s *countedSeeker) orReader(limit int64) io.ReadCloser {
	if limit == 0 {
		return s
	}
	return struct {
		io.Reader
		io.Closer
	}{s.Reader, s}
}

// bodyKind is a way to have a body.
type bodyKind struct {
	name  string
	limit int64 // BufferBody
	make  func(t *testing.T) (body io.ReadCloser, length int64, closed *atomic.Int64)
	get   bool // has a GetBody
	sent  int
	want  string
}

var bodyKinds = []bodyKind{
	{name: "nil", sent: 3, make: func(*testing.T) (io.ReadCloser, int64, *atomic.Int64) { return nil, 0, nil }},
	{name: "NoBody", sent: 3, make: func(*testing.T) (io.ReadCloser, int64, *atomic.Int64) { return http.NoBody, 0, nil }},
	{name: "GetBody", sent: 3, want: "hello", get: true, make: onceOf("hello")},
	{name: "reader", sent: 1, want: "hello", make: onceOf("hello")},
	{name: "reader, limit above", sent: 3, want: "hello", limit: 6, make: onceOf("hello")},
	{name: "reader, limit", sent: 3, want: "hello", limit: 5, make: onceOf("hello")},
	{name: "reader, limit below", sent: 1, want: "hello", limit: 4, make: onceOf("hello")},
	{name: "empty reader, limit", sent: 3, want: "", limit: 1, make: onceOf("")},
	{name: "seeker at an offset", sent: 3, want: "hello", make: func(t *testing.T) (io.ReadCloser, int64, *atomic.Int64) {
		t.Helper()
		s := &countedSeeker{Reader: bytes.NewReader([]byte("before hello"))}
		_, err := s.Seek(7, io.SeekStart)
		assert.NoError(t, err)
		return s, 5, &s.closed
	}},
	{name: "file at an offset", sent: 3, want: "hello", make: func(t *testing.T) (io.ReadCloser, int64, *atomic.Int64) {
		t.Helper()
		path := filepath.Join(t.TempDir(), "body")
		assert.NoError(t, os.WriteFile(path, []byte("before hello"), 0o600))
		file, err := os.Open(path)
		assert.NoError(t, err)
		_, err = file.Seek(7, io.SeekStart)
		assert.NoError(t, err)
		f := &countedFile{File: file}
		return f, 5, &f.closed
	}},
	{name: "seeker in a NopCloser", sent: 3, want: "hello", make: func(*testing.T) (io.ReadCloser, int64, *atomic.Int64) {
		return io.NopCloser(io.NewSectionReader(strings.NewReader("before hello"), 7, 5)), 5, nil
	}},
	{name: "seeker that writes, in a NopCloser", sent: 3, want: "hello", make: func(*testing.T) (io.ReadCloser, int64, *atomic.Int64) {
		return io.NopCloser(struct{ *bytes.Reader }{bytes.NewReader([]byte("hello"))}), 5, nil
	}},
	{name: "pipe", sent: 1, want: "hello", make: pipeOf},
	{name: "pipe, limit", sent: 3, want: "hello", limit: 5, make: pipeOf},
}

func onceOf(text string) func(*testing.T) (io.ReadCloser, int64, *atomic.Int64) {
	return func(*testing.T) (io.ReadCloser, int64, *atomic.Int64) {
		b := &onceBody{Reader: strings.NewReader(text)}
		return b, -1, &b.closed
	}
}

// pipeOf is a file with a Seek method that fails.
func pipeOf(t *testing.T) (io.ReadCloser, int64, *atomic.Int64) {
	t.Helper()
	r, w, err := os.Pipe()
	assert.NoError(t, err)
	_, err = w.WriteString("hello")
	assert.NoError(t, err)
	assert.NoError(t, w.Close())
	f := &countedFile{File: r}
	return f, -1, &f.closed
}

// a3: a body is sent as often as expected, is the same each time, and is closed,
// and the caller's request is unchanged.
func TestBodies(t *testing.T) {
	t.Parallel()
	for _, kind := range bodyKinds {
		for _, method := range []string{http.MethodPut, http.MethodPost} {
			t.Run(kind.name+", "+method, func(t *testing.T) {
				t.Parallel()
				var mu sync.Mutex
				var bodies []string
				record := func(next http.HandlerFunc) http.HandlerFunc {
					return func(w http.ResponseWriter, r *http.Request) {
						body, err := io.ReadAll(r.Body)
						assert.NoError(t, err)
						assert.Equal(t, "example.com", r.Host)
						mu.Lock()
						bodies = append(bodies, string(body))
						mu.Unlock()
						next(w, r)
					}
				}
				s := serve(t, record(status(429)), record(status(429)), record(status(200)))
				req := request(t, method, s.URL+"/path?a=b", nil, "X-Own", "1")
				body, length, closed := kind.make(t)
				req.Body, req.ContentLength, req.Host = body, length, "example.com"
				if kind.get {
					req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(kind.want)), nil }
				}
				before, url, header := *req, *req.URL, req.Header.Clone()

				base, _ := toOK(t)
				transport := &retryhttp.Transport{
					Base: base, Policy: atOnce(3), Budget: retryhttp.NoBudget, BufferBody: kind.limit, AttemptHeader: "X-Attempt",
				}
				resp := testkit.Must(transport.RoundTrip(req))(t)
				want := "status 200"
				if kind.sent == 1 {
					want = "status 429"
				}
				assert.Equal(t, want, text(t, resp))
				assert.Equal(t, slices.Repeat([]string{kind.want}, kind.sent), bodies)
				if closed != nil {
					assert.NotZero(t, closed.Load(), "closed")
				}

				assert.Equal(t, url, *req.URL)
				assert.Same(t, before.URL, req.URL)
				assert.Equal(t, header, req.Header)
				assert.Equal(t, before.Body, req.Body)
				assert.Equal(t, before.ContentLength, req.ContentLength)
				assert.Equal(t, "example.com", req.Host)
				assert.Equal(t, method, req.Method)
				assert.Nil(t, req.Trailer)
				assert.Equal(t, before.GetBody == nil, req.GetBody == nil)
				assert.Equal(t, before.Context(), req.Context())
			})
		}
	}
}

// The body of a RoundTripper's caller is closed whatever happens.
func TestBodyIsClosed(t *testing.T) {
	t.Parallel()
	errBase := errors.New("base fails")
	closes := func(req *http.Request) {
		if req.Body != nil {
			_ = req.Body.Close()
		}
	}
	for name, test := range map[string]struct {
		base   roundTripper
		panics bool
		done   bool // the context is, before
	}{
		"succeeds": {base: func(req *http.Request) (*http.Response, error) {
			_, _ = io.Copy(io.Discard, req.Body)
			closes(req)
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
		}},
		"reads in part": {base: func(req *http.Request) (*http.Response, error) {
			_, _ = req.Body.Read(make([]byte, 1))
			closes(req)
			return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: http.NoBody}, nil
		}},
		"fails": {base: func(req *http.Request) (*http.Response, error) {
			closes(req)
			return nil, errBase
		}},
		"fails for now": {base: func(req *http.Request) (*http.Response, error) {
			closes(req)
			return nil, retry.MarkRetryable(errBase)
		}},
		"panics": {panics: true, base: func(*http.Request) (*http.Response, error) { panic(errBase) }},
		"closes, panics": {panics: true, base: func(req *http.Request) (*http.Response, error) {
			closes(req)
			panic(errBase)
		}},
		"is not asked": {done: true, base: func(*http.Request) (*http.Response, error) { return nil, errBase }},
	} {
		for _, kind := range bodyKinds {
			t.Run(name+", "+kind.name, func(t *testing.T) {
				t.Parallel()
				body, length, closed := kind.make(t)
				if closed == nil {
					return
				}
				req := request(t, http.MethodPut, "http://127.0.0.1", nil)
				req.Body, req.ContentLength = body, length
				if kind.get {
					req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(kind.want)), nil }
				}
				if test.done {
					req = req.WithContext(testkit.Canceled(req.Context()))
				}
				transport := &retryhttp.Transport{
					Base: test.base, Policy: atOnce(2), Budget: retryhttp.NoBudget, BufferBody: kind.limit,
				}
				roundTrip := func() {
					_, _ = transport.RoundTrip(req)
				}
				if test.panics {
					assert.PanicsWithValue(t, errBase, roundTrip)
				} else {
					roundTrip()
					assert.LessOrEqual(t, closed.Load(), int64(1), "closed once")
				}
				assert.NotZero(t, closed.Load())
			})
		}
	}
}

// If a body cannot be read again, the error has the failure before it, and no
// empty body is sent.
func TestGetBodyFailsLater(t *testing.T) {
	t.Parallel()
	errGone := errors.New("file is gone")
	s := serve(t, status(503))
	gets := 0
	req := request(t, http.MethodPut, s.URL, strings.NewReader("hello"))
	req.GetBody = func() (io.ReadCloser, error) {
		if gets++; gets == 2 {
			return nil, errGone
		}
		return io.NopCloser(strings.NewReader("hello")), nil
	}
	_, err := client(t, nil, atOnce(5)).Do(req)
	require.ErrorIs(t, err, errGone)
	_ = testkit.As[*retryhttp.StatusError](t, err)
	assert.EqualValues(t, 2, s.requests.Load())
}

// A seeker that fails later does not send an empty body either.
func TestSeekFailsLater(t *testing.T) {
	t.Parallel()
	var complete atomic.Int64
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err == nil {
			complete.Add(1)
		}
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	body := &failingSeeker{Reader: strings.NewReader("hello")}
	req := request(t, http.MethodPut, s.URL, nil)
	req.Body, req.ContentLength = body, 5
	_, err := client(t, nil, atOnce(5)).Do(req)
	require.ErrorIs(t, err, errSeek)
	assert.EqualValues(t, 1, complete.Load())
	assert.EqualValues(t, 1, body.closed.Load())
}

var errSeek = errors.New("cannot seek")

type failingSeeker struct {
	*strings.Reader
	seeks, closed atomic.Int64
}

func (s *failingSeeker) Seek(offset int64, whence int) (int64, error) {
	if s.seeks.Add(1) > 2 { // to find the start, and to go there
		return 0, errSeek
	}
	return s.Reader.Seek(offset, whence)
}

func (s *failingSeeker) Close() error {
	s.closed.Add(1)
	return nil
}

// A server may answer while the body is still being sent: the next attempt starts
// over, whatever the one before is still reading.
func TestBodyIsStillBeingSent(t *testing.T) {
	t.Parallel()
	large := bytes.Repeat([]byte("0123456789abcde\n"), 1<<18) // 4 MiB
	for _, limit := range []int64{0, int64(len(large))} {
		t.Run(fmt.Sprint("limit ", limit), func(t *testing.T) {
			t.Parallel()
			var received []byte
			s := serve(t, status(503), status(503), func(_ http.ResponseWriter, r *http.Request) {
				var err error
				received, err = io.ReadAll(r.Body)
				assert.NoError(t, err)
			})
			body := &countedSeeker{Reader: bytes.NewReader(large)}
			req := request(t, http.MethodPut, s.URL, nil)
			req.Body = body.orReader(limit)
			req.ContentLength = int64(len(large))
			base, _ := toOK(t)
			transport := &retryhttp.Transport{Base: base, Policy: atOnce(3), Budget: retryhttp.NoBudget, BufferBody: limit}
			resp := testkit.Must(transport.RoundTrip(req))(t)
			assert.Equal(t, 200, resp.StatusCode)
			assert.Empty(t, text(t, resp))
			assert.True(t, bytes.Equal(large, received), "%d bytes", len(received))
			assert.EqualValues(t, 1, body.closed.Load())
		})
	}
}

// The caller's Trailer is filled in while the body is read, each time.
func TestTrailerOfEachAttempt(t *testing.T) {
	t.Parallel()
	var sums []string
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		sums = append(sums, r.Trailer.Get("Sum"))
		if len(sums) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	req := request(t, http.MethodPut, s.URL, nil)
	trailer := http.Header{"Sum": nil}
	req.Trailer = trailer
	reads := 0
	req.GetBody = func() (io.ReadCloser, error) {
		return io.NopCloser(io.MultiReader(strings.NewReader("hello"), readerFunc(func() {
			reads++
			trailer.Set("Sum", strconv.Itoa(reads))
		}))), nil
	}
	req.Body, _ = req.GetBody()
	resp := testkit.Must(client(t, nil, atOnce(3)).Do(req))(t)
	assert.Empty(t, text(t, resp))
	slices.Sort(sums)
	assert.Len(t, slices.Compact(sums), 3)
	assert.NotContains(t, sums, "")
	assert.Equal(t, strconv.Itoa(reads), trailer.Get("Sum"))
}

// A transport that still reads for an attempt that is over gets no part of the
// next attempt's body.
func TestOldBodyTakesNothing(t *testing.T) {
	t.Parallel()
	for _, limit := range []int64{0, 100} {
		t.Run(fmt.Sprint("limit ", limit), func(t *testing.T) {
			t.Parallel()
			var old io.ReadCloser
			base := roundTripper(func(req *http.Request) (*http.Response, error) {
				two := make([]byte, 2)
				_, err := io.ReadFull(req.Body, two)
				assert.NoError(t, err)
				assert.Equal(t, "he", string(two))
				if old == nil {
					old = req.Body
					return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: http.NoBody}, nil
				}
				n, err := old.Read(two)
				assert.Zero(t, n)
				assert.ErrorIs(t, err, http.ErrBodyReadAfterClose)
				assert.NoError(t, old.Close())
				rest, err := io.ReadAll(req.Body)
				assert.NoError(t, err)
				assert.Equal(t, "llo", string(rest))
				return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, req.Body.Close()
			})
			body := &countedSeeker{Reader: bytes.NewReader([]byte("hello"))}
			req := request(t, http.MethodPut, "http://127.0.0.1", nil)
			req.Body = body.orReader(limit)
			transport := &retryhttp.Transport{Base: base, Policy: atOnce(2), Budget: retryhttp.NoBudget, BufferBody: limit}
			resp := testkit.Must(transport.RoundTrip(req))(t)
			assert.Equal(t, http.StatusOK, resp.StatusCode)
			assert.EqualValues(t, 1, body.closed.Load())
		})
	}
}

// An attempt that is over may still read more than can be kept, when the next one
// is decided on already. That must not go on in the middle of the body.
func TestBufferOverflowsLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		chunks := make(chan string)
		body := &onceBody{Reader: chanReader(chunks)}
		var wg sync.WaitGroup
		attempts := 0
		base := roundTripper(func(req *http.Request) (*http.Response, error) {
			attempts++
			if attempts == 1 {
				wg.Go(func() { _, _ = io.ReadFull(req.Body, make([]byte, 8)) })
				chunks <- "1234"
				synctest.Wait() // the reader asks for more
				return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: http.NoBody}, nil
			}
			wg.Go(func() { chunks <- "5678" })
			read, err := io.ReadAll(req.Body)
			assert.Empty(t, read)
			assert.NoError(t, req.Body.Close())
			return nil, err
		})
		transport := &retryhttp.Transport{Base: base, Policy: atOnce(3), BufferBody: 6}
		_, err := transport.RoundTrip(request(t, http.MethodPut, "http://h", body))
		require.ErrorContains(t, err, "cannot send the body again")
		assert.Equal(t, 2, attempts)
		wg.Wait()
		assert.EqualValues(t, 1, body.closed.Load())
	})
}

// chanReader reads what is sent.
type chanReader chan string

func (c chanReader) Read(p []byte) (int, error) { return copy(p, <-c), nil }
