package retryhttp_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// rawServer is a server that net/http would not be: the nth connection goes to
// the nth handler, and then always to the last. A connection is closed when its
// handler returns.
type rawServer struct {
	addr  string
	conns atomic.Int64

	mu    sync.Mutex
	open  []net.Conn
	ended bool
}

func serveRaw(t *testing.T, handlers ...func(net.Conn)) *rawServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := &rawServer{addr: listener.Addr().String()}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			n := int(s.conns.Add(1))
			s.mu.Lock()
			s.open = append(s.open, conn)
			if s.ended { // it came at the last moment
				_ = conn.Close()
			}
			s.mu.Unlock()
			wg.Go(func() {
				handlers[min(n, len(handlers))-1](conn)
				_ = conn.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		s.mu.Lock()
		s.ended = true
		for _, conn := range s.open {
			_ = conn.Close()
		}
		s.mu.Unlock()
		wg.Wait()
	})
	return s
}

// readHTTP reads a request and its body.
func readHTTP(r *bufio.Reader) bool {
	req, err := http.ReadRequest(r)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, req.Body)
	return err == nil
}

// sayRaw reads a request, writes this, and closes the connection.
func sayRaw(text string) func(net.Conn) {
	return func(conn net.Conn) {
		if readHTTP(bufio.NewReader(conn)) {
			_, _ = io.WriteString(conn, text)
		}
	}
}

// stall reads a request, writes this, and then no more.
func stallRaw(text string) func(net.Conn) {
	return func(conn net.Conn) {
		sayRaw(text)(conn)
		ignore(conn)
	}
}

// ignore reads what comes until the client closes the connection.
func ignore(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }

// resetRaw reads a request and resets the connection.
func resetRaw(conn net.Conn) {
	sayRaw("")(conn)
	_ = conn.(*net.TCPConn).SetLinger(0)
}

// ownTransport gives the test a transport without connections of others.
func ownTransport(t *testing.T, base *http.Transport) *http.Transport {
	t.Helper()
	t.Cleanup(base.CloseIdleConnections)
	return base
}

// dialedConn is a client's connection with hooks.
type dialedConn struct {
	net.Conn
	beforeWrite func(p []byte)
	afterWrite  func()
	afterRead   func(err error)
	closeOnce   sync.Once
	closed      chan struct{}
}

func (c *dialedConn) Write(p []byte) (int, error) {
	if c.beforeWrite != nil {
		c.beforeWrite(p)
	}
	n, err := c.Conn.Write(p)
	if c.afterWrite != nil {
		c.afterWrite()
	}
	return n, err
}

func (c *dialedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil && c.afterRead != nil {
		c.afterRead(err)
	}
	return n, err
}

func (c *dialedConn) Close() error {
	c.closeOnce.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// hooked makes a transport use dialedConns, which hook may change; it counts
// them.
func hooked(t *testing.T, base *http.Transport, hook func(*dialedConn)) *http.Transport {
	t.Helper()
	base.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		c := &dialedConn{Conn: conn, closed: make(chan struct{})}
		hook(c)
		return c, nil
	}
	return ownTransport(t, base)
}

// onGotConn calls f when a connection was chosen for the request, and nothing
// written yet.
func onGotConn(req *http.Request, f func(httptrace.GotConnInfo)) *http.Request {
	return req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{GotConn: f}))
}

// HTTP/2, RFC 9113: the frames that a server needs to misbehave.
const (
	frameData, frameHeaders, frameReset, frameSettings, framePing, frameGoAway = 0x0, 0x1, 0x3, 0x4, 0x6, 0x7

	flagEndStream, flagAck, flagEndHeaders = 0x1, 0x1, 0x4

	h2ProtocolError, h2InternalError, h2FlowControl, h2Refused  = 0x1, 0x2, 0x3, 0x7
	h2Cancel, h2Calm, h2HTTP11Required, h2No, h2InadequateCrypt = 0x8, 0xb, 0xd, 0x0, 0xc
)

// h2Conn is the server's end of an HTTP/2 connection.
type h2Conn struct {
	net.Conn
	server *h2Server
	ended  []uint32 // streams whose request is complete and was not asked for
}

// h2Server speaks HTTP/2 without TLS.
type h2Server struct {
	*rawServer
	requests atomic.Int64
}

// serveH2 runs the nth handler on the nth connection, after the preface and the
// settings. When a handler returns, the connection stays open until the client
// closes it.
func serveH2(t *testing.T, handlers ...func(*h2Conn)) *h2Server {
	t.Helper()
	s := &h2Server{}
	ready := make(chan struct{})
	raw := make([]func(net.Conn), len(handlers))
	for i, handler := range handlers {
		raw[i] = func(conn net.Conn) {
			<-ready
			preface := make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
			if _, err := io.ReadFull(conn, preface); err != nil {
				return
			}
			c := &h2Conn{Conn: conn, server: s}
			c.write(frameSettings, 0, 0, nil)
			handler(c)
			ignore(conn)
		}
	}
	s.rawServer = serveRaw(t, raw...)
	close(ready)
	return s
}

// h2Transport speaks HTTP/2 to http URLs.
func h2Transport(t *testing.T) *http.Transport {
	t.Helper()
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	return ownTransport(t, &http.Transport{Protocols: protocols})
}

func (c *h2Conn) write(kind, flags byte, stream uint32, payload []byte) {
	frame := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	frame = append(frame, flags)
	frame = binary.BigEndian.AppendUint32(frame, stream)
	_, _ = c.Write(append(frame, payload...))
}

// frame is the header of a frame.
type frame struct {
	kind, flags byte
	stream      uint32
}

// read returns the next frame, and acknowledges settings.
func (c *h2Conn) read() (frame, error) {
	var head [9]byte
	if _, err := io.ReadFull(c.Conn, head[:]); err != nil {
		return frame{}, err
	}
	length := int64(binary.BigEndian.Uint32(head[:4]) >> 8)
	if _, err := io.CopyN(io.Discard, c.Conn, length); err != nil {
		return frame{}, err
	}
	f := frame{head[3], head[4], binary.BigEndian.Uint32(head[5:])}
	if f.kind == frameSettings && f.flags&flagAck == 0 {
		c.write(frameSettings, flagAck, 0, nil)
	}
	if (f.kind == frameHeaders || f.kind == frameData) && f.flags&flagEndStream != 0 {
		c.server.requests.Add(1)
		c.ended = append(c.ended, f.stream)
	}
	return f, nil
}

// request waits for a complete request and returns its stream, or 0 if there
// will be none.
func (c *h2Conn) request() uint32 {
	for len(c.ended) == 0 {
		if _, err := c.read(); err != nil {
			return 0
		}
	}
	stream := c.ended[0]
	c.ended = c.ended[1:]
	return stream
}

// each calls f with the stream of each request.
func (c *h2Conn) each(f func(stream uint32)) {
	for stream := c.request(); stream != 0; stream = c.request() {
		f(stream)
	}
}

// sync returns when the client has read all that was written.
func (c *h2Conn) sync() {
	c.write(framePing, 0, 0, make([]byte, 8))
	for {
		f, err := c.read()
		if err != nil || f.kind == framePing && f.flags&flagAck != 0 {
			return
		}
	}
}

// ok answers with status 200; more goes into the header block.
func (c *h2Conn) ok(stream uint32, flags byte, more ...byte) {
	c.write(frameHeaders, flagEndHeaders|flags, stream, append([]byte{0x88}, more...))
}

// end says no more. A connection that is closed with unread data would be reset.
func (c *h2Conn) end() { _ = c.Conn.(*net.TCPConn).CloseWrite() }

func (c *h2Conn) reset(stream, code uint32) {
	c.write(frameReset, 0, stream, binary.BigEndian.AppendUint32(nil, code))
}

func (c *h2Conn) goAway(last, code uint32) {
	payload := binary.BigEndian.AppendUint32(nil, last)
	c.write(frameGoAway, 0, 0, binary.BigEndian.AppendUint32(payload, code))
}

// resetEach answers each request with RST_STREAM.
func resetEach(code uint32) func(*h2Conn) {
	return func(c *h2Conn) {
		c.each(func(stream uint32) { c.reset(stream, code) })
	}
}

// okEach answers each request with 200.
func okEach(c *h2Conn) {
	c.each(func(stream uint32) { c.ok(stream, flagEndStream) })
}

// dnsServer answers each query over UDP with an rcode, or never if that is
// negative.
func serveDNS(t *testing.T, rcode int) *net.Resolver {
	t.Helper()
	server, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
	go func() {
		defer close(done)
		query := make([]byte, 1500)
		for {
			n, client, err := server.ReadFrom(query)
			if err != nil {
				return
			}
			if rcode < 0 || n < 12 {
				continue
			}
			reply := slices.Clone(query[:n])
			reply[2] |= 0x80                                    // a response
			reply[3] = 0x80 | byte(rcode)                       // recursion available
			binary.BigEndian.PutUint16(reply[10:], 0)           // no additional records:
			reply = reply[:min(len(reply), questionEnd(reply))] // cut off EDNS0
			_, _ = server.WriteTo(reply, client)
		}
	}()
	return &net.Resolver{
		PreferGo: true,
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "udp", server.LocalAddr().String())
		},
	}
}

// questionEnd returns where the only question of a DNS message ends.
func questionEnd(message []byte) int {
	i := 12
	for i < len(message) && message[i] != 0 {
		i += 1 + int(message[i])
	}
	return i + 5
}

// eventually fails the test if f takes too long.
func eventually(t *testing.T, what string, ch <-chan struct{}) {
	t.Helper()
	select {
	case <-ch:
	case <-time.After(5 * time.Second):
		assert.Fail(t, "did not come", what)
	}
}
