package retrygrpc_test

import (
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fate is what a liar does to a connection.
type fate int

const (
	cut     fate = iota // ends it
	reset               // with a reset
	stall               // passes nothing on for a while, and resets it
	swallow             // takes what comes and passes nothing on for a while, and resets it
	refuse              // does not begin
	fates
)

// liar is a proxy. Every connection gets a fate in each direction, after a number of bytes,
// and some are slow until then.
type liar struct {
	address string
	server  string
	seed    uint64
	patient time.Duration // how long it stalls and swallows
	met     [fates]atomic.Int64
}

// lying starts a liar before a server.
func lying(t *testing.T, server string, seed uint64, patient time.Duration) *liar {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	l := &liar{address: listener.Addr().String(), server: server, seed: seed, patient: patient}
	go func() {
		for n := uint64(0); ; n++ {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go l.serve(client, rand.New(rand.NewPCG(seed, n))) //nolint:gosec // for a test
		}
	}()
	return l
}

func (l *liar) serve(client net.Conn, r *rand.Rand) {
	server, err := net.Dial("tcp", l.server)
	if err != nil || r.IntN(50) == 0 {
		l.met[refuse].Add(1)
		_ = client.Close()
		if err == nil {
			_ = server.Close()
		}
		return
	}
	var once sync.Once
	end := func(f fate, linger int) {
		once.Do(func() {
			l.met[f].Add(1)
			_ = client.(*net.TCPConn).SetLinger(linger)
			_ = server.(*net.TCPConn).SetLinger(linger)
			_ = client.Close()
			_ = server.Close()
		})
	}
	pass := func(to, from net.Conn, n int64, f fate, slow bool) {
		for slow && n > 100 {
			if _, err := io.CopyN(to, from, 50); err != nil {
				break
			}
			n -= 50
			time.Sleep(time.Millisecond)
		}
		if _, err := io.CopyN(to, from, n); err != nil {
			f = cut // the other side has ended it
		}
		switch f {
		case stall:
			time.Sleep(l.patient)
		case swallow:
			_ = from.SetReadDeadline(time.Now().Add(l.patient))
			_, _ = io.Copy(io.Discard, from)
		default:
		}
		if f == cut {
			end(f, -1)
		} else {
			end(f, 0)
		}
	}
	draw := func() (int64, fate, bool) {
		f := reset
		if d := r.IntN(10); d < 4 {
			f = cut
		} else if d == 9 {
			f = []fate{stall, swallow}[r.IntN(2)]
		}
		return 150 + r.Int64N(1000), f, r.IntN(20) == 0
	}
	there, thereFate, thereSlow := draw()
	back, backFate, backSlow := draw()
	go pass(server, client, there, thereFate, thereSlow)
	pass(client, server, back, backFate, backSlow)
}
