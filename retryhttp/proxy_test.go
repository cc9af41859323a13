package retryhttp_test

import (
	"net"
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/provoke"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

// through is a proxy that answers CONNECT like this.
func through(answers string, typed bool) func(*testing.T) (*http.Transport, string) {
	return func(t *testing.T) (*http.Transport, string) {
		t.Helper()
		s := provoke.Serve(t, provoke.RespondAndStall(answers))
		base := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: s.Addr, User: url.UserPassword("user", "secret")})}
		if typed {
			base.OnProxyConnectResponse = retryhttp.ProxyConnectError
		}
		return provoke.Transport(t, base), "https://127.0.0.1:1/"
	}
}

var behindProxies = []failure{
	{name: "407", set: through("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", false), want: final("http_407"), get: 1, post: 1},
	{name: "407, typed", set: through("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", true), want: final("http_407"), get: 1, post: 1},
	{name: "403", set: through("HTTP/1.1 403 Forbidden\r\n\r\n", false), want: final("http_403"), get: 1, post: 1},
	{name: "502", set: through("HTTP/1.1 502 Bad Gateway\r\n\r\n", false), want: again("http_502"), get: 2, post: 2},
	{name: "502, typed", set: through("HTTP/1.1 502 Bad Gateway\r\n\r\n", true), want: again("http_502"), get: 2, post: 2},
	{name: "503", set: through("HTTP/1.1 503 Service Unavailable\r\n\r\n", false), want: again("http_503"), get: 2, post: 2},
	{name: "503, typed", set: through("HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n", true), want: again("http_503"), get: 2, post: 2},
	{name: "refused", set: func(t *testing.T) (*http.Transport, string) {
		t.Helper()
		proxy := http.ProxyURL(&url.URL{Scheme: "http", Host: provoke.ClosedPort(t)})
		return provoke.Transport(t, &http.Transport{Proxy: proxy}), "http://retry.invalid"
	}, want: anew("conn_refused"), get: 2, post: 2},
	{name: "SOCKS, no method", set: throughSOCKS([]byte{5, 0xff}), want: final("socks"), get: 1, post: 1},
	{name: "SOCKS, a wrong password", set: throughSOCKS([]byte{5, 2}, []byte{1, 1}), want: final("socks"), get: 1, post: 1},
	{name: "SOCKS, failure", set: throughSOCKS([]byte{5, 0}, []byte{5, 1, 0, 1, 0, 0, 0, 0, 0, 0}), want: anew("socks"), get: 2, post: 2},
	{name: "SOCKS, not allowed", set: throughSOCKS([]byte{5, 0}, []byte{5, 2, 0, 1, 0, 0, 0, 0, 0, 0}), want: final("socks"), get: 1, post: 1},
	{name: "SOCKS, network unreachable", set: throughSOCKS([]byte{5, 0}, []byte{5, 3, 0, 1, 0, 0, 0, 0, 0, 0}), want: anew("socks"), get: 2, post: 2},
	{name: "SOCKS, host unreachable", set: throughSOCKS([]byte{5, 0}, []byte{5, 4, 0, 1, 0, 0, 0, 0, 0, 0}), want: anew("socks"), get: 2, post: 2},
	{name: "SOCKS, refused", set: throughSOCKS([]byte{5, 0}, []byte{5, 5, 0, 1, 0, 0, 0, 0, 0, 0}), want: anew("socks"), get: 2, post: 2},
	{name: "SOCKS, TTL expired", set: throughSOCKS([]byte{5, 0}, []byte{5, 6, 0, 1, 0, 0, 0, 0, 0, 0}), want: anew("socks"), get: 2, post: 2},
	{name: "SOCKS, command", set: throughSOCKS([]byte{5, 0}, []byte{5, 7, 0, 1, 0, 0, 0, 0, 0, 0}), want: final("socks"), get: 1, post: 1},
	{name: "SOCKS, address", set: throughSOCKS([]byte{5, 0}, []byte{5, 8, 0, 1, 0, 0, 0, 0, 0, 0}), want: final("socks"), get: 1, post: 1},
	{name: "without end", set: through("HTTP/1.1 200 OK\r\n", false), timeout: provoke.Soon, want: again("timeout"), get: 2, post: 2},
}

// throughSOCKS is a SOCKS proxy that answers every CONNECT with a reply code.
//
// https://www.rfc-editor.org/rfc/rfc1928
func throughSOCKS(replies ...[]byte) func(*testing.T) (*http.Transport, string) {
	return func(t *testing.T) (*http.Transport, string) {
		t.Helper()
		s := provoke.Serve(t, func(conn net.Conn) {
			for _, reply := range replies { // to the methods, to the credentials, to CONNECT
				_, _ = conn.Read(make([]byte, 300))
				_, _ = conn.Write(reply)
			}
		})
		proxy := http.ProxyURL(&url.URL{Scheme: "socks5", Host: s.Addr, User: url.UserPassword("me", "secret")})
		return provoke.Transport(t, &http.Transport{Proxy: proxy}), "http://retry.invalid"
	}
}

// The answer of a proxy carries a hint, and no secrets.
func TestProxyConnectErrorHint(t *testing.T) {
	t.Parallel()
	base, url := through("HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\n\r\n", true)(t)
	_, err := base.RoundTrip(request(t, http.MethodGet, url, nil))
	var status *retryhttp.StatusError
	require.ErrorAs(t, err, &status)
	assert.Equal(t, http.MethodConnect, status.Method)
	assert.Equal(t, 7*time.Second, status.After)
	assert.NotContains(t, err.Error(), "secret")
	assert.Equal(t, retry.Verdict{
		Class: retry.RateLimited, NotApplied: true, After: 7 * time.Second, Category: "http_429",
	}, retryhttp.Classify(err))
}
