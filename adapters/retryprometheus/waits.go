package retryprometheus

import (
	"sync"
	"time"
)

// slot is how exactly the end of a wait is known.
const slot = 100 * time.Millisecond

// waits are the waits that are not over, by the slot of time in which they end. An
// Observer is told when a wait begins, and cannot tell which one has ended.
type waits struct {
	mu    sync.Mutex
	ends  map[int64]int // how many end in a slot
	swept int           // the size of ends after the last sweep
}

func slotOf(t time.Time) int64 { return t.UnixMilli() / slot.Milliseconds() }

// add notes a wait that ends then.
func (w *waits) add(end time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ends == nil {
		w.ends = map[int64]int{}
	}
	w.ends[slotOf(end)]++
	if len(w.ends) >= 2*w.swept+100 { // nobody asks
		w.sweep(time.Now())
	}
}

// count returns how many waits are not over now.
func (w *waits) count(now time.Time) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sweep(now)
}

// sweep forgets the waits that are over, and counts the others.
func (w *waits) sweep(now time.Time) (n int) {
	for end, some := range w.ends {
		if end < slotOf(now) {
			delete(w.ends, end)
			continue
		}
		n += some
	}
	w.swept = len(w.ends)
	return n
}
