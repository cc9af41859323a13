package yamltest_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	goccy "github.com/goccy/go-yaml"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	yaml3 "go.yaml.in/yaml/v3"
	yaml4 "go.yaml.in/yaml/v4"

	"github.com/seed-5ff3c98e/retry"
)

// libraries are those that are in use. All honor MarshalYAML() (any, error) and
// UnmarshalYAML(func(any) error) error.
var libraries = []struct {
	name      string
	marshal   func(any) ([]byte, error)
	unmarshal func([]byte, any) error
}{
	{"yaml.v3", yaml3.Marshal, yaml3.Unmarshal},
	{"yaml.v4", yaml4.Marshal, yaml4.Unmarshal},
	{"goccy", goccy.Marshal, func(data []byte, v any) error { return goccy.Unmarshal(data, v) }},
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
	{"fibonacci", `backoff: {fibonacci: {}}`, retry.Policy{Backoff: retry.Fibonacci{}}},
	{"constant", `backoff: {constant: 0}`, retry.Policy{Backoff: retry.Constant(0)}},
	{"schedule", "backoff:\n  schedule:\n  - 1s\n  - 5\n  - 0.5\n  - 0\n", retry.Policy{
		Backoff: retry.Schedule{time.Second, 5 * time.Second, 500 * ms, 0},
	}},
	{"empty schedule", `backoff: {schedule: []}`, retry.Policy{Backoff: retry.Schedule{}}},
	{"no jitter", `jitter: none`, retry.Policy{Jitter: retry.NoJitter}},
	{"proportional", `jitter: {proportional: 0.1}`, retry.Policy{Jitter: retry.Proportional(0.1)}},
	{"proportional int", `jitter: {proportional: 1}`, retry.Policy{Jitter: retry.Proportional(1)}},
	{"explicit zeros", `{max_elapsed: 0, attempt_timeout: 0s, free_rate_limits: 0, non_idempotent: false, name: ""}`, retry.Policy{}},
	{"block text", "name: >-\n  pay\n  ments\n", retry.Policy{Name: "pay ments"}},
	{"comments", "# why\nmax_attempts: 2 # enough\n", retry.Policy{MaxAttempts: 2}},
	{"JSON", `{"max_attempts": 2, "backoff": {"constant": "5s"}}`, retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(5 * time.Second)}},
}

func TestRead(t *testing.T) {
	t.Parallel()
	for _, l := range libraries {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			for _, tt := range forms {
				got := retry.Policy{Name: "before", MaxAttempts: 77}
				if assert.NoError(t, l.unmarshal([]byte(tt.yaml), &got), tt.name) {
					assert.Equal(t, tt.want, got, tt.name)
				}
				data, err := l.marshal(tt.want)
				require.NoError(t, err, tt.name)
				var back retry.Policy
				if assert.NoError(t, l.unmarshal(data, &back), "%s: %s", tt.name, data) {
					assert.Equal(t, tt.want, back, "%s: %s", tt.name, data)
				}
			}
		})
	}
}

// TestRoundTrip checks that no valid policy loses anything, whichever library
// writes it and whichever reads it.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for _, l := range libraries {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(13, 5))
			for range 500 {
				p := randomPolicy(r)
				data, err := l.marshal(p)
				require.NoError(t, err)
				byPointer, err := l.marshal(&p)
				require.NoError(t, err)
				assert.Equal(t, string(data), string(byPointer))
				for _, reader := range libraries {
					var back retry.Policy
					require.NoError(t, reader.unmarshal(data, &back), "%s: %s", reader.name, data)
					if !assert.Equal(t, p, back, "%s: %s", reader.name, data) {
						return
					}
				}
			}
		})
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	tests := []struct {
		yaml   string
		faults []string
	}{
		{`max_delay: .nan`, []string{`max_delay: NaN: must be a number`}},
		{`max_delay: .inf`, []string{`max_delay: +Inf: must be a number`}},
		{`max_elapsed: -.inf`, []string{`max_elapsed: -Inf: must be a number`}},
		{`max_attempts: .nan`, []string{`max_attempts: NaN: must be a whole number`}},
		{`max_attempts: .inf`, []string{`max_attempts: +Inf: must be a whole number`}},
		{`jitter: {proportional: .nan}`, []string{`jitter.proportional: NaN: must be a number`}},
		{`backoff: {exponential: {multiplier: .inf}}`, []string{`backoff.exponential.multiplier: +Inf: must be a number`}},
		{`backoff: {schedule: [1s, .nan]}`, []string{`backoff.schedule[1]: NaN: must be a number`}},
		{`max_attempts: 2.5`, []string{`max_attempts: 2.5: must be a whole number`}},
		{`max_attempts: "3"`, []string{`max_attempts: "3": must be a whole number`}},
		{`max_attempts: 0`, []string{`max_attempts: 0: must be at least 1; leave it out for the default`}},
		{`max_attempts: -1`, []string{`max_attempts: -1: must be at least 1; leave it out for the default`}},
		{`max_delay: 0`, []string{`max_delay: 0: must be positive; leave it out for the default`}},
		{`max_delay: -1.5`, []string{`max_delay: -1.5s: must not be negative`}},
		{`max_delay: soon`, []string{`max_delay: "soon": must be a duration like "1m30s", or a number of seconds`}},
		{`max_delay: true`, []string{`max_delay: true: must be a number`}},
		{`max_delay: null`, []string{`max_delay: null: must be a number`}},
		{`max_delay: 1.0e+300`, []string{`max_delay: 1e+300: is too long for a duration`}},
		{`non_idempotent: 1`, []string{`non_idempotent: 1: must be true or false`}},
		{`name: 7`, []string{`name: 7: must be a string`}},
		{`name: [a, b]`, []string{`name: ["a","b"]: must be a string`}},
		{`jitter: half`, []string{`jitter: "half": must be "full", "equal", "none", or an object with one key of plus_minus, proportional`}},
		{`backoff: {constant: 1s, linear: {}}`, []string{
			`backoff: {"constant":"1s","linear":{}}: must be an object with one key of constant, exponential, fibonacci, linear, schedule`,
		}},
		{`{max_attempts: 2, max_retries: 1}`, []string{`max_retries: 1: max_attempts and max_retries exclude each other`}},
		{`attempts: 3`, []string{`attempts: 3: unknown key; did you mean max_attempts?`}},
		{`overrides: {timeout: {max_delay: 0}}`, []string{`overrides.timeout.max_delay: 0: must be positive; leave it out for the default`}},
		{`overrides: {final: {}}`, []string{`overrides: final: final errors are not retried`}},
		{`overrides: {429: {max_attempts: 1.5}}`, []string{`overrides.429.max_attempts: 1.5: must be a whole number`}},
		{`[1, 2]`, []string{`policy: [1,2]: must be an object`}},
		{`3`, []string{`policy: 3: must be an object`}},
		{"max_attempts: 0\njitter: {proportional: 2}\nbackoff:\n  linear: {initial: .nan, steps: 1}\n", []string{
			`backoff.linear.initial: NaN: must be a number`,
			`backoff.linear.steps: 1: unknown key; did you mean step?`,
			`max_attempts: 0: must be at least 1; leave it out for the default`,
			`jitter.proportional: 2: must be a fraction from 0 to 1`,
		}},
	}
	for _, l := range libraries {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
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
}

// TestRepeatedKey checks that the libraries refuse what UnmarshalYAML, which gets
// a map, could not see.
func TestRepeatedKey(t *testing.T) {
	t.Parallel()
	for _, l := range libraries {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			for _, in := range []string{
				"max_attempts: 3\nmax_attempts: 4\n",
				"backoff:\n  linear:\n    step: 1\n    step: 2\n",
			} {
				p := retry.Policy{Name: "before"}
				assert.Error(t, l.unmarshal([]byte(in), &p), in)
				assert.Equal(t, retry.Policy{Name: "before"}, p, in)
			}
		})
	}
}

type service struct {
	URL      string                  `yaml:"url"`
	Retry    retry.Policy            `yaml:"retry"`
	Fallback *retry.Policy           `yaml:"fallback,omitempty"`
	Routes   map[string]retry.Policy `yaml:"routes,omitempty"`
	List     []retry.Policy          `yaml:"list,omitempty"`
}

// TestInsideADocument checks a policy as a part of a configuration: by value, by
// pointer, in a map and in a list.
func TestInsideADocument(t *testing.T) {
	t.Parallel()
	const document = `
url: http://localhost
retry:
  max_attempts: 5
  backoff: {constant: 0}
fallback:
  jitter: none
routes:
  /a: {max_attempts: 2}
list:
- {}
- name: x
`
	want := service{
		URL:      "http://localhost",
		Retry:    retry.Policy{MaxAttempts: 5, Backoff: retry.Constant(0)},
		Fallback: &retry.Policy{Jitter: retry.NoJitter},
		Routes:   map[string]retry.Policy{"/a": {MaxAttempts: 2}},
		List:     []retry.Policy{{}, {Name: "x"}},
	}
	for _, l := range libraries {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			var got service
			require.NoError(t, l.unmarshal([]byte(document), &got))
			assert.Equal(t, want, got)
			data, err := l.marshal(want)
			require.NoError(t, err)
			got = service{}
			require.NoError(t, l.unmarshal(data, &got), "%s", data)
			assert.Equal(t, want, got, "%s", data)

			err = l.unmarshal([]byte("url: x\nfallback:\n  max_delay: .nan\n"), &got)
			assert.ErrorContains(t, err, "max_delay: NaN: must be a number")
		})
	}
}

// TestAnchors checks that a policy may be shared and extended in a document.
func TestAnchors(t *testing.T) {
	t.Parallel()
	const document = `
url: x
retry: &base
  max_attempts: 5
  backoff: &backoff {fibonacci: {initial: 1s}}
fallback:
  <<: *base
  max_attempts: 2
routes:
  /a: *base
  /b: {backoff: *backoff}
`
	base := retry.Policy{MaxAttempts: 5, Backoff: retry.Fibonacci{Initial: time.Second}}
	for _, l := range libraries {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			var got service
			require.NoError(t, l.unmarshal([]byte(document), &got))
			assert.Equal(t, base, got.Retry)
			assert.Equal(t, &retry.Policy{MaxAttempts: 2, Backoff: base.Backoff}, got.Fallback)
			assert.Equal(t, map[string]retry.Policy{"/a": base, "/b": {Backoff: base.Backoff}}, got.Routes)
		})
	}
}

// TestNull checks that a key without a value leaves the defaults of the program
// alone.
func TestNull(t *testing.T) {
	t.Parallel()
	for _, l := range libraries {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			for _, in := range []string{"url: x\nretry:\n", "url: x\nretry: null\n", "url: x\nretry: ~\n", "url: x\n"} {
				got := service{Retry: retry.Policy{MaxAttempts: 9}}
				if assert.NoError(t, l.unmarshal([]byte(in), &got), in) {
					assert.Equal(t, 9, got.Retry.MaxAttempts, in)
				}
			}
		})
	}
}

// TestRefusesToWrite checks that what could not be read again is not written.
func TestRefusesToWrite(t *testing.T) {
	t.Parallel()
	for _, l := range libraries {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			_, err := l.marshal(retry.Policy{Jitter: ownJitter{}})
			assert.ErrorContains(t, err, "jitter: yamltest_test.ownJitter: has no JSON form")
			_, err = l.marshal(service{Retry: retry.Policy{MaxDelay: -1}})
			assert.ErrorContains(t, err, "max_delay: -1ns: must not be negative")
		})
	}
}

type ownJitter struct{}

func (ownJitter) Apply(d, _ time.Duration, _ uint64) time.Duration { return d }

// TestLeavesRuntimeFields checks that what is not data is neither written nor
// touched.
func TestLeavesRuntimeFields(t *testing.T) {
	t.Parallel()
	for _, l := range libraries {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			budget, random := &retry.Budget{}, rand.New(rand.NewPCG(1, 1))
			p := retry.Policy{Name: "before", Budget: budget, Rand: random}
			data, err := l.marshal(p)
			require.NoError(t, err)
			assert.Equal(t, "name: before\n", string(data))
			require.NoError(t, l.unmarshal([]byte("max_attempts: 2\n"), &p))
			assert.Equal(t, retry.Policy{MaxAttempts: 2, Budget: budget, Rand: random}, p)
			assert.Same(t, budget, p.Budget)
		})
	}
}

// randomPolicy returns a valid policy of built-in parts, with all its data drawn
// at random.
func randomPolicy(r *rand.Rand) retry.Policy {
	for {
		p := retry.Policy{
			Name:           sometimes(r, randomText),
			MaxAttempts:    sometimes(r, randomAttempts),
			MaxElapsed:     sometimes(r, randomDuration),
			AttemptTimeout: sometimes(r, randomDuration),
			Backoff:        sometimes(r, randomBackoff),
			MaxDelay:       sometimes(r, randomDuration),
			Jitter:         sometimes(r, randomJitter),
			MaxRetryAfter:  sometimes(r, randomDuration),
			FreeRateLimits: sometimes(r, randomAttempts),
			NonIdempotent:  r.Uint64()%2 == 0,
		}
		for range r.Uint64() % 4 {
			if p.Overrides == nil {
				p.Overrides = map[string]retry.Override{}
			}
			p.Overrides[fmt.Sprint("k", randomText(r), r.Uint64()%100)] = retry.Override{
				MaxAttempts: sometimes(r, randomAttempts),
				Backoff:     sometimes(r, randomBackoff),
				Jitter:      sometimes(r, randomJitter),
				MaxDelay:    sometimes(r, randomDuration),
			}
		}
		if p.Validate() == nil { // no first delay is above its cap
			return p
		}
	}
}

func sometimes[T any](r *rand.Rand, random func(*rand.Rand) T) (v T) {
	if r.Uint64()%2 == 0 {
		v = random(r)
	}
	return v
}

func randomText(r *rand.Rand) string {
	letters := []rune("abz_.-/ \"&:,'é日☃")
	text := make([]rune, r.Uint64()%12)
	for i := range text {
		text[i] = letters[r.Uint64()%uint64(len(letters))]
	}
	return string(text)
}

func randomAttempts(r *rand.Rand) int {
	if r.Uint64()%5 == 0 {
		return retry.Unlimited
	}
	return 1 + int(r.Uint64()%1000)
}

// randomDuration returns a positive duration of any magnitude that is valid.
func randomDuration(r *rand.Rand) time.Duration {
	return max(time.Duration(r.Uint64()>>(1+r.Uint64()%53)), time.Microsecond)
}

func randomBackoff(r *rand.Rand) retry.Backoff {
	switch r.Uint64() % 5 {
	case 0:
		return retry.Exponential{
			Initial:    sometimes(r, randomDuration),
			Multiplier: sometimes(r, func(r *rand.Rand) float64 { return 1 + r.ExpFloat64() }),
		}
	case 1:
		return retry.Linear{Initial: sometimes(r, randomDuration), Step: sometimes(r, randomDuration)}
	case 2:
		return retry.Fibonacci{Initial: sometimes(r, randomDuration)}
	case 3:
		return retry.Constant(sometimes(r, randomDuration))
	default:
		s := make(retry.Schedule, r.Uint64()%5)
		for i := range s {
			s[i] = sometimes(r, randomDuration)
		}
		return s
	}
}

func randomJitter(r *rand.Rand) retry.Jitter {
	switch r.Uint64() % 5 {
	case 0:
		return retry.FullJitter
	case 1:
		return retry.EqualJitter
	case 2:
		return retry.NoJitter
	case 3:
		return retry.Proportional(r.Float64())
	default:
		return retry.PlusMinus(sometimes(r, randomDuration))
	}
}
