package retryhttp_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

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
		resp, err := (&retryhttp.Transport{Base: base, Policy: p}).RoundTrip(request(t, http.MethodGet, "http://127.0.0.1", nil))
		require.NoError(t, err)
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
	p.Observer = &events
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
