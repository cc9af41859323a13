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
	a := &api{limit: 2, window: 2 * time.Second}
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
		left, ok := a.ask(start.Add(tt.at))
		assert.Equal(t, tt.ok, ok, tt.at)
		assert.Equal(t, tt.left, left, tt.at)
	}
	assert.Equal(t, 5, a.served)
	assert.Equal(t, 2, a.refused)
	assert.Equal(t, 4*time.Second+service, a.ideal(5))
}

// A refusal is a rate limit, and says when to come back.
func TestCall(t *testing.T) {
	t.Parallel()
	a := &api{limit: 1, window: time.Minute}
	server := httptest.NewServer(a)
	defer server.Close()
	require.NoError(t, call(t.Context(), http.DefaultClient, server.URL))
	v := retry.Classify(call(t.Context(), http.DefaultClient, server.URL))
	assert.Equal(t, retry.RateLimited, v.Class)
	assert.Equal(t, time.Minute, v.After)
}

// A process works until its input ends, and an unknown contestant is refused.
func TestUnknown(t *testing.T) {
	t.Parallel()
	require.ErrorContains(t, child(t.Context(), `{"By": "nobody"}`, strings.NewReader(""), t.Output()), `no contestant "nobody"`)
}
