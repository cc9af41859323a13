package retryhttp_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retryhttp"
	"github.com/seed-5ff3c98e/retry/retrytest"
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
					kept := false // net/http itself drops a connection if a busy machine is late to report a write
					for n := 0; n < 3 && !kept; n++ {
						kept = misdirected(t, h2, method, always)
					}
					assert.True(t, kept, "the retry has a connection of its own, which ends with it, and the others stay")
				})
			}
		}
	}
}

// misdirected reports whether the connections were as they should be.
func misdirected(t *testing.T, h2 bool, method string, always bool) bool {
	t.Helper()
	codes := []int{200, 421, 200}
	if always {
		codes[2] = 421
	}
	var handlers []http.HandlerFunc
	for n, code := range codes {
		handlers = append(handlers, func(w http.ResponseWriter, r *http.Request) {
			assert.Equal(t, h2, r.ProtoMajor == 2)
			if n == 1 { // no body, so that a busy machine has time to drain it
				w.WriteHeader(code)
				return
			}
			status(code)(w, r)
		})
	}
	s, base := serveTLS(t, h2, handlers...)
	other := serve(t, status(200))
	c := client(t, base, atOnce(9))
	both := func() (texts [2]string) {
		for i, url := range []string{s.URL, other.URL} {
			texts[i] = text(t, testkit.Must(c.Get(url))(t))
		}
		return texts
	}
	assert.Equal(t, [2]string{"status 200", "status 200"}, both())
	resp := testkit.Must(c.Do(request(t, method, s.URL, strings.NewReader("hello"))))(t)
	assert.Equal(t, always, resp.StatusCode == http.StatusMisdirectedRequest)
	assert.Equal(t, fmt.Sprint("status ", resp.StatusCode), text(t, resp))
	assert.Equal(t, 2, retryhttp.Attempts(resp))
	assert.EqualValues(t, 3, s.requests.Load())
	own := s.conns.Load()
	ended := assert.Eventually(new(assert.CollectT), func() bool { return s.open.Load() == 1 }, 5*time.Second, time.Millisecond)
	both()
	return own == 2 && ended && other.conns.Load() == 1 && (always || s.conns.Load() == 2) // always misdirects the last one, too
}

// Other transports cannot be made to use a new connection.
func TestMisdirectedByAnyTransport(t *testing.T) {
	t.Parallel()
	s := serve(t, status(421), status(200))
	base, _ := toOK(t)
	resp := testkit.Must(client(t, roundTripper(base.RoundTrip), atOnce(9)).Get(s.URL))(t)
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
	resp := testkit.Must(client(t, base, atOnce(2)).Get(s.URL))(t)
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
	resp := testkit.Must(get(t, &retryhttp.Transport{Base: base, Policy: atOnce(3)}, "mem://h/"))(t)
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
	resp := testkit.Must(c.Get(s.URL))(t)
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
			body := testkit.Must(io.ReadAll(r.Body))(t)
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
		resp := testkit.Must(transport.RoundTrip(req))(t)
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
	p := within(time.Hour, 1)
	assert.PanicsWithValue(t, "boom", func() {
		_, _ = (&retryhttp.Transport{Base: base, Policy: p}).RoundTrip(request(t, http.MethodGet, "http://h", nil))
	})
	assert.Error(t, attempt.Context().Err())
}

// The context ends between the response and the decision.
func TestContextEndsWithResponse(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	body := &onceBody{Reader: strings.NewReader("hello")}
	base := roundTripper(func(*http.Request) (*http.Response, error) {
		cancel()
		return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: body}, nil
	})
	transport := &retryhttp.Transport{Base: base}
	_, err := transport.RoundTrip(request(t, http.MethodGet, "http://127.0.0.1", nil).WithContext(ctx))
	require.ErrorIs(t, err, context.Canceled)
	assert.EqualValues(t, 1, body.closed.Load())
}

// Timeout is for the whole round trip, the body included.
func TestTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		base := roundTripper(func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			return nil, req.Context().Err()
		})
		p := &retry.Policy{Timeout: time.Minute}
		begun := time.Now()
		_, err := (&retryhttp.Transport{Base: base, Policy: p}).RoundTrip(request(t, http.MethodGet, "http://127.0.0.1", nil))
		require.ErrorIs(t, err, retry.StopTimeout)
		assert.Equal(t, time.Minute, time.Since(begun))

		var attempt context.Context
		base = func(req *http.Request) (*http.Response, error) {
			attempt = req.Context() //nolint:fatcontext // of one request
			return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("x"))}, nil
		}
		resp := testkit.Must((&retryhttp.Transport{Base: base, Policy: p}).RoundTrip(request(t, http.MethodGet, "http://127.0.0.1", nil)))(t)
		require.NoError(t, attempt.Err())
		time.Sleep(time.Minute)
		synctest.Wait()
		require.ErrorIs(t, attempt.Err(), context.DeadlineExceeded)
		require.NoError(t, resp.Body.Close())
	})
}

// A transport that was interrupted while it had a connection may go on to write.
func TestInterruptedByAnotherTimeout(t *testing.T) {
	t.Parallel()
	writes := 0
	base := roundTripper(func(req *http.Request) (*http.Response, error) {
		trace := httptrace.ContextClientTrace(req.Context())
		trace.GetConn("h")
		trace.GotConn(httptrace.GotConnInfo{})
		<-req.Context().Done()
		writes++
		return nil, req.Context().Err()
	})
	c := &http.Client{Transport: base, Timeout: 10 * time.Millisecond}
	err := retryhttp.Do(c, atOnce(3), request(t, http.MethodPost, "http://h", strings.NewReader("x")), nothing)
	require.ErrorIs(t, err, retry.StopMaybeApplied)
	assert.Equal(t, 1, writes)
}

// TestClientTimeout checks that the Observer learns that the deadline ended the call,
// although http.Client.Timeout may cancel the request before its context ends.
func TestClientTimeout(t *testing.T) {
	t.Parallel()
	hung := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	var events retrytest.Recorder
	p := atOnce(3)
	p.Observer = events.Observer()
	c := client(t, nil, p)
	c.Timeout = 20 * time.Millisecond
	const calls = 100
	var all sync.WaitGroup
	for range calls {
		all.Go(func() {
			_, err := c.Get(hung.URL)
			assert.ErrorIs(t, err, context.DeadlineExceeded)
		})
	}
	all.Wait()
	require.Len(t, events.Events(), calls)
	for _, e := range events.Events() {
		assert.Equal(t, retry.StopDeadline, e.Stop)
	}
}

// TestCanceledPastADeadline checks that a context that never ends, although its deadline
// has passed, does not hold up the end of a call.
func TestCanceledPastADeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		base := roundTripper(func(*http.Request) (*http.Response, error) { return nil, context.Canceled })
		ctx := untilContext{t.Context(), time.Now()}
		req := request(t, http.MethodGet, "http://h", nil).WithContext(ctx)
		_, err := (&retryhttp.Transport{Base: base}).RoundTrip(req)
		assert.ErrorIs(t, err, context.Canceled)
	})
}

// untilContext has a deadline, and does not end.
type untilContext struct {
	context.Context //nolint:containedctx // it is one

	deadline time.Time
}

func (c untilContext) Deadline() (time.Time, bool) { return c.deadline, true }

// TestInsideOfAJob checks that a call that gave up ends a call around it, and counts to a job as
// the response that it gave up.
func TestInsideOfAJob(t *testing.T) {
	t.Parallel()
	transport := &retryhttp.Transport{Policy: &retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(0)}, Budget: retryhttp.NoBudget}
	wrapped := roundTripper(transport.RoundTrip) // as by a tracer: Do does not see it
	for name, client := range map[string]*http.Client{"Do": {}, "Transport": {Transport: transport}, "wrapped": {Transport: wrapped}} {
		for code, again := range map[int]bool{503: true, 404: false} {
			s := serve(t, status(code))
			req := testkit.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, http.NoBody))(t)
			err := retryhttp.Do(client, &retry.Policy{MaxAttempts: 1}, req, func(*http.Response) error { return nil })
			assert.Equal(t, retry.Final, retry.Classify(err).Class, name)
			d := new(retry.Policy).Next(retry.State{}, err, time.Now())
			assert.Equal(t, again, d.Retry, "%s: %v", name, err)
			if again {
				assert.Equal(t, retry.Verdict{Class: retry.Retryable, Category: "http_503"}, d.Verdict, name)
			}
			assert.ErrorContains(t, err, s.URL)
		}
	}
}
