package retryhttp_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// A 200 may have an error in it, and a 202 may stand for a result that is not there yet.
func TestClassifyOfResponses(t *testing.T) {
	t.Parallel()
	answers := func(texts ...string) *server {
		var handlers []http.HandlerFunc
		for _, text := range texts {
			code, body, _ := strings.Cut(text, " ")
			handlers = append(handlers, func(w http.ResponseWriter, _ *http.Request) {
				n, _ := strconv.Atoi(code)
				w.Header().Set("Retry-After", "7")
				w.WriteHeader(n)
				_, _ = io.WriteString(w, body)
			})
		}
		return serve(t, handlers...)
	}
	classify := func(resp *http.Response) retry.Verdict {
		if resp.StatusCode == http.StatusAccepted {
			return retry.Verdict{Class: retry.Pending, NotApplied: true}
		}
		body, err := io.ReadAll(resp.Body)
		assert.NoError(t, err)
		_ = resp.Body.Close()
		resp.Body = io.NopCloser(bytes.NewReader(body))
		switch string(body) {
		case "busy":
			return retry.Verdict{Class: retry.Retryable, Exact: true, After: time.Second}
		case "no":
			return retry.Verdict{Class: retry.Final}
		default:
			return retry.Verdict{}
		}
	}
	tests := []struct {
		name   string
		server *server
		want   string
		waits  []time.Duration
		gaveUp bool
	}{
		{"an error in it", answers("200 busy", "200 busy", "200 fine"), "fine", []time.Duration{time.Second, time.Second}, false},
		{"an error that stays", answers("200 busy"), "busy", []time.Duration{time.Second, time.Second}, true},
		{
			"not there yet", answers("202 wait", "202 wait", "202 wait", "202 wait", "200 fine"), "fine",
			[]time.Duration{7 * time.Second, 7 * time.Second, 7 * time.Second, 7 * time.Second},
			false,
		},
		{"a status that is final here", answers("503 no"), "no", nil, false},
		{"a status by the rules", answers("503 fine", "200 fine"), "fine", []time.Duration{7 * time.Second}, false},
		{"a success", answers("200 fine"), "fine", nil, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			clock := retrytest.NewClock(time.Now())
			c := client(t, nil, &retry.Policy{Clock: clock, Rand: retrytest.NewRand(1)})
			c.Transport.(*retryhttp.Transport).Classify = classify
			resp, err := c.Get(test.server.URL)
			require.NoError(t, err)
			assert.Equal(t, test.want, text(t, resp))
			assert.Equal(t, test.gaveUp, retryhttp.GaveUp(resp))
			require.Len(t, clock.Sleeps(), len(test.waits))
			for i, d := range clock.Sleeps() {
				assert.InDelta(t, test.waits[i], d, float64(test.waits[i])/10)
			}
		})
	}
}

// Each attempt is signed for itself, and no signature is seen by the next.
func TestPrepare(t *testing.T) {
	t.Parallel()
	var seen []string
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		assert.NoError(t, err)
		seen = append(seen, strings.Join(r.Header["Signature"], "+")+" "+string(body))
		if len(seen) < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	c := client(t, nil, atOnce(3))
	n := 0
	c.Transport.(*retryhttp.Transport).Prepare = func(req *http.Request) error {
		n++
		req.Header.Add("Signature", strconv.Itoa(n))
		return nil
	}
	req := request(t, http.MethodPut, s.URL, strings.NewReader("hello"))
	resp, err := c.Do(req)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	assert.Equal(t, []string{"1 hello", "2 hello", "3 hello"}, seen)
	assert.Empty(t, req.Header)
}

// What cannot be prepared is not sent.
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

func TestGaveUp(t *testing.T) {
	t.Parallel()
	assert.False(t, retryhttp.GaveUp(nil))
	assert.False(t, retryhttp.GaveUp(&http.Response{}))
	for name, test := range map[string]struct {
		method   string
		policy   *retry.Policy
		handlers []http.HandlerFunc
		want     bool
	}{
		"attempts":         {http.MethodGet, atOnce(2), []http.HandlerFunc{status(503)}, true},
		"one attempt":      {http.MethodGet, atOnce(1), []http.HandlerFunc{status(503)}, true},
		"may be applied":   {http.MethodPost, atOnce(2), []http.HandlerFunc{status(500)}, true},
		"success":          {http.MethodGet, atOnce(2), []http.HandlerFunc{status(200)}, false},
		"success at last":  {http.MethodGet, atOnce(2), []http.HandlerFunc{status(503), status(200)}, false},
		"final":            {http.MethodGet, atOnce(2), []http.HandlerFunc{status(404)}, false},
		"final at last":    {http.MethodGet, atOnce(2), []http.HandlerFunc{status(503), status(501)}, false},
		"a hint too long":  {http.MethodGet, atOnce(2), []http.HandlerFunc{status(503, "Retry-After", "3600")}, true},
		"a response again": {http.MethodGet, atOnce(3), []http.HandlerFunc{status(503), status(429)}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resp, err := client(t, nil, test.policy).Do(request(t, test.method, serve(t, test.handlers...).URL, nil))
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			assert.Equal(t, test.want, retryhttp.GaveUp(resp))
		})
	}
}

// To name a default of the Transport does not change the waits.
func TestPolicyWithoutBackoff(t *testing.T) {
	t.Parallel()
	waits := func(p *retry.Policy, do bool) []time.Duration {
		clock := retrytest.NewClock(time.Now())
		q := retryhttp.DefaultPolicy()
		if p != nil {
			q = p
		}
		q.Clock, q.Rand = clock, retrytest.NewRand(1)
		base := roundTripper(func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: http.NoBody}, nil
		})
		c := &http.Client{Transport: &retryhttp.Transport{Base: base, Policy: q}}
		req := request(t, http.MethodGet, "http://127.0.0.1", nil)
		if do {
			assert.Error(t, retryhttp.Do(&http.Client{Transport: base}, q, req, func(*http.Response) error { return nil }))
			return clock.Sleeps()
		}
		resp, err := c.Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return clock.Sleeps()
	}
	for _, do := range []bool{false, true} {
		want := waits(nil, do)
		require.Len(t, want, 2)
		assert.Equal(t, want, waits(&retry.Policy{}, do))
		assert.Equal(t, want, waits(&retry.Policy{MaxAttempts: 3}, do))
		assert.NotEqual(t, want, waits(&retry.Policy{Backoff: retry.Exponential{}}, do))
	}
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
		require.ErrorIs(t, err, retry.ErrTimeout)
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
