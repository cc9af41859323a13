package retry_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry"
)

// delayDigest is the SHA-256 of 300,000 delays with their bounds. It is the same
// on every architecture. If it changes, so do the waits of all keyed states in
// somebody's database.
const delayDigest = "16a521b62c8c3ae3b452a97197ab18d3907311b501ccf404cdceec2ebc0fc4d8"

// TestDelayDigest also runs with GOARCH=386 and, under an emulator, arm64.
// Those are where a careless conversion from float to int, a fused
// multiply-add or an int of 32 bits would show.
func TestDelayDigest(t *testing.T) {
	t.Parallel()
	in := digestInput{rand.New(rand.NewPCG(0x5ff3c98e, 1))}
	hash := sha256.New()
	var record [24]byte
	for range 300_000 {
		p := retry.Policy{Backoff: in.backoff(), Jitter: in.jitter(), MaxDelay: in.duration(), Rand: word(in.word())}
		s := retry.State{Failures: in.retry()}
		if in.Uint64()%4 == 0 {
			s.Key, s.RateLimited = "job-1", in.retry()
		}
		lo, hi := p.Bounds(s.Failures)
		for i, d := range []time.Duration{p.Delay(s), lo, hi} {
			binary.LittleEndian.PutUint64(record[8*i:], uint64(d))
		}
		_, _ = hash.Write(record[:])
	}
	assert.Equal(t, delayDigest, hex.EncodeToString(hash.Sum(nil)))
}

// digestInput draws settings, a third of them from where arithmetic breaks. It
// uses nothing but Uint64, which is the same on every architecture by
// definition.
type digestInput struct{ *rand.Rand }

func pick[T any](in digestInput, from ...T) T { return from[in.Uint64()%uint64(len(from))] }

func (in digestInput) word() uint64 {
	if in.Uint64()%3 == 0 {
		return pick[uint64](in, 0, 1, 1<<32, 1<<63-1, 1<<63, math.MaxUint64-1, math.MaxUint64)
	}
	return in.Uint64()
}

func (in digestInput) duration() time.Duration {
	if in.Uint64()%3 == 0 {
		return pick[time.Duration](in, math.MinInt64, math.MinInt64+1, -time.Second, -1, 0, 0, 0, 1, 2,
			time.Second, 1<<53-1, 1<<53+1, 1<<62, math.MaxInt64-1, math.MaxInt64)
	}
	return time.Duration(in.Uint64() >> (1 + in.Uint64()%60))
}

func (in digestInput) float() float64 {
	switch in.Uint64() % 4 {
	case 0:
		return pick(in, math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1), 0, -1, 0.1, 0.5, 1, 2,
			math.SmallestNonzeroFloat64, -math.MaxFloat64, math.MaxFloat64, math.Nextafter(1, 0), math.Nextafter(1, 2),
			math.Nextafter(2, 1), math.Nextafter(2, 3))
	case 1:
		return math.Float64frombits(in.Uint64()) // any float there is
	case 2:
		return float64(in.Uint64()>>11) / (1 << 53) // in [0, 1)
	default:
		return 1 + float64(in.Uint64()>>11)/(1<<50) // in [1, 9)
	}
}

// retry returns the number of a retry that an int of 32 bits can hold.
func (in digestInput) retry() int {
	switch in.Uint64() % 8 {
	case 0:
		return pick(in, 1, 2, 62, 63, 64, 65, 92, 93, 94, 1023, 1024, 1025, math.MaxInt32-1, math.MaxInt32)
	case 1:
		return 1 + int(in.Uint64()%math.MaxInt32)
	default:
		return 1 + int(in.Uint64()%80)
	}
}

func (in digestInput) backoff() retry.Backoff {
	switch in.Uint64() % 8 {
	case 0:
		return nil
	case 1:
		return retry.Linear{Initial: in.duration(), Step: in.duration()}
	case 2:
		return retry.Fibonacci{Initial: in.duration()}
	case 3:
		return retry.Constant(in.duration())
	case 4:
		s := make(retry.Schedule, in.Uint64()%6)
		for i := range s {
			s[i] = in.duration()
		}
		return s
	default:
		return retry.Exponential{Initial: in.duration(), Multiplier: in.float()}
	}
}

func (in digestInput) jitter() retry.Jitter {
	switch in.Uint64() % 6 {
	case 0:
		return nil
	case 1:
		return retry.FullJitter
	case 2:
		return retry.EqualJitter
	case 3:
		return retry.NoJitter
	case 4:
		return retry.PlusMinus(in.duration())
	default:
		return retry.Proportional(in.float())
	}
}
