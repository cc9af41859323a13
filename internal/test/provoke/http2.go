package provoke

import (
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"testing"
)

// The types of frames, RFC 9113, section 6.
const (
	FrameData     = 0x0
	FrameHeaders  = 0x1
	FrameReset    = 0x3
	FrameSettings = 0x4
	FramePing     = 0x6
	FrameGoAway   = 0x7
)

// The flags of frames, RFC 9113, section 6.
const (
	FlagEndStream  = 0x1
	FlagAck        = 0x1
	FlagEndHeaders = 0x4
)

// The error codes of resets and of GOAWAY, RFC 9113, section 7.
const (
	NoError            = 0x0
	ProtocolError      = 0x1
	InternalError      = 0x2
	FlowControlError   = 0x3
	RefusedStream      = 0x7
	CancelStream       = 0x8
	CompressionError   = 0x9
	EnhanceYourCalm    = 0xb
	InadequateSecurity = 0xc
	HTTP11Required     = 0xd
)

// HTTP2Preface is the first text that a client sends.
const HTTP2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// HTTP2Conn is the server's end of a connection of HTTP/2 without TLS. It is not for
// concurrent use.
type HTTP2Conn struct {
	net.Conn

	complete []uint32 // streams with a whole request that Request has not returned yet
}

// ServeHTTP2 starts a server whose nth connection goes to the nth handler, as [Serve]
// does, after the preface and the settings. When a handler returns, the connection
// stays open until the client closes it.
func ServeHTTP2(t testing.TB, handlers ...func(*HTTP2Conn)) *Server {
	t.Helper()
	raw := make([]func(net.Conn), len(handlers))
	for i, handler := range handlers {
		raw[i] = HTTP2(handler)
	}
	return Serve(t, raw...)
}

// HTTP2 returns a handler that calls another one after the preface and the settings.
func HTTP2(handler func(*HTTP2Conn)) func(net.Conn) {
	return func(conn net.Conn) {
		if _, err := io.ReadFull(conn, make([]byte, len(HTTP2Preface))); err != nil {
			return
		}
		c := &HTTP2Conn{Conn: conn}
		c.write(FrameSettings, 0, 0, nil)
		handler(c)
		Ignore(conn)
	}
}

// HTTP2Transport returns a transport that speaks HTTP/2 to http URLs.
func HTTP2Transport(t testing.TB) *http.Transport {
	t.Helper()
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	return Transport(t, &http.Transport{Protocols: protocols})
}

func (c *HTTP2Conn) write(kind, flags byte, stream uint32, payload []byte) {
	frame := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind)) //nolint:gosec // short
	frame = append(frame, flags)
	frame = binary.BigEndian.AppendUint32(frame, stream)
	_, _ = c.Write(append(frame, payload...))
}

// read returns the head of the next frame, and acknowledges settings.
func (c *HTTP2Conn) read() (kind, flags byte, err error) {
	var head [9]byte
	if _, err := io.ReadFull(c.Conn, head[:]); err != nil {
		return 0, 0, err
	}
	length := int64(binary.BigEndian.Uint32(head[:4]) >> 8)
	if _, err := io.CopyN(io.Discard, c.Conn, length); err != nil {
		return 0, 0, err
	}
	kind, flags = head[3], head[4]
	if kind == FrameSettings && flags&FlagAck == 0 {
		c.write(FrameSettings, FlagAck, 0, nil)
	}
	if (kind == FrameHeaders || kind == FrameData) && flags&FlagEndStream != 0 {
		c.complete = append(c.complete, binary.BigEndian.Uint32(head[5:]))
	}
	return kind, flags, nil
}

// Request waits for a whole request, and returns its stream. It returns 0 if there
// will be none.
func (c *HTTP2Conn) Request() (stream uint32) {
	for len(c.complete) == 0 {
		if _, _, err := c.read(); err != nil {
			return 0
		}
	}
	stream = c.complete[0]
	c.complete = c.complete[1:]
	return stream
}

// Each calls f with the stream of each request.
func (c *HTTP2Conn) Each(f func(stream uint32)) {
	for stream := c.Request(); stream != 0; stream = c.Request() {
		f(stream)
	}
}

// Sync returns when the client has read everything that was written.
func (c *HTTP2Conn) Sync() {
	c.write(FramePing, 0, 0, make([]byte, 8))
	for {
		kind, flags, err := c.read()
		if err != nil || kind == FramePing && flags&FlagAck != 0 {
			return
		}
	}
}

// OK answers with status 200. flags are added to the header frame's, more to the
// block of headers.
func (c *HTTP2Conn) OK(stream uint32, flags byte, more ...byte) {
	const status200 = 0x88 // HPACK for ":status: 200"
	c.write(FrameHeaders, FlagEndHeaders|flags, stream, append([]byte{status200}, more...))
}

// Header answers with a block of headers, and ends the stream.
func (c *HTTP2Conn) Header(stream uint32, block ...byte) {
	c.write(FrameHeaders, FlagEndHeaders|FlagEndStream, stream, block)
}

// Reset ends a stream with an error code.
func (c *HTTP2Conn) Reset(stream, code uint32) {
	c.write(FrameReset, 0, stream, binary.BigEndian.AppendUint32(nil, code))
}

// GoAway tells the client that no stream after the last one is processed.
func (c *HTTP2Conn) GoAway(last, code uint32) {
	payload := binary.BigEndian.AppendUint32(nil, last)
	c.write(FrameGoAway, 0, 0, binary.BigEndian.AppendUint32(payload, code))
}

// EndWrites closes the server's half of the connection. Closing both halves
// would reset the connection if there is unread data.
func (c *HTTP2Conn) EndWrites() { _ = c.Conn.(*net.TCPConn).CloseWrite() }

// OKEach is a handler that answers each request with status 200.
func OKEach(c *HTTP2Conn) {
	c.Each(func(stream uint32) { c.OK(stream, FlagEndStream) })
}

// ResetEach returns a handler that resets the stream of each request.
func ResetEach(code uint32) func(*HTTP2Conn) {
	return func(c *HTTP2Conn) {
		c.Each(func(stream uint32) { c.Reset(stream, code) })
	}
}

// ResetEachBody returns a handler that answers each request with status 200, and
// resets the stream in place of the body.
func ResetEachBody(code uint32) func(*HTTP2Conn) {
	return func(c *HTTP2Conn) {
		c.Each(func(stream uint32) {
			c.OK(stream, 0)
			c.Reset(stream, code)
		})
	}
}
