package retryhttp_test

import (
	"context"
	"flag"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/provoke"
)

var posts = flag.Int("posts", 2000, "how many requests TestPostsThroughALiar sends over each protocol")

// liar is a proxy that knows nothing of HTTP. With each piece that it passes on it may cut
// the connection, reset it, stall, pass on a part, swallow the rest, or answer itself.
type liar struct {
	*provoke.Server

	server string
	faults [6]atomic.Int64
}

const (
	liarCloses = iota
	liarResets
	liarStalls
	liarCutsShort
	liarSwallows
	liarAnswers
)

func newLiar(t *testing.T, server string) *liar {
	t.Helper()
	l := &liar{server: server}
	l.Server = provoke.Serve(t, l.serve)
	return l
}

func (l *liar) serve(client net.Conn) {
	server, err := net.Dial("tcp", l.server)
	if err != nil {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { l.pass(server, client, client) })
	both.Go(func() { l.pass(client, server, client) })
	both.Wait()
	_ = server.Close()
}

// pass passes on what comes from one side to the other, and ends both at its last fault.
func (l *liar) pass(to, from, client net.Conn) {
	defer func() { _, _ = to.Close(), from.Close() }()
	piece := make([]byte, 4<<10)
	for {
		n, err := from.Read(piece)
		if err != nil {
			return
		}
		fault := -1
		if rand.IntN(20) == 0 { //nolint:gosec // chance, no secret
			fault = rand.IntN(len(l.faults)) //nolint:gosec // likewise
			l.faults[fault].Add(1)
		}
		switch fault {
		case liarCloses:
			return
		case liarResets:
			provoke.Reset(client)
			return
		case liarStalls:
			time.Sleep(time.Duration(rand.IntN(3000)) * time.Microsecond) //nolint:gosec // likewise
		case liarCutsShort:
			_, _ = to.Write(piece[:rand.IntN(n)]) //nolint:gosec // likewise
			return
		case liarSwallows:
			_, _ = to.Write(piece[:n])
			_, _ = io.CopyN(io.Discard, from, 1) // and no more, until somebody gives up
			return
		case liarAnswers:
			_, _ = to.Write(piece[:n])
			if from != client {
				return
			}
			_, _ = client.Write([]byte("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"))
			return
		}
		if _, err := to.Write(piece[:n]); err != nil {
			return
		}
	}
}

// TestPostsThroughALiar sends POST requests through a liar, and the server counts: none is
// handled twice. For 100,000:
//
//	go test ./retryhttp -run PostsThroughALiar -posts 50000
func TestPostsThroughALiar(t *testing.T) {
	t.Parallel()
	for _, http2 := range []bool{false, true} {
		t.Run("http2="+strconv.FormatBool(http2), func(t *testing.T) {
			t.Parallel()
			handled := make([]atomic.Int32, *posts)
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				id, err := strconv.Atoi(r.Header.Get("X-Op"))
				if assert.NoError(t, err) && rand.IntN(10) > 0 { //nolint:gosec // chance, no secret
					handled[id].Add(1) // at the first sight of it, whatever becomes of the body
				} else {
					w.WriteHeader(http.StatusTooManyRequests)
				}
				if body, err := io.ReadAll(r.Body); err == nil {
					assert.Equal(t, pay(id), string(body), "whole, or not at all")
				}
			}))
			s.Config.Protocols = protocols(http2)
			s.Start()
			t.Cleanup(s.Close)
			l := newLiar(t, s.Listener.Addr().String())

			nobody := provoke.ClosedPort(t)
			base := provoke.Transport(t, &http.Transport{
				MaxIdleConnsPerHost: 16, Protocols: protocols(http2),
				DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
					if rand.IntN(5) == 0 { //nolint:gosec // likewise
						addr = nobody
					}
					return new(net.Dialer).DialContext(ctx, network, addr)
				},
			})
			p := within(50*time.Millisecond, 5)
			var attempts atomic.Int64
			p.Observer = &retry.Observer{Event: func(_ context.Context, e retry.Event) {
				if e.Kind != retry.Retrying {
					attempts.Add(int64(e.Attempt))
				}
			}}
			c := client(t, base, p)
			next := make(chan int)
			var workers sync.WaitGroup
			for range 16 {
				workers.Go(func() {
					for id := range next {
						req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+l.Addr,
							strings.NewReader(pay(id)))
						if !assert.NoError(t, err) {
							return
						}
						req.Header.Set("X-Op", strconv.Itoa(id))
						if resp, err := c.Do(req); err == nil {
							_ = resp.Body.Close()
						}
					}
				})
			}
			for id := range *posts {
				next <- id
			}
			close(next)
			workers.Wait()
			s.Close()
			once := 0
			for id := range handled {
				n := handled[id].Load()
				require.LessOrEqual(t, n, int32(1), "request %d", id)
				once += int(n)
			}
			assert.Greater(t, attempts.Load(), int64(*posts), "some are sent again")
			for fault := range l.faults {
				assert.NotZero(t, l.faults[fault].Load(), "fault %d", fault)
			}
			t.Logf("%d requests, %d attempts, %d handled once", *posts, attempts.Load(), once)
		})
	}
}

func pay(id int) string { return strings.Repeat("pay ", id%1000) }

func protocols(http2 bool) *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(!http2)
	p.SetUnencryptedHTTP2(http2)
	return p
}
