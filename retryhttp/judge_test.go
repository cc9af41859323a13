package retryhttp_test

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
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
		case "never mind":
			return retry.Verdict{Class: retry.Retryable, After: -1}
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
		{"no hint", answers("503 never mind", "200 fine"), "fine", []time.Duration{113 * time.Millisecond}, false},
		{"a status that is final here", answers("503 no"), "no", nil, false},
		{"a status by the rules", answers("503 fine", "200 fine"), "fine", []time.Duration{7 * time.Second}, false},
		{"a success", answers("200 fine"), "fine", nil, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			clock := retrytest.NewClock(time.Now())
			c := client(t, nil, &retry.Policy{Clock: clock, Rand: retrytest.NewRand(1)})
			c.Transport.(*retryhttp.Transport).ClassifyResponse = classify
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
