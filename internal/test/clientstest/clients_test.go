package clientstest_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
)

func TestReadSucceedsAfterUnavailable(t *testing.T) {
	t.Parallel()
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := serve(t, c.failed(503), c.failed(502), c.found)

			got, err := c.read(t.Context(), t, w.http, s.URL)

			require.NoError(t, err)
			assert.Equal(t, "hello", got)
			assert.Equal(t, []time.Duration{200 * ms, 400 * ms}, w.clock.Sleeps())
			s.assertSame(t)
		})
	}
}

func TestReadWaitsForAsLongAsTheServerAsks(t *testing.T) {
	t.Parallel()
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := serve(t, c.failed(429, "Retry-After", "37"), c.found)

			got, err := c.read(t.Context(), t, w.http, s.URL)

			require.NoError(t, err)
			assert.Equal(t, "hello", got)
			w.hinted(t, 37*time.Second)
		})
	}
}

func TestReadSucceedsAfterTheConnectionIsLost(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]step{"reset": reset, "closed": hangUp} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, c := range clients {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					w := newWorld(t)
					s := serve(t, lose, c.found)

					got, err := c.read(t.Context(), t, w.http, s.URL)

					require.NoError(t, err)
					assert.Equal(t, "hello", got)
					assert.Equal(t, []time.Duration{200 * ms}, w.clock.Sleeps())
				})
			}
		})
	}
}

func TestReadSucceedsAfterATimeout(t *testing.T) {
	t.Parallel()
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(p *retry.Policy) { p.AttemptTimeout = time.Minute })
			s := serve(t, hang(func() { w.clock.Advance(time.Minute) }), c.found)

			got, err := c.read(t.Context(), t, w.http, s.URL)

			require.NoError(t, err)
			assert.Equal(t, "hello", got, "the timeout must not end with RoundTrip")
			assert.Equal(t, []time.Duration{200 * ms}, w.clock.Sleeps())
		})
	}
}

// The client parses the response that the Transport gave up on.
func TestReadReportsTheLastFailure(t *testing.T) {
	t.Parallel()
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := serve(t, reset, c.failed(502), compressed(c.failed(503)))

			_, err := c.read(t.Context(), t, w.http, s.URL)

			status, message := c.reported(t, err)
			assert.Equal(t, 503, status)
			assert.Equal(t, "no luck", message)
			assert.Equal(t, []time.Duration{200 * ms, 400 * ms}, w.clock.Sleeps())
		})
	}
}

func TestReadIsNotRetriedWhenItCannotHelp(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		status int
		header []string
	}{
		{"not found", 404, nil},
		{"forbidden", 403, nil},
		{"the server asks for too long a wait", 429, []string{"Retry-After", "3600"}},
		{"the server says so", 503, []string{"X-Should-Retry", "false"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, c := range clients {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					w := newWorld(t)
					s := serve(t, c.failed(tt.status, tt.header...))

					_, err := c.read(t.Context(), t, w.http, s.URL)

					status, message := c.reported(t, err)
					assert.Equal(t, tt.status, status)
					assert.Equal(t, "no luck", message)
					assert.Empty(t, w.clock.Sleeps())
				})
			}
		})
	}
}

// What fails while the client reads it is the client's business: the Transport
// has returned by then.
func TestReadOfATruncatedResponseFails(t *testing.T) {
	t.Parallel()
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := serve(t, truncated(c.found))

			_, err := c.read(t.Context(), t, w.http, s.URL)

			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
			assert.Empty(t, w.clock.Sleeps())
		})
	}
}

func TestReadEndsWithItsContext(t *testing.T) {
	t.Parallel()
	for _, c := range clients {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			w := newWorld(t)
			w.clock.At(20*time.Second, cancel)
			s := serve(t, c.failed(503, "Retry-After", "37"))

			_, err := c.read(ctx, t, w.http, s.URL)

			require.ErrorIs(t, err, context.Canceled)
		})
	}
}

func TestWriteIsSentAgainWhenItHadNoEffect(t *testing.T) {
	t.Parallel()
	for name, status := range map[string]int{"429": 429, "503": 503} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, c := range clients {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					w := newWorld(t)
					s := serve(t, c.failed(status, "Retry-After", "5"), c.written)

					got, err := c.write(t.Context(), t, w.http, s.URL)

					require.NoError(t, err)
					assert.Equal(t, "hello", got)
					w.hinted(t, 5*time.Second)
					assert.Equal(t, http.MethodPost, s.got()[0].Method)
					s.assertSame(t)
				})
			}
		})
	}
}

func TestWriteIsSentOnceWhenItMayHaveHadAnEffect(t *testing.T) {
	t.Parallel()
	for name, status := range map[string]int{"500": 500, "502": 502, "503": 503, "504": 504} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, c := range clients {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					w := newWorld(t)
					s := serve(t, compressed(c.failed(status)))

					_, err := c.write(t.Context(), t, w.http, s.URL)

					got, message := c.reported(t, err)
					assert.Equal(t, status, got)
					assert.Equal(t, "no luck", message)
				})
			}
		})
	}
	t.Run("reset", func(t *testing.T) {
		t.Parallel()
		for _, c := range clients {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				s := serve(t, reset)

				_, err := c.write(t.Context(), t, w.http, s.URL)

				require.ErrorIs(t, err, retry.StopMaybeApplied)
			})
		}
	})
}
