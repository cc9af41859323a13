//nolint:thelper // what inBubble calls is the test itself
package tabletest_test

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

// model is a language model with a quota of tokens, which once says that it is overloaded. Some
// prompts cannot be answered: an account that has not paid is no reason to wait.
type model struct {
	testkit.Window

	overloaded atomic.Bool
}

// RoundTrip implements [http.RoundTripper].
func (m *model) RoundTrip(req *http.Request) (*http.Response, error) {
	prompt, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	answer := func(status int, body string, headers ...string) (*http.Response, error) {
		h := http.Header{"Content-Type": {"application/json"}}
		for i := 0; i < len(headers); i += 2 {
			h.Set(headers[i], headers[i+1])
		}
		return &http.Response{StatusCode: status, Status: http.StatusText(status), Header: h, Body: io.NopCloser(strings.NewReader(body)), Request: req}, nil
	}
	switch {
	case string(prompt) == "unpaid":
		return answer(http.StatusTooManyRequests, `{"error":{"type":"insufficient_quota","code":"insufficient_quota"}}`)
	case m.Ask() != nil:
		reset := time.Now().Add(5 * time.Second).UTC().Format(time.RFC3339)
		return answer(http.StatusTooManyRequests, `{"type":"error","error":{"type":"rate_limit_error"}}`,
			"Anthropic-Ratelimit-Tokens-Remaining", "0", "Anthropic-Ratelimit-Tokens-Reset", reset)
	case m.overloaded.CompareAndSwap(false, true):
		return answer(529, `{"type":"error","error":{"type":"overloaded_error"}}`)
	default:
		time.Sleep(time.Second)
		return answer(http.StatusOK, "answer to "+string(prompt))
	}
}

// A batch of prompts gets its answers, and few of the requests are refused.
func TestPrompts(t *testing.T) {
	t.Parallel()
	inBubble(t, 0, func(t *testing.T, s *shop) {
		const n = 300
		run(t, s.db, "CREATE TABLE prompts (id INTEGER PRIMARY KEY, prompt TEXT, answer TEXT)")
		run(t, s.db, prompts().Schema())
		run(t, s.db, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $1) INSERT INTO prompts (id, prompt, due_at) SELECT i, 'prompt ' || i, 0 FROM n", n)
		run(t, s.db, "UPDATE prompts SET prompt = 'unpaid' WHERE id = 7")
		m := &model{Window: testkit.Window{Limit: 40, Length: 10 * time.Second}}
		s.Worker = answering(s.db, &http.Client{Transport: m}, "http://model.example")
		s.runFor(t, 2*time.Minute)
		assert.Equal(t, [][]any{{int64(n - 1)}}, query(t, s.db, "SELECT count(*) FROM prompts WHERE status = 'done' AND answer = 'answer to ' || prompt"))
		assert.Equal(t, [][]any{{"dead", int64(1)}}, query(t, s.db, "SELECT status, attempts FROM prompts WHERE id = 7"))
		_, refused := m.Answers()
		assert.LessOrEqual(t, refused, n/10)
	})
}
