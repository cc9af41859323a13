package promises_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

// peerHint is an error of another library that carries a hint.
type peerHint time.Duration

func (e peerHint) Error() string { return "slow down" }

func (e peerHint) RetryAfter() time.Duration { return time.Duration(e) }

// hinted are the ways in which a hint reaches a policy.
func hinted(hint time.Duration) map[string]retry.Verdict {
	p := &retry.Policy{Classifier: func(error) retry.Verdict {
		return retry.Verdict{Class: retry.RateLimited, After: hint}
	}}
	return map[string]retry.Verdict{
		"marked":     retry.Classify(retry.MarkRateLimited(testkit.ErrPeer, hint)),
		"method":     retry.Classify(peerHint(hint)),
		"classifier": p.Classify(testkit.ErrPeer),
	}
}

// T-09.
func TestNoHintIsNoHint(t *testing.T) {
	t.Parallel()
	for _, hint := range []time.Duration{0, -1, -time.Second, -24 * 365 * time.Hour, math.MinInt64} {
		for name, v := range hinted(hint) {
			t.Run(fmt.Sprintf("%v %s", hint, name), func(t *testing.T) {
				t.Parallel()
				p := &retry.Policy{Jitter: retry.NoJitter, FreeRateLimits: 10, MaxElapsed: time.Hour}
				now := time.Unix(1000, 0)
				s := retry.State{First: now}
				for _, want := range []time.Duration{2 * time.Second, 4 * time.Second} {
					d := p.Decide(s, v, now)
					require.True(t, d.Retry)
					assert.Equal(t, want, d.Delay, "the backoff, neither at once nor the longest")
					assert.Equal(t, now.Add(want), d.At.Add(0))
					assert.True(t, d.Counted, "an ordinary failure")
					assert.Zero(t, d.Verdict.After)
					s = d.State
				}
				d := p.Decide(s, v, now)
				assert.Equal(t, retry.StopAttempts, d.Stop)
			})
		}
	}
	t.Run("slept", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			p := &retry.Policy{Jitter: retry.NoJitter, FreeRateLimits: 10}
			start := time.Now()
			fn, calls := testkit.Failing(retry.MarkRateLimited(testkit.ErrPeer, -time.Hour))
			err := p.Execute(t.Context(), fn)
			assert.Equal(t, 3, *calls)
			assert.Equal(t, 6*time.Second, time.Since(start))
			assert.Zero(t, testkit.As[*retry.Error](t, err).RetryAfter)
		})
	})
}

// T-39.
func TestLongHintEndsTheCall(t *testing.T) {
	t.Parallel()
	const minute, hour = time.Minute, time.Hour
	tests := []struct {
		name  string
		p     retry.Policy
		hint  time.Duration
		retry bool
	}{
		{"default limit", retry.Policy{}, minute, true},
		{"above the default", retry.Policy{}, minute + 1, false},
		{"far above", retry.Policy{}, 484289*hour + 20*minute + 8*time.Second, false},
		{"limit", retry.Policy{MaxRetryAfter: hour}, hour, true},
		{"above the limit", retry.Policy{MaxRetryAfter: hour}, hour + 1, false},
		{"a limit below the default", retry.Policy{MaxRetryAfter: time.Second}, 2 * time.Second, false},
		{"longest delay", retry.Policy{MaxDelay: 2 * hour}, 2 * hour, true},
		{"above the longest delay", retry.Policy{MaxDelay: 2 * hour}, 2*hour + 1, false},
		{"the cap on delays is none on hints", retry.Policy{MaxDelay: 2 * time.Second}, minute, true},
		{"free", retry.Policy{FreeRateLimits: 10}, minute + 1, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			now := time.Unix(1000, 0)
			for name, v := range hinted(tt.hint) {
				d := tt.p.Decide(retry.State{}, v, now)
				assert.Equal(t, tt.retry, d.Retry, name)
				assert.False(t, d.At.Before(now.Add(tt.hint)), name)
				if !tt.retry {
					assert.Equal(t, retry.StopRetryAfter, d.Stop, name)
					assert.Equal(t, tt.hint, d.Delay, name)
				} else {
					assert.LessOrEqual(t, d.Delay, tt.hint+tt.hint/10, name)
				}
			}
			synctest.Test(t, func(t *testing.T) {
				p, start := tt.p, time.Now()
				p.MaxAttempts = 2
				calls := 0
				err := p.Execute(t.Context(), func(context.Context) error {
					if calls++; calls == 2 {
						return nil
					}
					return retry.MarkRateLimited(testkit.ErrPeer, tt.hint)
				})
				if tt.retry {
					require.NoError(t, err)
					assert.GreaterOrEqual(t, time.Since(start), tt.hint)
					return
				}
				assert.Zero(t, time.Since(start), "never slept")
				assert.Equal(t, 1, calls)
				e := testkit.As[*retry.Error](t, err)
				assert.Equal(t, retry.StopRetryAfter, e.Stop)
				assert.Equal(t, tt.hint, e.RetryAfter)
				assert.ErrorIs(t, err, retry.StopRetryAfter)
				assert.ErrorIs(t, err, testkit.ErrPeer)
				assert.ErrorContains(t, err, tt.hint.String())
			})
		})
	}
}

// T-40.
func TestHintOverflow(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	for _, hint := range []time.Duration{math.MaxInt64, math.MaxInt64 - 1, math.MaxInt64 / 10 * 9, math.MaxInt64/11*10 + 11, 1 << 62} {
		for name, v := range hinted(hint) {
			t.Run(fmt.Sprintf("%d %s", hint, name), func(t *testing.T) {
				t.Parallel()
				for _, p := range []retry.Policy{{}, {FreeRateLimits: 10}, {MaxRetryAfter: hint - 1}, {Jitter: retry.NoJitter}} {
					d := p.Decide(retry.State{}, v, now)
					assert.Equal(t, retry.StopRetryAfter, d.Stop, "too long, not 0")
					assert.Equal(t, hint, d.Delay)
					assert.True(t, d.At.After(now))
				}
				// Where it is allowed, what is added to it does not overflow.
				for _, word := range []constantWord{0, 1 << 63, ^constantWord(0)} {
					p := retry.Policy{MaxRetryAfter: math.MaxInt64, Rand: word}
					d := p.Decide(retry.State{}, v, now)
					require.True(t, d.Retry)
					assert.GreaterOrEqual(t, d.Delay, hint)
					assert.True(t, d.At.After(now))

					p.MaxElapsed = time.Hour
					d = p.Decide(retry.State{First: now}, v, now)
					assert.Equal(t, retry.StopElapsed, d.Stop)
				}
			})
		}
	}
	// The limit itself is read without overflow.
	for limit, problem := range map[string]string{
		"9223372037": "too long", "-9223372037": "too long", "9223372036.854775808": "too long", "1e30": "too long",
		"1e300": "too long", `"2562048h"`: "must be a duration", `"1e30s"`: "must be a duration",
	} {
		err := json.Unmarshal([]byte(`{"max_retry_after":`+limit+`}`), new(retry.Policy))
		assert.ErrorContains(t, err, "max_retry_after", limit)
		assert.ErrorContains(t, err, problem, limit)
	}
	var p retry.Policy
	require.NoError(t, json.Unmarshal([]byte(`{"max_retry_after":9223372036}`), &p))
	assert.Equal(t, 9223372036*time.Second, p.MaxRetryAfter)
}
