package enginetest

import (
	"sync"
	"time"
)

// tick is how long the timers of a machine are.
const tick = 50 * time.Millisecond

// machine notes when the timers of this process fire. If they are late, so is all that a test
// measures: the machine is busy.
type machine struct {
	over chan struct{}

	mu    sync.Mutex
	ticks []time.Time
}

// watch watches the machine until its end is called.
func watch() *machine {
	m := &machine{over: make(chan struct{})}
	go func() {
		for {
			select {
			case <-time.After(tick):
				m.mu.Lock()
				m.ticks = append(m.ticks, time.Now())
				m.mu.Unlock()
			case <-m.over:
				return
			}
		}
	}()
	return m
}

func (m *machine) end() { close(m.over) }

// stretch returns how long d may take where a plain timer was late, too: d, times as much longer
// as the timers between two moments took than they should have.
func (m *machine) stretch(d time.Duration, from, to time.Time) time.Duration {
	if m == nil {
		return d
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	asked := tick // of a timer that has begun before
	for _, at := range m.ticks {
		if at.After(from) && !at.After(to) {
			asked += tick
		}
	}
	return max(d, time.Duration(float64(d)*float64(to.Sub(from))/float64(asked)))
}
