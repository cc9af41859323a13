package retry_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// This file makes the standard library fail for real, on the loopback
// interface: a new version of Go that reports a failure in another way is to
// turn the tests of the classification red.

// soon is a timeout that is there to pass.
const soon = 20 * time.Millisecond

// serve hands every connection to handle and returns its address. It keeps the
// connections open that handle does not close.
func serve(t *testing.T, handle func(*net.TCPConn)) (address string) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go handle(conn.(*net.TCPConn))
		}
	}()
	return listener.Addr().String()
}

// silent is a server that reads and never answers.
func silent(conn *net.TCPConn) { _, _ = io.Copy(io.Discard, conn) }

// answering is a server that answers every request with the bytes of reply and
// closes the connection.
func answering(reply string) func(*net.TCPConn) {
	return func(conn *net.TCPConn) {
		defer func() { _ = conn.Close() }()
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
			_, _ = io.WriteString(conn, reply)
		}
	}
}

// resetting is a server that resets the connection after the first bytes.
func resetting(conn *net.TCPConn) {
	_, _ = conn.Read(make([]byte, 1))
	_ = conn.SetLinger(0)
	_ = conn.Close()
}

// closedPort is an address where nobody listens.
func closedPort(t *testing.T) (address string) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	return listener.Addr().String()
}

// dial connects to a server of the test.
func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// dialError is what a dialer that must fail says.
func dialError(ctx context.Context, d *net.Dialer, address string) error {
	conn, err := d.DialContext(ctx, "tcp", address)
	if err == nil {
		_ = conn.Close()
	}
	return err
}

// get makes a request, reads the response, and returns whatever failed.
func get(t *testing.T, transport *http.Transport, url string) error {
	t.Helper()
	t.Cleanup(transport.CloseIdleConnections)
	return do(t.Context(), t, &http.Client{Transport: transport}, url)
}

func do(ctx context.Context, t *testing.T, client *http.Client, url string) error {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	_, err = io.Copy(io.Discard, response.Body)
	return err
}

// post makes a request that net/http does not repeat.
func post(t *testing.T, transport *http.Transport, url string) error {
	t.Helper()
	t.Cleanup(transport.CloseIdleConnections)
	body := io.NopCloser(strings.NewReader("x"))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, body)
	require.NoError(t, err)
	response, err := transport.RoundTrip(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	_, err = io.Copy(io.Discard, response.Body)
	return err
}

// serveTLS is a server whose certificate is good for example.com and loopback,
// and a configuration of clients that trusts it.
func serveTLS(t *testing.T, config *tls.Config) (*httptest.Server, *tls.Config) {
	t.Helper()
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = config
	server.StartTLS()
	t.Cleanup(server.Close)
	client := server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	return server, client
}

// shakeHands connects, and returns the error of the handshake or, if that went
// well, of reading: a server that speaks TLS 1.3 refuses a client's certificate
// when the client is through.
func shakeHands(t *testing.T, address string, config *tls.Config) error {
	t.Helper()
	conn, err := (&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	_, err = conn.Read(make([]byte, 1))
	return err
}

// serveHTTP2 is a server that speaks HTTP/2 from the first byte, and answers
// every request with a header block, if there is one, and a reset.
func serveHTTP2(t *testing.T, headers []byte, code uint32) (address string) {
	t.Helper()
	const preface, frameHeader = 24, 9
	const headersFrame, resetFrame, settingsFrame = 1, 3, 4
	const endHeaders = 4
	frame := func(kind, flags byte, stream uint32, payload []byte) []byte {
		head := []byte{0, 0, byte(len(payload)), kind, flags}
		return append(binary.BigEndian.AppendUint32(head, stream), payload...)
	}
	return serve(t, func(conn *net.TCPConn) {
		defer func() { _ = conn.Close() }()
		head := make([]byte, frameHeader)
		_, err := io.CopyN(io.Discard, conn, preface)
		_, _ = conn.Write(frame(settingsFrame, 0, 0, nil))
		for err == nil {
			if _, err = io.ReadFull(conn, head); err != nil {
				return
			}
			size := int64(head[0])<<16 | int64(head[1])<<8 | int64(head[2])
			if _, err = io.CopyN(io.Discard, conn, size); err != nil || head[3] != headersFrame {
				continue
			}
			var reply []byte
			stream := binary.BigEndian.Uint32(head[5:])
			if headers != nil {
				reply = frame(headersFrame, endHeaders, stream, headers)
			}
			reply = append(reply, frame(resetFrame, 0, stream, binary.BigEndian.AppendUint32(nil, code))...)
			_, err = conn.Write(reply)
		}
	})
}

// speakHTTP2 is a transport for serveHTTP2.
func speakHTTP2() *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Transport{Protocols: protocols}
}

// resolver asks a DNS server of the test, which answers every question with a
// code and no records, or not at all.
func resolver(t *testing.T, answer func(query []byte) []byte) *net.Resolver {
	t.Helper()
	server, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = server.Close() })
	go func() {
		buffer := make([]byte, 1500)
		for {
			n, from, err := server.ReadFrom(buffer)
			if err != nil {
				return
			}
			if reply := answer(buffer[:n]); reply != nil {
				_, _ = server.WriteTo(reply, from)
			}
		}
	}()
	return &net.Resolver{
		PreferGo: true,
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "udp", server.LocalAddr().String())
		},
	}
}

// rcode answers a DNS question with a response code, such as 2, "server
// failure", and 3, "no such name".
func rcode(code byte) func([]byte) []byte {
	return func(query []byte) []byte {
		if len(query) < 4 {
			return nil
		}
		const response, recursionAvailable = 0x80, 0x80
		reply := append([]byte(nil), query...)
		reply[2] |= response
		reply[3] = recursionAvailable | code
		return reply
	}
}

// lookup is what looking up a name that no file knows says.
func lookup(ctx context.Context, r *net.Resolver) error {
	_, err := r.LookupIPAddr(ctx, "host.example.")
	return err
}

// brokenPipe writes to a connection that the peer has closed.
func brokenPipe(t *testing.T) error {
	t.Helper()
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	defer func() { _ = writer.Close() }()
	require.NoError(t, reader.Close())
	_, err = writer.Write([]byte("x"))
	return err
}

// writeAfterClose writes until the peer's refusal has arrived.
func writeAfterClose(t *testing.T) error {
	t.Helper()
	conn := dial(t, serve(t, func(conn *net.TCPConn) { _ = conn.Close() }))
	for {
		if _, err := conn.Write(make([]byte, 1<<10)); err != nil {
			return err
		}
	}
}

func readAfterReset(t *testing.T) error {
	t.Helper()
	conn := dial(t, serve(t, resetting))
	_, err := conn.Write([]byte("x"))
	require.NoError(t, err)
	_, err = conn.Read(make([]byte, 1))
	return err
}

func readPastDeadline(t *testing.T) error {
	t.Helper()
	conn := dial(t, serve(t, silent))
	require.NoError(t, conn.SetDeadline(time.Now().Add(-time.Second)))
	_, err := conn.Read(make([]byte, 1))
	return err
}

func readFromClosed(t *testing.T) error {
	t.Helper()
	conn := dial(t, serve(t, silent))
	require.NoError(t, conn.Close())
	_, err := conn.Read(make([]byte, 1))
	return err
}

func writeToClosedPipe() error {
	left, right := net.Pipe()
	_, _ = left.Close(), right.Close()
	_, err := left.Write([]byte("x"))
	return err
}

// recovered runs fn and returns the error that it panics with.
func recovered(fn func()) (err error) {
	defer func() {
		if e, ok := recover().(error); ok {
			err = e
		}
	}()
	fn()
	return errors.New("no panic")
}
