package throttle

import "time"

// Window is the retry budget of Finagle and Linkerd: within the last TTL there
// are at most Ratio retries per call, and PerSecond beside them.
//
// See https://finagle.github.io/blog/2016/02/08/retry-budgets/.
type Window struct {
	Ratio     float64
	PerSecond float64
	TTL       time.Duration

	calls, retries recent
}

// Allow implements [Throttle].
func (w *Window) Allow(attempt int, now time.Duration) bool {
	since := now - w.TTL
	if attempt == 1 {
		w.calls.add(now)
		return true
	}
	allowed := w.Ratio*float64(w.calls.count(since)) + w.PerSecond*w.TTL.Seconds()
	if float64(w.retries.count(since)+1) > allowed {
		return false
	}
	w.retries.add(now)
	return true
}

// Done implements [Throttle].
func (*Window) Done(int, bool, time.Duration) {}

// recent holds the instants of what is not yet forgotten.
type recent struct {
	instants []time.Duration
	first    int // of those that count
}

func (r *recent) add(now time.Duration) { r.instants = append(r.instants, now) }

func (r *recent) count(since time.Duration) int {
	for r.first < len(r.instants) && r.instants[r.first] <= since {
		r.first++
	}
	return len(r.instants) - r.first
}
