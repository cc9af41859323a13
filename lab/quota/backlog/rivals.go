// Package backlog has what a Quota is compared with in the simulation.
package backlog

import (
	"math"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/pace"
	"github.com/seed-5ff3c98e/retry/internal/pace/scene"
)

// Rivals are ways to be behind a limit that nobody knows.
func Rivals() []Rival {
	return []Rival{
		{"alone", func() scene.Pacer { return scene.Single{} }},
		{"AIMD", func() scene.Pacer { return &aimd{rate: 10} }},
		{"AWS adaptive", func() scene.Pacer { return &adaptive{} }},
		{"`Quota`", func() scene.Pacer { return &pace.Machine{} }},
	}
}

// Rival makes the Pacer of a process.
type Rival struct {
	Name string
	New  func() scene.Pacer
}

// bucket is filled at a rate, and holds what comes in a second.
type bucket struct {
	rate   float64 // a second
	tokens float64
	at     time.Time
}

func (b *bucket) take(now time.Time, n int) (granted int, wait time.Duration) {
	most := max(b.rate, 1)
	b.tokens = min(b.tokens+b.rate*now.Sub(b.at).Seconds(), most)
	b.at = now
	granted = min(n, int(b.tokens))
	if b.tokens -= float64(granted); granted < n {
		wait = time.Duration((1-b.tokens+math.Floor(b.tokens))/b.rate*1e9) + 1
	}
	return granted, wait
}

// aimd holds for the hint, halves its rate then, and makes it larger by one a second.
type aimd struct {
	alonePacer

	rate   float64
	bucket bucket
	turn   pace.Turn
	hold   time.Time
	grew   time.Time
}

// alonePacer has what a rival does not need.
type alonePacer struct{}

func (alonePacer) Return(time.Time, pace.Turn, int) {}
func (alonePacer) Free() int                        { return 0 }
func (alonePacer) Widen(time.Time, int) int         { return 0 }

func (a *aimd) Take(now time.Time, n int) (turn pace.Turn, granted int, wait time.Duration) {
	if wait = a.hold.Sub(now); wait > 0 {
		return a.turn, 0, wait
	}
	if now.Sub(a.grew) > time.Second {
		a.rate++
		a.grew = now
	}
	a.bucket.rate = a.rate
	granted, wait = a.bucket.take(now, n)
	return a.turn, granted, wait
}

func (a *aimd) Tell(now time.Time, turn pace.Turn, o pace.Outcome) time.Duration {
	if o.Kind != pace.Refused || turn != a.turn {
		return 0
	}
	a.turn++
	a.rate = max(a.rate/2, 0.5)
	after := min(max(o.After, time.Second), time.Minute)
	a.hold = now.Add(after)
	a.grew, a.bucket.tokens = a.hold, 0
	return after
}

// adaptive is a bucket with the rate of CUBIC, from the first refusal on, as the SDKs of AWS
// describe their adaptive mode. Refused jobs heed their own hints.
type adaptive struct {
	scene.Single

	bucket   bucket
	enabled  bool
	measured float64 // requests a second
	counted  int
	second   time.Time // half a second, really
	most     float64   // the rate at the last refusal
	refused  time.Time
	window   float64
}

const (
	beta  = 0.7
	scale = 0.4
)

func (a *adaptive) Take(now time.Time, n int) (turn pace.Turn, granted int, wait time.Duration) {
	if !a.enabled {
		return 1, n, 0
	}
	granted, wait = a.bucket.take(now, n)
	return 1, granted, wait
}

func (a *adaptive) Tell(now time.Time, _ pace.Turn, o pace.Outcome) time.Duration {
	a.measure(now)
	var rate float64
	if o.Kind == pace.Refused {
		last := a.measured
		if a.enabled {
			last = min(last, a.bucket.rate)
		}
		a.most, a.refused, a.enabled = last, now, true
		a.window = math.Cbrt(last * (1 - beta) / scale)
		rate = last * beta
	} else {
		rate = scale*math.Pow(now.Sub(a.refused).Seconds()-a.window, 3) + a.most
	}
	a.bucket.rate = max(min(rate, 2*a.measured), 0.5)
	return 0
}

func (a *adaptive) measure(now time.Time) {
	a.counted++
	if half := now.Truncate(time.Second / 2); half.After(a.second) {
		rate := float64(a.counted) / half.Sub(a.second).Seconds()
		a.measured = rate*0.8 + a.measured*0.2
		a.counted, a.second = 0, half
	}
}
