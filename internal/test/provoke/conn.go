package provoke

import (
	"context"
	"net"
	"net/http"
	"sync"
	"testing"
)

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
