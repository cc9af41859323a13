package enginetest

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"
)

const (
	tick = 100 * time.Millisecond // between two looks at the machine
	work = 256 << 10              // bytes that a look hashes, which takes a millisecond at most
)

// machine notes how long a plain timer and some work take. If that is longer than it can be, so is
// all that a test measures: the machine is busy.
type machine struct {
	over chan struct{}

	mu    sync.Mutex
	looks []look
	best  time.Duration // the shortest work
}

type look struct {
	at   time.Time
	took time.Duration // the work, and how late the timer was
}

// watch watches the machine until its end is called.
func watch() *machine {
	m := &machine{over: make(chan struct{})}
	go func() {
		data := make([]byte, work)
		for {
			due := time.Now().Add(tick)
			select {
			case <-time.After(tick):
				began := time.Now()
				sha256.Sum256(data)
				m.note(time.Now(), time.Since(due), time.Since(began))
			case <-m.over:
				return
			}
		}
	}()
	return m
}

func (m *machine) end() { close(m.over) }

func (m *machine) note(at time.Time, took, worked time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.looks = append(m.looks, look{at, took})
	if m.best == 0 || worked < m.best {
		m.best = worked
	}
}

// allowance is how much more a look may take on a machine that is not busy: timers are not exact.
const allowance = 2 * time.Millisecond

// stretch returns how long d may take between two moments: as many times longer as the looks took.
func (m *machine) stretch(d time.Duration, from, to time.Time) time.Duration {
	if m == nil {
		return d
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var took, quiet time.Duration
	for _, l := range m.looks {
		if l.at.After(from) && l.at.Add(-l.took).Before(to) { // some of it was in between
			took, quiet = took+l.took, quiet+m.best+allowance
		}
	}
	return max(d, time.Duration(d.Seconds()*float64(took)/max(quiet.Seconds(), 1e-9)))
}

// within returns a context that ends after d, or later on a busy machine.
func (m *machine) within(d time.Duration) (context.Context, context.CancelFunc) {
	if m == nil {
		return context.WithTimeout(context.Background(), d)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		begun := time.Now()
		for time.Since(begun) < m.stretch(d, begun, time.Now()) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(tick):
			}
		}
		cancel()
	}()
	return ctx, cancel
}
