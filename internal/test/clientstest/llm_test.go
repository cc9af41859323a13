package clientstest_test

import (
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	openaioption "github.com/openai/openai-go/v3/option"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var overloaded = answer(529, "application/json", `{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}`)

// The headers that say when there is quota again are followed, and the clients do not know.
func TestHintsOfModels(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	in := func(wait time.Duration) string { return now.Add(wait).Format(time.RFC3339) }
	for name, tt := range map[string]struct {
		client string
		header []string
		want   time.Duration
	}{
		"milliseconds": {"openai-go", []string{"Retry-After-Ms", "1234", "Retry-After", "20"}, 1234 * ms},
		"OpenAI": {"openai-go", []string{
			"X-Ratelimit-Remaining-Requests", "10", "X-Ratelimit-Reset-Requests", "50s",
			"X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "6.5s",
		}, 6500 * ms},
		"Anthropic": {"anthropic-sdk-go", []string{
			"Date", "Fri, 20 Nov 2026 10:00:00 GMT",
			"Anthropic-Ratelimit-Requests-Remaining", "10", "Anthropic-Ratelimit-Requests-Reset", in(50 * time.Second),
			"Anthropic-Ratelimit-Input-Tokens-Remaining", "0", "Anthropic-Ratelimit-Input-Tokens-Reset", in(7 * time.Second),
		}, 7 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := clients[tt.client]
			s := serve(t, c.failed(429, tt.header...), c.written)
			w := newWorld(t, s)

			got, err := c.off(t, w.http).write(t.Context())

			require.NoError(t, err)
			assert.Equal(t, "hello", got)
			w.hinted(t, tt.want)
			assert.Equal(t, "0", s.got()[1].Header.Get("X-Stainless-Retry-Count"), "the client does not know")
			s.assertSame(t)
		})
	}
}

// With a key the server can tell a second request, so a POST that may have had an
// effect is sent again, with the same key.
func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		failure step
		ask     func(t *testing.T, w world) error
	}{
		"openai-go": {reset, func(t *testing.T, w world) error {
			t.Helper()
			c := newOpenAI("key", w.http)
			_, err := c.Chat.Completions.New(t.Context(), question, openaioption.WithHeader("Idempotency-Key", "a key"))
			return err
		}},
		"anthropic-sdk-go": {overloaded, func(t *testing.T, w world) error {
			t.Helper()
			c := newAnthropic("key", w.http)
			_, err := c.Messages.New(t.Context(), message, anthropicoption.WithHeader("Idempotency-Key", "a key"))
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, tt.failure, clients[name].failed(500), clients[name].written)
			w := newWorld(t, s)
			require.NoError(t, tt.ask(t, w))
			assert.Len(t, w.clock.Sleeps(), 2)
			assert.Equal(t, "a key", s.got()[0].Header.Get("Idempotency-Key"))
			s.assertSame(t)
		})
	}
}

// Without a key, an overloaded model is not asked twice: nothing says that it has
// not begun.
func TestAnthropicOverloaded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, serve(t, overloaded))

	_, err := clients["anthropic-sdk-go"].off(t, w.http).write(t.Context())

	var e *anthropic.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, 529, e.StatusCode)
	assert.Equal(t, "overloaded_error", string(e.Type()))
	assert.Empty(t, w.clock.Sleeps())
}

// The request timeout of the client is the deadline of all attempts together: a
// wait that would go past it is not begun, and the client gets the response.
func TestRequestTimeoutOfTheClient(t *testing.T) {
	t.Parallel()
	w := newWorld(t, serve(t, clients["openai-go"].failed(429, "Retry-After", "50")))
	w.clock.Advance(time.Since(w.clock.Now())) // the client's deadline is on the system's clock
	c := newOpenAI("key", w.http)

	_, err := c.Chat.Completions.New(t.Context(), question, openaioption.WithRequestTimeout(30*time.Second))

	var e *openai.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, 429, e.StatusCode)
	assert.Empty(t, w.clock.Sleeps())
}
