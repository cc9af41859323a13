package enginetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

// link puts a proxy in this process between the server and the client, for whom it
// returns the connection.
func (c *Cable) link(ctx context.Context, server net.Conn) (client net.Conn, err error) {
	client, far, err := pair(ctx)
	if err != nil {
		_ = server.Close()
		return nil, err
	}
	c.mu.Lock()
	c.far = append(c.far, far, server)
	c.mu.Unlock()
	go carry(server, far, &c.toServer)
	go carry(far, server, &c.toClient)
	return client, nil
}

// pair returns the two ends of a connection.
func pair(ctx context.Context) (client, far net.Conn, err error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = listener.Close() }()
	client, err = new(net.Dialer).DialContext(ctx, "tcp", listener.Addr().String())
	if err != nil {
		return nil, nil, err
	}
	far, err = listener.Accept()
	if err != nil {
		return nil, nil, errors.Join(err, client.Close())
	}
	return client, far, nil
}

// carry carries what comes from one connection to another while the gate is open, until
// one of them ends.
func carry(to, from net.Conn, gate *sync.RWMutex) {
	defer func() { _ = errors.Join(to.Close(), from.Close()) }()
	buffer := make([]byte, 1<<16)
	for {
		n, err := from.Read(buffer)
		pass(gate) // while it is shut, the buffers of the system take what comes
		if _, failed := to.Write(buffer[:n]); failed != nil || err != nil {
			return
		}
	}
}

// pass returns when the gate is open.
func pass(gate *sync.RWMutex) {
	gate.RLock()
	defer gate.RUnlock()
}

// reset resets all connections, at both ends, with what they have not carried yet. New
// ones can be made.
func (c *Cable) reset() {
	c.mu.Lock()
	ends := c.far
	c.far = nil
	c.mu.Unlock()
	for _, end := range ends {
		if tcp, ok := end.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = end.Close()
	}
}

// trouble does something to the connections, which takes up to d, and says what.
func (c *Cable) trouble(random *rand.Rand, d time.Duration) string {
	kind := random.IntN(5)
	if kind == 0 {
		c.reset()
		return "all are reset"
	}
	d = time.Duration(random.Int64N(int64(d)))
	what := []string{"", "requests", "answers", "both", "both"}[kind]
	for i, gate := range []*sync.RWMutex{&c.toServer, &c.toClient} {
		if kind == 1+i || kind > 2 {
			gate.Lock()
			defer gate.Unlock()
		}
	}
	time.Sleep(d)
	if random.IntN(2) == 0 {
		c.reset()
		what += ", and all are reset"
	}
	return fmt.Sprintf("silence of %s for %v", what, d.Round(time.Millisecond))
}

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
