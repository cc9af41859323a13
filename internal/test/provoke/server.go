package provoke

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// Server is a TCP server that misbehaves as a server of net/http cannot.
type Server struct {
	Addr string // 127.0.0.1 and the port

	listener net.Listener
	handlers []func(net.Conn)
	running  sync.WaitGroup

	mu       sync.Mutex
	accepted int
	open     map[net.Conn]bool
	closed   bool
}

// Serve starts a server whose nth connection goes to the nth handler. Connections
// after the last handler go to the last. A connection is closed when its handler
// returns.
func Serve(t testing.TB, handlers ...func(net.Conn)) *Server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s := &Server{
		Addr: listener.Addr().String(), listener: listener, handlers: handlers, open: map[net.Conn]bool{},
	}
	s.running.Go(s.accept)
	t.Cleanup(s.Close)
	return s
}

func (s *Server) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.accepted++
		handler := s.handlers[min(s.accepted, len(s.handlers))-1]
		s.open[conn] = true
		if s.closed { // it came at the last moment
			_ = conn.Close()
		}
		s.mu.Unlock()
		s.running.Go(func() {
			handler(conn)
			_ = conn.Close()
			s.mu.Lock()
			delete(s.open, conn)
			s.mu.Unlock()
		})
	}
}

// URL is the address as a URL with the scheme "http".
func (s *Server) URL() string { return "http://" + s.Addr }

// Open returns how many connections there are.
func (s *Server) Open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

// Close closes the listener and all connections, and returns when every handler has.
// The end of the test calls it as well. It may be called more than once.
func (s *Server) Close() {
	_ = s.listener.Close()
	s.mu.Lock()
	s.closed = true
	for conn := range s.open {
		_ = conn.Close()
	}
	s.mu.Unlock()
	s.running.Wait()
}

// ClosedPort returns an address where no server listens.
func ClosedPort(t testing.TB) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	must(t, listener.Close())
	return listener.Addr().String()
}

// Ignore is a handler that reads until the client closes the connection, and never
// answers.
func Ignore(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }

// Respond returns a handler that reads an HTTP request, writes text, and closes the
// connection.
func Respond(text string) func(net.Conn) {
	return func(conn net.Conn) {
		request, err := http.ReadRequest(bufio.NewReader(conn))
		if err != nil {
			return
		}
		if _, err = io.Copy(io.Discard, request.Body); err == nil {
			_, _ = io.WriteString(conn, text)
		}
	}
}

// RespondAndStall returns a handler that reads an HTTP request, writes text, and then
// no more. The connection stays open until the client closes it.
func RespondAndStall(text string) func(net.Conn) {
	return func(conn net.Conn) {
		Respond(text)(conn)
		Ignore(conn)
	}
}

// RespondAndReset returns a handler that reads an HTTP request, writes text, and
// resets the connection.
func RespondAndReset(text string) func(net.Conn) {
	return func(conn net.Conn) {
		Respond(text)(conn)
		Reset(conn)
	}
}

// Say returns a handler that answers the first bytes, whatever they are, with text,
// and then behaves like [Ignore], because closing a connection with unread data
// would reset it.
func Say(text string) func(net.Conn) {
	return func(conn net.Conn) {
		if _, err := conn.Read(make([]byte, 1)); err != nil {
			return
		}
		_, _ = io.WriteString(conn, text)
		Ignore(conn)
	}
}

// Reset makes the end of a TCP connection a reset, and closes it.
func Reset(conn net.Conn) {
	_ = conn.(*net.TCPConn).SetLinger(0)
	_ = conn.Close()
}

// Conn is a client's connection with hooks. A nil hook is not called.
type Conn struct {
	net.Conn

	BeforeRead  func() error // its error is returned in place of a read
	BeforeWrite func(p []byte)
	AfterWrite  func()
	AfterRead   func(err error) // after a failed read

	closeOnce sync.Once
	closed    chan struct{}
}

// Write calls the hooks around the write.
func (c *Conn) Write(p []byte) (int, error) {
	if c.BeforeWrite != nil {
		c.BeforeWrite(p)
	}
	n, err := c.Conn.Write(p)
	if c.AfterWrite != nil {
		c.AfterWrite()
	}
	return n, err
}

// Read calls the hooks around the read.
func (c *Conn) Read(p []byte) (int, error) {
	if c.BeforeRead != nil {
		if err := c.BeforeRead(); err != nil {
			return 0, err
		}
	}
	n, err := c.Conn.Read(p)
	if err != nil && c.AfterRead != nil {
		c.AfterRead(err)
	}
	return n, err
}

// Close closes the connection.
func (c *Conn) Close() error {
	c.closeOnce.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// Closed is closed when the client has called Close.
func (c *Conn) Closed() <-chan struct{} { return c.closed }

// Transport closes the idle connections of a transport at the end of the test, and
// returns it.
func Transport(t testing.TB, transport *http.Transport) *http.Transport {
	t.Helper()
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// Hook makes a transport dial connections with the hooks of set. It closes the idle
// ones like [Transport], and returns the transport.
func Hook(t testing.TB, transport *http.Transport, set func(*Conn)) *http.Transport {
	t.Helper()
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		c := &Conn{Conn: conn, closed: make(chan struct{})}
		set(c)
		return c, nil
	}
	return Transport(t, transport)
}

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
