package retry_test

import (
	"encoding/json"
	"fmt"
	"math"
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
		all["k"+strconv.Itoa(i)] = retry.Override{}
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
		{"overrides that are no categories", retry.Policy{Overrides: map[string]retry.Override{
			"429": {}, "5xx": {}, "http_5xx": {}, "HTTP-503": {}, "40001": {}, "sqlstate 40P01": {}, "http_503": {}, "sql_40001": {}, "tier1": {}, "exit_75": {},
		}}, []string{
			`overrides: "40001": is no category; write "sql_40001"`, `overrides: "429": is no category; write "http_429"`,
			`overrides: "5xx": is no category; write each status, such as "http_500", or a class`,
			`overrides: "HTTP-503": is no category; write "http_503"`,
			`overrides: "http_5xx": is no category; write each status, such as "http_500", or a class`,
			`overrides: "sqlstate 40P01": is no category; write "sql_40P01"`,
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
