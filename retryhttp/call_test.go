package retryhttp_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

// 421: the request is sent once more over another connection, whatever the
// method. The connections of other requests stay.
func TestMisdirected(t *testing.T) {
	t.Parallel()
	for _, h2 := range []bool{false, true} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			for _, always := range []bool{false, true} {
				t.Run(fmt.Sprintf("HTTP/2 %v, %s, always %v", h2, method, always), func(t *testing.T) {
					t.Parallel()
					codes := []int{200, 421, 200}
					if always {
						codes = codes[:2]
					}
					var handlers []http.HandlerFunc
					for _, code := range codes {
						handlers = append(handlers, func(w http.ResponseWriter, r *http.Request) {
							assert.Equal(t, h2, r.ProtoMajor == 2)
							status(code)(w, r)
						})
					}
					s, base := serveTLS(t, h2, handlers...)
					other := serve(t, status(200))
					c := client(t, base, atOnce(9))
					for _, url := range []string{s.URL, other.URL} {
						resp, err := c.Get(url)
						require.NoError(t, err)
						assert.Equal(t, "status 200", text(t, resp))
					}
					resp, err := c.Do(request(t, method, s.URL, strings.NewReader("hello")))
					require.NoError(t, err)
					assert.Equal(t, always, resp.StatusCode == http.StatusMisdirectedRequest)
					assert.Equal(t, fmt.Sprint("status ", resp.StatusCode), text(t, resp))
					assert.Equal(t, 2, retryhttp.Attempts(resp))
					assert.EqualValues(t, 3, s.requests.Load())
					assert.EqualValues(t, 2, s.conns.Load())
					assert.Eventually(t, func() bool { return s.open.Load() == 1 }, 5*time.Second, time.Millisecond,
						"the retry's own connection ends when it is done")

					for _, url := range []string{s.URL, other.URL} {
						resp, err := c.Get(url)
						require.NoError(t, err)
						_ = text(t, resp)
					}
					assert.EqualValues(t, 1, other.conns.Load())
					if !always { // else the last request was misdirected, too
						assert.EqualValues(t, 2, s.conns.Load())
					}
				})
			}
		}
	}
}

// Other transports cannot be made to use a new connection.
func TestMisdirectedByAnyTransport(t *testing.T) {
	t.Parallel()
	s := serve(t, status(421), status(200))
	base, _ := toOK(t)
	resp, err := client(t, roundTripper(base.RoundTrip), atOnce(9)).Get(s.URL)
	require.NoError(t, err)
	assert.Equal(t, "status 421", text(t, resp))
	assert.EqualValues(t, 1, s.requests.Load())
}

// Do reaches the transport beneath the client.
func TestMisdirectedDo(t *testing.T) {
	t.Parallel()
	s := serve(t, status(421), status(200))
	base, _ := toOK(t)
	err := retryhttp.Do(client(t, base, atOnce(9)), nil, request(t, http.MethodPost, s.URL, strings.NewReader("hello")),
		nothing)
	require.NoError(t, err)
	assert.EqualValues(t, 2, s.requests.Load())
	assert.EqualValues(t, 2, s.conns.Load())
}

// An HTTP/2 of the caller's own, such as that of golang.org/x/net, has its connections
// outside of the http.Transport: the retry uses net/http's.
func TestMisdirectedByOwnHTTP2(t *testing.T) {
	t.Parallel()
	s, base := serveTLS(t, true, status(200))
	misdirected, requests := always(http.StatusMisdirectedRequest)
	base.TLSClientConfig.NextProtos = []string{"h2"}
	base.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{
		"h2": func(_ string, conn *tls.Conn) http.RoundTripper {
			_ = conn.Close()
			return misdirected
		},
	}
	resp, err := client(t, base, atOnce(2)).Get(s.URL)
	require.NoError(t, err)
	assert.Equal(t, "status 200", text(t, resp))
	assert.Equal(t, 2, resp.ProtoMajor)
	assert.Equal(t, 1, *requests)
}

// If a new connection is impossible, the 421 is returned.
func TestMisdirectedElsewhere(t *testing.T) {
	t.Parallel()
	base := &http.Transport{}
	stub, requests := always(421)
	base.RegisterProtocol("mem", stub)
	resp, err := get(t, &retryhttp.Transport{Base: base, Policy: atOnce(3)}, "mem://h/")
	require.NoError(t, err)
	assert.Equal(t, http.StatusMisdirectedRequest, resp.StatusCode)
	assert.Equal(t, 1, *requests)
}

// Each retry of a 421 that the caller or the server insists on has a connection of
// its own.
func TestMisdirectedAndInsisted(t *testing.T) {
	t.Parallel()
	s := serve(t, status(421, "X-Should-Retry", "true"))
	c := client(t, nil, atOnce(3))
	c.Transport.(*retryhttp.Transport).TrustShouldRetry = true
	resp, err := c.Get(s.URL)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.EqualValues(t, 3, s.requests.Load())
	assert.EqualValues(t, 3, s.conns.Load())
}

// Each attempt has its number, and is signed for itself; no signature is seen by the next.
func TestPrepare(t *testing.T) {
	t.Parallel()
	for header, want := range map[string][]string{
		"":          {" 1 hello", " 2 hello", " 3 hello"},
		"X-Attempt": {"1 1 hello", "2 2 hello", "3 3 hello"},
	} {
		var seen []string
		s := serve(t, func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			assert.NoError(t, err)
			seen = append(seen, r.Header.Get("X-Attempt")+" "+strings.Join(r.Header["Signature"], "+")+" "+string(body))
			if len(seen) < 3 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		})
		n := 0
		transport := &retryhttp.Transport{Policy: atOnce(3), AttemptHeader: header, Prepare: func(req *http.Request) error {
			n++
			req.Header.Add("Signature", strconv.Itoa(n))
			return nil
		}}
		req := request(t, http.MethodPut, s.URL, strings.NewReader("hello"))
		resp, err := transport.RoundTrip(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, 3, retryhttp.Attempts(resp))
		assert.Equal(t, want, seen)
		assert.Empty(t, req.Header)
	}
}

// A request that cannot be prepared is not sent.
func TestPrepareFails(t *testing.T) {
	t.Parallel()
	errKey := errors.New("no key")
	for name, test := range map[string]struct {
		err   error
		calls int
	}{
		"for good":     {errKey, 1},
		"for a moment": {retry.MarkRetryable(errKey), 3},
		"by a timeout": {context.DeadlineExceeded, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			calls := 0
			body := &onceBody{Reader: strings.NewReader("hello")}
			transport := &retryhttp.Transport{
				Base: roundTripper(func(*http.Request) (*http.Response, error) {
					assert.Fail(t, "sent")
					return nil, errKey
				}),
				Policy: atOnce(3), Budget: retryhttp.NoBudget, BufferBody: 10,
				Prepare: func(*http.Request) error { calls++; return test.err },
			}
			_, err := transport.RoundTrip(request(t, http.MethodPost, "http://127.0.0.1", body))
			require.ErrorIs(t, err, test.err)
			assert.Equal(t, test.calls, calls)
			assert.EqualValues(t, 1, body.closed.Load())
		})
	}
}

// A panic leaves no timer behind.
func TestPanicEndsTheAttempt(t *testing.T) {
	t.Parallel()
	var attempt *http.Request
	base := roundTripper(func(req *http.Request) (*http.Response, error) {
		attempt = req
		panic("boom")
	})
	p := atOnce(1)
	p.AttemptTimeout = time.Hour
	assert.PanicsWithValue(t, "boom", func() {
		_, _ = (&retryhttp.Transport{Base: base, Policy: p}).RoundTrip(request(t, http.MethodGet, "http://h", nil))
	})
	assert.Error(t, attempt.Context().Err())
}
