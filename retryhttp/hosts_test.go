package retryhttp_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

// A host that fails gets the reserve of its own budget, and no more.
func TestBudgetPerHost(t *testing.T) {
	t.Parallel()
	base, requests := always(503)
	transport := &retryhttp.Transport{Base: base, Policy: atOnce(3)}
	sent := func(url string) int {
		before := *requests
		resp, err := get(t, transport, url)
		require.NoError(t, err)
		assert.Equal(t, 503, resp.StatusCode)
		return *requests - before
	}
	assert.Equal(t, 3, sent("http://a/"))
	assert.Equal(t, 2, sent("http://a/x"))
	assert.Equal(t, 1, sent("http://a/"))
	assert.Equal(t, 3, sent("http://b/"))
	assert.Equal(t, 3, sent("http://a:81/"))
	assert.Equal(t, 3, sent("https://a/"), "another scheme, another server")
	assert.Equal(t, 1, sent("http://a/"))

	// With so many hosts, the first ones are forgotten.
	for i := range 1024 {
		_ = sent(fmt.Sprint("http://many-", i))
	}
	assert.Equal(t, 3, sent("http://a/"), "forgotten")
	assert.Equal(t, 2, sent("http://many-1023/"), "remembered")
}

// A host that is in use is not forgotten.
func TestBudgetOfAHostInUse(t *testing.T) {
	t.Parallel()
	base, requests := always(503)
	transport := &retryhttp.Transport{Base: base, Policy: atOnce(4)}
	_, err := get(t, transport, "http://a/")
	require.NoError(t, err)
	require.Equal(t, 4, *requests)
	for i := range 5000 {
		if i%500 == 0 {
			before := *requests
			_, err := get(t, transport, "http://a/")
			require.NoError(t, err)
			require.Equal(t, 1, *requests-before, i)
		}
		_, err := get(t, transport, fmt.Sprint("http://many-", i))
		require.NoError(t, err)
	}
}

// A success pays for retries, also one without any; so does a refusal that proves
// that the server is well. A failure does not.
func TestBudgetIsRefilled(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		status int
		pays   bool
	}{{200, true}, {404, true}, {501, false}, {507, false}} {
		status := 503
		requests := 0
		base := &http.Transport{} // the fast path
		base.RegisterProtocol("stub", roundTripper(func(req *http.Request) (*http.Response, error) {
			requests++
			return &http.Response{StatusCode: status, Body: http.NoBody, Request: req}, nil
		}))
		transport := &retryhttp.Transport{Base: base, Policy: atOnce(9)}
		_, err := get(t, transport, "stub://a/")
		require.NoError(t, err)
		assert.Equal(t, 9, requests, "the reserve is enough for one request")
		status = test.status
		for range 20 {
			_, err := get(t, transport, "stub://a/")
			require.NoError(t, err)
		}
		assert.Equal(t, 29, requests)
		status = 503
		_, err = get(t, transport, "stub://a/")
		require.NoError(t, err)
		want := 30
		if test.pays {
			want += 2 // 20 × 0.1
		}
		assert.Equal(t, want, requests, "%d", test.status)
	}
}

// A request may use up its attempts while the host is new, as far as they are few.
func TestReserve(t *testing.T) {
	t.Parallel()
	for attempts, want := range map[int]int{0: 3, 1: 1, 2: 2, 5: 5, 11: 11, 12: 11, retry.Unlimited: 11} {
		base, requests := always(503)
		p := atOnce(attempts)
		_, err := get(t, &retryhttp.Transport{Base: base, Policy: p}, "http://a/")
		require.NoError(t, err)
		assert.Equal(t, want, *requests, "%d attempts", attempts)
	}
}

func TestBudgetChoice(t *testing.T) {
	t.Parallel()
	base, requests := always(503)
	send := func(transport *retryhttp.Transport) int {
		*requests = 0
		for range 2 {
			_, err := get(t, transport, "http://a/")
			require.NoError(t, err)
		}
		return *requests
	}
	assert.Equal(t, 10, send(&retryhttp.Transport{Base: base, Policy: atOnce(5), Budget: retryhttp.NoBudget}))
	small := &retry.Budget{Reserve: 1}
	assert.Equal(t, 3, send(&retryhttp.Transport{
		Base: base, Policy: atOnce(5), Budget: func(*http.Request) retry.Throttle { return small },
	}))
	p := atOnce(5)
	p.Budget = &retry.Budget{Reserve: 2}
	assert.Equal(t, 4, send(&retryhttp.Transport{
		Base: base, Policy: p, Budget: func(*http.Request) retry.Throttle { return small },
	}))
}
