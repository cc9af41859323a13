package provoke

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// ServeTLS starts an HTTPS server whose certificate is valid for example.com and
// 127.0.0.1, and returns it with a client's configuration that trusts it. The
// server's configuration may be nil; so may the handler, which then answers 404.
func ServeTLS(t testing.TB, config *tls.Config, handler http.Handler) (server *httptest.Server, client *tls.Config) {
	t.Helper()
	if handler == nil {
		handler = http.NotFoundHandler()
	}
	server = httptest.NewUnstartedServer(handler)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = config
	server.StartTLS()
	t.Cleanup(server.Close)
	return server, server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
}

// Distrusting returns configurations of clients that do not accept the certificate of
// a server, by the reason: "authority", "host", "expired" and "not yet valid". They
// are made from a configuration that accepts it.
func Distrusting(trusting *tls.Config) map[string]*tls.Config {
	configs := map[string]*tls.Config{}
	for name, change := range map[string]func(*tls.Config){
		"authority":     func(c *tls.Config) { c.RootCAs = x509.NewCertPool() },
		"host":          func(c *tls.Config) { c.ServerName = "host.invalid" },
		"expired":       func(c *tls.Config) { c.Time = func() time.Time { return time.Unix(1<<33, 0) } },
		"not yet valid": func(c *tls.Config) { c.Time = func() time.Time { return time.Unix(-1, 0) } },
	} {
		configs[name] = trusting.Clone()
		change(configs[name])
	}
	return configs
}

// Alert returns a handler that answers the first bytes of TLS with a fatal alert.
//
// See https://www.rfc-editor.org/rfc/rfc8446#section-6 for the codes.
func Alert(code byte) func(net.Conn) {
	return Say(string([]byte{21, 3, 3, 0, 2, 2, code}))
}
