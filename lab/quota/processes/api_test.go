package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
)

// The API takes its limit in each window, which begin with the first request.
func TestAPI(t *testing.T) {
	t.Parallel()
	a := &api{kind: kinds["window"], limit: 2, window: 2 * time.Second}
	start := time.Now()
	for _, tt := range []struct {
		at   time.Duration
		left time.Duration
		ok   bool
	}{
		{0, 0, true},
		{time.Second, 0, true},
		{1500 * time.Millisecond, 500 * time.Millisecond, false},
		{2 * time.Second, 0, true},
		{7 * time.Second, 0, true},
		{7 * time.Second, 0, true},
		{7 * time.Second, time.Second, false},
	} {
		answer := a.ask(start.Add(tt.at))
		assert.Equal(t, tt.ok, answer.OK, tt.at)
		assert.Equal(t, tt.left, answer.Left, tt.at)
	}
	assert.Equal(t, 5, a.served)
	assert.Equal(t, 2, a.refused)
	assert.Equal(t, 4*time.Second+service, a.ideal(5))
	assert.Equal(t, 4*time.Second+service, (&api{kind: kinds["one"], limit: 2, window: 2 * time.Second}).ideal(5))
}

// A refusal is a rate limit or temporary, and says when to come back. So does a success, if the server does.
func TestCall(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]retry.Verdict{
		"window": {Class: retry.RateLimited, After: time.Minute},
		"503":    {Class: retry.Retryable, After: time.Minute},
		"one":    {Class: retry.RateLimited, After: time.Minute}, "one, and says": {Class: retry.RateLimited, After: time.Minute},
		"one, in ms": {Class: retry.RateLimited, After: 59 * time.Second},
	} {
		a := &api{kind: kinds[name], limit: 1, window: time.Minute}
		server := httptest.NewServer(a)
		defer server.Close()
		var told time.Duration
		require.NoError(t, call(t.Context(), http.DefaultClient, server.URL, func(after time.Duration) { told = after }))
		assert.Equal(t, a.says, told == time.Minute, name)
		v := retry.Classify(call(t.Context(), http.DefaultClient, server.URL, nil))
		assert.Equal(t, want.Class, v.Class, name)
		assert.InDelta(t, want.After, v.After, float64(time.Second), name)
		assert.Equal(t, want.After == time.Minute, v.After%time.Second == 0, name)
	}
}

// The name of a measurement has what is not usual.
func TestScene(t *testing.T) {
	t.Parallel()
	assert.Empty(t, (&task{Server: "window", Lasts: time.Minute}).scene())
	assert.Equal(t, ", 503, after 3 in 1m0s and 0s", (&task{Server: "503", Before: 3, Lasts: time.Minute}).scene())
}

// A process works until its input ends, and an unknown contestant is refused.
func TestUnknown(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, child(t.Context(), `{"By": "nobody"}`, strings.NewReader(""), t.Output()), `no contestant "nobody"`)
}
