package retryhttp_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// dialing is a Dialer that fails like this.
func dialing(n syscall.Errno) func(*testing.T) (*http.Transport, string) {
	return with(func(base *http.Transport) {
		base.DialContext = (&net.Dialer{Control: func(string, string, syscall.RawConn) error {
			return os.NewSyscallError("connect", n)
		}}).DialContext
	}, ignore)
}

// resolving is a name that is looked up like this.
func resolving(rcode int) func(*testing.T) (*http.Transport, string) {
	return func(t *testing.T) (*http.Transport, string) {
		t.Helper()
		dialer := &net.Dialer{Resolver: serveDNS(t, rcode)}
		if rcode < 0 {
			dialer.Timeout = 2 * short
		}
		return ownTransport(t, &http.Transport{DialContext: dialer.DialContext}), "http://retry.invalid.:80"
	}
}

var unreachable = []trouble{
	{
		name: "refused", set: func(t *testing.T) (*http.Transport, string) {
			t.Helper()
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			require.NoError(t, listener.Close())
			return ownTransport(t, &http.Transport{}), "http://" + listener.Addr().String()
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
	{name: "DNS: not found", set: resolving(3), want: unsent(final("dns_not_found")), text: "no such host", get: 1, post: 1},
	{name: "DNS: server failure", set: resolving(2), want: anew("dns"), text: "server misbehaving", get: 2, post: 2},
	{
		name: "DNS: no answer", set: resolving(-1), want: anew("dns"), text: "i/o timeout", get: 2, post: 2,
	},
	{
		name: "attempt, in DNS", set: resolving(-1), timeout: short,
		want: again("timeout"), get: 2, post: 2, // it is known that nothing was sent
	},
	{
		name: "DNS: canceled", set: resolving(-1), change: func(req *http.Request) *http.Request {
			ctx, cancel := context.WithCancel(req.Context())
			return req.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
				DNSStart: func(httptrace.DNSStartInfo) { cancel() },
			}))
		},
		want: final("canceled"), get: 1, post: 1,
	},
}

// toTLS is a server with a certificate for 127.0.0.1 and example.com.
func toTLS(config func(*tls.Config, *httptest.Server)) func(*testing.T) (*http.Transport, string) {
	return func(t *testing.T) (*http.Transport, string) {
		t.Helper()
		s := httptest.NewUnstartedServer(status(200))
		s.Config.ErrorLog = log.New(io.Discard, "", 0)
		s.StartTLS()
		t.Cleanup(s.Close)
		roots := x509.NewCertPool()
		roots.AddCert(s.Certificate())
		base := ownTransport(t, &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}})
		config(base.TLSClientConfig, s)
		return base, s.URL
	}
}

var untrusted = []trouble{
	{
		name: "authority", set: toTLS(func(c *tls.Config, _ *httptest.Server) { c.RootCAs = x509.NewCertPool() }),
		want: final("tls_cert"), text: "unknown authority", get: 1, post: 1,
	},
	{
		name: "host", set: toTLS(func(c *tls.Config, _ *httptest.Server) { c.ServerName = "retry.invalid" }),
		want: final("tls_cert"), text: "not retry.invalid", get: 1, post: 1,
	},
	{
		name: "expired", set: toTLS(func(c *tls.Config, s *httptest.Server) {
			c.Time = func() time.Time { return s.Certificate().NotAfter.Add(time.Hour) }
		}),
		want: final("tls_cert"), text: "expired", get: 1, post: 1,
	},
	{
		name: "version", set: toTLS(func(c *tls.Config, s *httptest.Server) {
			s.TLS.MinVersion, c.MaxVersion = tls.VersionTLS13, tls.VersionTLS12
		}),
		want: final("tls_alert"), text: "protocol version", get: 1, post: 1,
	},
	{name: "alert: handshake failure", set: alert(40), want: final("tls_alert"), text: "handshake failure", get: 1, post: 1},
	{name: "alert: internal error", set: alert(80), want: again("tls_alert"), text: "internal error", get: 2, post: 2},
	{name: "alert: user canceled", set: alert(90), want: again("tls_alert"), text: "user canceled", get: 2, post: 2},
	{name: "client, TLS 1.2", set: clientCert(tls.VersionTLS12), want: final("tls_alert"), text: "remote error: tls", get: 1, post: 1},
	{name: "client, TLS 1.3", set: clientCert(tls.VersionTLS13), want: final("tls_alert"), text: "certificate required", get: 1, post: 1},
}

// alert is a server that answers the first words of TLS with a fatal alert.
func alert(code byte) func(*testing.T) (*http.Transport, string) {
	return func(t *testing.T) (*http.Transport, string) {
		t.Helper()
		s := serveRaw(t, func(conn net.Conn) {
			_, _ = conn.Read(make([]byte, 1))
			_, _ = conn.Write([]byte{21, 3, 3, 0, 2, 2, code})
			ignore(conn)
		})
		return ownTransport(t, &http.Transport{}), "https://" + s.addr
	}
}

// clientCert is a server that wants to see a certificate. In TLS 1.3 the client
// learns of that when it has sent its request.
func clientCert(version uint16) func(*testing.T) (*http.Transport, string) {
	return func(t *testing.T) (*http.Transport, string) {
		t.Helper()
		with := httptest.NewUnstartedServer(nil)
		with.StartTLS() // for its certificate
		with.Close()
		config := &tls.Config{
			Certificates: with.TLS.Certificates, ClientAuth: tls.RequireAnyClientCert,
			MinVersion: version, MaxVersion: version,
		}
		s := serveRaw(t, func(conn net.Conn) {
			_ = tls.Server(conn, config).HandshakeContext(t.Context())
			ignore(conn) // a connection that is closed with unread data would be reset
		})
		roots := x509.NewCertPool()
		roots.AddCert(with.Certificate())
		return ownTransport(t, &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}}), "https://" + s.addr
	}
}
