package retryhttp

import (
	"context"
	"io"
	"net/http"
	"sync"
	"time"
)

// How much of a response is read, and for how long, to save its connection.
const (
	drainSize = 4 << 10
	drainTime = 50 * time.Millisecond
)

// cancelWithBody keeps the context of an attempt alive until the body of its
// response is read to the end or closed.
func cancelWithBody(resp *http.Response, cancel context.CancelFunc) {
	switch b := resp.Body.(type) {
	case io.ReadWriteCloser: // 101 Switching Protocols
		resp.Body = &duplex{body{b, cancel}, b}
	default:
		if b == http.NoBody {
			cancel()
			return
		}
		resp.Body = &body{b, cancel}
	}
}

// body ends the context of its attempt.
type body struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.cancel()
	}
	return n, err
}

func (b *body) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}

// duplex is a body that can be written to.
type duplex struct {
	body
	io.Writer
}

// drain reads and closes the body of a discarded response, so that its
// connection can be used again. The rest of a long or slow body is not read.
func (c *call) drain(resp *http.Response) {
	if resp.Body != http.NoBody && resp.ContentLength != 0 && resp.ContentLength <= drainSize {
		if c.guard == nil {
			c.guard = new(guard)
		}
		c.guard.watch(resp.Body)
		discard(resp.Body)
		c.guard.stop()
	}
	_ = resp.Body.Close()
}

// guard ends hanging Reads of drain, with one timer for all attempts.
type guard struct {
	mu    sync.Mutex
	body  io.Closer
	timer *time.Timer
}

func (g *guard) watch(body io.Closer) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.body = body; g.timer == nil {
		g.timer = time.AfterFunc(drainTime, g.fire)
	} else {
		g.timer.Reset(drainTime)
	}
}

func (g *guard) stop() {
	g.timer.Stop()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.body = nil
}

// fire may run late: then there is nothing to close, or a later body that has
// used some of its time.
func (g *guard) fire() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.body != nil {
		_ = g.body.Close()
	}
}

var discarded = sync.Pool{New: func() any { return new([drainSize]byte) }}

// discard reads up to drainSize bytes.
func discard(body io.Reader) {
	buf := discarded.Get().(*[drainSize]byte) //nolint:forcetypeassert // see New
	defer discarded.Put(buf)
	for free := buf[:]; len(free) > 0; {
		n, err := body.Read(free)
		if err != nil {
			return
		}
		free = free[n:]
	}
}

// closeAfter ends a Read that hangs, unless the timer is stopped.
func closeAfter(d time.Duration, body io.Closer) *time.Timer {
	return time.AfterFunc(d, func() { _ = body.Close() })
}

// excerpt returns the beginning of a body, and closes it. If final is true, the
// caller will see it, and excerpt waits for it as long as the context of the
// attempt lives.
func excerpt(resp *http.Response, final bool) []byte {
	defer resp.Body.Close()
	if !final {
		defer closeAfter(drainTime, resp.Body).Stop()
	}
	data, _ := io.ReadAll(io.LimitReader(resp.Body, drainSize))
	return data
}
