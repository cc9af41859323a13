package retryhttp_test

import (
	"context"
	"errors"
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

func TestAttemptTimeout(t *testing.T) {
	t.Parallel()
	s := serve(t, hang, status(200))
	var events retrytest.Recorder
	p := atOnce(3)
	p.AttemptTimeout = 50 * time.Millisecond
	p.Observer = &events
	resp, err := client(t, nil, p).Get(s.URL)
	require.NoError(t, err)
	assert.Equal(t, "status 200", text(t, resp))
	require.NotEmpty(t, events.Events())
	assert.Equal(t, retry.Verdict{Class: retry.Retryable, Category: "timeout"}, events.Events()[0].Verdict)
}

// A wait that would miss the deadline is not begun; the context lives, so there
// is a response.
func TestRetryAfterPastDeadline(t *testing.T) {
	t.Parallel()
	s := serve(t, status(503, "Retry-After", "50"))
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	req := request(t, http.MethodGet, s.URL, nil).WithContext(ctx)
	resp, err := client(t, nil, &retry.Policy{}).Do(req)
	require.NoError(t, err)
	assert.Equal(t, "status 503", text(t, resp))
	assert.EqualValues(t, 1, s.requests.Load())
}

func TestContextDoneBefore(t *testing.T) {
	t.Parallel()
	body := &onceBody{Reader: strings.NewReader("hello")}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	transport := &retryhttp.Transport{Base: roundTripper(func(*http.Request) (*http.Response, error) {
		assert.Fail(t, "called")
		return nil, errors.ErrUnsupported
	})}
	_, err := transport.RoundTrip(request(t, http.MethodPut, "http://127.0.0.1", body).WithContext(ctx))
	require.ErrorIs(t, err, context.Canceled)
	assert.EqualValues(t, 1, body.closed.Load())
}

func TestContextEndsInAttempt(t *testing.T) {
	t.Parallel()
	errStop := errors.New("user left")
	ctx, cancel := context.WithCancelCause(t.Context())
	t.Cleanup(func() { cancel(nil) })
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel(errStop)
		<-r.Context().Done()
	})
	_, err := client(t, nil, atOnce(3)).Do(request(t, http.MethodGet, s.URL, nil).WithContext(ctx))
	require.ErrorIs(t, err, errStop)
	assert.ErrorIs(t, err, context.Canceled)
	assert.EqualValues(t, 1, s.requests.Load())
}

func TestContextEndsInWait(t *testing.T) {
	t.Parallel()
	s := serve(t, status(503))
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	p := &retry.Policy{
		Backoff:  retry.Constant(time.Hour),
		Observer: retry.ObserverFunc(func(context.Context, retry.Event) { cancel() }),
	}
	_, err := client(t, nil, p).Do(request(t, http.MethodGet, s.URL, nil).WithContext(ctx))
	require.ErrorIs(t, err, context.Canceled)
	var status *retryhttp.StatusError
	require.ErrorAs(t, err, &status, "what came before is in the error")
	assert.EqualValues(t, 1, s.requests.Load())
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
