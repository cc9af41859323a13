// Package contention is the model behind the AWS article on exponential backoff
// and jitter: clients that read a row, write it back under optimistic
// concurrency control, and retry after a conflict.
//
// See https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
// and https://github.com/aws-samples/aws-arch-backoff-simulator.
package contention

import (
	"errors"
	"math"
	"math/rand/v2"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/storm/events"
)

// The network of the article: every message takes |N(mean, deviation)|.
const (
	mean      = 10 * time.Millisecond
	deviation = 2 * time.Millisecond
)

// Outcome is what it took until every client had written once.
type Outcome struct {
	Calls      float64 // writes, failed ones included
	Completion time.Duration
}

// A message is on its way between a client and the row.
type message struct {
	client int
	kind   kind
	value  int // the version that was read or is expected, or whether a write was done
}

type kind uint8

const (
	read kind = iota
	readDone
	write
	writeDone
)

// Run lets n clients, each with waits of its own, write once.
func Run(n int, s Strategy, seed uint64) Outcome {
	var (
		network = rand.New(rand.NewPCG(seed, 1))
		jitter  = rand.New(rand.NewPCG(seed, 2))
		queue   events.Queue[message]
		clients = make([]Waits, n)
		version int
		calls   int
	)
	send := func(after time.Duration, m message) {
		delay := math.Abs(float64(mean) + float64(deviation)*network.NormFloat64())
		queue.After(after+time.Duration(delay), m)
	}
	for i := range clients {
		clients[i] = s.New(jitter)
		send(0, message{client: i, kind: read})
	}
	for {
		m, ok := queue.Next(math.MaxInt64)
		if !ok {
			return Outcome{float64(calls), queue.Now()}
		}
		switch m.kind {
		case read:
			send(0, message{m.client, readDone, version})
		case readDone:
			send(0, message{m.client, write, m.value})
		case write:
			calls++
			done := 0
			if m.value == version {
				version++
				done = 1
			}
			send(0, message{m.client, writeDone, done})
		case writeDone:
			if m.value == 0 {
				send(clients[m.client].Next(queue.Now()), message{client: m.client, kind: read})
			}
		}
	}
}

// Mean runs so many repetitions, with seeds that follow seed, and returns their
// mean.
func Mean(n int, s Strategy, seed uint64, repetitions int) Outcome {
	var sum Outcome
	for i := range repetitions {
		o := Run(n, s, seed+uint64(i))
		sum.Calls += o.Calls
		sum.Completion += o.Completion
	}
	return Outcome{sum.Calls / float64(repetitions), sum.Completion / time.Duration(repetitions)}
}

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

// Strategies returns the strategies of the article, and ±20 %. All but the decorrelated
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
