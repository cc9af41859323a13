package retryhttp_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/provoke"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

// silent is a proxy in front of a server, on connections in memory, so that a test may let
// seconds pass at once. It can forget its connections: it swallows what comes over them, and
// does not close them. The server is none of net/http, whose HTTP/2 cannot serve two
// synctest bubbles in Go 1.25.
type silent struct {
	serve func(net.Conn)
	dials atomic.Int64
	open  atomic.Int64 // what clients have not closed
	dead  atomic.Int64 // the number of the last connection that is forgotten

	mu    sync.Mutex
	conns []net.Conn
}

func newSilent(t *testing.T, http2 bool, serve func(net.Conn)) (*silent, *http.Transport) {
	t.Helper()
	s := &silent{serve: serve}
	base := &http.Transport{Protocols: protocols(http2), DialContext: s.dial}
	t.Cleanup(func() { // those too that net/http does not take for idle yet
		base.CloseIdleConnections()
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, conn := range s.conns {
			_ = conn.Close()
		}
	})
	return s, base
}

func (s *silent) forget() { s.dead.Store(s.dials.Load()) }

func (s *silent) dial(context.Context, string, string) (net.Conn, error) {
	number := s.dials.Add(1)
	client, front := net.Pipe()
	back, server := net.Pipe()
	pass := func(to, from net.Conn) {
		defer func() { _, _ = to.Close(), from.Close() }()
		piece := make([]byte, 4<<10)
		for {
			n, err := from.Read(piece)
			if err != nil {
				return
			}
			if number > s.dead.Load() {
				_, _ = to.Write(piece[:n])
			}
		}
	}
	s.open.Add(1)
	s.mu.Lock()
	s.conns = append(s.conns, client, server)
	s.mu.Unlock()
	go func() {
		pass(back, front)
		s.open.Add(-1)
	}()
	go pass(front, back)
	go func() {
		s.serve(server)
		_ = server.Close()
	}()
	return client, nil
}

// okOverHTTP1 answers each request after a millisecond.
func okOverHTTP1(conn net.Conn) {
	in := bufio.NewReader(conn)
	for {
		if _, err := http.ReadRequest(in); err != nil {
			return
		}
		time.Sleep(time.Millisecond)
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
	}
}

var okOverHTTP2 = provoke.HTTP2(provoke.OKEach)

const silentURL = "http://host.example"

// attemptsThrough sends a GET and returns how many attempts it took.
type attemptsThrough func(t *testing.T, transport *retryhttp.Transport) int

func byTransport(t *testing.T, transport *retryhttp.Transport) int {
	t.Helper()
	resp := testkit.Must(transport.RoundTrip(request(t, http.MethodGet, silentURL, nil)))(t)
	require.NoError(t, resp.Body.Close())
	return retryhttp.Attempts(resp)
}

func byDo(t *testing.T, transport *retryhttp.Transport) int {
	t.Helper()
	return attemptsOfDo(t, &http.Client{Transport: transport}, *transport.Policy)
}

// byDoAlone has no Transport, and the Timeout of the client ends the attempts.
func byDoAlone(t *testing.T, transport *retryhttp.Transport) int {
	t.Helper()
	p := *transport.Policy
	client := &http.Client{Transport: transport.Base, Timeout: p.AttemptTimeout}
	p.AttemptTimeout = 0
	return attemptsOfDo(t, client, p)
}

func attemptsOfDo(t *testing.T, client *http.Client, p retry.Policy) (attempts int) {
	t.Helper()
	p.Observer = &retry.Observer{Event: func(_ context.Context, e retry.Event) { attempts = e.Attempt }}
	require.NoError(t, retryhttp.Do(client, &p, request(t, http.MethodGet, silentURL, nil), nothing))
	return attempts
}

// An attempt that times out without an answer is not followed by one over the same
// connection. Later calls do not begin with it either, so that the budget lasts.
func TestSilentConnection(t *testing.T) {
	t.Parallel()
	limited := func(p *retry.Policy, _ *http.Transport) { p.AttemptTimeout = time.Second }
	for name, tt := range map[string]struct {
		http2 bool
		limit func(*retry.Policy, *http.Transport)
		send  attemptsThrough
		later int // attempts of each of three later calls
		dials int64
	}{
		"HTTP/1.1": {false, limited, byTransport, 1, 3}, // that of the retry is used once
		"HTTP/2":   {true, limited, byTransport, 1, 2},
		"HTTP/2, headers": {true, func(_ *retry.Policy, base *http.Transport) {
			base.ResponseHeaderTimeout = time.Second
		}, byTransport, 1, 2},
		"HTTP/2, Do":       {true, limited, byDo, 1, 2},
		"HTTP/2, Do alone": {true, limited, byDoAlone, 2, 5}, // nothing is remembered
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				serve := okOverHTTP1
				if tt.http2 {
					serve = okOverHTTP2
				}
				s, base := newSilent(t, tt.http2, serve)
				p := atOnce(2)
				tt.limit(p, base)
				transport := &retryhttp.Transport{Base: base, Policy: p}
				defer transport.CloseIdleConnections()
				require.Equal(t, 1, tt.send(t, transport))
				synctest.Wait() // until net/http takes the connection for idle
				s.forget()
				began := time.Now()
				assert.Equal(t, 2, tt.send(t, transport))
				assert.Equal(t, time.Second, time.Since(began).Truncate(10*time.Millisecond))
				for range 3 {
					synctest.Wait()
					assert.Equal(t, tt.later, tt.send(t, transport))
				}
				assert.Equal(t, tt.dials, s.dials.Load())
			})
		})
	}
}

// A proxy that forgets one connection may have forgotten all.
func TestSilentConnections(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var together sync.WaitGroup
		s, base := newSilent(t, false, okOverHTTP1)
		base.MaxIdleConnsPerHost = 10
		transport := &retryhttp.Transport{Base: base, Policy: within(time.Second, 2)}
		for range 10 {
			together.Go(func() { assert.Equal(t, 1, byTransport(t, transport)) })
		}
		together.Wait()
		synctest.Wait() // until net/http takes the connections for idle
		require.EqualValues(t, 10, s.dials.Load())
		s.forget()
		assert.Equal(t, 2, byTransport(t, transport))
	})
}

// Many requests wait for a connection when it dies. It is left once.
func TestSilentTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, base := newSilent(t, true, okOverHTTP2)
		p := &retry.Policy{MaxAttempts: 2, AttemptTimeout: time.Second}
		transport := &retryhttp.Transport{Base: base, Policy: p, Budget: retryhttp.NoBudget}
		defer transport.CloseIdleConnections()
		byTransport(t, transport)
		synctest.Wait() // until net/http takes the connection for idle
		s.forget()
		var together sync.WaitGroup
		for range 100 {
			together.Go(func() { assert.Equal(t, 2, byTransport(t, transport)) })
		}
		together.Wait()
		synctest.Wait() // until net/http takes the connection for idle
		dials := s.dials.Load()
		assert.Equal(t, 1, byTransport(t, transport))
		assert.Equal(t, dials, s.dials.Load())
	})
}

// connOf returns the connection that a request was sent over.
func connOf(t *testing.T, transport *retryhttp.Transport) (conn net.Conn) {
	t.Helper()
	resp, err := transport.RoundTrip(onGotConn(request(t, http.MethodGet, silentURL, nil), func(info httptrace.GotConnInfo) {
		conn = info.Conn
	}))
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	return conn
}

// A server that is slow with one request, and answers others over the same connection, keeps
// it. Only the retry has a connection of its own.
func TestSlowIsNotSilent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var conns atomic.Int64
		s, base := newSilent(t, true, provoke.HTTP2(func(c *provoke.HTTP2Conn) {
			slow := conns.Add(1) > 1 // the retries of the slow request
			c.Each(func(stream uint32) {
				if !slow && stream != 3 { // the second request
					c.OK(stream, provoke.FlagEndStream)
				}
			})
		}))
		transport := &retryhttp.Transport{Base: base, Policy: within(time.Second, 3)}
		defer transport.CloseIdleConnections()
		first := connOf(t, transport)
		synctest.Wait() // until net/http takes the connection for idle
		var beside sync.WaitGroup
		beside.Go(func() {
			_, err := transport.RoundTrip(request(t, http.MethodGet, silentURL, nil))
			assert.Error(t, err)
		})
		synctest.Wait()
		for range 10 {
			time.Sleep(300 * time.Millisecond)
			assert.Equal(t, 1, byTransport(t, transport))
		}
		beside.Wait()
		assert.Equal(t, first, connOf(t, transport))
		assert.EqualValues(t, 3, s.dials.Load(), "the first, and two retries")
	})
}

// A caller who goes away says nothing about the connection.
func TestCanceledIsNotSilent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, base := newSilent(t, true, provoke.HTTP2(func(c *provoke.HTTP2Conn) {
			c.Each(func(stream uint32) {
				time.Sleep(time.Second)
				c.OK(stream, provoke.FlagEndStream)
			})
		}))
		transport := &retryhttp.Transport{Base: base, Policy: within(time.Minute, 3)}
		byTransport(t, transport)
		synctest.Wait() // until net/http takes the connection for idle
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Millisecond, cancel)
		_, err := transport.RoundTrip(request(t, http.MethodGet, silentURL, nil).WithContext(ctx))
		require.ErrorIs(t, err, context.Canceled)
		byTransport(t, transport)
		assert.EqualValues(t, 1, s.dials.Load())
	})
}

// Dead connections do not pile up, and CloseIdleConnections closes what took their place.
func TestSilentIsClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, base := newSilent(t, true, okOverHTTP2)
		transport := &retryhttp.Transport{Base: base, Policy: within(time.Second, 2), Budget: retryhttp.NoBudget}
		for range 5 {
			byTransport(t, transport)
			synctest.Wait() // until net/http takes the connection for idle
			s.forget()
		}
		require.EqualValues(t, 5, s.dials.Load())
		require.EqualValues(t, 3, s.open.Load(), "that of Base, and the last two")
		transport.CloseIdleConnections()
		synctest.Wait()
		assert.Zero(t, s.open.Load())
	})
}
