package retry_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
)

// TestPolicyJSONReading reads what MarshalJSON does not write.
func TestPolicyJSONReading(t *testing.T) {
	t.Parallel()
	tests := []struct {
		json string
		want retry.Policy
	}{
		{` {} `, retry.Policy{}},
		{`{"max_retries": 0}`, retry.Policy{MaxAttempts: 1}},
		{`{"max_retries": 4}`, retry.Policy{MaxAttempts: 5}},
		{`{"max_retries": "unlimited"}`, retry.Policy{MaxAttempts: retry.Unlimited}},
		{`{"overrides": {"unknown": {"max_retries": 0}}}`, retry.Policy{Overrides: map[string]retry.Override{"unknown": {MaxAttempts: 1}}}},

		// Durations in all spellings.
		{`{"max_delay": "1m30s"}`, retry.Policy{MaxDelay: 90 * time.Second}},
		{`{"max_delay": "1.5h"}`, retry.Policy{MaxDelay: 90 * time.Minute}},
		{`{"max_delay": "250us"}`, retry.Policy{MaxDelay: 250 * time.Microsecond}},
		{`{"max_delay": "+7s"}`, retry.Policy{MaxDelay: 7 * time.Second}},
		{`{"max_delay": 90}`, retry.Policy{MaxDelay: 90 * time.Second}},
		{`{"max_delay": 0.25}`, retry.Policy{MaxDelay: 250 * ms}},
		{`{"max_delay": 0.1}`, retry.Policy{MaxDelay: 100 * ms}},
		{`{"max_delay": 1.000000001}`, retry.Policy{MaxDelay: time.Second + 1}},
		{`{"max_delay": 1e-9}`, retry.Policy{MaxDelay: 1}},
		{`{"max_delay": 1e2}`, retry.Policy{MaxDelay: 100 * time.Second}},
		{`{"max_delay": 9000000000}`, retry.Policy{MaxDelay: 9_000_000_000 * time.Second}},
		{
			`{"backoff": {"schedule": [1, "2s", 0.5, 0, "0s", "1m"]}}`,
			retry.Policy{Backoff: retry.Schedule{time.Second, 2 * time.Second, 500 * ms, 0, 0, time.Minute}},
		},
		{`{"backoff": {"constant": 5}}`, retry.Policy{Backoff: retry.Constant(5 * time.Second)}},
		{`{"jitter": {"plus_minus": 5}}`, retry.Policy{Jitter: retry.PlusMinus(5 * time.Second)}},

		// Zeros that mean what they say.
		{`{"name": ""}`, retry.Policy{}},
		{`{"max_elapsed": 0, "attempt_timeout": "0s"}`, retry.Policy{}},
		{`{"free_rate_limits": 0}`, retry.Policy{}},
		{`{"non_idempotent": false}`, retry.Policy{}},
		{`{"backoff": {"constant": 0}}`, retry.Policy{Backoff: retry.Constant(0)}},
		{`{"backoff": {"schedule": []}}`, retry.Policy{Backoff: retry.Schedule{}}},
		{`{"jitter": {"proportional": 0}}`, retry.Policy{Jitter: retry.Proportional(0)}},
		{`{"jitter": {"plus_minus": "0"}}`, retry.Policy{Jitter: retry.PlusMinus(0)}},

		// Numbers in other spellings.
		{`{"backoff": {"exponential": {"multiplier": 25e-1}}}`, retry.Policy{Backoff: retry.Exponential{Multiplier: 2.5}}},
		{`{"jitter": {"proportional": 1e-1}}`, retry.Policy{Jitter: retry.Proportional(0.1)}},
		{`{"max_attempts": 5.0}`, retry.Policy{MaxAttempts: 5}},

		// Escapes are the same letters.
		{`{"max\u005fattempts": 5}`, retry.Policy{MaxAttempts: 5}},
		{`{"jitter": "f\u0075ll"}`, retry.Policy{Jitter: retry.FullJitter}},
		{`{"overrides": {"a.b": {}, "日本": {"max_attempts": 2}}}`, retry.Policy{Overrides: map[string]retry.Override{"a.b": {}, "日本": {MaxAttempts: 2}}}},
	}
	for _, tt := range tests {
		t.Run(tt.json, func(t *testing.T) {
			t.Parallel()
			var got retry.Policy
			require.NoError(t, json.Unmarshal([]byte(tt.json), &got))
			assert.Equal(t, tt.want, got)
		})
	}
}

// TestPolicyJSONMaxRetriesAtTheEnd checks that one more than the largest number
// is not negative.
func TestPolicyJSONMaxRetriesAtTheEnd(t *testing.T) {
	t.Parallel()
	for _, n := range []int{math.MaxInt, math.MaxInt - 1} {
		var p retry.Policy
		require.NoError(t, json.Unmarshal(fmt.Appendf(nil, `{"max_retries": %d}`, n), &p))
		assert.Equal(t, retry.Unlimited, p.MaxAttempts)
	}
}

// policyFaults are JSON forms with what is wrong with them: path, value and
// problem, all of them in one error and in a fixed order.
var policyFaults = []struct {
	json   string
	faults []string
}{
	// Explicit zeros that would mean a default.
	{`{"max_attempts": 0}`, []string{`max_attempts: 0: must be at least 1; leave it out for the default`}},
	{`{"max_delay": 0}`, []string{`max_delay: 0: must be positive; leave it out for the default`}},
	{`{"max_delay": "0s"}`, []string{`max_delay: "0s": must be positive; leave it out for the default`}},
	{`{"max_retry_after": 0.0}`, []string{`max_retry_after: 0.0: must be positive; leave it out for the default`}},
	{`{"backoff": {"exponential": {"initial": 0}}}`, []string{`backoff.exponential.initial: 0: must be positive; leave it out for the default`}},
	{`{"backoff": {"exponential": {"multiplier": 0}}}`, []string{`backoff.exponential.multiplier: 0: must be at least 1; leave it out for the default`}},
	{`{"backoff": {"linear": {"initial": 0, "step": "0"}}}`, []string{
		`backoff.linear.initial: 0: must be positive; leave it out for the default`,
		`backoff.linear.step: "0": must be positive; leave it out for the default`,
	}},
	{`{"backoff": {"fibonacci": {"initial": 1e-10}}}`, []string{`backoff.fibonacci.initial: 1e-10: is too short for a duration`}},
	{`{"overrides": {"timeout": {"max_attempts": 0}}}`, []string{`overrides.timeout.max_attempts: 0: must be at least 1; leave it out for the default`}},
	{`{"overrides": {"timeout": {"max_delay": 0}}}`, []string{`overrides.timeout.max_delay: 0: must be positive; leave it out for the default`}},

	// Negative.
	{`{"max_attempts": -1}`, []string{`max_attempts: -1: must be at least 1; leave it out for the default`}},
	{`{"max_retries": -1}`, []string{`max_retries: -1: must be at least 0; leave it out for the default`}},
	{`{"max_elapsed": -2}`, []string{`max_elapsed: -2s: must not be negative`}},
	{`{"attempt_timeout": "-1ms"}`, []string{`attempt_timeout: -1ms: must not be negative`}},
	{`{"max_delay": "-1h"}`, []string{`max_delay: -1h0m0s: must not be negative`}},
	{`{"max_retry_after": -0.5}`, []string{`max_retry_after: -500ms: must not be negative`}},
	{`{"free_rate_limits": -3}`, []string{`free_rate_limits: -3: must not be negative`}},
	{`{"backoff": {"exponential": {"initial": "-1s", "multiplier": -2}}}`, []string{
		`backoff.exponential.initial: -1s: must not be negative`,
		`backoff.exponential.multiplier: -2: must be a number of at least 1, or 0 for the default`,
	}},
	{`{"backoff": {"linear": {"initial": -1, "step": -2}}}`, []string{
		`backoff.linear.initial: -1s: must not be negative`,
		`backoff.linear.step: -2s: must not be negative`,
	}},
	{`{"backoff": {"fibonacci": {"initial": -1}}}`, []string{`backoff.fibonacci.initial: -1s: must not be negative`}},
	{`{"backoff": {"constant": -1}}`, []string{`backoff.constant: -1s: must not be negative`}},
	{`{"backoff": {"schedule": [1, -2, "3s", "-4s"]}}`, []string{
		`backoff.schedule[1]: -2s: must not be negative`,
		`backoff.schedule[3]: -4s: must not be negative`,
	}},
	{`{"jitter": {"proportional": -0.1}}`, []string{`jitter.proportional: -0.1: must be a fraction from 0 to 1`}},
	{`{"jitter": {"plus_minus": "-1s"}}`, []string{`jitter.plus_minus: -1s: must not be negative`}},

	// Out of range.
	{`{"backoff": {"exponential": {"multiplier": 0.99}}}`, []string{`backoff.exponential.multiplier: 0.99: must be a number of at least 1, or 0 for the default`}},
	{`{"jitter": {"proportional": 10}}`, []string{`jitter.proportional: 10: must be a fraction from 0 to 1`}},
	{`{"max_delay": 1e10}`, []string{`max_delay: 1e10: is too long for a duration`}},
	{`{"max_elapsed": -1e300}`, []string{`max_elapsed: -1e300: is too long for a duration`}},
	{`{"max_elapsed": 9223372036.854775808}`, []string{`max_elapsed: 9223372036.854775808: is too long for a duration`}},
	{`{"max_elapsed": 1e999}`, []string{`max_elapsed: 1e999: must be a number`}},
	{`{"jitter": {"proportional": 1e999}}`, []string{`jitter.proportional: 1e999: must be a number`}},
	{`{"max_delay": "9999999h"}`, []string{`max_delay: "9999999h": must be a duration like "1m30s", or a number of seconds`}},

	// Wrong types.
	{`{"name": 7}`, []string{`name: 7: must be a string`}},
	{`{"name": null}`, []string{`name: null: must be a string`}},
	{`{"max_attempts": "3"}`, []string{`max_attempts: "3": must be a whole number`}},
	{`{"max_attempts": 2.5}`, []string{`max_attempts: 2.5: must be a whole number`}},
	{`{"max_attempts": null}`, []string{`max_attempts: null: must be a whole number`}},
	{`{"max_attempts": true}`, []string{`max_attempts: true: must be a whole number`}},
	{`{"max_attempts": "infinite"}`, []string{`max_attempts: "infinite": must be a whole number`}},
	{`{"max_retries": [3]}`, []string{`max_retries: [3]: must be a whole number`}},
	{`{"max_elapsed": null}`, []string{`max_elapsed: null: must be a number`}},
	{`{"max_elapsed": false}`, []string{`max_elapsed: false: must be a number`}},
	{`{"max_elapsed": {"s": 1}}`, []string{`max_elapsed: {"s":1}: must be a number`}},
	{`{"max_elapsed": "soon"}`, []string{`max_elapsed: "soon": must be a duration like "1m30s", or a number of seconds`}},
	{`{"max_elapsed": "90"}`, []string{`max_elapsed: "90": must be a duration like "1m30s", or a number of seconds`}},
	{`{"max_elapsed": ""}`, []string{`max_elapsed: "": must be a duration like "1m30s", or a number of seconds`}},
	{`{"max_delay": "NaN"}`, []string{`max_delay: "NaN": must be a duration like "1m30s", or a number of seconds`}},
	{`{"free_rate_limits": 1.5}`, []string{`free_rate_limits: 1.5: must be a whole number`}},
	{`{"free_rate_limits": "unlimited"}`, []string{`free_rate_limits: "unlimited": must be a whole number`}},
	{`{"non_idempotent": 1}`, []string{`non_idempotent: 1: must be true or false`}},
	{`{"non_idempotent": "true"}`, []string{`non_idempotent: "true": must be true or false`}},
	{`{"backoff": "exponential"}`, []string{`backoff: "exponential": must be an object with one key of constant, exponential, fibonacci, linear, schedule`}},
	{`{"backoff": null}`, []string{`backoff: null: must be an object with one key of constant, exponential, fibonacci, linear, schedule`}},
	{`{"backoff": {}}`, []string{`backoff: {}: must be an object with one key of constant, exponential, fibonacci, linear, schedule`}},
	{`{"backoff": {"exponential": "1s"}}`, []string{`backoff.exponential: "1s": must be an object`}},
	{`{"backoff": {"exponential": {"multiplier": "2"}}}`, []string{`backoff.exponential.multiplier: "2": must be a number`}},
	{`{"backoff": {"schedule": "1s"}}`, []string{`backoff.schedule: "1s": must be a list of durations`}},
	{`{"backoff": {"schedule": [1, null, "x", [2]]}}`, []string{
		`backoff.schedule[1]: null: must be a number`,
		`backoff.schedule[2]: "x": must be a duration like "1m30s", or a number of seconds`,
		`backoff.schedule[3]: [2]: must be a number`,
	}},
	{`{"jitter": "half"}`, []string{`jitter: "half": must be "full", "equal", "none", or an object with one key of plus_minus, proportional`}},
	{`{"jitter": "Full"}`, []string{`jitter: "Full": must be "full", "equal", "none", or an object with one key of plus_minus, proportional`}},
	{`{"jitter": 0.1}`, []string{`jitter: 0.1: must be "full", "equal", "none", or an object with one key of plus_minus, proportional`}},
	{`{"jitter": {"proportional": "10%"}}`, []string{`jitter.proportional: "10%": must be a number`}},
	{`{"overrides": []}`, []string{`overrides: []: must be an object`}},
	{`{"overrides": {"timeout": 3}}`, []string{`overrides.timeout: 3: must be an object`}},
	{`[]`, []string{`policy: []: must be an object`}},
	{`"none"`, []string{`policy: "none": must be an object`}},
	{`3`, []string{`policy: 3: must be an object`}},
	{`true`, []string{`policy: true: must be an object`}},

	// Unknown keys.
	{`{"attempts": 3}`, []string{`attempts: 3: unknown key`}},
	{`{"MaxAttempts": 3}`, []string{`MaxAttempts: 3: unknown key`}},
	{`{"Max_attempts": 3}`, []string{`Max_attempts: 3: unknown key`}},
	{`{"": {"a": [1, 2]}}`, []string{`: {"a":[1,2]}: unknown key`}},
	{`{"clock": null, "rand": null, "budget": {}, "classifier": "x", "observer": 1}`, []string{
		`budget: {}: unknown key`, `classifier: "x": unknown key`, `clock: null: unknown key`, `observer: 1: unknown key`, `rand: null: unknown key`,
	}},
	{`{"backoff": {"decorrelated": {}}}`, []string{`backoff.decorrelated: {}: unknown key`}},
	{`{"backoff": {"exponential": {"initial": "1s", "max": "5s"}}}`, []string{`backoff.exponential.max: "5s": unknown key`}},
	{`{"backoff": {"fibonacci": {"step": 1}}}`, []string{`backoff.fibonacci.step: 1: unknown key`}},
	{`{"jitter": {"plusminus": 1}}`, []string{`jitter.plusminus: 1: unknown key`}},
	{`{"overrides": {"timeout": {"max_elapsed": 1}}}`, []string{`overrides.timeout.max_elapsed: 1: unknown key`}},

	// Repeated keys.
	{`{"max_attempts": 3, "max_attempts": 3}`, []string{`max_attempts: 3: repeated key`}},
	{`{"max_attempts": 3, "max\u005fattempts": 4}`, []string{`max_attempts: 4: repeated key`}},
	{`{"jitter": "full", "jitter": "none", "jitter": "equal"}`, []string{`jitter: "none": repeated key`, `jitter: "equal": repeated key`}},
	{`{"backoff": {"linear": {"step": 1, "step": 2}}}`, []string{`backoff.linear.step: 2: repeated key`}},
	{`{"backoff": {"constant": 1, "constant": 1}}`, []string{`backoff.constant: 1: repeated key`}},
	{`{"overrides": {"a": {}, "a": {"max_attempts": 2}}}`, []string{`overrides.a: {"max_attempts":2}: repeated key`}},

	// Contradictions.
	{`{"max_attempts": 3, "max_retries": 2}`, []string{`max_retries: 2: max_attempts and max_retries exclude each other`}},
	{`{"max_retries": "unlimited", "max_attempts": "unlimited"}`, []string{`max_retries: "unlimited": max_attempts and max_retries exclude each other`}},
	{`{"overrides": {"a": {"max_retries": 1, "max_attempts": 2}}}`, []string{`overrides.a.max_retries: 1: max_attempts and max_retries exclude each other`}},
	{`{"backoff": {"constant": "1s", "linear": {}}}`, []string{
		`backoff: {"constant":"1s","linear":{}}: must be an object with one key of constant, exponential, fibonacci, linear, schedule`,
	}},
	{`{"jitter": {"proportional": 0.1, "plus_minus": 1}}`, []string{
		`jitter: {"plus_minus":1,"proportional":0.1}: must be "full", "equal", "none", or an object with one key of plus_minus, proportional`,
	}},
	{`{"backoff": {"exponential": {"initial": "10s"}}, "max_delay": "5s"}`, []string{
		`backoff.exponential.initial: 10s: is above max_delay 5s`,
	}},
	{`{"backoff": {"linear": {"initial": "10s"}}, "max_delay": "5s"}`, []string{`backoff.linear.initial: 10s: is above max_delay 5s`}},
	{`{"backoff": {"fibonacci": {"initial": "10s"}}, "max_delay": "5s"}`, []string{`backoff.fibonacci.initial: 10s: is above max_delay 5s`}},
	{`{"backoff": {"constant": "10s"}, "max_delay": "5s"}`, []string{`backoff.constant: 10s: is above max_delay 5s`}},
	{`{"backoff": {"schedule": [1, 9, 5, 6]}, "max_delay": 5}`, []string{
		`backoff.schedule[1]: 9s: is above max_delay 5s`,
		`backoff.schedule[3]: 6s: is above max_delay 5s`,
	}},
	{`{"overrides": {"a": {"backoff": {"constant": 10}, "max_delay": 5}}}`, []string{`overrides.a.backoff.constant: 10s: is above max_delay 5s`}},
	{`{"overrides": {"a": {"backoff": {"constant": 10}}}, "max_delay": 5}`, []string{`overrides.a.backoff.constant: 10s: is above max_delay 5s`}},
	{`{"overrides": {"": {"max_attempts": 2}}}`, []string{`overrides: "": needs a category or a class`}},
	{`{"overrides": {"final": {"max_attempts": 2}}}`, []string{`overrides: final: final errors are not retried`}},

	// A fault is not reported twice, and what cannot be read is not replaced by a
	// default that is then found at fault.
	{`{"max_delay": "1s", "backoff": {"exponential": {"initial": "x"}}}`, []string{
		`backoff.exponential.initial: "x": must be a duration like "1m30s", or a number of seconds`,
	}},
	{`{"max_delay": "1s", "backoff": {"fibonacci": {"initial": 0}}}`, []string{
		`backoff.fibonacci.initial: 0: must be positive; leave it out for the default`,
	}},

	// Several at once, in the order of their paths as far as they are read.
	{
		`{"title": "x", "max_attempts": 1.5, "jitter": {"proportional": 2}, "max_delay": "-1s", "backoff": {"linear": {"steps": 1}},
		  "overrides": {"b": {"max_attempts": 0}, "a": {"jitter": 1}}}`,
		[]string{
			`backoff.linear.steps: 1: unknown key`,
			`max_attempts: 1.5: must be a whole number`,
			`overrides.a.jitter: 1: must be "full", "equal", "none", or an object with one key of plus_minus, proportional`,
			`overrides.b.max_attempts: 0: must be at least 1; leave it out for the default`,
			`title: "x": unknown key`,
			`max_delay: -1s: must not be negative`,
			`jitter.proportional: 2: must be a fraction from 0 to 1`,
		},
	},
}

func TestPolicyJSONFaults(t *testing.T) {
	t.Parallel()
	for _, tt := range policyFaults {
		t.Run(tt.json, func(t *testing.T) {
			t.Parallel()
			want := "retry: invalid policy: " + strings.Join(tt.faults, "\n")
			var p retry.Policy
			assert.EqualError(t, json.Unmarshal([]byte(tt.json), &p), want)
			assert.Equal(t, retry.Policy{}, p)
			assert.EqualError(t, p.UnmarshalJSON([]byte(tt.json)), want)
		})
	}
}

// TestPolicyJSONFaultIsShort checks that a value that somebody pasted by mistake
// does not fill the log.
func TestPolicyJSONFaultIsShort(t *testing.T) {
	t.Parallel()
	for _, long := range []string{
		`"` + strings.Repeat("x", 100_000) + `"`,
		`"` + strings.Repeat("é", 100_000) + `"`,
		`[` + strings.Repeat("1,", 100_000) + `1]`,
	} {
		err := new(retry.Policy).UnmarshalJSON([]byte(`{"max_delay": ` + long + `}`))
		require.ErrorContains(t, err, "max_delay: ")
		assert.Less(t, len(err.Error()), 300)
		assert.Contains(t, err.Error(), "…")
		assert.True(t, utf8.ValidString(err.Error()), "cut in the middle of a letter: %v", err)
	}
}

// TestPolicyJSONFaultsAreNotQuadratic checks that the error is not many times as
// long as the input, and so not the work for it: a policy may come from somebody
// who is not trusted.
func TestPolicyJSONFaultsAreNotQuadratic(t *testing.T) {
	t.Parallel()
	var unknown strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&unknown, `"a%d": %d, `, i, i)
	}
	tests := []struct{ name, json, says string }{
		{
			"many faults under a long key",
			`{"overrides": {"` + strings.Repeat("k", 10_000) + `": {` + unknown.String() + `"b": 1}}}`,
			"unknown key",
		},
		{
			"repeated keys, nested",
			`{"x": ` + strings.Repeat(`{"a": 0, "a": `, 700) + `1` + strings.Repeat(`}`, 700) + `}`,
			"repeated key",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := new(retry.Policy).UnmarshalJSON([]byte(tt.json))
			require.ErrorContains(t, err, tt.says)
			assert.Less(t, len(err.Error()), 20*len(tt.json))
		})
	}
}

// TestPolicyJSONGarbage checks input that is not JSON.
func TestPolicyJSONGarbage(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"overrides":`, 100_000)
	for _, in := range []string{
		``, ` `, `{`, `{"`, `{"name`, `{"name"`, `{"name":`, `{"name": "x"`, `{"name": "x",`, `{"name": "x",}`, `}`, `nul`, `nulll`,
		`{"max_attempts": 3}}`, `{"max_attempts": 3} {}`, `{"max_attempts": 3},`, `{"max_attempts": 3}x`, `{} []`, `null {}`,
		`{max_attempts: 3}`, `{'max_attempts': 3}`, `{"max_attempts": 03}`, `{"max_attempts": NaN}`, `{"max_delay": Infinity}`,
		`{"max_delay": .5}`, `{"max_delay": 1.}`, "{\"name\": \"\x01\"}", "\xef\xbb\xbf{}", "\x00", `{"max_attempts": 3 /* three */}`,
		deep, deep + `1` + strings.Repeat(`}`, 100_000), strings.Repeat(`[`, 1_000_000), `{"backoff": {"schedule": ` + strings.Repeat(`[`, 50_000),
	} {
		p := retry.Policy{Name: "before", MaxAttempts: 7}
		err := p.UnmarshalJSON([]byte(in))
		assert.ErrorContains(t, err, "retry: policy: ", "%.60q", in)
		assert.Equal(t, retry.Policy{Name: "before", MaxAttempts: 7}, p, "%.60q", in)
		assert.Error(t, json.Unmarshal([]byte(in), &p), "%.60q", in)
	}
}

// TestPolicyJSONDeep checks that a form that is as deep as no policy is refused
// for what it says.
func TestPolicyJSONDeep(t *testing.T) {
	t.Parallel()
	const depth = 4000
	in := `{"backoff": ` + strings.Repeat(`{"exponential":`, depth) + `1` + strings.Repeat(`}`, depth) + `}`
	err := new(retry.Policy).UnmarshalJSON([]byte(in))
	assert.ErrorContains(t, err, "backoff.exponential.exponential: ")
	assert.ErrorContains(t, err, "unknown key")
	in = `{"backoff": {"schedule": ` + strings.Repeat(`[`, depth) + strings.Repeat(`]`, depth) + `}}`
	err = new(retry.Policy).UnmarshalJSON([]byte(in))
	assert.ErrorContains(t, err, "backoff.schedule[0]: ")
}

// TestPolicyJSONRepeatedKeyInList checks that the path of a repeated key has the
// index of the list that it is in.
func TestPolicyJSONRepeatedKeyInList(t *testing.T) {
	t.Parallel()
	err := new(retry.Policy).UnmarshalJSON([]byte(`{"backoff": {"schedule": [1, {"a": 1, "a": 2}]}}`))
	assert.EqualError(t, err, "retry: invalid policy: backoff.schedule[1].a: 2: repeated key\n"+
		`backoff.schedule[1]: {"a":2}: must be a number`)
}

// TestPolicyYAMLValues reads values that JSON has not but YAML libraries make.
func TestPolicyYAMLValues(t *testing.T) {
	t.Parallel()
	type m = map[string]any
	tests := []struct {
		name string
		v    any
		want retry.Policy
	}{
		{"int", m{"max_attempts": 5, "max_delay": 7}, retry.Policy{MaxAttempts: 5, MaxDelay: 7 * time.Second}},
		{"int64", m{"max_attempts": int64(5), "max_delay": int64(7)}, retry.Policy{MaxAttempts: 5, MaxDelay: 7 * time.Second}},
		{"uint64", m{"max_attempts": uint64(5), "max_delay": uint64(7)}, retry.Policy{MaxAttempts: 5, MaxDelay: 7 * time.Second}},
		{"float64", m{"max_attempts": 5.0, "max_delay": 7.5}, retry.Policy{MaxAttempts: 5, MaxDelay: 7500 * ms}},
		{"round float64", m{"max_attempts": 1e6}, retry.Policy{MaxAttempts: 1_000_000}},
		{"map of any", map[any]any{"jitter": map[any]any{"proportional": 1}}, retry.Policy{Jitter: retry.Proportional(1)}},
		{"list", m{"backoff": m{"schedule": []any{1, "2s"}}}, retry.Policy{Backoff: retry.Schedule{time.Second, 2 * time.Second}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got retry.Policy
			require.NoError(t, got.UnmarshalYAML(decoded(tt.v)))
			assert.Equal(t, tt.want, got)
		})
	}
}

// decoded is what a YAML library gives to UnmarshalYAML.
func decoded(v any) func(any) error {
	return func(to any) error {
		*to.(*any) = v
		return nil
	}
}

func TestPolicyYAMLFaults(t *testing.T) {
	t.Parallel()
	type m = map[string]any
	tests := []struct {
		name   string
		v      any
		faults []string
	}{
		{"NaN", m{"max_delay": math.NaN()}, []string{`max_delay: NaN: must be a number`}},
		{"infinity", m{"max_elapsed": math.Inf(1)}, []string{`max_elapsed: +Inf: must be a number`}},
		{"NaN fraction", m{"jitter": m{"proportional": math.NaN()}}, []string{`jitter.proportional: NaN: must be a number`}},
		{"minus infinity", m{"backoff": m{"exponential": m{"multiplier": math.Inf(-1)}}}, []string{`backoff.exponential.multiplier: -Inf: must be a number`}},
		{"NaN attempts", m{"max_attempts": math.NaN()}, []string{`max_attempts: NaN: must be a whole number`}},
		{"infinite attempts", m{"max_attempts": math.Inf(1)}, []string{`max_attempts: +Inf: must be a whole number`}},
		{"broken attempts", m{"max_attempts": 2.5}, []string{`max_attempts: 2.5: must be a whole number`}},
		{"too many", m{"free_rate_limits": uint64(math.MaxUint64)}, []string{`free_rate_limits: 18446744073709551615: must be a whole number`}},
		{"a date", m{"max_delay": firstAttempt}, []string{`max_delay: "2026-11-21T06:48:00Z": must be a number`}},
		{"a list of maps", m{"overrides": []any{m{"a": 1}}}, []string{`overrides: [{"a":1}]: must be an object`}},
		{"a key that is no text", map[any]any{1: 2}, []string{`1: 2: unknown key`}},
		{"nothing", nil, []string{`policy: null: must be an object`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := retry.Policy{Name: "before"}
			err := p.UnmarshalYAML(decoded(tt.v))
			assert.EqualError(t, err, "retry: invalid policy: "+strings.Join(tt.faults, "\n"))
			assert.Equal(t, retry.Policy{Name: "before"}, p)
		})
	}
	p := retry.Policy{Name: "before"}
	assert.Equal(t, errRefused, p.UnmarshalYAML(func(any) error { return errRefused }), "the library's own error, as it is")
	assert.Equal(t, retry.Policy{Name: "before"}, p)
}
