package provoke

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
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
