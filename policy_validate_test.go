package retry_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
)

// A key that can only be a misspelled class would be a category that no failure has.
func TestValidateMisspelledClass(t *testing.T) {
	t.Parallel()
	const rest = `, or "unknown", "retryable", "rate_limited", "pending", or a category`
	for key, class := range map[string]string{
		"ratelimited": "rate_limited", "RateLimited": "rate_limited", "RATE_LIMITED": "rate_limited",
		"rate-limited": "rate_limited", "rate limited": "rate_limited", "rate_limitted": "rate_limited",
		"Unknown": "unknown", "UNKNOWN": "unknown", "unknow": "unknown", "unknonw": "unknown",
		"Retryable": "retryable", "retriable": "retryable", "retrayble": "retryable", "retryable ": "retryable",
		"Pending": "pending", "pendign": "pending", "pendi\nng": "pending",
	} {
		p := &retry.Policy{Overrides: map[string]retry.Override{key: {MaxAttempts: 1}}}
		want := "retry: invalid policy: overrides: " + strconv.Quote(key) + ": is no class; write " + strconv.Quote(class) + rest
		require.EqualError(t, p.Validate(), want)
		text, err := json.Marshal(map[string]any{"overrides": map[string]any{key: map[string]any{"max_attempts": 1}}})
		require.NoError(t, err)
		require.EqualError(t, json.Unmarshal(text, new(retry.Policy)), want)
	}
	for _, key := range []string{"Final", "FINAL", "fianl"} {
		p := &retry.Policy{Overrides: map[string]retry.Override{key: {}}}
		require.EqualError(t, p.Validate(), `retry: invalid policy: overrides: "`+key+`": final errors are not retried`)
	}
	for _, key := range []string{
		"unknown", "retryable", "rate_limited", "pending", // as they are
		"timeout", "http_429", "rate_limit", "sending", "spending", "known", "retry", "transient", "é", "-", "r",
		strings.Repeat("pending", 1_000_000),
	} {
		require.NoError(t, (&retry.Policy{Overrides: map[string]retry.Override{key: {}}}).Validate(), "%.20s", key)
	}
}

func manyOverrides(n int) map[string]retry.Override {
	all := map[string]retry.Override{}
	for i := range n {
		all[strconv.Itoa(i)] = retry.Override{}
	}
	return all
}

// assertFaults compares everything that is reported, in its order.
func assertFaults(t *testing.T, faults []string, err error) {
	t.Helper()
	if len(faults) == 0 {
		assert.NoError(t, err)
		return
	}
	assert.EqualError(t, err, "retry: invalid policy: "+strings.Join(faults, "\n"))
}

func TestValidate(t *testing.T) {
	t.Parallel()
	nan, inf := math.NaN(), math.Inf(1)
	const us, s = time.Microsecond, time.Second
	tiny := func(n int) string {
		return fmt.Sprintf("%dns: is less than a microsecond; write %[1]d * time.Second or %[1]d * time.Millisecond", n)
	}
	override := func(o retry.Override) map[string]retry.Override {
		return map[string]retry.Override{"timeout": o}
	}
	tests := []struct {
		name   string
		policy retry.Policy
		faults []string
	}{
		{"zero", retry.Policy{}, nil},
		{"everything", retry.Policy{
			Name: "a", MaxAttempts: 1, MaxElapsed: us, AttemptTimeout: us, Timeout: us, ResetAfter: us,
			Backoff: retry.Exponential{Initial: us, Multiplier: 1}, MaxDelay: us, Jitter: retry.Proportional(1),
			MaxRetryAfter: us, FreeRateLimits: 1, NonIdempotent: true,
			Overrides: map[string]retry.Override{"unknown": {MaxAttempts: 1}, "x": {}},
			Budget:    &retry.Budget{Ratio: 1, TTL: us, Reserve: 1},
		}, nil},
		{"without units", retry.Policy{
			MaxElapsed: 1, AttemptTimeout: 2, Timeout: 3, ResetAfter: 4, MaxDelay: 500, MaxRetryAfter: 999,
			Backoff: retry.Linear{Initial: 5, Step: 6}, Jitter: retry.PlusMinus(7),
			Overrides: map[string]retry.Override{
				"a": {MaxDelay: 8, Backoff: retry.Exponential{Initial: 5}},
				"b": {Backoff: retry.Fibonacci{Initial: 9}},
				"c": {Backoff: retry.Constant(10)},
				"d": {Backoff: retry.Schedule{0, 20, us, 30}, MaxDelay: s},
			},
			Budget: &retry.Budget{TTL: 11},
		}, []string{
			`max_elapsed: ` + tiny(1), `attempt_timeout: ` + tiny(2), `timeout: ` + tiny(3), `reset_after: ` + tiny(4),
			`max_delay: ` + tiny(500), `max_retry_after: ` + tiny(999),
			`backoff.linear.initial: ` + tiny(5), `backoff.linear.step: ` + tiny(6), `jitter.plus_minus: ` + tiny(7),
			`overrides.a.max_delay: ` + tiny(8), `overrides.a.backoff.exponential.initial: ` + tiny(5),
			`overrides.b.backoff.fibonacci.initial: ` + tiny(9), `overrides.c.backoff.constant: ` + tiny(10),
			`overrides.d.backoff.schedule[1]: ` + tiny(20), `overrides.d.backoff.schedule[3]: ` + tiny(30),
			`budget.ttl: ` + tiny(11),
		}},
		{"unlimited", retry.Policy{MaxAttempts: retry.Unlimited, FreeRateLimits: math.MaxInt, MaxDelay: longestWait}, nil},

		{"attempts", retry.Policy{MaxAttempts: -3}, []string{`max_attempts: -3: must be at least 1, or 0 for the default`}},
		{"elapsed", retry.Policy{MaxElapsed: -s}, []string{`max_elapsed: -1s: must not be negative`}},
		{"timeout", retry.Policy{AttemptTimeout: -s}, []string{`attempt_timeout: -1s: must not be negative`}},
		{"delay", retry.Policy{MaxDelay: math.MinInt64}, []string{`max_delay: -2562047h47m16.854775808s: must not be negative`}},
		{"hint", retry.Policy{MaxRetryAfter: -s}, []string{`max_retry_after: -1s: must not be negative`}},
		{"free", retry.Policy{FreeRateLimits: -1}, []string{`free_rate_limits: -1: must not be negative`}},

		{"exponential", retry.Policy{Backoff: retry.Exponential{Initial: -s}}, []string{`backoff.exponential.initial: -1s: must not be negative`}},
		{"multiplier below 1", retry.Policy{Backoff: retry.Exponential{Multiplier: 0.5}}, []string{
			`backoff.exponential.multiplier: 0.5: must be a number of at least 1, or 0 for the default`,
		}},
		{"multiplier negative", retry.Policy{Backoff: retry.Exponential{Multiplier: -2}}, []string{
			`backoff.exponential.multiplier: -2: must be a number of at least 1, or 0 for the default`,
		}},
		{"multiplier NaN", retry.Policy{Backoff: retry.Exponential{Multiplier: nan}}, []string{
			`backoff.exponential.multiplier: NaN: must be a number of at least 1, or 0 for the default`,
		}},
		{"multiplier infinite", retry.Policy{Backoff: retry.Exponential{Multiplier: inf}}, []string{
			`backoff.exponential.multiplier: +Inf: must be a number of at least 1, or 0 for the default`,
		}},
		{"multiplier huge", retry.Policy{Backoff: retry.Exponential{Multiplier: math.MaxFloat64}}, nil},
		{"linear", retry.Policy{Backoff: retry.Linear{Initial: -1, Step: -2}}, []string{
			`backoff.linear.initial: -1ns: must not be negative`,
			`backoff.linear.step: -2ns: must not be negative`,
		}},
		{"fibonacci", retry.Policy{Backoff: retry.Fibonacci{Initial: -1}}, []string{`backoff.fibonacci.initial: -1ns: must not be negative`}},
		{"constant", retry.Policy{Backoff: retry.Constant(-1)}, []string{`backoff.constant: -1ns: must not be negative`}},
		{"constant 0", retry.Policy{Backoff: retry.Constant(0)}, nil},
		{"schedule", retry.Policy{Backoff: retry.Schedule{0, -1, s, -s}}, []string{
			`backoff.schedule[1]: -1ns: must not be negative`,
			`backoff.schedule[3]: -1s: must not be negative`,
		}},
		{"empty schedule", retry.Policy{Backoff: retry.Schedule{}}, nil},

		{"fraction negative", retry.Policy{Jitter: retry.Proportional(-0.1)}, []string{`jitter.proportional: -0.1: must be a fraction from 0 to 1`}},
		{"fraction above 1", retry.Policy{Jitter: retry.Proportional(1.01)}, []string{`jitter.proportional: 1.01: must be a fraction from 0 to 1`}},
		{"fraction NaN", retry.Policy{Jitter: retry.Proportional(nan)}, []string{`jitter.proportional: NaN: must be a fraction from 0 to 1`}},
		{"fraction infinite", retry.Policy{Jitter: retry.Proportional(inf)}, []string{`jitter.proportional: +Inf: must be a fraction from 0 to 1`}},
		{"spread", retry.Policy{Jitter: retry.PlusMinus(-s)}, []string{`jitter.plus_minus: -1s: must not be negative`}},
		{"no jitter", retry.Policy{Jitter: retry.NoJitter}, nil},

		{"first delay at the cap", retry.Policy{Backoff: retry.Exponential{Initial: s}, MaxDelay: s}, nil},
		{"first delay above the cap", retry.Policy{Backoff: retry.Exponential{Initial: s + 1}, MaxDelay: s}, []string{
			`backoff.exponential.initial: 1.000000001s: is above max_delay 1s`,
		}},
		{"first linear delay above the cap", retry.Policy{Backoff: retry.Linear{Initial: 2 * s}, MaxDelay: s}, []string{
			`backoff.linear.initial: 2s: is above max_delay 1s`,
		}},
		{"first fibonacci delay above the cap", retry.Policy{Backoff: retry.Fibonacci{Initial: 2 * s}, MaxDelay: s}, []string{
			`backoff.fibonacci.initial: 2s: is above max_delay 1s`,
		}},
		{"constant above the cap", retry.Policy{Backoff: retry.Constant(2 * s), MaxDelay: s}, []string{
			`backoff.constant: 2s: is above max_delay 1s`,
		}},
		{"a long schedule", retry.Policy{Backoff: make(retry.Schedule, 1000)}, nil},
		{"a schedule that is too long", retry.Policy{Backoff: make(retry.Schedule, 1001)}, []string{
			`backoff.schedule: 1001: must have at most 1000 waits`,
		}},
		{"an override's schedule that is too long", retry.Policy{Overrides: map[string]retry.Override{"timeout": {Backoff: make(retry.Schedule, 1_000_000)}}}, []string{
			`overrides.timeout.backoff.schedule: 1000000: must have at most 1000 waits`,
		}},
		{"many overrides", retry.Policy{Overrides: manyOverrides(1000)}, nil},
		{"too many overrides", retry.Policy{Overrides: manyOverrides(1001)}, []string{`overrides: 1001: must have at most 1000`}},
		{"schedule above the cap", retry.Policy{Backoff: retry.Schedule{s, 3 * s}, MaxDelay: s}, []string{
			`backoff.schedule[1]: 3s: is above max_delay 1s`,
		}},
		{"second delay above the cap", retry.Policy{Backoff: retry.Exponential{Initial: s}, MaxDelay: s + 1}, nil},

		{"override attempts", retry.Policy{Overrides: override(retry.Override{MaxAttempts: -1})}, []string{
			`overrides.timeout.max_attempts: -1: must be at least 1, or 0 for the policy's`,
		}},
		{"override delay", retry.Policy{Overrides: override(retry.Override{MaxDelay: -s})}, []string{
			`overrides.timeout.max_delay: -1s: must not be negative`,
		}},
		{"override backoff", retry.Policy{Overrides: override(retry.Override{Backoff: retry.Constant(-s)})}, []string{
			`overrides.timeout.backoff.constant: -1s: must not be negative`,
		}},
		{"override jitter", retry.Policy{Overrides: override(retry.Override{Jitter: retry.Proportional(2)})}, []string{
			`overrides.timeout.jitter.proportional: 2: must be a fraction from 0 to 1`,
		}},
		{"override backoff above its cap", retry.Policy{Overrides: override(retry.Override{Backoff: retry.Constant(2 * s), MaxDelay: s})}, []string{
			`overrides.timeout.backoff.constant: 2s: is above max_delay 1s`,
		}},
		{"override backoff above the policy's cap", retry.Policy{MaxDelay: s, Overrides: override(retry.Override{Backoff: retry.Constant(2 * s)})}, []string{
			`overrides.timeout.backoff.constant: 2s: is above max_delay 1s`,
		}},
		{"override backoff under a cap of its own", retry.Policy{MaxDelay: s, Overrides: override(retry.Override{Backoff: retry.Constant(2 * s), MaxDelay: 3 * s})}, nil},
		{"override without a kind", retry.Policy{Overrides: map[string]retry.Override{"": {}}}, []string{`overrides: "": needs a category or a class`}},
		{"override of final", retry.Policy{Overrides: map[string]retry.Override{"final": {}}}, []string{`overrides: final: final errors are not retried`}},

		{"budget", retry.Policy{Budget: &retry.Budget{}}, nil},
		{"budget without reserve", retry.Policy{Budget: &retry.Budget{Reserve: retry.NoReserve}}, nil},
		{"budget ratio", retry.Policy{Budget: &retry.Budget{Ratio: 1.5}}, []string{`budget.ratio: 1.5: must be a fraction from 0 to 1`}},
		{"budget ratio negative", retry.Policy{Budget: &retry.Budget{Ratio: -0.5}}, []string{`budget.ratio: -0.5: must be a fraction from 0 to 1`}},
		{"budget ratio NaN", retry.Policy{Budget: &retry.Budget{Ratio: nan}}, []string{`budget.ratio: NaN: must be a fraction from 0 to 1`}},
		{"budget ratio least", retry.Policy{Budget: &retry.Budget{Ratio: 1e-9}}, nil},
		{"budget ratio too small", retry.Policy{Budget: &retry.Budget{Ratio: 9e-10}}, []string{`budget.ratio: 9e-10: must be at least 1e-09, or 0 for the default`}},
		{"budget ratio smallest", retry.Policy{Budget: &retry.Budget{Ratio: math.SmallestNonzeroFloat64}}, []string{`budget.ratio: 5e-324: must be at least 1e-09, or 0 for the default`}},
		{"budget TTL", retry.Policy{Budget: &retry.Budget{TTL: -s}}, []string{`budget.ttl: -1s: must not be negative`}},
		{"budget reserve", retry.Policy{Budget: &retry.Budget{Reserve: -2}}, []string{`budget.reserve: -2: must not be negative, or NoReserve`}},

		{"custom types", retry.Policy{Backoff: constantOfUser{}, Jitter: jitterOfUser{}, MaxDelay: s}, nil},
		{"custom types in an override", retry.Policy{Overrides: override(retry.Override{Backoff: constantOfUser{}, Jitter: jitterOfUser{}})}, nil},

		{"several", retry.Policy{
			MaxAttempts: -1, FreeRateLimits: -1, MaxElapsed: -s, Backoff: retry.Linear{Step: -s}, Jitter: retry.PlusMinus(-s),
			Overrides: map[string]retry.Override{"b": {MaxAttempts: -1}, "a": {MaxDelay: -1}, "final": {}},
			Budget:    &retry.Budget{Ratio: 2, Reserve: -2},
		}, []string{
			`max_attempts: -1: must be at least 1, or 0 for the default`,
			`max_elapsed: -1s: must not be negative`,
			`free_rate_limits: -1: must not be negative`,
			`backoff.linear.step: -1s: must not be negative`,
			`jitter.plus_minus: -1s: must not be negative`,
			`overrides.a.max_delay: -1ns: must not be negative`,
			`overrides.b.max_attempts: -1: must be at least 1, or 0 for the policy's`,
			`overrides: final: final errors are not retried`,
			`budget.ratio: 2: must be a fraction from 0 to 1`,
			`budget.reserve: -2: must not be negative, or NoReserve`,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for range 5 { // Overrides is a map
				assertFaults(t, tt.faults, tt.policy.Validate())
			}
			assertFaults(t, tt.faults, retry.Limits{}.Check(&tt.policy))
		})
	}
}

// TestValidateOverrideCap checks that the cap of an override below the first
// delay of the policy's backoff is found, with the value that is at fault.
func TestValidateOverrideCap(t *testing.T) {
	t.Parallel()
	p := &retry.Policy{
		Backoff:   retry.Exponential{Initial: 10 * time.Second},
		Overrides: map[string]retry.Override{"timeout": {MaxDelay: 5 * time.Second}},
	}
	err := p.Validate()
	require.ErrorContains(t, err, "overrides.timeout.max_delay: 5s: ")
	assert.ErrorContains(t, err, "10s")
}

// TestValidateDefaultBackoff checks that a low cap alone is valid: a first
// delay that is not set cannot contradict it. The same holds for an override.
func TestValidateDefaultBackoff(t *testing.T) {
	t.Parallel()
	low := &retry.Policy{MaxDelay: time.Second}
	assert.NoError(t, low.Validate())
	override := &retry.Policy{Overrides: map[string]retry.Override{"timeout": {MaxDelay: time.Second}}}
	assert.NoError(t, override.Validate())
}

// TestValidateFaultsAreSafe checks that a policy with faults runs within its
// documented bounds nevertheless.
func TestValidateFaultsAreSafe(t *testing.T) {
	t.Parallel()
	for _, b := range manyBackoffs() {
		for _, j := range manyJitters() {
			p := &retry.Policy{MaxAttempts: -1, MaxElapsed: -1, MaxDelay: -1, Backoff: b, Jitter: j, FreeRateLimits: -1, Rand: word(largestWord)}
			d := decided(p, 0, retryable)
			if !d.Retry || d.Delay < 0 || d.Limit != 3 {
				t.Fatalf("%#v, %v: %+v", b, j, d)
			}
		}
	}
}

func TestLimitsCheck(t *testing.T) {
	t.Parallel()
	const s = time.Second
	overrides := func(o retry.Override) map[string]retry.Override {
		return map[string]retry.Override{"timeout": o}
	}
	tests := []struct {
		name   string
		limits retry.Limits
		policy retry.Policy
		faults []string
	}{
		{"no bounds", retry.Limits{}, retry.Policy{MaxAttempts: retry.Unlimited, MaxDelay: longestWait, MaxRetryAfter: longestWait}, nil},
		{"negative bounds are none", retry.Limits{MaxAttempts: -1, MaxDelay: -1, MaxElapsed: -1, MaxRetryAfter: -1}, retry.Policy{MaxAttempts: retry.Unlimited}, nil},

		{"attempts at the bound", retry.Limits{MaxAttempts: 5}, retry.Policy{MaxAttempts: 5}, nil},
		{"attempts", retry.Limits{MaxAttempts: 5}, retry.Policy{MaxAttempts: 6}, []string{`max_attempts: 6: must be at most 5`}},
		{"unlimited attempts", retry.Limits{MaxAttempts: 5}, retry.Policy{MaxAttempts: retry.Unlimited}, []string{`max_attempts: unlimited: must be at most 5`}},
		{"no larger bound", retry.Limits{MaxAttempts: math.MaxInt - 1}, retry.Policy{MaxAttempts: retry.Unlimited}, []string{
			`max_attempts: unlimited: must be at most ` + strconv.Itoa(math.MaxInt-1),
		}},
		{"default attempts", retry.Limits{MaxAttempts: 3}, retry.Policy{}, nil},
		{"default attempts above", retry.Limits{MaxAttempts: 2}, retry.Policy{}, []string{`max_attempts: 3: must be at most 2`}},
		{"override's attempts", retry.Limits{MaxAttempts: 5}, retry.Policy{Overrides: overrides(retry.Override{MaxAttempts: 6})}, []string{
			`overrides.timeout.max_attempts: 6: must be at most 5`,
		}},
		{"override's unlimited attempts", retry.Limits{MaxAttempts: 5}, retry.Policy{Overrides: overrides(retry.Override{MaxAttempts: retry.Unlimited})}, []string{
			`overrides.timeout.max_attempts: unlimited: must be at most 5`,
		}},
		{"both attempts", retry.Limits{MaxAttempts: 5}, retry.Policy{MaxAttempts: 7, Overrides: overrides(retry.Override{MaxAttempts: 6})}, []string{
			`max_attempts: 7: must be at most 5`, `overrides.timeout.max_attempts: 6: must be at most 5`,
		}},
		{"free rate limits", retry.Limits{MaxAttempts: 5}, retry.Policy{FreeRateLimits: 2}, nil},
		{"free rate limits above", retry.Limits{MaxAttempts: 5}, retry.Policy{FreeRateLimits: 3}, []string{
			`free_rate_limits: 3: with max_attempts 3, must make at most 5 calls`,
		}},
		{"free rate limits far above", retry.Limits{MaxAttempts: 5}, retry.Policy{FreeRateLimits: math.MaxInt}, []string{
			`free_rate_limits: ` + strconv.Itoa(math.MaxInt) + `: with max_attempts 3, must make at most 5 calls`,
		}},
		{"free rate limits with an override", retry.Limits{MaxAttempts: 5}, retry.Policy{FreeRateLimits: 2, Overrides: overrides(retry.Override{MaxAttempts: 4})}, []string{
			`free_rate_limits: 2: with overrides.timeout.max_attempts 4, must make at most 5 calls`,
		}},

		{"delay at the bound", retry.Limits{MaxDelay: 10 * s}, retry.Policy{MaxDelay: 10 * s}, nil},
		{"delay", retry.Limits{MaxDelay: 10 * s}, retry.Policy{MaxDelay: 11 * s}, []string{`max_delay: 11s: must be at most 10s`}},
		{"default delay", retry.Limits{MaxDelay: 10 * s}, retry.Policy{}, []string{`max_delay: 30s: must be at most 10s`}},
		{"long first delay", retry.Limits{MaxDelay: 40 * s}, retry.Policy{Backoff: retry.Exponential{Initial: 50 * s}}, []string{`max_delay: 50s: must be at most 40s`}},
		{"constant", retry.Limits{MaxDelay: 40 * s}, retry.Policy{Backoff: retry.Constant(40 * s)}, nil},
		{"constant above", retry.Limits{MaxDelay: 40 * s}, retry.Policy{Backoff: retry.Constant(50 * s)}, []string{`max_delay: 50s: must be at most 40s`}},
		{"schedule", retry.Limits{MaxDelay: 40 * s}, retry.Policy{Backoff: retry.Schedule{s, 50 * s, s}}, []string{`max_delay: 50s: must be at most 40s`}},
		{"custom", retry.Limits{MaxDelay: 30 * s}, retry.Policy{Backoff: constantOfUser{}}, nil},
		{"override's delay", retry.Limits{MaxDelay: 40 * s}, retry.Policy{Overrides: overrides(retry.Override{MaxDelay: 50 * s})}, []string{
			`overrides.timeout.max_delay: 50s: must be at most 40s`,
		}},
		{"override's long first delay", retry.Limits{MaxDelay: 40 * s}, retry.Policy{Overrides: overrides(retry.Override{Backoff: retry.Linear{Initial: 50 * s}})}, []string{
			`overrides.timeout.max_delay: 50s: must be at most 40s`,
		}},
		{"override's schedule", retry.Limits{MaxDelay: 40 * s}, retry.Policy{Overrides: overrides(retry.Override{Backoff: retry.Schedule{50 * s}})}, []string{
			`overrides.timeout.max_delay: 50s: must be at most 40s`,
		}},
		{"override within the policy's cap", retry.Limits{MaxDelay: 40 * s}, retry.Policy{MaxDelay: 40 * s, Overrides: overrides(retry.Override{Backoff: retry.Exponential{Initial: 2 * s}})}, nil},
		{"override that drops the constant", retry.Limits{MaxDelay: 5 * s}, retry.Policy{Backoff: retry.Constant(s), Overrides: overrides(retry.Override{Backoff: retry.Exponential{}})}, []string{
			`overrides.timeout.max_delay: 30s: must be at most 5s`,
		}},

		{"elapsed at the bound", retry.Limits{MaxElapsed: time.Hour}, retry.Policy{MaxElapsed: time.Hour}, nil},
		{"elapsed", retry.Limits{MaxElapsed: time.Hour}, retry.Policy{MaxElapsed: 2 * time.Hour}, []string{`max_elapsed: 2h0m0s: must be at most 1h0m0s`}},
		{"no elapsed", retry.Limits{MaxElapsed: time.Hour}, retry.Policy{}, []string{`max_elapsed: none: must be at most 1h0m0s`}},

		{"hint at the bound", retry.Limits{MaxRetryAfter: time.Hour}, retry.Policy{MaxRetryAfter: time.Hour}, nil},
		{"hint", retry.Limits{MaxRetryAfter: time.Hour}, retry.Policy{MaxRetryAfter: 2 * time.Hour}, []string{`max_retry_after: 2h0m0s: must be at most 1h0m0s`}},
		{"default hint", retry.Limits{MaxRetryAfter: s}, retry.Policy{}, []string{`max_retry_after: 1m0s: must be at most 1s`}},
		{"default hint of a long cap", retry.Limits{MaxRetryAfter: time.Hour}, retry.Policy{MaxDelay: 2 * time.Hour}, []string{`max_retry_after: 2h0m0s: must be at most 1h0m0s`}},

		{"all", retry.Limits{MaxAttempts: 1, MaxDelay: 1, MaxElapsed: 1, MaxRetryAfter: 1}, retry.Policy{}, []string{
			`max_attempts: 3: must be at most 1`,
			`max_delay: 30s: must be at most 1ns`,
			`max_elapsed: none: must be at most 1ns`,
			`max_retry_after: 1m0s: must be at most 1ns`,
		}},
		{"with faults", retry.Limits{MaxAttempts: 2}, retry.Policy{MaxAttempts: -1, Jitter: retry.Proportional(2)}, []string{
			`max_attempts: -1: must be at least 1, or 0 for the default`,
			`jitter.proportional: 2: must be a fraction from 0 to 1`,
			`max_attempts: 3: must be at most 2`,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			assertFaults(t, tt.faults, tt.limits.Check(&tt.policy))
		})
	}
}

// TestLimitsCheckOverrideHint checks that an override whose cap makes longer
// hints acceptable is found, because the decider waits for them.
func TestLimitsCheckOverrideHint(t *testing.T) {
	t.Parallel()
	p := &retry.Policy{Overrides: map[string]retry.Override{"http_429": {MaxDelay: 2 * time.Hour}}}
	v := retry.Verdict{Class: retry.RateLimited, Category: "http_429", After: 90 * time.Minute}
	require.True(t, decided(p, 0, v).Retry, "the hint is waited for")
	assert.ErrorContains(t, retry.Limits{MaxRetryAfter: time.Hour}.Check(p), "max_retry_after: 2h0m0s: must be at most 1h0m0s")
	assert.NoError(t, retry.Limits{MaxRetryAfter: 2 * time.Hour}.Check(p))
}

func TestLimitsCheckNil(t *testing.T) {
	t.Parallel()
	assert.NoError(t, retry.Limits{MaxAttempts: 3, MaxDelay: 30 * time.Second, MaxRetryAfter: time.Minute}.Check(nil))
	assertFaults(t, []string{`max_attempts: 3: must be at most 2`}, retry.Limits{MaxAttempts: 2}.Check(nil))
	assertFaults(t, []string{`max_elapsed: none: must be at most 1s`}, retry.Limits{MaxElapsed: time.Second}.Check(nil))
}

// TestLimitsHold checks that a policy that passes the check keeps the bounds,
// whatever happens.
func TestLimitsHold(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(12, 48))
	passed := 0
	for range 10_000 {
		p := randomPolicy(r)
		limits := retry.Limits{
			MaxAttempts:   sometimes(r, func(r *rand.Rand) int { return 1 + int(r.Uint64()%2000) }),
			MaxDelay:      sometimes(r, randomDuration),
			MaxElapsed:    sometimes(r, randomDuration),
			MaxRetryAfter: sometimes(r, randomDuration),
		}
		if limits.Check(&p) != nil {
			continue
		}
		passed++
		kinds := []string{"", "none of them"}
		for kind := range p.Overrides {
			kinds = append(kinds, kind)
		}
		for _, kind := range kinds {
			s := retry.State{Failures: int(r.Uint64() % 2000), RateLimited: int(r.Uint64() % 2000), First: firstAttempt}
			v := retry.Verdict{Class: retry.Retryable, Category: kind, NotApplied: true}
			at := firstAttempt.Add(sometimes(r, randomDuration))
			d := p.Decide(s, v, at)
			if d.Retry && limits.MaxDelay > 0 {
				assert.LessOrEqual(t, d.Delay, limits.MaxDelay, "%+v: %v", limits, p)
			}
			if d.Retry && limits.MaxElapsed > 0 {
				assert.LessOrEqual(t, d.At.Sub(firstAttempt), limits.MaxElapsed, "%+v: %v", limits, p)
			}
			if limits.MaxAttempts > 0 {
				assert.LessOrEqual(t, d.Limit+p.FreeRateLimits, limits.MaxAttempts, "%+v: %v", limits, p)
			}
			v.Class, v.After = retry.RateLimited, randomDuration(r)
			d = p.Decide(s, v, firstAttempt)
			if d.Retry && limits.MaxRetryAfter > 0 {
				assert.LessOrEqual(t, v.After, limits.MaxRetryAfter, "%+v: %v", limits, p)
			}
		}
		if t.Failed() {
			break
		}
	}
	assert.Greater(t, passed, 500, "policies that passed")
}
