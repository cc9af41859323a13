package retryhttp_test

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

// A host that fails gets the reserve of its own budget, and no more.
func TestBudgetPerHost(t *testing.T) {
	t.Parallel()
	base, requests := always(503)
	transport := &retryhttp.Transport{Base: base, Policy: atOnce(3)}
	sent := func(url string) int {
		before := *requests
		resp := testkit.Must(get(t, transport, url))(t)
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

// A host has one budget, however its name is spelled.
func TestBudgetOfOneHostInManyForms(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		known  string
		others []string
		apart  []string // other servers
	}{
		{
			"a name", "http://host.example/",
			[]string{"http://HOST.Example/x", "http://host.example:80/", "http://host.example:/", "http://host.example.:0080/", "HTTP://host.example/"},
			[]string{"http://host.example:443/", "http://host.example:8080/", "https://host.example/", "http://host2.example/"},
		},
		{
			"a port", "https://host.example:8443/",
			[]string{"https://HOST.example.:8443/", "https://host.example:08443/"},
			[]string{"https://host.example/", "https://host.example:80/"},
		},
		{"TLS", "https://host.example/", []string{"https://host.example:443", "https://user:pass@HOST.EXAMPLE:443/"}, []string{"https://host.example:80"}},
		{
			"IPv6", "http://[fe80::a]/",
			[]string{"http://[FE80::A]:80/", "http://[fe80:0:0:0:0:0:0:a]/"},
			[]string{"http://[fe80::a]:81/", "http://[fe80::a%25eth0]/", "http://[fe80::b]/"},
		},
		{"a zone", "http://[fe80::a%25eth0]/", []string{"http://[FE80::A%25eth0]:80/"}, []string{"http://[fe80::a%25ETH0]/"}},
		{"IPv4 in IPv6", "http://127.0.0.1/", []string{"http://[::ffff:127.0.0.1]:80/", "http://127.0.0.1:80"}, []string{"http://127.0.0.2/"}},
		{"no DNS", "http://B\u00dcCHER.example/", []string{"http://b\u00fccher.example:80/"}, []string{"http://xn--bcher-kva.example/"}},
		{
			"too long to be one", "http://" + strings.Repeat("a", 512) + "b/",
			[]string{"http://" + strings.Repeat("a", 600) + "/"},
			[]string{"http://" + strings.Repeat("a", 511) + "/"},
		},
		{"no name", "http:///", []string{"http://"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			base, requests := always(503)
			transport := &retryhttp.Transport{Base: base, Policy: atOnce(2)}
			sent := func(url string) int {
				before := *requests
				_, err := get(t, transport, url)
				require.NoError(t, err, url)
				return *requests - before
			}
			for range 3 { // the reserve
				require.Equal(t, 2, sent(tt.known))
			}
			for _, other := range tt.others {
				assert.Equal(t, 1, sent(other), "%s is the same", other)
			}
			assert.Equal(t, 1, sent(tt.known))
			for _, apart := range tt.apart {
				assert.Equal(t, 2, sent(apart), "%s is another", apart)
			}
		})
	}
}

// A Transport keeps no part of the URLs of redirects alive, and no long names.
//
//nolint:paralleltest // It measures.
func TestHostsAreSmall(t *testing.T) {
	for name, format := range map[string]string{
		"long paths":   "http://host-%d/%s",
		"long names":   "http://%d-%s/",
		"long ports":   "http://host-%d:%s/",
		"long schemes": "s%d-%s://host/",
	} {
		transport := &retryhttp.Transport{Base: roundTripper(func(req *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: req}, nil
		})}
		long := strings.Repeat("1", 32<<10)
		before := liveHeap()
		for i := range 300 {
			testkit.Must(get(t, transport, fmt.Sprintf(format, i, long)))(t)
		}
		assert.Less(t, int64(liveHeap()-before), int64(2<<20), "%s: 9 MB were sent", name)
		runtime.KeepAlive(transport)
	}
}

// liveHeap returns the bytes that are in use.
func liveHeap() uint64 {
	runtime.GC()
	runtime.GC() // and what finalizers and pools have let go
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A host that is in use is not forgotten.
func TestBudgetOfAHostInUse(t *testing.T) {
	t.Parallel()
	base, requests := always(503)
	transport := &retryhttp.Transport{Base: base, Policy: atOnce(4)}
	testkit.Must(get(t, transport, "http://a/"))(t)
	require.Equal(t, 4, *requests)
	for i := range 5000 {
		if i%500 == 0 {
			before := *requests
			testkit.Must(get(t, transport, "http://a/"))(t)
			require.Equal(t, 1, *requests-before, i)
		}
		testkit.Must(get(t, transport, fmt.Sprint("http://many-", i)))(t)
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
		testkit.Must(get(t, transport, "stub://a/"))(t)
		assert.Equal(t, 9, requests, "the reserve is enough for one request")
		status = test.status
		for range 20 {
			testkit.Must(get(t, transport, "stub://a/"))(t)
		}
		assert.Equal(t, 29, requests)
		status = 503
		testkit.Must(get(t, transport, "stub://a/"))(t)
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
		testkit.Must(get(t, &retryhttp.Transport{Base: base, Policy: p}, "http://a/"))(t)
		assert.Equal(t, want, *requests, "%d attempts", attempts)
	}
}

func TestBudgetChoice(t *testing.T) {
	t.Parallel()
	base, requests := always(503)
	send := func(transport *retryhttp.Transport) int {
		*requests = 0
		for range 2 {
			testkit.Must(get(t, transport, "http://a/"))(t)
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
