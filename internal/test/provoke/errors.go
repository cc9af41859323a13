package provoke

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// BrokenPipe writes to a pipe whose reader is closed.
func BrokenPipe(t testing.TB) error {
	t.Helper()
	reader, writer, err := os.Pipe()
	must(t, err)
	defer func() { _ = writer.Close() }()
	must(t, reader.Close())
	_, err = writer.Write([]byte("x"))
	return err
}

// WriteToClosedPipe writes to a net.Pipe of which both ends are closed.
func WriteToClosedPipe() error {
	left, right := net.Pipe()
	_, _ = left.Close(), right.Close()
	_, err := left.Write([]byte("x"))
	return err
}

// WriteAfterClose writes until it is known that the server has closed the connection.
func WriteAfterClose(t testing.TB) error {
	t.Helper()
	conn := connect(t, func(net.Conn) {})
	for {
		if _, err := conn.Write(make([]byte, 1<<10)); err != nil {
			return err
		}
	}
}

// ReadAfterReset reads from a connection that the server has reset.
func ReadAfterReset(t testing.TB) error {
	t.Helper()
	conn := connect(t, func(conn net.Conn) {
		_ = read(conn) // an immediate reset may come before the client knows that it is connected
		Reset(conn)
	})
	_, err := conn.Write([]byte("x"))
	must(t, err)
	return read(conn)
}

// ReadPastDeadline reads when the deadline of the connection has passed.
func ReadPastDeadline(t testing.TB) error {
	t.Helper()
	conn := connect(t, Ignore)
	must(t, conn.SetDeadline(time.Now().Add(-time.Second)))
	return read(conn)
}

// ReadFromClosed reads from a connection that the client itself has closed.
func ReadFromClosed(t testing.TB) error {
	t.Helper()
	conn := connect(t, Ignore)
	must(t, conn.Close())
	return read(conn)
}

// connect connects to a server of its own.
func connect(t testing.TB, handler func(net.Conn)) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", Serve(t, handler).Addr)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func read(conn net.Conn) error {
	_, err := conn.Read(make([]byte, 1))
	return err
}

// Dial returns the error of dialing.
func Dial(ctx context.Context, dialer *net.Dialer, address string) error {
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err == nil {
		_ = conn.Close()
	}
	return err
}

// Lookup returns the error of looking up a name that is in no hosts file.
func Lookup(ctx context.Context, resolver *net.Resolver) error {
	_, err := resolver.LookupIPAddr(ctx, "host.example.")
	return err
}

// ShakeHands returns the error of a TLS handshake or, if that succeeds, of reading:
// with TLS 1.3 a server refuses a client's certificate after the client has finished
// the handshake.
func ShakeHands(t testing.TB, address string, config *tls.Config) error {
	t.Helper()
	conn, err := (&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	return read(conn)
}

// Do makes a request, reads the response, and returns the error of either.
func Do(client *http.Client, request *http.Request) error {
	return exchange(client.Do, request)
}

func exchange(send func(*http.Request) (*http.Response, error), request *http.Request) error {
	response, err := send(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	_, err = io.Copy(io.Discard, response.Body)
	return err
}

// Get is [Do] with a GET.
func Get(t testing.TB, transport *http.Transport, url string) error {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	must(t, err)
	return Do(&http.Client{Transport: Transport(t, transport)}, request)
}

// Post is [Do] without a client, with a POST that net/http does not send again by
// itself.
func Post(t testing.TB, transport *http.Transport, url string) error {
	t.Helper()
	body := io.NopCloser(strings.NewReader("x"))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, body)
	must(t, err)
	return exchange(Transport(t, transport).RoundTrip, request)
}

// Panic returns the error that fn panics with.
func Panic(fn func()) (err error) {
	defer func() {
		if e, ok := recover().(error); ok {
			err = e
		}
	}()
	fn()
	return errors.New("no panic")
}
