package enginetest

import (
	"context"
	"errors"
	"net"
	"sync"
)

var errCut = errors.New("enginetest: the cable is cut")

// Cable connects a client to its server until it is cut. The server then sees what it
// sees when the client's process is killed: closed connections. The zero value is
// ready. It is safe for concurrent use.
type Cable struct {
	faulty bool // connections are links

	mu    sync.Mutex
	cut   bool
	conns []net.Conn
	far   []net.Conn // the other ends of links, and those at the server

	// What a link carries passes a gate, which somebody shuts by locking it.
	toServer, toClient sync.RWMutex
}

// NewLink returns a Cable that can go silent. What it carries passes through this process.
func NewLink() *Cable { return &Cable{faulty: true} }

// Silence has the connections of a NewLink, and new ones, carry nothing until the returned
// function is called. They stay open.
func (c *Cable) Silence() (end func()) {
	c.toServer.Lock()
	c.toClient.Lock()
	return func() {
		c.toServer.Unlock()
		c.toClient.Unlock()
	}
}

// DialContext is a dial function for a client. It fails after Cut.
func (c *Cable) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	c.mu.Lock()
	cut := c.cut
	c.mu.Unlock()
	if cut {
		return nil, errCut
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, address)
	if err == nil && c.faulty {
		conn, err = c.link(ctx, conn)
	}
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut {
		_ = conn.Close()
		return nil, errCut
	}
	c.conns = append(c.conns, conn)
	return conn, nil
}

// Dial is DialContext without a context.
func (c *Cable) Dial(network, address string) (net.Conn, error) {
	return c.DialContext(context.Background(), network, address)
}

// Cut closes all connections, for good.
func (c *Cable) Cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = true
	for _, conn := range c.conns {
		_ = conn.Close()
	}
}
