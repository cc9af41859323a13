package retryhttp_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retryhttp"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// breakOff promises more than it sends.
func breakOff(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Length", "100")
	_, _ = io.WriteString(w, `{"answer": `)
	_ = http.NewResponseController(w).Flush()
	reset(w, r)
}

// breakOffChunked ends in the middle of the chunks.
func breakOffChunked(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, `{"answer": `)
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

func answer(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"answer": 42}`) }

func TestDo(t *testing.T) {
	t.Parallel()
	s := serve(t, status(503), breakOff, breakOffChunked, answer)
	var result struct{ Answer int }
	err := retryhttp.Do(plainClient(t), atOnce(4), request(t, http.MethodGet, s.URL, nil), func(resp *http.Response) error {
		assert.Equal(t, 200, resp.StatusCode)
		return json.NewDecoder(resp.Body).Decode(&result)
	})
	require.NoError(t, err)
	assert.Equal(t, 42, result.Answer)
	assert.EqualValues(t, 4, s.requests.Load())
}

func TestDoFailures(t *testing.T) {
	t.Parallel()
	errBusiness := errors.New("insufficient funds")
	readAll := func(resp *http.Response) error {
		_, err := io.Copy(io.Discard, resp.Body)
		return err
	}
	for _, test := range []struct {
		name     string
		method   string
		answer   http.HandlerFunc
		read     func(*http.Response) error
		requests int
		want     error  // in the error's tree
		body     string // of the StatusError
	}{
		{"status that outlives its retries", "GET", status(503), readAll, 3, retry.StopAttempts, "status 503"},
		{"final status", "GET", status(404), readAll, 1, nil, "status 404"},
		{"status of a POST", "POST", status(500), readAll, 1, retry.StopMaybeApplied, "status 500"},
		{"body that breaks off", "GET", breakOff, readAll, 3, retry.StopAttempts, ""},
		{"body of a POST that breaks off", "POST", breakOff, readAll, 1, retry.StopMaybeApplied, ""},
		{"error of the caller's", "GET", answer, func(*http.Response) error { return errBusiness }, 1, errBusiness, ""},
		{"error of the caller's after the end of the body", "GET", answer, func(resp *http.Response) error {
			_ = readAll(resp)
			return errBusiness
		}, 1, errBusiness, ""},
		{"marked error of the caller's", "POST", answer, func(*http.Response) error {
			return retry.MarkRetryable(errBusiness)
		}, 3, retry.StopAttempts, ""},
		{"redirects without end", "GET", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://user:s3cret@"+r.Host+"/?t=s3cret", http.StatusFound)
		}, readAll, 10, nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, test.answer)
			p := within(time.Minute, 3)
			err := retryhttp.Do(plainClient(t), p, request(t, test.method, s.URL, strings.NewReader("hello")), test.read)
			require.Error(t, err)
			assert.EqualValues(t, test.requests, s.requests.Load())
			assert.NotContains(t, err.Error(), "s3cret")
			var gaveUp *retry.Error
			assert.Equal(t, test.want != nil && test.want != errBusiness, errors.As(err, &gaveUp), "Final errors are returned as they are")
			if test.want != nil {
				require.ErrorIs(t, err, test.want)
			}
			if test.body != "" {
				status := testkit.As[*retryhttp.StatusError](t, err)
				assert.Equal(t, test.body, string(status.Body))
			}
		})
	}
}

// A body that does not come is cut off by the timeout of the attempt.
func TestDoSlowBody(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"answer": `)
		_ = http.NewResponseController(w).Flush()
		hang(w, r)
	}, answer)
	var events retrytest.Recorder
	p := within(500*time.Millisecond, 2)
	p.Observer = events.Observer()
	var body []byte
	err := retryhttp.Do(plainClient(t), p, request(t, http.MethodGet, s.URL, nil), func(resp *http.Response) (err error) {
		body, err = io.ReadAll(resp.Body)
		return err
	})
	require.NoError(t, err)
	assert.JSONEq(t, `{"answer": 42}`, string(body))
	assert.Equal(t, retry.Verdict{Class: retry.Retryable, Category: "timeout"}, events.Events()[0].Verdict)
}

// The options of a Transport in the client apply, and the retries do not multiply.
func TestDoOverTransport(t *testing.T) {
	t.Parallel()
	s := serve(t, status(503))
	c := client(t, nil, atOnce(3))
	c.Transport.(*retryhttp.Transport).AttemptHeader = "X-Attempt"
	var last string
	c.Transport.(*retryhttp.Transport).Base = roundTripper(func(req *http.Request) (*http.Response, error) {
		last = req.Header.Get("X-Attempt")
		return http.DefaultTransport.RoundTrip(req)
	})
	err := retryhttp.Do(c, nil, request(t, http.MethodGet, s.URL, nil), nothing)
	require.ErrorIs(t, err, retry.StopAttempts)
	assert.EqualValues(t, 3, s.requests.Load())
	assert.Equal(t, "3", last)

	err = retryhttp.Do(c, atOnce(2), request(t, http.MethodGet, s.URL, nil), nothing)
	require.Error(t, err)
	assert.EqualValues(t, 5, s.requests.Load(), "a policy that is given counts")
}

func TestDoWithout(t *testing.T) {
	t.Parallel()
	require.Error(t, retryhttp.Do(nil, nil, nil, nothing))
	require.Error(t, retryhttp.Do(nil, nil, request(t, http.MethodGet, "http://h", nil), nil))
	s := serve(t, answer)
	require.NoError(t, retryhttp.Do(nil, nil, request(t, http.MethodGet, s.URL, nil), nothing))
}

// Do closes every body, and saves the connection where it can.
func TestDoClosesBodies(t *testing.T) {
	t.Parallel()
	s := serve(t, status(503), status(503), answer)
	for range 3 {
		_ = retryhttp.Do(s.Client(), atOnce(3), request(t, http.MethodGet, s.URL, nil), nothing)
	}
	assert.LessOrEqual(t, s.conns.Load(), int64(2), "3 if no body is drained; a busy machine may be too late for one")

	body := &onceBody{Reader: strings.NewReader("hello")}
	c := &http.Client{Transport: roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: body}, nil
	})}
	assert.PanicsWithValue(t, "boom", func() {
		_ = retryhttp.Do(c, nil, request(t, http.MethodGet, "http://h", nil), func(*http.Response) error { panic("boom") })
	})
	assert.EqualValues(t, 1, body.closed.Load())
}

func ExampleDo() {
	client := &http.Client{Transport: roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(`{"answer": 42}`))}, nil
	})}
	req, _ := http.NewRequest(http.MethodGet, "https://example.com", nil)
	var result struct{ Answer int }
	err := retryhttp.Do(client, nil, req, func(resp *http.Response) error {
		return json.NewDecoder(resp.Body).Decode(&result)
	})
	fmt.Println(result.Answer, err)
	// Output: 42 <nil>
}

// A POST that was answered with a redirect to its result has been done,
// whatever happens to the second request.
func TestDoIsServedByARedirect(t *testing.T) {
	t.Parallel()
	gone := serve(t, status(200))
	gone.Close()
	for _, test := range []struct {
		name   string
		status int
		then   http.HandlerFunc
		posts  int64
	}{
		{"refused for its rate", http.StatusSeeOther, status(429), 1},
		{"unavailable, with a hint", http.StatusFound, status(503, "Retry-After", "1"), 1},
		{"connection refused", http.StatusSeeOther, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, gone.URL, http.StatusFound)
		}, 1},
		{"not served yet", http.StatusTemporaryRedirect, status(429), 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var posts atomic.Int64
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/pay" {
					posts.Add(1)
					http.Redirect(w, r, "/receipt", test.status)
					return
				}
				test.then(w, r)
			})
			req := request(t, http.MethodPost, s.URL+"/pay", strings.NewReader("10"))
			require.Error(t, retryhttp.Do(plainClient(t), atOnce(3), req, nothing))
			assert.Equal(t, test.posts, posts.Load())
		})
	}
}

// Do waits for the body of a final response.
func TestDoSlowErrorBody(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		assert.NoError(t, http.NewResponseController(w).Flush())
		time.Sleep(80 * time.Millisecond) // longer than a drain
		_, _ = io.WriteString(w, "no field x")
	})
	err := retryhttp.Do(plainClient(t), atOnce(3), request(t, http.MethodGet, s.URL, nil), nothing)
	e := testkit.As[*retryhttp.StatusError](t, err)
	assert.Equal(t, "no field x", string(e.Body))
}

// The recipe for streams, against a server that fails before and after the first delta.
func TestStream(t *testing.T) {
	t.Parallel()
	const (
		start      = `{"type": "message_start"}`
		hello      = `{"type": "content_block_delta", "delta": {"text": "Hello"}}`
		end        = `{"type": "message_stop"}`
		overloaded = `{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}`
		limited    = `{"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}}`
		invalid    = `{"type": "error", "error": {"type": "invalid_request_error", "message": "no prompt"}}`
	)
	cut := func(data ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, req *http.Request) {
			events(data...)(w, req)
			panic(http.ErrAbortHandler)
		}
	}
	good := events(start, hello, end)
	for name, test := range map[string]struct {
		handlers []http.HandlerFunc
		requests int64
		shown    string
		want     string // the error
	}{
		"a whole stream":               {[]http.HandlerFunc{good}, 1, "Hello", ""},
		"overloaded, then not":         {[]http.HandlerFunc{events(start, overloaded), good}, 2, "Hello", ""},
		"overloaded by status":         {[]http.HandlerFunc{status(529), good}, 2, "Hello", ""},
		"limited, then not":            {[]http.HandlerFunc{events(limited), good}, 2, "Hello", ""},
		"always overloaded":            {[]http.HandlerFunc{events(start, overloaded)}, 3, "", "failed after 3 attempts: overloaded_error: Overloaded"},
		"a quota of tokens":            {[]http.HandlerFunc{status(429, "X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "2ms"), good}, 2, "Hello", ""},
		"cut before the first delta":   {[]http.HandlerFunc{cut(start), good}, 2, "Hello", ""},
		"ended before the first delta": {[]http.HandlerFunc{events(start), good}, 2, "Hello", ""},
		"overloaded after a delta":     {[]http.HandlerFunc{events(start, hello, overloaded), good}, 1, "Hello", "overloaded_error: Overloaded"},
		"cut after a delta":            {[]http.HandlerFunc{cut(start, hello), good}, 1, "Hello", io.ErrUnexpectedEOF.Error()},
		"ended after a delta":          {[]http.HandlerFunc{events(start, hello), good}, 1, "Hello", io.ErrUnexpectedEOF.Error()},
		"a bad request":                {[]http.HandlerFunc{events(invalid), good}, 1, "", "invalid_request_error: no prompt"},
		"no JSON":                      {[]http.HandlerFunc{events(`{"type":`), good}, 1, "", "unexpected end of JSON input"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, test.handlers...)
			client := &http.Client{Transport: &retryhttp.Transport{
				Policy: atOnce(3), Cooldown: time.Minute, IdempotencyKey: retryhttp.RandomKey,
			}}
			var shown strings.Builder
			req := request(t, http.MethodPost, s.URL, strings.NewReader(`{"stream": true}`))
			err := retryhttp.Do(client, nil, req, func(resp *http.Response) error {
				return stream(resp.Body, func(delta string) { shown.WriteString(delta) })
			})
			if test.want == "" {
				require.NoError(t, err)
			} else {
				require.EqualError(t, err, test.want)
			}
			assert.Equal(t, test.requests, s.requests.Load())
			assert.Equal(t, test.shown, shown.String())
		})
	}
}

func TestStatusErrorText(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "GET : 0", (&retryhttp.StatusError{}).Error())
	assert.Equal(t, "PUT http://h/: 599", (&retryhttp.StatusError{Method: "PUT", URL: "http://h/", StatusCode: 599}).Error())
}

// cutting is a server of a content that breaks off after four bytes, unless it is asked for a part.
func cutting(t *testing.T, version func(h http.Header, request int64), more ...http.HandlerFunc) *server {
	t.Helper()
	var requests atomic.Int64
	return serve(t, append(more, func(w http.ResponseWriter, r *http.Request) {
		version(w.Header(), requests.Add(1))
		if r.Header.Get("Range") == "" {
			w.Header().Set("Content-Length", "10")
			_, _ = io.WriteString(w, "0123")
			return
		}
		modified, _ := http.ParseTime(w.Header().Get("Last-Modified"))
		http.ServeContent(w, r, "", modified, strings.NewReader("0123456789"))
	})...)
}

func TestDownload(t *testing.T) {
	t.Parallel()
	etag := func(h http.Header, _ int64) { h.Set("ETag", `"v1"`) }
	failing := errors.New("no room")
	for _, tt := range []struct {
		name     string
		version  func(h http.Header, request int64)
		from     string // Range
		to       io.Writer
		want     string
		err      string
		requests int64
	}{
		{"goes on", etag, "", nil, "0123456789", "", 2},
		{"goes on from an earlier call", etag, "bytes=4-", nil, "456789", "", 2},
		{"by a time", func(h http.Header, _ int64) { h.Set("Last-Modified", "Wed, 21 Oct 2015 07:28:00 GMT") }, "", nil, "0123456789", "", 2},
		{"nothing tells the version", func(http.Header, int64) {}, "", nil, "0123", "unexpected EOF", 1},
		{"a weak ETag", func(h http.Header, _ int64) { h.Set("ETag", `W/"v1"`) }, "", nil, "0123", "unexpected EOF", 1},
		{"another version", func(h http.Header, n int64) { h.Set("ETag", fmt.Sprintf(`"v%d"`, n)) }, "", nil, "0123", "cannot be continued", 2},
		{"nowhere to write", etag, "", failingWriter{failing}, "", "no room", 1},
		{"no such range", etag, "bytes=0-3", nil, "", `Range: "bytes=0-3": must be like bytes=1024-`, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var earlier []http.HandlerFunc
			if tt.name == "goes on from an earlier call" {
				earlier = append(earlier, status(503))
			}
			s := cutting(t, tt.version, earlier...)
			req := request(t, http.MethodGet, s.URL, nil)
			if tt.from != "" {
				req.Header.Set("Range", tt.from)
				req.Header.Set("If-Range", `"v1"`)
			}
			var got strings.Builder
			if tt.to == nil {
				tt.to = &got
			}
			n, err := retryhttp.Download(plainClient(t), atOnce(3), req, tt.to)
			assert.EqualValues(t, len(tt.want), n)
			assert.Equal(t, tt.want, got.String())
			if tt.err == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, tt.err)
			}
			assert.Equal(t, tt.requests, s.requests.Load())
		})
	}
	_, err := retryhttp.Download(nil, nil, request(t, http.MethodPost, "http://127.0.0.1", nil), io.Discard)
	assert.ErrorContains(t, err, "a GET")
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

// A server may send less than it was asked for. What is compressed on the way has other offsets.
func TestDownloadOfParts(t *testing.T) {
	t.Parallel()
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "identity", r.Header.Get("Accept-Encoding"))
		from := 0
		_, _ = fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from)
		w.Header().Set("ETag", `"v1"`)
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/4", from, from))
		w.WriteHeader(http.StatusPartialContent)
		_, _ = io.WriteString(w, "0123"[from:from+1])
	})
	var got strings.Builder
	testkit.Must(retryhttp.Download(plainClient(t), atOnce(2), request(t, http.MethodGet, s.URL, nil), &got))(t)
	assert.Equal(t, "0123", got.String())
}

// What is written is of one version, and whole: servers break off at the first byte and at the last,
// have replicas, and do not all heed If-Range.
func TestDownloadOfOneVersion(t *testing.T) {
	t.Parallel()
	content := func(code int, etag, within, body string, cut bool) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("ETag", etag)
			if within != "" {
				w.Header().Set("Content-Range", within)
			}
			if cut {
				w.Header().Set("Content-Length", "9")
			}
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
		}
	}
	a, b := `"a"`, `"b"`
	for _, tt := range []struct {
		name     string
		handlers []http.HandlerFunc
		want     string
		err      string
	}{
		{"an attempt without a byte", []http.HandlerFunc{
			content(200, a, "", "", true), content(200, b, "", "01", true), content(206, b, "bytes 2-3/4", "23", false),
		}, "0123", ""},
		{"a replica that has the version of an attempt without a byte", []http.HandlerFunc{
			content(200, a, "", "", true), content(200, b, "", "01", true), content(206, a, "bytes 2-3/4", "23", false),
		}, "01", "cannot be continued"},
		{"If-Range is not heeded", []http.HandlerFunc{content(200, a, "", "01", true), content(206, b, "bytes 2-3/4", "23", false)}, "01", "cannot be continued"},
		{"only the end was missing", []http.HandlerFunc{content(200, a, "", "0123", true), content(416, a, "bytes */4", "", false)}, "0123", ""},
		{"it was longer", []http.HandlerFunc{content(200, a, "", "0123", true), content(416, a, "bytes */3", "", false)}, "0123", "cannot be continued"},
		{"no content", []http.HandlerFunc{content(204, a, "", "", false)}, "", "204 has not the content"},
		{"a part that nobody asked for", []http.HandlerFunc{content(206, a, "bytes 2-3/4", "23", false)}, "", "206 has not the content"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got strings.Builder
			_, err := retryhttp.Download(plainClient(t), atOnce(3), request(t, http.MethodGet, serve(t, tt.handlers...).URL, nil), &got)
			assert.Equal(t, tt.want, got.String())
			if tt.err == "" {
				assert.NoError(t, err)
			} else {
				assert.ErrorContains(t, err, tt.err)
			}
		})
	}
	req := request(t, http.MethodGet, "http://127.0.0.1", nil)
	for from, want := range map[string]string{"bytes=5-": "needs an If-Range", "bytes=-5-": "must be like"} {
		req.Header.Set("Range", from)
		_, err := retryhttp.Download(nil, nil, req, io.Discard)
		assert.ErrorContains(t, err, want)
	}
	_, err := retryhttp.Download(nil, nil, req, nil)
	assert.ErrorContains(t, err, "a writer")
}

// A 401 has had no effect, so a POST is sent again with another token, and the failures
// before it do not count against it.
func TestTokenIsRenewed(t *testing.T) {
	t.Parallel()
	prepare := func(*http.Request) error { return nil }
	for _, test := range []struct {
		name     string
		prepare  func(*http.Request) error
		answers  []int // the last one is repeated
		want     int
		attempts int
	}{
		{"without a Prepare", nil, []int{401, 401, 200}, 200, 3},
		{"the first answer", prepare, []int{401, 200}, 200, 2},
		{"of a proxy", prepare, []int{407, 200}, 200, 2},
		{"after all other attempts", prepare, []int{429, 429, 401, 200}, 200, 4},
		{"between others", prepare, []int{401, 429, 401, 200}, 200, 4},
		{"no failure", prepare, []int{401, 429, 429, 429, 200}, 429, 4},
		{"refused always", prepare, []int{401}, 401, 2},
		{"allowed by nobody", prepare, []int{403}, 403, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			for _, do := range []bool{false, true} {
				calls := 0
				s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
					w.WriteHeader(test.answers[min(calls, len(test.answers)-1)])
					calls++
				})
				client := plainClient(t)
				client.Transport = &retryhttp.Transport{
					Base: client.Transport, Policy: atOnce(3), Budget: func(*http.Request) retry.Throttle { return &retry.Budget{Reserve: 2} },
					Prepare: test.prepare,
					ClassifyResponse: func(resp *http.Response) (v retry.Verdict) {
						if resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusProxyAuthRequired {
							v.Class = retry.Retryable
						}
						return v
					},
				}
				got := 200
				if do {
					err := retryhttp.Do(client, nil, request(t, http.MethodPost, s.URL, strings.NewReader("x")), func(*http.Response) error { return nil })
					if answer := (*retryhttp.StatusError)(nil); errors.As(err, &answer) {
						got = answer.StatusCode
					}
				} else {
					resp := testkit.Must(client.Post(s.URL, "text/plain", strings.NewReader("x")))(t)
					require.NoError(t, resp.Body.Close())
					got = resp.StatusCode
				}
				assert.Equal(t, test.want, got, do)
				assert.Equal(t, test.attempts, calls, do)
			}
		})
	}
}
