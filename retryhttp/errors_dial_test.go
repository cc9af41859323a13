package retryhttp_test

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/provoke"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

// dialing is a Dialer that fails like this.
func dialing(n syscall.Errno) func(*testing.T) (*http.Transport, string) {
	return with(func(base *http.Transport) {
		base.DialContext = (&net.Dialer{Control: func(string, string, syscall.RawConn) error {
			return os.NewSyscallError("connect", n)
		}}).DialContext
	}, to(provoke.Ignore))
}

// resolving is a name that is looked up like this. A timeout of 0 means no
// timeout.
func resolving(answer func([]byte) []byte, timeout time.Duration) func(*testing.T) (*http.Transport, string) {
	return func(t *testing.T) (*http.Transport, string) {
		t.Helper()
		dialer := &net.Dialer{Resolver: provoke.Resolver(t, answer), Timeout: timeout}
		return provoke.Transport(t, &http.Transport{DialContext: dialer.DialContext}), "http://retry.invalid.:80"
	}
}

var unreachable = []failure{
	{
		name: "refused", set: func(t *testing.T) (*http.Transport, string) {
			t.Helper()
			return provoke.Transport(t, &http.Transport{}), "http://" + provoke.ClosedPort(t)
		},
		want: anew("conn_refused"), get: 2, post: 2,
	},
	{name: "network", set: dialing(syscall.ENETUNREACH), want: anew("unreachable"), get: 2, post: 2},
	{name: "host", set: dialing(syscall.EHOSTUNREACH), want: anew("unreachable"), get: 2, post: 2},
	{name: "ETIMEDOUT", set: dialing(syscall.ETIMEDOUT), want: anew("timeout"), get: 2, post: 2},
	{name: "EMFILE", set: dialing(syscall.EMFILE), want: anew("resources"), get: 2, post: 2},
	{name: "reset while dialing", set: dialing(syscall.ECONNRESET), want: anew("conn_reset"), get: 2, post: 2},
	{name: "EADDRNOTAVAIL", set: dialing(syscall.EADDRNOTAVAIL), want: anew("addr_in_use"), get: 2, post: 2},
	{name: "EACCES", set: dialing(syscall.EACCES), want: unsent(final("permission")), get: 1, post: 1},
	{name: "EPERM", set: dialing(syscall.EPERM), want: unsent(final("permission")), get: 1, post: 1},
	{name: "EAFNOSUPPORT", set: dialing(syscall.EAFNOSUPPORT), want: unsent(final("unsupported")), get: 1, post: 1},
	{name: "DNS: not found", set: resolving(provoke.DNSCode(provoke.DNSNoSuchName), 0), want: unsent(final("dns_not_found")), text: "no such host", get: 1, post: 1},
	{name: "DNS: server failure", set: resolving(provoke.DNSCode(provoke.DNSServerFailure), 0), want: anew("dns"), text: "server misbehaving", get: 2, post: 2},
	{name: "DNS: no answer", set: resolving(provoke.DNSSilence, 2*provoke.Soon), want: anew("dns"), text: "i/o timeout", get: 2, post: 2},
	{
		name: "attempt, in DNS", set: resolving(provoke.DNSSilence, time.Minute), timeout: provoke.Soon,
		want: again("timeout"), get: 2, post: 2, // it is known that nothing was sent
	},
	{
		name: "DNS: canceled", set: resolving(provoke.DNSSilence, 2*provoke.Soon), change: func(req *http.Request) *http.Request {
			ctx, cancel := context.WithCancel(req.Context())
			return req.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
				DNSStart: func(httptrace.DNSStartInfo) { cancel() },
			}))
		},
		want: final("canceled"), get: 1, post: 1,
	},
}

// toTLS is a server with a certificate for 127.0.0.1 and example.com. The client
// trusts it, unless change alters that.
func toTLS(server *tls.Config, change func(client *tls.Config)) func(*testing.T) (*http.Transport, string) {
	return func(t *testing.T) (*http.Transport, string) {
		t.Helper()
		s, client := provoke.ServeTLS(t, server, status(200))
		change(client)
		return provoke.Transport(t, &http.Transport{TLSClientConfig: client}), s.URL
	}
}

// distrusting is a server whose certificate the client does not accept, because of
// one of the keys of provoke.Distrusting.
func distrusting(because string) func(*testing.T) (*http.Transport, string) {
	return func(t *testing.T) (*http.Transport, string) {
		t.Helper()
		s, client := provoke.ServeTLS(t, nil, status(200))
		return provoke.Transport(t, &http.Transport{TLSClientConfig: provoke.Distrusting(client)[because]}), s.URL
	}
}

var untrusted = []failure{
	{name: "authority", set: distrusting("authority"), want: final("tls_cert"), text: "unknown authority", get: 1, post: 1},
	{name: "host", set: distrusting("host"), want: final("tls_cert"), text: "not host.invalid", get: 1, post: 1},
	{name: "expired", set: distrusting("expired"), want: final("tls_cert"), text: "expired", get: 1, post: 1},
	{
		name: "version",
		set:  toTLS(&tls.Config{MinVersion: tls.VersionTLS13}, func(c *tls.Config) { c.MaxVersion = tls.VersionTLS12 }),
		want: final("tls_alert"), text: "protocol version", get: 1, post: 1,
	},
	{name: "alert: handshake failure", set: alert(40), want: final("tls_alert"), text: "handshake failure", get: 1, post: 1},
	{name: "alert: internal error", set: alert(80), want: again("tls_alert"), text: "internal error", get: 2, post: 2},
	{name: "alert: user canceled", set: alert(90), want: again("tls_alert"), text: "user canceled", get: 2, post: 2},
	{name: "alert: bad record", set: alert(20), want: again("tls_alert"), text: "bad record MAC", get: 2, post: 2},
	{name: "alert: decode error", set: alert(50), want: again("tls_alert"), text: "decoding message", get: 2, post: 2},
	{
		name: "a spoilt record", set: spoilt("\x17\x03\x03\x00\x20" + strings.Repeat("x", 32)),
		want: again("tls_alert"), text: "local error: tls: bad record MAC", get: 2, post: 1,
	},
	{
		name: "a spoilt record's header", set: spoilt("\x17\x09\x09\x00\x20" + strings.Repeat("x", 32)),
		want: again("tls_record"), text: "tls: received record with version 909", get: 2, post: 1,
	},
	{
		name: "a spoilt record's length", set: spoilt("\x17\x03\x03\xff\xff" + strings.Repeat("x", 32)),
		want: again("tls_record"), text: "tls: oversized record", get: 2, post: 1,
	},
	{name: "client, TLS 1.2", set: clientCert(tls.VersionTLS12), want: final("tls_alert"), text: "remote error: tls", get: 1, post: 1},
	{name: "client, TLS 1.3", set: clientCert(tls.VersionTLS13), want: final("tls_alert"), text: "certificate required", get: 1, post: 1},
}

// alert is a server that answers the first bytes of TLS with a fatal alert.
func alert(code byte) func(*testing.T) (*http.Transport, string) {
	return secure(to(provoke.Alert(code)))
}

// clientCert is a server that wants to see a certificate. In TLS 1.3 the client
// learns of that when it has sent its request.
func clientCert(version uint16) func(*testing.T) (*http.Transport, string) {
	return func(t *testing.T) (*http.Transport, string) {
		t.Helper()
		with, client := provoke.ServeTLS(t, nil, nil) // for its certificate
		config := &tls.Config{
			Certificates: with.TLS.Certificates, ClientAuth: tls.RequireAnyClientCert,
			MinVersion: version, MaxVersion: version,
		}
		s := provoke.Serve(t, func(conn net.Conn) {
			_ = tls.Server(conn, config).HandshakeContext(t.Context())
			provoke.Ignore(conn) // a connection that is closed with unread data would be reset
		})
		return provoke.Transport(t, &http.Transport{TLSClientConfig: client}), "https://" + s.Addr
	}
}

// spoilt is a server whose answer the network has changed: after the request, it writes raw
// bytes where a record of TLS should be.
func spoilt(raw string) func(*testing.T) (*http.Transport, string) {
	return func(t *testing.T) (*http.Transport, string) {
		t.Helper()
		with, client := provoke.ServeTLS(t, nil, nil) // for its certificate
		s := provoke.Serve(t, func(conn net.Conn) {
			server := tls.Server(conn, &tls.Config{Certificates: with.TLS.Certificates})
			if server.HandshakeContext(t.Context()) != nil {
				return
			}
			_, _ = server.Read(make([]byte, 1<<10))
			_, _ = conn.Write([]byte(raw))
			provoke.Ignore(conn)
		})
		return provoke.Transport(t, &http.Transport{TLSClientConfig: client}), "https://" + s.Addr
	}
}

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
