package retry_test

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"net"
	"net/url"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

// assertSameError checks that an error is this very one, and not only equal to
// it.
func assertSameError(t *testing.T, want, got error, about string) {
	t.Helper()
	same := want == got
	assert.True(t, same, "%v is not %v: %s", got, want, about)
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

// FuzzPolicyJSON checks that no input makes the reader panic, and that what it
// takes is valid, is written again, and then reads the same.
func FuzzPolicyJSON(f *testing.F) {
	for _, tt := range policyFaults {
		f.Add([]byte(tt.json))
	}
	for _, seed := range []string{
		`null`, `{}`, `{"name":"a\u0000b\ud800"}`, `{"max_attempts":"unlimited"}`, `{"max_retries":0}`,
		`{"max_attempts":4,"max_elapsed":"2m","attempt_timeout":10.5,"max_delay":"30s","jitter":"equal","max_retry_after":60,` +
			`"free_rate_limits":10,"non_idempotent":true,"overrides":{"unknown":{"max_attempts":2,"jitter":{"plus_minus":1}},"x":{}}}`,
		`{"backoff":{"exponential":{"initial":"2s","multiplier":2.5}}}`, `{"backoff":{"linear":{"initial":1,"step":"1ms"}}}`,
		`{"backoff":{"fibonacci":{"initial":1e-9}}}`, `{"backoff":{"constant":0}}`, `{"backoff":{"schedule":[0,"1s",1.5]}}`,
		`{"jitter":{"proportional":-0}}`, `{"overrides":{}}`, `{"backoff":{"schedule":[]}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		before := retry.Policy{Name: "before", MaxAttempts: 7}
		p := before
		if err := p.UnmarshalJSON(data); err != nil {
			assert.Equal(t, before, p, "touched in spite of %v", err)
			assert.NotEmpty(t, err.Error())
			return
		}
		require.NoError(t, p.Validate())
		assert.True(t, utf8.ValidString(p.Name))
		again, err := json.Marshal(p)
		require.NoError(t, err)
		var q retry.Policy
		require.NoError(t, json.Unmarshal(again, &q), "%s", again)
		assert.Equal(t, p, q, "%s", again)
		_ = p.String()
	})
}

// FuzzStateText checks that a decoded state is valid, and reads the same after
// it was written again.
func FuzzStateText(f *testing.F) {
	for _, seed := range []string{
		"", "f=2 r=1 t=2026-11-21T06:48:00Z", "f=-1", "f=1 f=2", "t=0001-01-01T00:00:00Z", "t=2026-11-21T06:48:00.123456789+05:45",
		"t=9999-12-31T23:59:59Z", "v=2 x= =", "f=9223372036854775807 r=99999999999999999999", "garbage", "\u00a0f=1", "f=1\x00",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		fuzzState(t, text, (*retry.State).UnmarshalText, retry.State.MarshalText)
	})
}

// FuzzStateJSON is FuzzStateText for the other form.
func FuzzStateJSON(f *testing.F) {
	for _, seed := range []string{
		`{}`, `null`, `{"failures":2,"rate_limited":1,"first":"2026-11-21T06:48:00Z"}`, `{"failures":-1}`, `{"failures":1e2}`,
		`{"first":"0001-01-01T00:00:00Z"}`, `{"first":"2026-11-21T06:48:00.5+23:59"}`, `{"v":{"a":[1,null]},"Failures":3}`, `[`, `{"failures":"1"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		fuzzState(t, data, (*retry.State).UnmarshalJSON, retry.State.MarshalJSON)
	})
}

func fuzzState(t *testing.T, data []byte, read func(*retry.State, []byte) error, write func(retry.State) ([]byte, error)) {
	t.Helper()
	before := retry.State{Failures: 3, RateLimited: 4, First: firstAttempt, Key: "k"}
	s := before
	if read(&s, data) != nil {
		assert.Equal(t, before, s)
		return
	}
	assert.Equal(t, "k", s.Key)
	assert.GreaterOrEqual(t, s.Failures, 0)
	assert.GreaterOrEqual(t, s.RateLimited, 0)
	again, err := write(s)
	require.NoError(t, err)
	var back retry.State
	require.NoError(t, read(&back, again), "%s", again)
	assertSameState(t, s, back)
	twice, err := write(back)
	require.NoError(t, err)
	assert.Equal(t, string(again), string(twice))
}

// errorKinds has the parts of random error trees.
var errorKinds = testkit.Kinds{Leaves: leaves, Wraps: wraps}

// leaves are errors without a cause.
var leaves = []func(detail byte) error{
	func(byte) error { return errNobody },
	func(byte) error { return nil },
	func(detail byte) error { return syscall.Errno(detail) },
	func(detail byte) error { return saysStatusCodeError(says(int(detail) + 350)) },
	func(detail byte) error { return saysRetryAfterError(says(time.Duration(int8(detail)))) },
	func(detail byte) error {
		return statusHintError{says(400 + int(detail)), says(time.Duration(detail) * time.Second)}
	},
	func(detail byte) error { return yesNo[int(detail)%len(yesNo)].err(says(detail >= 128)) },
	func(detail byte) error { return yesNo[int(detail)%len(yesNo)].err(nil) },
	func(detail byte) error {
		return []error{
			io.EOF, io.ErrUnexpectedEOF, fs.ErrClosed, net.ErrClosed, fs.ErrNotExist,
			context.Canceled, context.DeadlineExceeded, retry.ErrLost,
		}[detail%8]
	},
	func(detail byte) error {
		return &net.DNSError{IsTimeout: detail&1 > 0, IsTemporary: detail&2 > 0, IsNotFound: detail&4 > 0}
	},
	func(detail byte) error {
		return saysSQLStateError(says([]string{"40001", "40003", "53300", "23505"}[detail%4]))
	},
	func(byte) error { return (*retry.Error)(nil) },
	func(byte) error { return (*net.OpError)(nil) },
}

// wraps are errors with a cause, which may be nil.
var wraps = []func(detail byte, cause error) error{
	func(_ byte, cause error) error { return fmt.Errorf("x: %w", cause) },
	func(_ byte, cause error) error { return &net.OpError{Op: "dial", Err: cause} },
	func(_ byte, cause error) error { return &net.OpError{Op: "read", Err: cause} },
	func(_ byte, cause error) error { return &url.Error{Op: "Get", Err: cause} },
	func(_ byte, cause error) error { return &fs.PathError{Op: "open", Err: cause} },
	func(_ byte, cause error) error { return &net.DNSError{IsTemporary: true, UnwrapErr: cause} },
	func(d byte, cause error) error { return overHintError{says(time.Duration(int8(d))), cause} },
	func(d byte, cause error) error { return overTimeoutError{says(d&1 > 0), cause} },
	func(d byte, cause error) error { return overSafeError{says(d&1 > 0), cause} },
	func(d byte, cause error) error { return overRetryableError{says(d&1 > 0), cause} },
	func(d byte, cause error) error { return overStatusError{says(350 + int(d)), cause} },
	func(_ byte, cause error) error { return overStatusError{nil, cause} },
	func(d byte, cause error) error {
		stop := retry.StopReason(d % 9)
		return &retry.Error{Attempts: 1, Stop: stop, RetryAfter: time.Duration(int8(d)), Err: cause}
	},
	func(_ byte, cause error) error { return retry.MarkFinal(cause) },
	func(_ byte, cause error) error { return retry.MarkRetryable(cause) },
	func(d byte, cause error) error { return retry.MarkRateLimited(cause, time.Duration(int8(d))) },
	func(d byte, cause error) error {
		return retry.Mark(cause, retry.Verdict{Class: retry.Class(d), Category: "custom"})
	},
}

// checkErrorTree checks the invariants of every tree.
func checkErrorTree(t *testing.T, data []byte) {
	t.Helper()
	tree := errorKinds.Tree(data)
	tree.Check(t, retry.Classify)
	err := tree.Err()
	v := retry.Classify(err)

	assert.LessOrEqual(t, v.Class, retry.Pending)
	if v.Class == retry.Unknown {
		assert.Zero(t, v.After, "a hint is an opinion")
	}
	acted := (&retry.Policy{}).Classify(err)
	if acted.NotApplied != v.NotApplied {
		v.NotApplied = false // only a mark says so to a policy
	}
	assert.Equal(t, v, acted, "zero policy")
	throughGiveUp := retry.ThroughGiveUp(err)
	for name, other := range tree.Reordered() {
		assert.Equal(t, throughGiveUp, retry.ThroughGiveUp(other), "%s:\n%#v\n%#v", name, err, other)
	}
	if err != nil {
		assert.NotPanics(t, func() { _ = retry.MarkFinal(err).Error() })
	}
}

// TestClassifyRandomTrees is the fuzz test below with trees that it rarely
// finds in the time of a test run.
func TestClassifyRandomTrees(t *testing.T) {
	t.Parallel()
	testkit.Random(t, 10_000, func(data []byte) { checkErrorTree(t, data) })
}

func FuzzClassify(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{192, 2, 2, 111, 2, 104})                   // two errnos
	f.Add([]byte{192, 3, 4, 2, 4, 5, 91, 9, 0, 0})          // hints
	f.Add([]byte{192, 2, 81, 0, 2, 111, 82, 0, 2, 104})     // marks
	f.Add([]byte{86, 0, 192, 2, 2, 97, 2, 111})             // a dial
	f.Add([]byte{192, 2, 97, 2, 2, 111, 97, 7, 0, 0})       // inner policies
	f.Add([]byte{92, 1, 192, 3, 11, 0, 90, 0, 8, 6, 96, 0}) // panics
	f.Fuzz(func(t *testing.T, data []byte) { checkErrorTree(t, data) })
}
