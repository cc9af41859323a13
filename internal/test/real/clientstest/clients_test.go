//nolint:thelper // what forEachClient calls is the test itself
package clientstest_test

import (
	"context"
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

// Waits without a hint.
var firstWaits = []time.Duration{200 * ms, 400 * ms}

// forEachClient runs a test for every client.
func forEachClient(t *testing.T, test func(t *testing.T, c client)) {
	t.Helper()
	for name, c := range clients {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, c)
		})
	}
}

// Every client reads what comes after failures that pass.
func TestReadSucceedsAfterAFailure(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		failures func(c client) []step
		hint     time.Duration
		same     bool // the requests are
	}{
		"two statuses":       {func(c client) []step { return []step{c.failed(503), c.failed(502)} }, 0, true},
		"a hint":             {func(c client) []step { return []step{c.failed(429, "Retry-After", "37")} }, 37 * time.Second, true},
		"a reset connection": {func(client) []step { return []step{reset} }, 0, false},
		"a closed one":       {func(client) []step { return []step{hangUp} }, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			forEachClient(t, func(t *testing.T, c client) {
				failures := test.failures(c)
				s := serve(t, append(failures, c.found)...)
				w := newWorld(t, s)

				assert.Equal(t, "hello", testkit.Must(c.off(t, w.http).read(t.Context()))(t))
				if test.hint > 0 {
					w.hinted(t, test.hint)
				} else {
					assert.Equal(t, firstWaits[:len(failures)], w.clock.Sleeps())
				}
				if test.same {
					s.assertSame(t)
				}
			})
		})
	}
}

func TestReadSucceedsAfterATimeout(t *testing.T) {
	t.Parallel()
	forEachClient(t, func(t *testing.T, c client) {
		var w world
		s := serve(t, hang(func() { w.clock.Advance(time.Minute) }), c.found)
		w = newWorld(t, s, aMinute)

		got := testkit.Must(c.off(t, w.http).read(t.Context()))(t)
		assert.Equal(t, "hello", got, "the timeout must not end with RoundTrip")
		assert.Equal(t, firstWaits[:1], w.clock.Sleeps())
	})
}

// The client parses the response that is not retried, or that the Transport gave up on.
func TestFailuresAreReported(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		write  bool
		before []step // of the last failure
		status int
		header []string
	}{
		"the last failure":                    {false, []step{reset, answer(502, "text/plain", "")}, 503, nil},
		"not found":                           {false, nil, 404, nil},
		"the server asks for too long a wait": {false, nil, 429, []string{"Retry-After", "3600"}},
		"a write that may have had an effect": {true, nil, 500, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			forEachClient(t, func(t *testing.T, c client) {
				s := serve(t, slices.Concat(test.before, []step{compressed(c.failed(test.status, test.header...))})...)
				w := newWorld(t, s)
				do := c.off(t, w.http).read
				if test.write {
					do = c.off(t, w.http).write
				}

				_, err := do(t.Context())

				status, message := c.reported(t, err)
				assert.Equal(t, test.status, status)
				assert.Equal(t, "no luck", message)
				assert.Len(t, w.clock.Sleeps(), len(test.before))
			})
		})
	}
}

// What fails while the client reads it is the client's business: the Transport
// has returned by then.
func TestReadOfATruncatedResponseFails(t *testing.T) {
	t.Parallel()
	forEachClient(t, func(t *testing.T, c client) {
		s := serve(t, truncated(c.found))
		w := newWorld(t, s)

		_, err := c.off(t, w.http).read(t.Context())

		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		assert.Empty(t, w.clock.Sleeps())
	})
}

func TestReadEndsWithItsContext(t *testing.T) {
	t.Parallel()
	forEachClient(t, func(t *testing.T, c client) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s := serve(t, c.failed(503, "Retry-After", "37"))
		w := newWorld(t, s)
		w.clock.At(20*time.Second, cancel)

		_, err := c.off(t, w.http).read(ctx)

		require.ErrorIs(t, err, context.Canceled)
	})
}

func TestWriteIsSentAgainWhenItHadNoEffect(t *testing.T) {
	t.Parallel()
	forEachClient(t, func(t *testing.T, c client) {
		s := serve(t, c.failed(429, "Retry-After", "5"), c.written)
		w := newWorld(t, s)

		assert.Equal(t, "hello", testkit.Must(c.off(t, w.http).write(t.Context()))(t))
		w.hinted(t, 5*time.Second)
		assert.Equal(t, http.MethodPost, s.got()[0].Method)
		s.assertSame(t)
	})
}

func TestWriteIsSentOnceIfTheConnectionIsReset(t *testing.T) {
	t.Parallel()
	forEachClient(t, func(t *testing.T, c client) {
		_, err := c.off(t, newWorld(t, serve(t, reset)).http).write(t.Context())
		require.ErrorIs(t, err, retry.StopMaybeApplied)
	})
}
