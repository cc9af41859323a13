// Package throttle models what other libraries and proxies use to hold retries
// back, each by what its documentation or its source says. None of it is code of
// this library, whose Budget is not here.
package throttle

import "time"

// Throttle belongs to one client process. Its instants are times since the
// beginning of the simulation, and never go back.
type Throttle interface {
	// Allow reports whether the call may make this attempt. The first one has
	// number 1; a retry is asked about before its wait.
	Allow(attempt int, now time.Duration) bool
	// Done settles an allowed attempt.
	Done(attempt int, success bool, now time.Duration)
}

// None allows everything.
type None struct{}

// Allow implements [Throttle].
func (None) Allow(int, time.Duration) bool { return true }

// Done implements [Throttle].
func (None) Done(int, bool, time.Duration) {}

// Bucket holds tokens that do not expire. It begins full.
type Bucket struct {
	Cap        float64
	Cost       float64 // of a retry
	PerCall    float64 // earned by every call, when it begins
	PerSuccess float64 // earned by every success
	Refund     bool    // a retry that succeeds gets its cost back instead

	spent float64
}

// Allow implements [Throttle].
func (b *Bucket) Allow(attempt int, _ time.Duration) bool {
	if attempt == 1 {
		b.earn(b.PerCall)
		return true
	}
	if b.spent+b.Cost > b.Cap {
		return false
	}
	b.spent += b.Cost
	return true
}

// Done implements [Throttle].
func (b *Bucket) Done(attempt int, success bool, _ time.Duration) {
	switch {
	case !success:
	case b.Refund && attempt > 1:
		b.earn(b.Cost)
	default:
		b.earn(b.PerSuccess)
	}
}

func (b *Bucket) earn(tokens float64) { b.spent = max(b.spent-tokens, 0) }

// GRPC is the retry throttling of gRPC: a failure costs a token, a success earns
// Ratio, and there are retries while more than half of Max is left.
//
// See https://github.com/grpc/proposal/blob/master/A6-client-retries.md.
type GRPC struct {
	Max, Ratio float64

	spent float64
}

// Allow implements [Throttle].
func (g *GRPC) Allow(attempt int, _ time.Duration) bool {
	return attempt == 1 || g.Max-g.spent > g.Max/2
}

// Done implements [Throttle].
func (g *GRPC) Done(_ int, success bool, _ time.Duration) {
	if success {
		g.spent = max(g.spent-g.Ratio, 0)
	} else {
		g.spent = min(g.spent+1, g.Max)
	}
}

// Concurrency is the retry budget of Envoy: the retries in progress, waiting
// ones included, are at most a share of all requests in progress, or Min.
//
// See https://www.envoyproxy.io/docs/envoy/latest/api-v3/config/cluster/v3/circuit_breaker.proto.
type Concurrency struct {
	Ratio float64
	Min   int

	active, retries int
}

// Allow implements [Throttle].
func (c *Concurrency) Allow(attempt int, _ time.Duration) bool {
	if attempt > 1 {
		if c.retries >= max(c.Min, int(c.Ratio*float64(c.active))) {
			return false
		}
		c.retries++
	}
	c.active++
	return true
}

// Done implements [Throttle].
func (c *Concurrency) Done(attempt int, _ bool, _ time.Duration) {
	if attempt > 1 {
		c.retries--
	}
	c.active--
}

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
