package retrytest_test

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry/retrytest"
)

var _ rand.Source = (*retrytest.Rand)(nil)

func words(r *retrytest.Rand, n int) []uint64 {
	ws := make([]uint64, n)
	for i := range ws {
		ws[i] = r.Uint64()
	}
	return ws
}

func TestRandSequence(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		rand *retrytest.Rand
		want []uint64
	}{
		// The reference words of SplitMix64.
		{"seed 1234567", retrytest.NewRand(1234567), []uint64{
			6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821,
		}},
		{"seed 0", retrytest.NewRand(0), []uint64{0xe220a8397b1dcdaf}},
		{"zero value", new(retrytest.Rand), []uint64{0xe220a8397b1dcdaf}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tt.want, words(tt.rand, len(tt.want)))
		})
	}
}

func TestRandShared(t *testing.T) {
	t.Parallel()
	const goroutines, each = 8, 1000
	r := retrytest.NewRand(1)
	drawn := make([][]uint64, goroutines)
	var wg sync.WaitGroup
	for i := range drawn {
		wg.Go(func() { drawn[i] = words(r, each) })
	}
	wg.Wait()
	assert.Equal(t, sorted(words(retrytest.NewRand(1), goroutines*each)), sorted(slices.Concat(drawn...)))
}

func sorted(ws []uint64) []uint64 {
	slices.Sort(ws)
	return ws
}
