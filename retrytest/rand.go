package retrytest

import "sync/atomic"

// Rand is a [math/rand/v2.Source] that draws the same words in every run, so that a test
// can expect exact waits with jitter. The sequence of a seed never changes. The
// zero value has seed 0.
//
// A Rand is lock-free and safe for concurrent use. Goroutines that share a Rand
// share one sequence, and draw from it in an order that differs from run to
// run.
//
// The generator is SplitMix64; see https://doi.org/10.1145/2714064.2660195.
type Rand struct{ state atomic.Uint64 }

// NewRand returns a Rand with a seed.
func NewRand(seed uint64) *Rand {
	r := new(Rand)
	r.state.Store(seed)
	return r
}

// Uint64 returns the next word.
func (r *Rand) Uint64() uint64 {
	z := r.state.Add(0x9e3779b97f4a7c15)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
