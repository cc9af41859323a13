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
	tests := []struct {
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
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, test.answer)
			p := atOnce(3)
			p.AttemptTimeout = time.Minute
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
				var status *retryhttp.StatusError
				require.ErrorAs(t, err, &status)
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
	p := atOnce(2)
	p.AttemptTimeout = 500 * time.Millisecond
	p.Observer = &events
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
	assert.EqualValues(t, 1, s.conns.Load())

	closed := 0
	c := &http.Client{Transport: roundTripper(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: countedBody{strings.NewReader("hello"), &closed}}, nil
	})}
	assert.PanicsWithValue(t, "boom", func() {
		_ = retryhttp.Do(c, nil, request(t, http.MethodGet, "http://h", nil), func(*http.Response) error { panic("boom") })
	})
	assert.Equal(t, 1, closed)
}

type countedBody struct {
	io.Reader
	closed *int
}

func (c countedBody) Close() error {
	*c.closed++
	return nil
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
	tests := []struct {
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
	}
	for _, test := range tests {
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
	var e *retryhttp.StatusError
	require.ErrorAs(t, err, &e)
	assert.Equal(t, "no field x", string(e.Body))
}
