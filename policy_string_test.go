package retry_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry"
)

func TestPolicyString(t *testing.T) {
	t.Parallel()
	const s = time.Second
	tests := []struct {
		policy retry.Policy
		want   string
	}{
		{retry.Policy{}, "3 attempts, 2s ×2 ≤30s, full jitter: waits 0–2s, 0–4s"},
		{
			retry.Policy{Backoff: retry.Exponential{Initial: 1687500 * time.Microsecond}, Jitter: retry.Proportional(0.5)},
			"3 attempts, 1.6875s ×2 ≤30s, ±50% jitter: waits 844ms–2.53s, 1.69s–5.06s",
		},
		{retry.Policy{Name: "payments"}, "payments: 3 attempts, 2s ×2 ≤30s, full jitter: waits 0–2s, 0–4s"},
		{retry.Policy{MaxAttempts: 1}, "1 attempt"},
		{retry.Policy{MaxAttempts: 1, MaxElapsed: time.Minute, Name: "once"}, "once: 1 attempt within 1m0s"},
		{retry.Policy{MaxAttempts: 2}, "2 attempts, 2s ×2 ≤30s, full jitter: waits 0–2s"},
		{retry.Policy{MaxAttempts: -7}, "3 attempts, 2s ×2 ≤30s, full jitter: waits 0–2s, 0–4s"},
		{
			retry.Policy{MaxAttempts: 6},
			"6 attempts, 2s ×2 ≤30s, full jitter: waits 0–2s, 0–4s, 0–8s, 0–16s, 0–30s",
		},
		{
			retry.Policy{MaxAttempts: 7},
			"7 attempts, 2s ×2 ≤30s, full jitter: waits 0–2s, 0–4s, 0–8s, 0–16s, 0–30s, …",
		},
		{
			retry.Policy{MaxAttempts: retry.Unlimited, MaxElapsed: time.Hour},
			"unlimited attempts within 1h0m0s, 2s ×2 ≤30s, full jitter: waits 0–2s, 0–4s, 0–8s, 0–16s, 0–30s, …",
		},
		{
			retry.Policy{Backoff: retry.Exponential{Initial: 100 * ms, Multiplier: 3}, MaxDelay: s, Jitter: retry.EqualJitter, MaxAttempts: 5},
			"5 attempts, 100ms ×3 ≤1s, equal jitter: waits 50ms–100ms, 150ms–300ms, 450ms–900ms, 500ms–1s",
		},
		{
			retry.Policy{Backoff: retry.Linear{Initial: s, Step: 500 * ms}, Jitter: retry.NoJitter},
			"3 attempts, 1s +500ms ≤30s, no jitter: waits 1s, 1.5s",
		},
		{
			retry.Policy{Backoff: retry.Fibonacci{Initial: s}, Jitter: retry.PlusMinus(2 * s), MaxAttempts: 5},
			"5 attempts, fibonacci 1s ≤30s, ±2s jitter: waits 0–3s, 0–3s, 0–4s, 1s–5s",
		},
		{
			retry.Policy{Backoff: retry.Constant(10 * s)},
			"3 attempts, constant 10s, ±10% jitter: waits 9s–11s, 9s–11s",
		},
		{
			retry.Policy{Backoff: retry.Constant(10 * s), MaxDelay: 20 * s},
			"3 attempts, constant 10s ≤20s, ±10% jitter: waits 9s–11s, 9s–11s",
		},
		{
			retry.Policy{Backoff: retry.Constant(0)},
			"3 attempts, constant 0s, ±10% jitter: waits 0s, 0s",
		},
		{
			retry.Policy{Backoff: retry.Schedule{s, 5 * s, 30 * s}, MaxAttempts: 4},
			"4 attempts, schedule 1s, 5s, 30s, ±10% jitter: waits 900ms–1.1s, 4.5s–5.5s, 27s–33s",
		},
		{
			retry.Policy{Backoff: retry.Schedule{}},
			"3 attempts, 2s ×2 ≤30s, full jitter: waits 0–2s, 0–4s",
		},
		{
			retry.Policy{Backoff: retry.Exponential{Initial: time.Hour}},
			"3 attempts, 1h0m0s ×2 ≤1h0m0s, full jitter: waits 0–1h0m0s, 0–1h0m0s",
		},
		{
			retry.Policy{MaxAttempts: 2, MaxDelay: s},
			"2 attempts, 2s ×2 ≤1s, full jitter: waits 0–1s",
		},
	}
	for _, tt := range tests {
		t.Run(tt.want, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tt.want, tt.policy.String())
			assert.Equal(t, tt.want, fmt.Sprint(tt.policy), "printed by value")
			assert.Equal(t, tt.want, fmt.Sprint(&tt.policy), "printed by pointer")
		})
	}
}

// TestPolicyStringOfAnything checks that no setting makes the text panic or run
// on. All settings are shown.
func TestPolicyStringSaysAll(t *testing.T) {
	t.Parallel()
	p := retry.Policy{
		Name: "task", MaxAttempts: 2, MaxElapsed: time.Hour, AttemptTimeout: 10 * time.Second, Timeout: time.Minute,
		ResetAfter: 30 * time.Second, MaxRetryAfter: 2 * time.Minute, FreeRateLimits: 9, NonIdempotent: true,
		Overrides: map[string]retry.Override{
			"unknown": {MaxAttempts: 1},
			"busy":    {MaxAttempts: 5, Backoff: retry.Constant(time.Second), MaxDelay: time.Second, Jitter: retry.NoJitter},
			"a":       {},
		},
	}
	assert.Equal(t, "task: 2 attempts within 1h0m0s, 2s ×2 ≤30s, full jitter: waits 0–2s; attempt timeout 10s; timeout 1m0s; "+
		"reset after 30s; hints ≤2m0s; 9 free rate limits; only what is not applied; a: as the policy; "+
		"busy: 5 attempts, constant 1s, ≤1s, no jitter; unknown: 1 attempt", p.String())
}

func TestPolicyStringOfAnything(t *testing.T) {
	t.Parallel()
	for _, b := range manyBackoffs() {
		for _, j := range manyJitters() {
			s := retry.Policy{Backoff: b, Jitter: j, MaxAttempts: retry.Unlimited, MaxElapsed: -1, MaxDelay: -1}.String()
			if len(s) > 1000 {
				t.Fatalf("%d bytes: %s", len(s), s)
			}
		}
	}
	custom := retry.Policy{Backoff: constantOfUser{}, Jitter: jitterOfUser{}}
	assert.Equal(t, "3 attempts, {} ≤30s, {}: waits 1s, 1s", custom.String())
}

// constantOfUser and jitterOfUser are implementations without a text.
type constantOfUser struct{}

func (constantOfUser) Delay(int) time.Duration { return time.Second }

type jitterOfUser struct{}

func (jitterOfUser) Apply(d, _ time.Duration, _ uint64) time.Duration { return d }
