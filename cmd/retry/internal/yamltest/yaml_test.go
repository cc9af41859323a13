// Package yamltest tests the YAML form of a retry.Policy with the YAML libraries
// of Go. The library knows YAML by two method names only, so they are requirements of the
// command alone.
package yamltest_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	goccy "github.com/goccy/go-yaml"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	yaml3 "go.yaml.in/yaml/v3"
	yaml4 "go.yaml.in/yaml/v4"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrypolicies"
)

type library struct {
	name      string
	marshal   func(any) ([]byte, error)
	unmarshal func([]byte, any) error
}

// libraries are those that are in use. All honor MarshalYAML() (any, error) and
// UnmarshalYAML(func(any) error) error.
var libraries = []library{
	{"yaml.v3", yaml3.Marshal, yaml3.Unmarshal},
	{"yaml.v4", yaml4.Marshal, yaml4.Unmarshal},
	{"goccy", goccy.Marshal, func(data []byte, v any) error { return goccy.Unmarshal(data, v) }},
}

// each runs a test with every library.
func each(t *testing.T, test func(t *testing.T, l library)) {
	t.Helper()
	for _, l := range libraries {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			test(t, l)
		})
	}
}

const ms = time.Millisecond

// forms are documents as somebody would write them.
var forms = []struct {
	name string
	yaml string
	want retry.Policy
}{
	{"empty", `{}`, retry.Policy{}},
	{
		"everything",
		`
name: payments
max_attempts: 4
max_elapsed: 2m
attempt_timeout: 10s
backoff:
  exponential: {initial: 500ms, multiplier: 1.5}
max_delay: 30s
jitter: equal
max_retry_after: 1h30m
free_rate_limits: 10
non_idempotent: true
overrides:
  unknown:
    max_attempts: 2
  http_503:
    backoff: {linear: {initial: 1s, step: 2s}}
    jitter: {plus_minus: 1s}
    max_delay: 1m
`,
		retry.Policy{
			Name: "payments", MaxAttempts: 4, MaxElapsed: 2 * time.Minute, AttemptTimeout: 10 * time.Second,
			Backoff:  retry.Exponential{Initial: 500 * ms, Multiplier: 1.5},
			MaxDelay: 30 * time.Second, Jitter: retry.EqualJitter, MaxRetryAfter: 90 * time.Minute, FreeRateLimits: 10,
			NonIdempotent: true,
			Overrides: map[string]retry.Override{
				"unknown": {MaxAttempts: 2},
				"http_503": {
					Backoff:  retry.Linear{Initial: time.Second, Step: 2 * time.Second},
					Jitter:   retry.PlusMinus(time.Second),
					MaxDelay: time.Minute,
				},
			},
		},
	},
	{"unlimited", `max_attempts: unlimited`, retry.Policy{MaxAttempts: retry.Unlimited}},
	{"max retries", `max_retries: 0`, retry.Policy{MaxAttempts: 1}},
	{"quoted duration", `max_delay: "1m30s"`, retry.Policy{MaxDelay: 90 * time.Second}},
	{"int of seconds", `max_delay: 90`, retry.Policy{MaxDelay: 90 * time.Second}},
	{"float of seconds", `max_delay: 0.25`, retry.Policy{MaxDelay: 250 * ms}},
	{"exponent", `max_delay: 1.5e+1`, retry.Policy{MaxDelay: 15 * time.Second}},
	{"other bases", `{max_attempts: 0x10, free_rate_limits: 0o17}`, retry.Policy{MaxAttempts: 16, FreeRateLimits: 15}},
	{"whole float", `max_attempts: 5.0`, retry.Policy{MaxAttempts: 5}},
	{"int for a float", `backoff: {exponential: {multiplier: 3}}`, retry.Policy{Backoff: retry.Exponential{Multiplier: 3}}},
	{"constant", `backoff: {constant: 0}`, retry.Policy{Backoff: retry.Constant(0)}},
	{"schedule", "backoff:\n  schedule:\n  - 1s\n  - 5\n  - 0.5\n  - 0\n", retry.Policy{
		Backoff: retry.Schedule{time.Second, 5 * time.Second, 500 * ms, 0},
	}},
	{"empty schedule", `backoff: {schedule: []}`, retry.Policy{Backoff: retry.Schedule{}}},
	{"proportional", `jitter: {proportional: 0.1}`, retry.Policy{Jitter: retry.Proportional(0.1)}},
	{"proportional int", `jitter: {proportional: 1}`, retry.Policy{Jitter: retry.Proportional(1)}},
	{"explicit zeros", `{max_elapsed: 0, attempt_timeout: 0s, free_rate_limits: 0, non_idempotent: false, name: ""}`, retry.Policy{}},
	{"block text", "name: >-\n  pay\n  ments\n", retry.Policy{Name: "pay ments"}},
	{"comments", "# why\nmax_attempts: 2 # enough\n", retry.Policy{MaxAttempts: 2}},
	{"JSON", `{"max_attempts": 2, "backoff": {"constant": "5s"}}`, retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(5 * time.Second)}},
}

// TestRead checks that every form is read, and that what each library writes of it loses nothing,
// whichever library reads that.
func TestRead(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l library) {
		t.Helper()
		for _, tt := range forms {
			got := retry.Policy{Name: "before", MaxAttempts: 77}
			if assert.NoError(t, l.unmarshal([]byte(tt.yaml), &got), tt.name) {
				assert.Equal(t, tt.want, got, tt.name)
			}
			checkWritten(t, l, tt.want)
		}
	})
}

// TestRoundTrip checks that no value is taken for one of another type, nor cut. goccy does not
// quote "1e3", ".nan", "<<" and keys of several lines.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l library) {
		t.Helper()
		for _, text := range []string{
			"null", "~", "true", "no", "12", "0x10", "1:30", "2026-11-26", "=", "- a", "a: b", "a #b", "&a", "*a", "!a",
			"'", `"`, `\`, " a", "a ", "{", "[]", "%", "@", "`", "é日☃",
		} {
			checkWritten(t, l, retry.Policy{Name: text, Overrides: map[string]retry.Override{"k" + text: {MaxAttempts: 2}, "1": {MaxDelay: ms}}})
		}
		for _, d := range []time.Duration{1000, 1001, ms + 1, time.Second + 1, math.MaxInt64} {
			checkWritten(t, l, retry.Policy{MaxDelay: d, Backoff: retry.Schedule{0, d}, Jitter: retry.PlusMinus(d), MaxAttempts: math.MaxInt32})
		}
		for _, f := range []float64{1, 1 + 1e-15, 1.1, math.MaxFloat64} {
			checkWritten(t, l, retry.Policy{Backoff: retry.Exponential{Multiplier: f}, Jitter: retry.Proportional(1 / f)})
		}
	})
}

// checkWritten checks that every library reads what l writes.
func checkWritten(t *testing.T, l library, p retry.Policy) {
	t.Helper()
	data := testkit.Must(l.marshal(p))(t)
	byPointer := testkit.Must(l.marshal(&p))(t)
	assert.Equal(t, string(data), string(byPointer))
	for _, reader := range libraries {
		var back retry.Policy
		if assert.NoError(t, reader.unmarshal(data, &back), "%s: %s", reader.name, data) {
			assert.Equal(t, p, back, "%s: %s", reader.name, data)
		}
	}
}

// TestFaults checks that the place and the value of what YAML alone has is shown as the decoder
// shows them; the decoder's own rules are those of JSON.
func TestFaults(t *testing.T) {
	t.Parallel()
	tests := []struct {
		yaml   string
		faults []string
	}{
		{`max_delay: .nan`, []string{`max_delay: NaN: must be a number`}},
		{`max_elapsed: -.inf`, []string{`max_elapsed: -Inf: must be a number`}},
		{`max_attempts: .inf`, []string{`max_attempts: +Inf: must be a whole number`}},
		{`jitter: {proportional: .nan}`, []string{`jitter.proportional: NaN: must be a number`}},
		{`backoff: {exponential: {multiplier: .inf}}`, []string{`backoff.exponential.multiplier: +Inf: must be a number`}},
		{`max_attempts: 2.5`, []string{`max_attempts: 2.5: must be a whole number`}},
		{`max_attempts: "3"`, []string{`max_attempts: "3": must be a whole number`}},
		{`max_delay: -1.5`, []string{`max_delay: -1.5s: must not be negative`}},
		{`max_delay: true`, []string{`max_delay: true: must be a number`}},
		{`max_delay: null`, []string{`max_delay: null: must be a number`}},
		{`max_delay: 1.0e+300`, []string{`max_delay: 1e+300: is too long for a duration`}},
		{`name: 7`, []string{`name: 7: must be a string`}},
		{`name: [a, b]`, []string{`name: ["a","b"]: must be a string`}},
		{`overrides: {429: {max_attempts: 1.5}}`, []string{`overrides.429.max_attempts: 1.5: must be a whole number`}},
		{`[1, 2]`, []string{`policy: [1,2]: must be an object`}},
		{`3`, []string{`policy: 3: must be an object`}},
		{"max_attempts: 3\nmax_attempts: 4\n", nil}, // the libraries refuse what UnmarshalYAML, which gets a map, cannot see
		{"backoff:\n  linear:\n    step: 1\n    step: 2\n", nil},
		{"max_attempts: 0\njitter: {proportional: 2}\nbackoff:\n  linear: {initial: .nan, steps: 1}\n", []string{
			`backoff.linear.initial: NaN: must be a number`,
			`backoff.linear.steps: 1: unknown key; did you mean step?`,
			`max_attempts: 0: must be at least 1; leave it out for the default`,
			`jitter.proportional: 2: must be a fraction from 0 to 1`,
		}},
	}
	each(t, func(t *testing.T, l library) {
		t.Helper()
		for _, tt := range tests {
			p := retry.Policy{Name: "before"}
			err := l.unmarshal([]byte(tt.yaml), &p)
			if assert.Error(t, err, tt.yaml) {
				for _, fault := range tt.faults {
					assert.Contains(t, err.Error(), fault, tt.yaml)
				}
			}
			assert.Equal(t, retry.Policy{Name: "before"}, p, tt.yaml)
		}
	})
}

type service struct {
	URL      string                  `yaml:"url"`
	Retry    retry.Policy            `yaml:"retry"`
	Fallback *retry.Policy           `yaml:"fallback,omitempty"`
	Routes   map[string]retry.Policy `yaml:"routes,omitempty"`
	List     []retry.Policy          `yaml:"list,omitempty"`
}

// TestInsideADocument checks a policy as a part of a configuration: by value, by pointer, in a map
// and in a list, shared and extended.
func TestInsideADocument(t *testing.T) {
	t.Parallel()
	const document = `
url: http://localhost
retry: &base
  max_attempts: 5
  backoff: &backoff {fibonacci: {initial: 1s}}
fallback:
  <<: *base
  max_attempts: 2
routes:
  /a: *base
  /b: {backoff: *backoff}
list:
- {}
- name: x
`
	base := retry.Policy{MaxAttempts: 5, Backoff: retry.Fibonacci{Initial: time.Second}}
	want := service{
		URL:      "http://localhost",
		Retry:    base,
		Fallback: &retry.Policy{MaxAttempts: 2, Backoff: base.Backoff},
		Routes:   map[string]retry.Policy{"/a": base, "/b": {Backoff: base.Backoff}},
		List:     []retry.Policy{{}, {Name: "x"}},
	}
	each(t, func(t *testing.T, l library) {
		t.Helper()
		var got service
		require.NoError(t, l.unmarshal([]byte(document), &got))
		assert.Equal(t, want, got)
		data, err := l.marshal(want)
		require.NoError(t, err)
		got = service{}
		require.NoError(t, l.unmarshal(data, &got), "%s", data)
		assert.Equal(t, want, got, "%s", data)

		err = l.unmarshal([]byte("url: x\nfallback:\n  max_delay: .nan\n"), &got)
		require.ErrorContains(t, err, "max_delay: NaN: must be a number")

		// A key without a value leaves the defaults of the program alone.
		for _, in := range []string{"url: x\nretry:\n", "url: x\nretry: null\n", "url: x\nretry: ~\n", "url: x\n"} {
			got := service{Retry: retry.Policy{MaxAttempts: 9}}
			if assert.NoError(t, l.unmarshal([]byte(in), &got), in) {
				assert.Equal(t, 9, got.Retry.MaxAttempts, in)
			}
		}
	})
}

// TestRefusesToWrite checks that what could not be read again is not written.
func TestRefusesToWrite(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l library) {
		t.Helper()
		_, err := l.marshal(retry.Policy{Jitter: ownJitter{}})
		require.ErrorContains(t, err, "jitter: yamltest_test.ownJitter: has no JSON form")
		_, err = l.marshal(service{Retry: retry.Policy{MaxDelay: -1}})
		assert.ErrorContains(t, err, "max_delay: -1ns: must not be negative")
	})
}

type ownJitter struct{}

func (ownJitter) Apply(d, _ time.Duration, _ uint64) time.Duration { return d }

// TestLeavesRuntimeFields checks that what is not data is neither written nor
// touched.
func TestLeavesRuntimeFields(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, l library) {
		t.Helper()
		budget, random := &retry.Budget{}, rand.New(rand.NewPCG(1, 1))
		p := retry.Policy{Name: "before", Budget: budget, Rand: random}
		data := testkit.Must(l.marshal(p))(t)
		assert.Equal(t, "name: before\n", string(data))
		require.NoError(t, l.unmarshal([]byte("max_attempts: 2\n"), &p))
		assert.Equal(t, retry.Policy{MaxAttempts: 2, Budget: budget, Rand: random}, p)
		assert.Same(t, budget, p.Budget)
	})
}

// bomb is a short text with 9^levels values: every list has the list before it nine times.
func bomb(levels int) string {
	var b strings.Builder
	b.WriteString("x0: &a0 [1]\n")
	for i := 1; i <= levels; i++ {
		fmt.Fprintf(&b, "x%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", i-1), 9), ","))
	}
	return b.String()
}

// TestAliases: no text takes memory out of proportion, whichever library reads it. It is not
// parallel, because it counts all allocations.
func TestAliases(t *testing.T) { //nolint:paralleltest // see above
	wide := "x0: &a0 [" + strings.Repeat("1, ", 2000) + "1]\n"
	for name, text := range map[string]string{
		"lists in lists":    bomb(7),
		"a long list":       wide + "x1: [" + strings.Repeat("*a0, ", 2000) + "*a0]\n",
		"schedules":         wide + "overrides:\n" + schedules(1000),
		"itself":            "x0: &a0 [*a0, *a0]\n",
		"itself, in a key":  "x0: &a0 {b: *a0}\n",
		"itself, merged in": "x0: &a0\n  a: 1\n  <<: *a0\n",
	} {
		for _, l := range libraries {
			for _, v := range []any{&retry.Policy{}, &retrypolicies.Policies{}} {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				err := l.unmarshal([]byte(text), v)
				runtime.ReadMemStats(&after)
				require.Error(t, err, "%s, %s", name, l.name)
				assert.Less(t, len(err.Error()), 10_000, "%s, %s", name, l.name)
				assert.Less(t, (after.TotalAlloc-before.TotalAlloc)>>20, uint64(64), "MB: %s, %s, %T", name, l.name, v)
			}
		}
	}
}

func schedules(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "  k%d: {backoff: {schedule: *a0}}\n", i)
	}
	return b.String()
}
