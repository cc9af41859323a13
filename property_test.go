package retry_test

import (
	"context"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry"
)

// someOf returns a random one.
func someOf[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// assertSameError checks that an error is this very one, and not only equal to
// it.
func assertSameError(t *testing.T, want, got error, about string, args ...any) {
	t.Helper()
	same := want == got
	assert.True(t, same, "%v is not %v: %s", got, want, fmt.Sprintf(about, args...))
}

// What follows is the decider once more, one rule after the other, in the
// slowest and plainest way there is.

// naiveRange is what a built-in jitter draws from.
func naiveRange(j retry.Jitter, d, limit time.Duration) (lo, hi time.Duration) {
	around := func(x time.Duration) (lo, hi time.Duration) {
		return max(d-x, 0), min(naiveSum(d, x), limit)
	}
	switch j {
	case retry.FullJitter:
		return 0, d
	case retry.EqualJitter:
		return d / 2, d
	case retry.NoJitter:
		return d, d
	case retry.Proportional(0.1):
		return around(time.Duration(0.1 * float64(d)))
	case retry.Proportional(0.5):
		return around(d / 2)
	case retry.PlusMinus(2 * time.Second):
		return around(2 * time.Second)
	default:
		panic(j)
	}
}

func naiveSum(a, b time.Duration) time.Duration {
	sum := new(big.Int).Add(big.NewInt(int64(a)), big.NewInt(int64(b)))
	if !sum.IsInt64() {
		return math.MaxInt64
	}
	return time.Duration(sum.Int64())
}

// naiveDraw picks the duration of [lo, hi] that is at u of all 2⁶⁴ words.
func naiveDraw(lo, hi time.Duration, u uint64) time.Duration {
	n := new(big.Int).Add(big.NewInt(int64(hi)-int64(lo)), big.NewInt(1))
	n.Mul(n, new(big.Int).SetUint64(u))
	n.Rsh(n, 64)
	return lo + time.Duration(n.Int64())
}

// naiveSettings are the settings of a policy for one kind of failure, without
// defaults.
//
// uncapped says that waits are written down and nobody has set a MaxDelay.
func naiveSettings(p *retry.Policy, v retry.Verdict) (s retry.Override, uncapped bool) {
	s = retry.Override{MaxAttempts: 3, Backoff: retry.Exponential{}}
	if v.Class == retry.Pending {
		s.MaxAttempts = retry.Unlimited
		unlimited := *p
		unlimited.MaxAttempts = 0
		p = &unlimited
	}
	written := func() bool { // one by one
		switch b := s.Backoff.(type) {
		case retry.Constant:
			return true
		case retry.Schedule:
			return len(b) > 0
		default:
			return false
		}
	}
	layers := []retry.Override{
		{MaxAttempts: p.MaxAttempts, Backoff: p.Backoff, Jitter: p.Jitter, MaxDelay: p.MaxDelay},
		p.Overrides[v.Class.String()],
	}
	if v.Category != "" {
		layers = append(layers, p.Overrides[v.Category])
	}
	for _, layer := range layers {
		if layer.MaxAttempts > 0 {
			s.MaxAttempts = layer.MaxAttempts
		}
		if layer.Backoff != nil {
			s.Backoff = layer.Backoff
		}
		if layer.Jitter != nil {
			s.Jitter = layer.Jitter
		}
		if layer.MaxDelay > 0 {
			s.MaxDelay = layer.MaxDelay
		}
	}
	if s.Jitter == nil {
		s.Jitter = retry.FullJitter
		if written() {
			s.Jitter = retry.Proportional(0.1)
		}
	}
	if s.MaxDelay == 0 {
		if written() {
			uncapped = true
			for n := 1; n < 10; n++ {
				s.MaxDelay = max(s.MaxDelay, s.Backoff.Delay(n))
			}
		} else {
			s.MaxDelay = max(30*time.Second, s.Backoff.Delay(1))
		}
	}
	return s, uncapped
}

// naiveDecide decides about a failure. The next attempt must begin before the
// deadline, unless that is zero.
func naiveDecide(p *retry.Policy, s retry.State, v retry.Verdict, now, deadline time.Time, u uint64) retry.Decision {
	// What the verdict means.
	if v.After < 0 {
		v.After = 0
	}
	if v.Class > retry.Pending {
		v.Class = retry.Unknown
	}
	if v.Class == retry.Unknown && v.After > 0 && !v.Exact {
		v.Class = retry.RateLimited
	}
	set, uncapped := naiveSettings(p, v)
	longestHint := max(time.Minute, set.MaxDelay)
	if p.MaxRetryAfter > 0 {
		longestHint = p.MaxRetryAfter
	}

	// What it costs.
	s.Failures, s.RateLimited, s.Pending = max(s.Failures, 0), max(s.RateLimited, 0), max(s.Pending, 0)
	if v.Progress {
		s.Failures, s.RateLimited, s.Pending, s.First = 0, 0, 0, now
	}
	retryNumber := s.Failures + 1
	free := v.Class == retry.RateLimited && v.After > 0 && s.RateLimited < p.FreeRateLimits
	count := 0
	switch {
	case v.Class == retry.Pending:
		retryNumber = s.Pending + 1
		s.Pending++
		count = s.Pending
	case free:
		s.RateLimited++
	default:
		s.Failures++
		count = s.Failures
	}
	d := retry.Decision{Counted: !free && v.Class != retry.Pending, Limit: set.MaxAttempts, Verdict: v, State: s}

	// How long it may last.
	left := time.Duration(math.MaxInt64)
	if p.MaxElapsed > 0 && !s.First.IsZero() {
		left = p.MaxElapsed
		if now.After(s.First) {
			left -= now.Sub(s.First)
		}
	}
	timeLeft := time.Duration(math.MaxInt64)
	if p.Timeout > 0 && !s.First.IsZero() {
		timeLeft = p.Timeout
		if now.After(s.First) {
			timeLeft -= now.Sub(s.First)
		}
		if end := now.Add(timeLeft); deadline.IsZero() || end.Before(deadline) {
			deadline = end
		}
	}
	switch {
	case timeLeft <= 0:
		d.Stop = retry.StopTimeout
	case v.Class == retry.Final:
		d.Stop = retry.StopFinal
	case p.NonIdempotent && !v.NotApplied:
		d.Stop = retry.StopMaybeApplied
	case !free && count >= set.MaxAttempts:
		d.Stop = retry.StopAttempts
	case left < 0:
		d.Stop = retry.StopElapsed
	case v.After > longestHint:
		d.Stop, d.Delay = retry.StopRetryAfter, v.After
	}
	if d.Stop != retry.StopNone {
		if d.Delay > 0 {
			d.At = now.Add(d.Delay)
		}
		return d
	}

	// How long the wait is.
	asked := set.Backoff.Delay(retryNumber)
	backoff := max(min(asked, set.MaxDelay), 0)
	switch {
	case v.Exact:
		d.Delay = v.After
	case asked < 0:
		d.Stop = retry.StopBackoff
		return d
	case v.After > 0:
		lo := max(v.After, min(backoff, time.Second))
		hi := naiveSum(lo, lo/100*10)
		if left < hi {
			hi = max(left, lo)
		}
		if room := deadline.Sub(now); !deadline.IsZero() && room-1 < hi {
			hi = max(room-1, lo)
		}
		d.Delay = naiveDraw(lo, hi, u)
	case backoff > 0:
		limit := set.MaxDelay
		if uncapped {
			limit = math.MaxInt64
		}
		lo, hi := naiveRange(set.Jitter, backoff, limit)
		d.Delay = naiveDraw(lo, hi, u)
	}

	// Whether that is in time.
	switch {
	case d.Delay > left:
		d.Stop = retry.StopElapsed
	case d.Delay >= timeLeft && timeLeft < math.MaxInt64:
		d.Stop = retry.StopTimeout
	case !deadline.IsZero() && !now.Add(d.Delay).Before(deadline):
		d.Stop = retry.StopDeadline
	default:
		d.Retry = true
	}
	if d.Retry || d.Delay > 0 {
		d.At = now.Add(d.Delay)
	}
	return d
}

// oracleCase is a random question for the decider. Durations are few, so that
// limits are often met exactly.
type oracleCase struct {
	policy  retry.Policy
	state   retry.State
	verdict retry.Verdict
	now     time.Time
	room    time.Duration // until the deadline
	bounded bool          // there is a deadline
}

func newOracleCase(r *rand.Rand) oracleCase {
	limits := []time.Duration{0, 1, 999_999_999, time.Second, 2 * time.Second, 10 * time.Second, 11 * time.Second, time.Minute, time.Hour}
	duration := func() time.Duration { return someOf(r, limits...) }
	backoff := func() retry.Backoff {
		d := duration()
		return someOf[retry.Backoff](
			r, nil, retry.Exponential{Initial: d}, retry.Linear{Initial: d}, retry.Fibonacci{Initial: d},
			retry.Constant(d), retry.Constant(d), retry.Constant(-1), retry.Schedule{d, 0, 2 * d}, retry.Schedule{},
			backoffFunc(func(n int) time.Duration { return time.Second - time.Duration(n)*time.Second }),
			backoffFunc(func(n int) time.Duration { return 2*time.Second - time.Duration(n)*time.Second }),
		)
	}
	jitter := func() retry.Jitter {
		return someOf[retry.Jitter](
			r, nil, retry.FullJitter, retry.EqualJitter, retry.NoJitter, retry.NoJitter,
			retry.Proportional(0.5), retry.PlusMinus(2*time.Second),
		)
	}
	now := time.Unix(1_700_000_000, 999_999_999).UTC()
	c := oracleCase{
		policy: retry.Policy{
			MaxAttempts:    someOf(r, -1, 0, 1, 2, 3, 9, retry.Unlimited),
			MaxElapsed:     someOf(r, 0, 0, -1, duration(), duration()),
			Timeout:        someOf(r, 0, 0, 0, 0, -1, duration()),
			Backoff:        backoff(),
			MaxDelay:       someOf(r, 0, 0, duration()),
			Jitter:         jitter(),
			MaxRetryAfter:  someOf(r, 0, -1, duration(), math.MaxInt64),
			FreeRateLimits: someOf(r, -1, 0, 1, 3),
			NonIdempotent:  r.IntN(4) == 0,
		},
		state: retry.State{
			Failures:    someOf(r, -5, 0, 0, 1, 2, 3, 8),
			RateLimited: someOf(r, -5, 0, 0, 1, 2, 3),
			Pending:     someOf(r, -5, 0, 0, 0, 2),
		},
		verdict: retry.Verdict{
			Class:      someOf(r, retry.Unknown, retry.Final, retry.Retryable, retry.Retryable, retry.RateLimited, retry.RateLimited, retry.Pending, retry.Pending+1),
			NotApplied: r.IntN(2) == 0,
			Progress:   r.IntN(8) == 0,
			Exact:      r.IntN(6) == 0,
			After:      someOf(r, 0, -1, duration(), duration(), math.MaxInt64),
			Category:   someOf(r, "", "a", "b", "retryable"),
		},
		now:     now,
		room:    duration(),
		bounded: r.IntN(2) == 0,
	}
	if r.IntN(4) > 0 {
		c.state.First = now.Add(-someOf(r, -time.Hour, 0, duration(), duration()))
	}
	for _, kind := range []string{"unknown", "final", "retryable", "rate_limited", "pending", "a", "b", ""} {
		if r.IntN(6) > 0 {
			continue
		}
		if c.policy.Overrides == nil {
			c.policy.Overrides = map[string]retry.Override{}
		}
		c.policy.Overrides[kind] = retry.Override{
			MaxAttempts: someOf(r, -1, 0, 1, 4), Backoff: backoff(), Jitter: jitter(), MaxDelay: someOf(r, -1, 0, duration()),
		}
	}
	return c
}

// untilContext has a deadline that it does not keep.
type untilContext struct {
	context.Context
	deadline time.Time
}

func (c untilContext) Deadline() (time.Time, bool) { return c.deadline, true }

func TestPropertyDecideAgainstOracle(t *testing.T) {
	t.Parallel()
	const cases = 30_000
	seen := map[retry.StopReason]int{}
	for seed := range uint64(cases) {
		r := rand.New(rand.NewPCG(seed, 2))
		c := newOracleCase(r)
		for _, u := range []uint64{0, math.MaxUint64, r.Uint64()} {
			c.policy.Rand = word(u)
			var deadline time.Time
			got := c.policy.Decide(c.state, c.verdict, c.now)
			if c.bounded {
				deadline = c.now.Add(c.room)
				got = decideInCall(&c.policy, untilContext{t.Context(), deadline}, c.state, c.verdict, c.now)
			}
			want := naiveDecide(&c.policy, c.state, c.verdict, c.now, deadline, u)
			if !assert.Equal(t, want, got, "seed %d, word %#x", seed, u) {
				t.Fatalf("%+v", c)
			}
			seen[got.Stop]++
		}
	}
	for _, stop := range []retry.StopReason{
		retry.StopNone, retry.StopFinal, retry.StopAttempts, retry.StopElapsed, retry.StopDeadline, retry.StopRetryAfter, retry.StopMaybeApplied,
		retry.StopTimeout, retry.StopBackoff,
	} {
		assert.Greater(t, seen[stop], cases/50, "%v is rare: %v", stop, seen)
	}
}
