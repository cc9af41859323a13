package contention

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// The backoff of the article. Its first exponent is 1, so the first wait is
// twice the base.
const (
	base     = 5 * time.Millisecond
	maxDelay = 2 * time.Second
)

// Waits is what one client waits after each of its conflicts.
type Waits interface {
	Next(now time.Duration) time.Duration
}

// Strategy makes the waits of every client.
type Strategy struct {
	Name string
	New  func(jitter *rand.Rand) Waits
}

// Strategies returns those of the article, and ±20 %. All but the decorrelated
// one are policies of this library.
func Strategies() []Strategy {
	exponential := retry.Exponential{Initial: 2 * base}
	return []Strategy{
		policy("none", retry.Constant(0), nil, maxDelay),
		policy("exponential", exponential, retry.NoJitter, maxDelay),
		policy("equal", exponential, retry.EqualJitter, maxDelay),
		policy("full", exponential, retry.FullJitter, maxDelay),
		{"decorrelated", func(jitter *rand.Rand) Waits { return &decorrelated{jitter, base} }},
		policy("±20 %", exponential, retry.Proportional(0.2), maxDelay),
		policy("±20 %, beyond the cap", capped(exponential), retry.Proportional(0.2), maxDelay*6/5),
	}
}

// capped writes the waits of b down, up to maxDelay, so that a jitter may go
// beyond it.
func capped(b retry.Backoff) retry.Schedule {
	var waits retry.Schedule
	for n := 1; b.Delay(n) < maxDelay; n++ {
		waits = append(waits, b.Delay(n))
	}
	return append(waits, maxDelay)
}

func policy(name string, b retry.Backoff, j retry.Jitter, limit time.Duration) Strategy {
	return Strategy{name, func(jitter *rand.Rand) Waits {
		return &waits{policy: &retry.Policy{
			MaxAttempts: retry.Unlimited,
			Backoff:     b,
			MaxDelay:    limit,
			Jitter:      j,
			Rand:        jitter,
		}}
	}}
}

var errConflict = retry.MarkRetryable(errors.New("version conflict"))

// waits drives a policy as a daemon does that stores the state.
type waits struct {
	policy *retry.Policy
	state  retry.State
}

func (w *waits) Next(now time.Duration) time.Duration {
	d := w.policy.Next(w.state, errConflict, time.Unix(0, int64(now)))
	w.state = d.State
	return d.Delay
}

// decorrelated draws from [base, 3 × the wait before]. This library does not
// have it.
type decorrelated struct {
	jitter *rand.Rand
	last   time.Duration
}

func (d *decorrelated) Next(time.Duration) time.Duration {
	spread := float64(3*d.last - base)
	d.last = min(maxDelay, base+time.Duration(d.jitter.Float64()*spread))
	return d.last
}
