package retryhttp_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

// The timeout of an attempt does not end the call; the deadline of the caller
// does.
func TestB19_WhoseTimeout(t *testing.T) {
	t.Parallel()
	hanging := &countingBase{RoundTripper: roundTripper(func(req *http.Request) (*http.Response, error) {
		<-req.Context().Done()
		return nil, context.Cause(req.Context())
	})}
	run := func(t *testing.T, ctx context.Context, p *retry.Policy, c *http.Client) (int, time.Duration, error) {
		t.Helper()
		base := &countingBase{RoundTripper: hanging}
		c.Transport = &retryhttp.Transport{Base: base, Policy: p, Budget: retryhttp.NoBudget}
		begun := time.Now()
		_, err := c.Do(request(t, http.MethodGet, "http://127.0.0.1", nil).WithContext(ctx))
		return int(base.attempts.Load()), time.Since(begun), err
	}
	bubble := func(name string, f func(*testing.T)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, f)
		})
	}
	timely := func(d time.Duration) *retry.Policy {
		p := atOnce(3)
		p.AttemptTimeout = d
		return p
	}
	bubble("attempt", func(t *testing.T) {
		t.Helper()
		attempts, took, err := run(t, t.Context(), timely(time.Second), &http.Client{})
		assert.Equal(t, 3, attempts)
		assert.Equal(t, 3*time.Second, took)
		var gaveUp *retry.Error
		require.ErrorAs(t, err, &gaveUp)
		assert.Equal(t, retry.StopAttempts, gaveUp.Stop)
	})
	bubble("caller", func(t *testing.T) {
		t.Helper()
		ctx, cancel := context.WithTimeoutCause(t.Context(), 1500*time.Millisecond, errors.New("too slow for me"))
		defer cancel()
		attempts, took, err := run(t, ctx, timely(time.Minute), &http.Client{})
		assert.Equal(t, 1, attempts)
		assert.Equal(t, 1500*time.Millisecond, took)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorContains(t, err, "too slow for me")
	})
	bubble("both", func(t *testing.T) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		attempts, took, err := run(t, ctx, timely(time.Second), &http.Client{})
		assert.Equal(t, 2, attempts)
		assert.Equal(t, 1500*time.Millisecond, took)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
	bubble("client", func(t *testing.T) {
		t.Helper()
		attempts, took, err := run(t, t.Context(), timely(time.Minute), &http.Client{Timeout: time.Second})
		assert.Equal(t, 1, attempts)
		assert.Equal(t, time.Second, took)
		var timeout net.Error
		require.ErrorAs(t, err, &timeout)
		assert.True(t, timeout.Timeout(), "%v", err)
	})
}

// cancelingClock cancels something when it is asked to wait, and waits forever.
type cancelingClock struct{ cancel context.CancelFunc }

func (cancelingClock) Now() time.Time { return time.Now() }

func (c cancelingClock) After(time.Duration) <-chan time.Time {
	c.cancel()
	return nil
}

func TestB20_CancelDuringTheWait(t *testing.T) {
	t.Parallel()
	t.Run("at once", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(5*time.Second, cancel)
			body := &onceBody{Reader: strings.NewReader("busy")}
			base := roundTripper(func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: http.StatusServiceUnavailable, Body: body}, nil
			})
			time.AfterFunc(time.Second, func() {
				assert.EqualValues(t, 1, body.closed.Load(), "while somebody waits")
			})
			p := &retry.Policy{Backoff: retry.Constant(time.Hour)}
			begun := time.Now()
			_, err := (&retryhttp.Transport{Base: base, Policy: p}).RoundTrip(
				request(t, http.MethodGet, "http://127.0.0.1", nil).WithContext(ctx))
			require.ErrorIs(t, err, context.Canceled)
			assert.Equal(t, 5*time.Second, time.Since(begun))
			assert.EqualValues(t, 1, body.closed.Load())
		})
	})
	t.Run("no connection left", func(t *testing.T) {
		t.Parallel()
		s := serve(t, status(503))
		base := &http.Transport{}
		p := &retry.Policy{Backoff: retry.Constant(time.Hour)}
		for range 10 {
			ctx, cancel := context.WithCancel(t.Context())
			p := *p
			p.Clock = cancelingClock{cancel}
			_, err := client(t, base, &p).Do(request(t, http.MethodGet, s.URL, nil).WithContext(ctx))
			require.ErrorIs(t, err, context.Canceled)
		}
		assert.LessOrEqual(t, s.open.Load(), int64(1), "all used the same")
		large := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(make([]byte, 10<<20))
		})
		for _, err := range []error{io.ErrUnexpectedEOF, errors.ErrUnsupported, nil} {
			c := &http.Client{Transport: base}
			got := retryhttp.Do(c, atOnce(3), request(t, http.MethodGet, large.URL, nil),
				func(*http.Response) error { return err }) // does not read
			require.ErrorIs(t, got, err)
		}
		assert.Eventually(t, func() bool { return large.open.Load() == 0 }, 10*time.Second, time.Millisecond)
		base.CloseIdleConnections()
		assert.Eventually(t, func() bool { return s.open.Load() == 0 }, 10*time.Second, time.Millisecond)
	})
}

// halfABody answers with half of a body.
func halfABody(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "10")
	_, _ = io.WriteString(w, "hello")
}

func TestB22_BodiesThatBreakOff(t *testing.T) {
	t.Parallel()
	whole := func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "helloworld") }
	for _, test := range []struct {
		method string
		header []string
		want   int64
	}{
		{http.MethodGet, nil, 2},
		{http.MethodPut, nil, 2},
		{http.MethodPost, []string{"Idempotency-Key", "k"}, 2},
		{http.MethodPost, nil, 1}, // it has been done
	} {
		s := serve(t, halfABody, whole)
		got := ""
		err := retryhttp.Do(nil, atOnce(3), request(t, test.method, s.URL, nil, test.header...), func(resp *http.Response) error {
			data, err := io.ReadAll(resp.Body)
			got = string(data)
			return err
		})
		assert.Equal(t, test.want, s.requests.Load(), test.method)
		if test.want == 1 {
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			assert.ErrorIs(t, err, retry.StopMaybeApplied)
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, "helloworld", got)
	}
	s := serve(t, halfABody)
	base := &http.Transport{}
	err := retryhttp.Do(&http.Client{Transport: base}, atOnce(3), request(t, http.MethodGet, s.URL, nil),
		func(resp *http.Response) error { _, err := io.ReadAll(resp.Body); return err })
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.ErrorIs(t, err, retry.StopAttempts)
	base.CloseIdleConnections()
	assert.Eventually(t, func() bool { return s.open.Load() == 0 }, 10*time.Second, time.Millisecond)
}

func TestB30_CancelIsCancel(t *testing.T) {
	t.Parallel()
	s := serve(t, hang)
	for _, attemptTimeout := range []time.Duration{0, time.Hour} {
		errLeft := errors.New("user left")
		ctx, cancel := context.WithCancelCause(t.Context())
		p := atOnce(3)
		p.AttemptTimeout = attemptTimeout
		base := &countingBase{RoundTripper: &http.Transport{}}
		time.AfterFunc(20*time.Millisecond, func() { cancel(errLeft) })
		_, err := client(t, base, p).Do(request(t, http.MethodGet, s.URL, nil).WithContext(ctx))
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, errLeft)
		assert.EqualValues(t, 1, base.attempts.Load())
	}
}

// A body is sent while it is produced, and no more of it is read than is sent.
func TestB30_BodiesAreNotCollected(t *testing.T) {
	t.Parallel()
	for _, limit := range []int64{0, 10, 1 << 20} {
		produced := 0
		body := io.MultiReader(readerFunc(func() { produced++ }), strings.NewReader("hello"))
		base := roundTripper(func(req *http.Request) (*http.Response, error) {
			assert.Zero(t, produced, "before it is asked for")
			data, err := io.ReadAll(req.Body)
			assert.NoError(t, err)
			assert.Equal(t, "hello", string(data))
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, req.Body.Close()
		})
		transport := &retryhttp.Transport{Base: base, Policy: atOnce(3), BufferBody: limit}
		resp, err := transport.RoundTrip(request(t, http.MethodPut, "http://127.0.0.1", body))
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		assert.Equal(t, 1, produced)
	}
}

// The server closes a connection in the moment in which it is used again. What was
// written may have been read.
func TestB33_KeepAliveRace(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		method string
		header []string
		want   bool
	}{
		{http.MethodGet, nil, true},
		{http.MethodPut, nil, true},
		{http.MethodDelete, nil, true},
		{http.MethodPost, []string{"Idempotency-Key", "k"}, true},
		{http.MethodPost, nil, false},
	} {
		s := serve(t, status(200), func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if assert.NoError(t, err) {
				_ = conn.Close() // as if it had been idle for too long
			}
		}, status(200))
		c := client(t, nil, atOnce(3))
		resp, err := c.Do(request(t, http.MethodGet, s.URL, nil))
		require.NoError(t, err)
		_ = text(t, resp)
		resp, err = c.Do(request(t, test.method, s.URL, strings.NewReader("hello"), test.header...))
		if !test.want {
			require.ErrorIs(t, err, retry.StopMaybeApplied, test.method)
			assert.EqualValues(t, 2, s.requests.Load())
			continue
		}
		require.NoError(t, err, test.method)
		assert.Equal(t, "status 200", text(t, resp))
		assert.EqualValues(t, 3, s.requests.Load())
	}
}
