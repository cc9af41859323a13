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

// askOpenAI asks a model for an answer.
func askOpenAI(t *testing.T, w world, s *server, options ...openaioption.RequestOption) (string, error) {
	t.Helper()
	c := openaiClient(w.http, s.URL)
	completion, err := c.Chat.Completions.New(t.Context(), question, options...)
	if err != nil {
		return "", err
	}
	return completion.Choices[0].Message.Content, nil
}

func TestOpenAIHints(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		header []string
		want   time.Duration
	}{
		{"milliseconds", []string{"Retry-After-Ms", "1234", "Retry-After", "20"}, 1234 * ms},
		{"a used up quota", []string{
			"X-Ratelimit-Remaining-Requests", "10", "X-Ratelimit-Reset-Requests", "50s",
			"X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "6.5s",
		}, 6500 * ms},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := serve(t, answer(429, "application/json", `{"error": {"message": "slow down"}}`, tt.header...), completed)

			got, err := askOpenAI(t, w, s)

			require.NoError(t, err)
			assert.Equal(t, "hello", got)
			w.hinted(t, tt.want)
			assert.Equal(t, "0", s.got()[1].Header.Get("X-Stainless-Retry-Count"), "the client does not know")
			s.assertSame(t)
		})
	}
}

func TestAnthropicHints(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	w := newWorld(t)
	s := serve(t, answer(429, "application/json", `{"type": "error", "error": {"type": "rate_limit_error", "message": "slow down"}}`,
		"Date", "Fri, 20 Nov 2026 10:00:00 GMT",
		"Anthropic-Ratelimit-Requests-Remaining", "10", "Anthropic-Ratelimit-Requests-Reset", now.Add(50*time.Second).Format(time.RFC3339),
		"Anthropic-Ratelimit-Input-Tokens-Remaining", "0", "Anthropic-Ratelimit-Input-Tokens-Reset", now.Add(7*time.Second).Format(time.RFC3339),
	), clients[4].written)

	got, err := clients[4].write(t.Context(), t, w.http, s.URL)

	require.NoError(t, err)
	assert.Equal(t, "hello", got)
	w.hinted(t, 7*time.Second)
}

// With a key the server can tell a second request, so a POST that may have had an
// effect is sent again, with the same key.
func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	t.Run("openai-go", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		s := serve(t, reset, clients[3].failed(500), completed)

		got, err := askOpenAI(t, w, s, openaioption.WithHeader("Idempotency-Key", "a key"))

		require.NoError(t, err)
		assert.Equal(t, "hello", got)
		assert.Equal(t, []time.Duration{200 * ms, 400 * ms}, w.clock.Sleeps())
		assert.Equal(t, "a key", s.got()[0].Header.Get("Idempotency-Key"))
		s.assertSame(t)
	})
	t.Run("anthropic-sdk-go", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		overloaded := answer(529, "application/json", `{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}`)
		s := serve(t, overloaded, clients[4].failed(500), clients[4].written)
		c := anthropicClient(w.http, s.URL)

		got, err := c.Messages.New(t.Context(), message, anthropicoption.WithHeader("Idempotency-Key", "a key"))

		require.NoError(t, err)
		assert.Equal(t, "hello", got.Content[0].Text)
		assert.Equal(t, "a key", s.got()[0].Header.Get("Idempotency-Key"))
		s.assertSame(t)
	})
}

// Without a key, an overloaded model is not asked twice: nothing says that it has
// not begun.
func TestAnthropicOverloaded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := serve(t, answer(529, "application/json", `{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}`))
	c := anthropicClient(w.http, s.URL)

	_, err := c.Messages.New(t.Context(), message)

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
	w := newWorld(t)
	w.clock.Advance(time.Since(w.clock.Now())) // the client's deadline is on the system's clock
	s := serve(t, clients[3].failed(429, "Retry-After", "50"))

	_, err := askOpenAI(t, w, s, openaioption.WithRequestTimeout(30*time.Second))

	var e *openai.Error
	require.ErrorAs(t, err, &e)
	assert.Equal(t, 429, e.StatusCode)
	assert.Empty(t, w.clock.Sleeps())
}
