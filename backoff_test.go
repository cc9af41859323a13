package retry_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

const (
	ms = time.Millisecond

	// longestWait is the largest wait of every backoff.
	longestWait = time.Duration(math.MaxInt64)
)

// waits returns the waits of a backoff before the first n retries.
func waits(b retry.Backoff, n int) []time.Duration {
	all := make([]time.Duration, n)
	for i := range all {
		all[i] = b.Delay(i + 1)
	}
	return all
}

func seconds(ss ...float64) []time.Duration {
	all := make([]time.Duration, len(ss))
	for i, s := range ss {
		all[i] = time.Duration(s * float64(time.Second))
	}
	return all
}

// TestBackoffOutOfRange checks that fields out of range run as the documented
// value.
func TestBackoffOutOfRange(t *testing.T) {
	t.Parallel()
	nan, inf := math.NaN(), math.Inf(1)
	second := retry.Exponential{Initial: time.Second}
	with := func(multiplier float64) retry.Exponential {
		return retry.Exponential{Initial: time.Second, Multiplier: multiplier}
	}
	tests := []struct {
		name    string
		backoff retry.Backoff
		as      retry.Backoff
	}{
		{"negative initial", retry.Exponential{Initial: -1}, retry.Exponential{}},
		{"least initial", retry.Exponential{Initial: math.MinInt64}, retry.Exponential{}},
		{"negative multiplier", with(-3), second},
		{"NaN", with(nan), second},
		{"minus infinity", with(-inf), second},
		{"minus zero", with(math.Copysign(0, -1)), second},
		{"shrinking", with(0.5), with(1)},
		{"hardly positive", with(math.SmallestNonzeroFloat64), with(1)},
		{"linear: negative initial", retry.Linear{Initial: -time.Hour}, retry.Linear{}},
		{"linear: negative initial with step", retry.Linear{Initial: -1, Step: ms}, retry.Linear{Step: ms}},
		{"linear: negative step", retry.Linear{Initial: ms, Step: -1}, retry.Linear{Initial: ms}},
		{"fibonacci: negative initial", retry.Fibonacci{Initial: -1}, retry.Fibonacci{}},
		{"constant: negative", retry.Constant(-1), retry.Constant(2 * time.Second)},
		{"constant: least", retry.Constant(math.MinInt64), retry.Constant(2 * time.Second)},
		{"schedule: negative", retry.Schedule{ms, -1, ms}, retry.Schedule{ms, 2 * time.Second, ms}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, waits(tt.as, 70), waits(tt.backoff, 70))
			assert.Equal(t, fmt.Sprint(tt.as), fmt.Sprint(tt.backoff), "the text shows what runs")
		})
	}
}

// TestBackoffSaturates checks that no retry number overflows.
func TestBackoffSaturates(t *testing.T) {
	t.Parallel()
	tests := []struct {
		backoff retry.Backoff
		last    int // the last retry with a wait shorter than the longest
	}{
		{retry.Exponential{Initial: 1}, 63}, // 2^62 ns
		{retry.Exponential{}, 33},           // 2e9 * 2^32 ns
		{retry.Exponential{Initial: 1, Multiplier: 10}, 19},
		{retry.Exponential{Initial: longestWait - 1}, 1},
		{retry.Exponential{Initial: longestWait - 1, Multiplier: 1.5}, 1},
		{retry.Linear{Initial: 1, Step: longestWait / 4}, 5},
		{retry.Linear{Initial: 1 << 62, Step: 1 << 60}, 4},
		{retry.Fibonacci{Initial: 1}, 92},
		{retry.Fibonacci{Initial: longestWait / 2}, 3},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%#v", tt.backoff), func(t *testing.T) {
			t.Parallel()
			assert.Less(t, tt.backoff.Delay(tt.last), longestWait)
			for _, n := range []int{tt.last + 1, tt.last + 2, 100, 1 << 20, 1e9, math.MaxInt - 1, math.MaxInt} {
				assert.Equal(t, longestWait, tt.backoff.Delay(n), "retry %d", n)
			}
		})
	}
}

// TestBackoffAgainstExactArithmetic compares with the formulas of the
// documentation in exact numbers.
func TestBackoffAgainstExactArithmetic(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(23, 31))
	for range 3000 {
		initial := time.Duration(r.Uint64()>>(1+r.Uint64()%62)) + 1
		step := time.Duration(r.Uint64()>>(1+r.Uint64()%62)) + 1
		n := int(r.Uint64()%100) + 1
		steps := int64(n - 1)

		doubled := new(big.Int).Lsh(big.NewInt(int64(initial)), uint(steps))
		assert.Equal(t, saturated(doubled), exponential(initial, 2).Delay(n), "%v ×2, retry %d", initial, n)

		risen := new(big.Int).Mul(big.NewInt(int64(step)), big.NewInt(steps))
		risen.Add(risen, big.NewInt(int64(initial)))
		assert.Equal(t, saturated(risen), linear(initial, step).Delay(n), "%v +%v, retry %d", initial, step, n)

		a, b := big.NewInt(0), big.NewInt(int64(initial))
		for range steps {
			a.Add(a, b)
			a, b = b, a
		}
		assert.Equal(t, saturated(b), fibonacci(initial).Delay(n), "fibonacci %v, retry %d", initial, n)

		// The float of a power is off by a rounding per step at most.
		multiplier := 1 + float64(r.Uint64()%(1<<20))/(1<<18)
		power := big.NewFloat(float64(initial)).SetPrec(4096)
		for range steps {
			power.Mul(power, big.NewFloat(multiplier))
		}
		product, _ := power.Int(nil)
		want := saturated(product)
		got := exponential(initial, multiplier).Delay(n)
		assert.InDelta(t, float64(want), float64(got), 1+float64(want)*1e-13, "%v ×%v, retry %d", initial, multiplier, n)
	}
}

func exponential(initial time.Duration, multiplier float64) retry.Backoff {
	return retry.Exponential{Initial: initial, Multiplier: multiplier}
}

func linear(initial, step time.Duration) retry.Backoff {
	return retry.Linear{Initial: initial, Step: step}
}

func fibonacci(initial time.Duration) retry.Backoff { return retry.Fibonacci{Initial: initial} }

func saturated(n *big.Int) time.Duration {
	if !n.IsInt64() {
		return longestWait
	}
	return time.Duration(n.Int64())
}

func TestBackoffText(t *testing.T) {
	t.Parallel()
	tests := []struct {
		backoff retry.Backoff
		want    string
	}{
		{retry.Exponential{}, "2s ×2"},
		{retry.Exponential{Initial: 250 * ms, Multiplier: 1.5}, "250ms ×1.5"},
		{retry.Exponential{Initial: -1, Multiplier: 0.1}, "2s ×1"},
		{retry.Exponential{Multiplier: 1e21}, "2s ×1e+21"},
		{retry.Linear{}, "2s +2s"},
		{retry.Linear{Initial: time.Minute}, "1m0s +1m0s"},
		{retry.Linear{Initial: time.Second, Step: 500 * ms}, "1s +500ms"},
		{retry.Fibonacci{}, "fibonacci 2s"},
		{retry.Fibonacci{Initial: 5 * ms}, "fibonacci 5ms"},
		{retry.Constant(0), "constant 0s"},
		{retry.Constant(90 * time.Second), "constant 1m30s"},
		{retry.Schedule{}, "2s ×2"},
		{retry.Schedule{time.Second, 5 * time.Second, 30 * time.Second}, "schedule 1s, 5s, 30s"},
		{retry.Schedule{0}, "schedule 0s"},
	}
	for _, tt := range tests {
		assert.Equal(t, tt.want, fmt.Sprint(tt.backoff), "%#v", tt.backoff)
	}
}

// manyBackoffs returns backoffs of all kinds, from usual to absurd.
func manyBackoffs() []retry.Backoff {
	durations := []time.Duration{math.MinInt64, -1, 0, 1, ms, time.Second, time.Hour, longestWait - 1, longestWait}
	multipliers := []float64{
		math.NaN(), math.Inf(-1), -1, 0, math.SmallestNonzeroFloat64, 0.5, 1, math.Nextafter(1, 2), 1.1, 2,
		math.Nextafter(2, 3), 7.3, 1e18, math.MaxFloat64, math.Inf(1),
	}
	all := []retry.Backoff{retry.Schedule(nil), retry.Schedule{}, retry.Schedule(durations)}
	for _, d := range durations {
		all = append(all, fibonacci(d), retry.Constant(d), retry.Schedule{d}, retry.Schedule{time.Second, d})
		for _, step := range durations {
			all = append(all, linear(d, step))
		}
		for _, m := range multipliers {
			all = append(all, exponential(d, m))
		}
	}
	return all
}

// significance is the level of the tests for uniformity: uniform numbers fail
// one of them with this probability. Their seeds are fixed, so that none fails
// by chance later.
const significance = 1e-4

const (
	leastWord   = uint64(0)
	largestWord = uint64(math.MaxUint64)
)

// TestJitterRange checks the ends of the range that is drawn from: the smallest
// random word gives one end exactly, the largest word the other.
func TestJitterRange(t *testing.T) {
	t.Parallel()
	const s = time.Second
	tests := []struct {
		jitter       retry.Jitter
		delay, limit time.Duration
		lo, hi       time.Duration
	}{
		{retry.FullJitter, 10 * s, 30 * s, 0, 10 * s},
		{retry.FullJitter, 30 * s, 30 * s, 0, 30 * s},
		{retry.FullJitter, 0, 30 * s, 0, 0},
		{retry.FullJitter, 1, 1, 0, 1},
		{retry.FullJitter, longestWait, longestWait, 0, longestWait},
		{retry.EqualJitter, 10 * s, 30 * s, 5 * s, 10 * s},
		{retry.EqualJitter, 3, 30, 1, 3},
		{retry.EqualJitter, 0, 30 * s, 0, 0},
		{retry.EqualJitter, longestWait, longestWait, longestWait / 2, longestWait},
		{retry.NoJitter, 10 * s, 30 * s, 10 * s, 10 * s},
		{retry.NoJitter, 0, 30 * s, 0, 0},
		{retry.NoJitter, longestWait, longestWait, longestWait, longestWait},
		{retry.Proportional(0.1), 10 * s, 30 * s, 9 * s, 11 * s},
		{retry.Proportional(0.5), 20 * s, 30 * s, 10 * s, 30 * s},
		{retry.Proportional(0.5), 28 * s, 30 * s, 14 * s, 30 * s}, // cut at the limit
		{retry.Proportional(0.1), 30 * s, 30 * s, 27 * s, 30 * s},
		{retry.Proportional(1), 10 * s, 30 * s, 0, 20 * s},
		{retry.Proportional(0), 10 * s, 30 * s, 10 * s, 10 * s},
		{retry.Proportional(0.1), 0, 30 * s, 0, 0},
		{retry.Proportional(1), longestWait, longestWait, 0, longestWait},
		{retry.PlusMinus(s), 10 * s, 30 * s, 9 * s, 11 * s},
		{retry.PlusMinus(30 * s), 10 * s, 60 * s, 0, 40 * s}, // cut at 0
		{retry.PlusMinus(30 * s), 10 * s, 20 * s, 0, 20 * s}, // cut at both ends
		{retry.PlusMinus(0), 10 * s, 30 * s, 10 * s, 10 * s},
		{retry.PlusMinus(longestWait), 10 * s, 30 * s, 0, 30 * s},
		{retry.PlusMinus(longestWait), longestWait, longestWait, 0, longestWait},
		{retry.PlusMinus(5), 3, longestWait, 0, 8},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%v of %v up to %v", tt.jitter, tt.delay, tt.limit), func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tt.lo, tt.jitter.Apply(tt.delay, tt.limit, leastWord), "at u = 0")
			assert.Equal(t, tt.hi, tt.jitter.Apply(tt.delay, tt.limit, largestWord), "at the largest u")
		})
	}
}

// TestJitterOutOfRange checks the values that settings and arguments out of
// range run as.
func TestJitterOutOfRange(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		jitter retry.Jitter
		as     retry.Jitter
	}{
		{"fraction NaN", retry.Proportional(math.NaN()), retry.Proportional(0)},
		{"fraction below 0", retry.Proportional(-0.1), retry.Proportional(0)},
		{"fraction minus infinity", retry.Proportional(math.Inf(-1)), retry.Proportional(0)},
		{"fraction above 1", retry.Proportional(1.5), retry.Proportional(1)},
		{"fraction infinity", retry.Proportional(math.Inf(1)), retry.Proportional(1)},
		{"negative spread", retry.PlusMinus(-time.Second), retry.PlusMinus(0)},
		{"least spread", retry.PlusMinus(math.MinInt64), retry.PlusMinus(0)},
		{"no such mode", retry.NoJitter + 1, retry.NoJitter},
		{"no such mode", retry.NoJitter + 253, retry.NoJitter},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, fmt.Sprint(tt.as), fmt.Sprint(tt.jitter), "the text shows what runs")
			for _, u := range []uint64{leastWord, 1 << 40, 1 << 63, largestWord} {
				for _, d := range []time.Duration{0, 1, time.Second, longestWait} {
					assert.Equal(t, tt.as.Apply(d, longestWait, u), tt.jitter.Apply(d, longestWait, u))
				}
			}
		})
	}
}

// TestJitterStaysInLimit checks that the result is in [0, limit] whatever the
// arguments are, and that it does not fall as the random word grows.
func TestJitterStaysInLimit(t *testing.T) {
	t.Parallel()
	durations := []time.Duration{math.MinInt64, -1, 0, 1, 2, 3, ms, time.Second, time.Hour, longestWait - 1, longestWait}
	words := []uint64{0, 1, 1 << 20, 1 << 32, 1 << 62, 1<<63 - 1, 1 << 63, 1<<63 + 1, 3 << 62, largestWord - 1, largestWord}
	for _, j := range manyJitters() {
		for _, delay := range durations {
			for _, limit := range durations {
				last := time.Duration(0)
				for _, u := range words {
					d := j.Apply(delay, limit, u)
					if d < last || d > max(limit, 0) {
						t.Fatalf("%v of %v up to %v: %v at u = %#x, after %v", j, delay, limit, d, u, last)
					}
					last = d
				}
			}
		}
	}
}

// TestJitterSmallRangeIsFair checks that every duration of a small range is
// drawn by an equal share of the random words.
func TestJitterSmallRangeIsFair(t *testing.T) {
	t.Parallel()
	// The first word that gives n is the least u with u*10 >= n*2^64.
	for n := range uint64(10) {
		first := (math.MaxUint64/10)*n + (6*n+9)/10 // 2^64 = 10*(MaxUint64/10) + 6
		assert.Equal(t, time.Duration(n), retry.FullJitter.Apply(9, 9, first))
		if n > 0 {
			assert.Equal(t, time.Duration(n-1), retry.FullJitter.Apply(9, 9, first-1))
		}
	}
}

// TestJitterUniform is a chi-square test of 100 equal parts of the range.
func TestJitterUniform(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name         string
		jitter       retry.Jitter
		delay, limit time.Duration
	}{
		{"full", retry.FullJitter, 7 * time.Second, time.Minute},
		{"full at the limit", retry.FullJitter, time.Minute, time.Minute},
		{"full over all durations", retry.FullJitter, longestWait, longestWait},
		{"equal", retry.EqualJitter, 7 * time.Second, time.Minute},
		{"equal at the limit", retry.EqualJitter, time.Minute, time.Minute},
		{"proportional", retry.Proportional(0.1), 7 * time.Second, time.Minute},
		{"proportional, cut at the limit", retry.Proportional(0.5), 55 * time.Second, time.Minute},
		{"plus-minus", retry.PlusMinus(time.Second), 7 * time.Second, time.Minute},
		{"plus-minus, cut at both ends", retry.PlusMinus(time.Minute), 7 * time.Second, 30 * time.Second},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := uniformity(tt.jitter, tt.delay, tt.limit, uint64(i))
			assert.Greater(t, p, significance)
		})
	}
}

// TestJitterUniformityTestCanFail shows that the test above would notice a
// jitter that is drawn first and then clamped, and one that favors short waits
// slightly.
func TestJitterUniformityTestCanFail(t *testing.T) {
	t.Parallel()
	clamped := jitterFunc(func(d, limit time.Duration, u uint64) time.Duration {
		return min(retry.Proportional(0.5).Apply(d, 2*limit, u), limit)
	})
	assert.Less(t, uniformity(clamped, 58*time.Second, time.Minute, 1), significance)
	skewed := jitterFunc(func(d, limit time.Duration, u uint64) time.Duration {
		wait := retry.FullJitter.Apply(d, limit, u)
		if u%16 == 0 {
			wait /= 2
		}
		return wait
	})
	assert.Less(t, uniformity(skewed, time.Minute, time.Minute, 1), significance)
}

type jitterFunc func(delay, limit time.Duration, u uint64) time.Duration

func (f jitterFunc) Apply(delay, limit time.Duration, u uint64) time.Duration {
	return f(delay, limit, u)
}

// uniformity returns the p-value of 100,000 draws.
func uniformity(j retry.Jitter, delay, limit time.Duration, seed uint64) float64 {
	r := rand.New(rand.NewPCG(seed, 62))
	lo, hi := j.Apply(delay, limit, leastWord), j.Apply(delay, limit, largestWord)
	counts := make([]int, 100)
	for range 100_000 {
		d := j.Apply(delay, limit, r.Uint64())
		counts[part(d, lo, hi, len(counts))]++
	}
	return testkit.PValue(counts)
}

// part returns which of n equal parts of [lo, hi] d is in.
func part(d, lo, hi time.Duration, n int) int {
	return min(int(float64(d-lo)/float64(hi-lo)*float64(n)), n-1)
}

func TestJitterText(t *testing.T) {
	t.Parallel()
	tests := []struct {
		jitter retry.Jitter
		want   string
	}{
		{retry.FullJitter, "full jitter"},
		{retry.EqualJitter, "equal jitter"},
		{retry.NoJitter, "no jitter"},
		{retry.Proportional(0), "±0% jitter"},
		{retry.Proportional(0.1), "±10% jitter"},
		{retry.Proportional(0.125), "±12.5% jitter"},
		{retry.Proportional(1), "±100% jitter"},
		{retry.Proportional(7), "±100% jitter"},
		{retry.PlusMinus(0), "±0s jitter"},
		{retry.PlusMinus(30 * time.Second), "±30s jitter"},
		{retry.PlusMinus(-1), "±0s jitter"},
	}
	for _, tt := range tests {
		assert.Equal(t, tt.want, fmt.Sprint(tt.jitter))
	}
}

// manyJitters returns jitters of all kinds, also with extreme settings.
func manyJitters() []retry.Jitter {
	all := []retry.Jitter{retry.FullJitter, retry.EqualJitter, retry.NoJitter, retry.NoJitter + 1}
	for _, f := range []float64{math.NaN(), math.Inf(-1), -1, 0, 1e-300, 0.1, 0.5, 1, 2, math.Inf(1)} {
		all = append(all, retry.Proportional(f))
	}
	for _, d := range []time.Duration{math.MinInt64, -1, 0, 1, ms, time.Second, time.Hour, longestWait} {
		all = append(all, retry.PlusMinus(d))
	}
	return all
}

// keyed draws over the whole range of durations, so that a wait is the upper 63
// bits of the random word of a state.
var keyed = &retry.Policy{
	Backoff: retry.Constant(longestWait),
	Jitter:  retry.FullJitter,
	Rand:    wordsOf(nil), // panics when it is asked
}

// TestKeyedJitterFormula checks the documented formula for many states.
func TestKeyedJitterFormula(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(6, 6))
	for range 2000 {
		key := make([]byte, 1+r.Uint64()%60)
		for i := range key {
			key[i] = byte(r.Uint64())
		}
		s := retry.State{
			Key:         string(key),
			Failures:    1 + int(r.Uint64()>>33>>(r.Uint64()%31)),
			RateLimited: int(r.Uint64() >> 33 >> (r.Uint64() % 31)),
		}
		assert.Equal(t, int64(keyedWordByHand(s)>>1), int64(keyed.Delay(s)), "%+v", s)
	}
}

// keyedWordByHand is 64-bit FNV-1a over the key and both counters as
// little-endian words, and the finisher of SplitMix64.
func keyedWordByHand(s retry.State) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s.Key))
	_ = binary.Write(h, binary.LittleEndian, []int64{int64(s.Failures), int64(s.RateLimited)})
	z := h.Sum64()
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb
	return z ^ (z >> 31)
}

// TestKeyedJitterIndependent checks that neighbors are independent: all pairs
// of tenths of the range are equally frequent.
func TestKeyedJitterIndependent(t *testing.T) {
	t.Parallel()
	job := func(n, failures, limited int) retry.State {
		return retry.State{Key: "job-" + strconv.Itoa(n), Failures: failures, RateLimited: limited}
	}
	tests := []struct {
		name string
		next func(n int) retry.State
	}{
		{"next key", func(n int) retry.State { return job(n+1, 1, 0) }},
		{"next failure", func(n int) retry.State { return job(n, 2, 0) }},
		{"next hint", func(n int) retry.State { return job(n, 1, 1) }},
		{"longer key", func(n int) retry.State {
			return retry.State{Key: "job-" + strconv.Itoa(n) + "x", Failures: 1}
		}},
		{"other prefix", func(n int) retry.State {
			return retry.State{Key: "jobs-" + strconv.Itoa(n), Failures: 1}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			pairs := make([]int, 10*10)
			for n := range 40_000 {
				a := part(keyed.Delay(job(n, 1, 0)), 0, longestWait, 10)
				b := part(keyed.Delay(tt.next(n)), 0, longestWait, 10)
				pairs[10*a+b]++
			}
			assert.Greater(t, testkit.PValue(pairs), significance)
		})
	}
}

// wordsOf is a source of jitter that gives the words one by one, and panics at
// the end.
func wordsOf(words []uint64) rand.Source { return &words64{words} }

type words64 struct{ left []uint64 }

func (w *words64) Uint64() uint64 {
	u := w.left[0]
	w.left = w.left[1:]
	return u
}

// delayDigest is the SHA-256 of 300,000 delays with their bounds. It is the same
// on every architecture. If it changes, so do the waits of all keyed states in
// users' databases.
const delayDigest = "16a521b62c8c3ae3b452a97197ab18d3907311b501ccf404cdceec2ebc0fc4d8"

// TestDelayDigest also runs with GOARCH=386 and, under an emulator, arm64. They
// show a careless conversion from float to int, a fused multiply-add, or an int
// of 32 bits.
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

// digestInput draws settings, a third of them extreme. It uses only Uint64,
// which is the same on every architecture by definition.
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
