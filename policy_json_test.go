package retry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retryjob"
)

// TestPolicyJSONForms pins the form of every setting: stored policies have to be
// read by later versions.
func TestPolicyJSONForms(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		policy retry.Policy
		json   string
	}{
		{retry.Policy{}, `{}`},
		{retry.Policy{Name: `pay "<é>"`}, `{"name":"pay \"\u003cé\u003e\""}`},
		{retry.Policy{MaxAttempts: 1}, `{"max_attempts":1}`},
		{retry.Policy{MaxAttempts: retry.Unlimited}, `{"max_attempts":"unlimited"}`},
		{retry.Policy{MaxElapsed: 2 * time.Minute}, `{"max_elapsed":"2m0s"}`},
		{retry.Policy{AttemptTimeout: 1500 * ms}, `{"attempt_timeout":"1.5s"}`},
		{retry.Policy{AttemptTimeout: retry.EqualShare}, `{"attempt_timeout":"equal_share"}`},
		{retry.Policy{MaxDelay: longestWait}, `{"max_delay":"2562047h47m16.854775807s"}`},
		{retry.Policy{MaxDelay: 2*time.Second + 1}, `{"max_delay":"2.000000001s"}`},
		{retry.Policy{MaxRetryAfter: time.Hour}, `{"max_retry_after":"1h0m0s"}`},
		{retry.Policy{FreeRateLimits: 10}, `{"free_rate_limits":10}`},
		{retry.Policy{NonIdempotent: true}, `{"non_idempotent":true}`},
		{retry.Policy{Backoff: retry.Exponential{}}, `{"backoff":{"exponential":{}}}`},
		{
			retry.Policy{Backoff: retry.Exponential{Initial: time.Second, Multiplier: 1.5}},
			`{"backoff":{"exponential":{"initial":"1s","multiplier":1.5}}}`,
		},
		{retry.Policy{Backoff: retry.Exponential{Multiplier: 3}}, `{"backoff":{"exponential":{"multiplier":3}}}`},
		{retry.Policy{Backoff: retry.Linear{}}, `{"backoff":{"linear":{}}}`},
		{
			retry.Policy{Backoff: retry.Linear{Initial: time.Second, Step: time.Minute}},
			`{"backoff":{"linear":{"initial":"1s","step":"1m0s"}}}`,
		},
		{retry.Policy{Backoff: retry.Fibonacci{}}, `{"backoff":{"fibonacci":{}}}`},
		{retry.Policy{Backoff: retry.Fibonacci{Initial: ms}}, `{"backoff":{"fibonacci":{"initial":"1ms"}}}`},
		{retry.Policy{Backoff: retry.Constant(0)}, `{"backoff":{"constant":"0s"}}`},
		{retry.Policy{Backoff: retry.Constant(5 * time.Second)}, `{"backoff":{"constant":"5s"}}`},
		{retry.Policy{Backoff: retry.Schedule{}}, `{"backoff":{"schedule":[]}}`},
		{retry.Policy{Backoff: retry.Schedule{0, time.Second}}, `{"backoff":{"schedule":["0s","1s"]}}`},
		{retry.Policy{Jitter: retry.FullJitter}, `{"jitter":"full"}`},
		{retry.Policy{Jitter: retry.EqualJitter}, `{"jitter":"equal"}`},
		{retry.Policy{Jitter: retry.NoJitter}, `{"jitter":"none"}`},
		{retry.Policy{Jitter: retry.Proportional(0)}, `{"jitter":{"proportional":0}}`},
		{retry.Policy{Jitter: retry.Proportional(0.1)}, `{"jitter":{"proportional":0.1}}`},
		{retry.Policy{Jitter: retry.PlusMinus(0)}, `{"jitter":{"plus_minus":"0s"}}`},
		{retry.Policy{Jitter: retry.PlusMinus(30 * time.Second)}, `{"jitter":{"plus_minus":"30s"}}`},
		{
			retry.Policy{Overrides: map[string]retry.Override{
				"unknown":  {MaxAttempts: 2},
				"http_503": {},
				"timeout": {
					MaxAttempts: retry.Unlimited,
					Backoff:     retry.Constant(time.Second),
					Jitter:      retry.PlusMinus(ms),
					MaxDelay:    time.Minute,
				},
			}},
			`{"overrides":{"http_503":{},` +
				`"timeout":{"backoff":{"constant":"1s"},"jitter":{"plus_minus":"1ms"},"max_attempts":"unlimited","max_delay":"1m0s"},` +
				`"unknown":{"max_attempts":2}}}`,
		},
		{
			retry.Policy{Name: "a", MaxAttempts: 4, MaxDelay: time.Minute, Jitter: retry.FullJitter, NonIdempotent: true},
			`{"jitter":"full","max_attempts":4,"max_delay":"1m0s","name":"a","non_idempotent":true}`,
		},
	} {
		t.Run(tt.json, func(t *testing.T) {
			t.Parallel()
			data := testkit.Must(json.Marshal(tt.policy))(t)
			assert.Equal(t, tt.json, string(data))
			var back retry.Policy
			require.NoError(t, json.Unmarshal(data, &back))
			assert.Equal(t, tt.policy, back)
		})
	}
}

// TestPolicyJSONRoundTrip checks that no valid policy loses anything.
func TestPolicyJSONRoundTrip(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(13, 1))
	for range 2000 {
		p := randomPolicy(r)
		data := testkit.Must(json.Marshal(p))(t)
		var back retry.Policy
		require.NoError(t, json.Unmarshal(data, &back), "%s", data)
		if !assert.Equal(t, p, back, "%s", data) {
			break
		}
	}
}

// TestPolicyJSONNull checks the convention of encoding/json: null changes
// nothing.
func TestPolicyJSONNull(t *testing.T) {
	t.Parallel()
	p := retry.Policy{Name: "before", MaxAttempts: 7}
	require.NoError(t, json.Unmarshal([]byte(`null`), &p))
	require.NoError(t, p.UnmarshalJSON([]byte(" null\n")))
	assert.Equal(t, retry.Policy{Name: "before", MaxAttempts: 7}, p)
}

// TestPolicyJSONReplaces checks that a form replaces all data of the policy that
// it is read into, and nothing of a bad one.
func TestPolicyJSONReplaces(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(13, 3))
	for range 300 {
		old, p := randomPolicy(r), randomPolicy(r)
		data := testkit.Must(json.Marshal(p))(t)

		got := old
		require.NoError(t, json.Unmarshal(data, &got))
		assert.Equal(t, p, got, "%s over %v", data, old)

		got = old
		bad := bytes.Replace(data, []byte("{"), []byte(`{"oops": 1,`), 1)
		if len(data) == len("{}") {
			bad = []byte(`{"oops": 1}`)
		}
		require.ErrorContains(t, json.Unmarshal(bad, &got), "oops")
		assert.Equal(t, old, got, "%s over %v", bad, old)
	}
}

// TestPolicyJSONLeavesRuntimeFields checks that fields that are not data are
// neither written nor changed.
func TestPolicyJSONLeavesRuntimeFields(t *testing.T) {
	t.Parallel()
	asked, told := 0, 0
	p := retry.Policy{
		Name:       "before",
		Classifier: func(error) retry.Verdict { asked++; return retry.Verdict{} },
		Budget:     &retry.Budget{Ratio: -1},
		Observer:   &retry.Observer{Event: func(context.Context, retry.Event) { told++ }},
		Clock:      &frozenClock{},
		Rand:       word(7),
	}
	budget, clock := p.Budget, p.Clock
	data := testkit.Must(json.Marshal(p))(t)
	assert.JSONEq(t, `{"name":"before"}`, string(data))

	for _, in := range []string{`{"name":"after"}`, `{"name":"after","oops":1}`, `{`, `null`} {
		_ = json.Unmarshal([]byte(in), &p)
		assert.Same(t, budget, p.Budget)
		assert.Same(t, clock, p.Clock)
		assert.Equal(t, word(7), p.Rand)
		require.NotNil(t, p.Classifier)
		require.NotNil(t, p.Observer)
		p.Classifier(nil)
		p.Observer.Event(t.Context(), retry.Event{})
	}
	assert.Equal(t, 4, asked)
	assert.Equal(t, 4, told)
	assert.Equal(t, "after", p.Name)
}

type frozenClock struct{ t time.Time }

func (c *frozenClock) Now() time.Time                       { return c.t }
func (c *frozenClock) After(time.Duration) <-chan time.Time { return nil }

// TestPolicyJSONRefusesToWrite checks that a policy that could not be read
// again is not written.
func TestPolicyJSONRefusesToWrite(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		policy retry.Policy
		faults []string
	}{
		{"custom backoff", retry.Policy{Backoff: constantOfUser{}}, []string{`backoff: retry_test.constantOfUser: has no JSON form`}},
		{"custom jitter", retry.Policy{Jitter: jitterOfUser{}}, []string{`jitter: retry_test.jitterOfUser: has no JSON form`}},
		{"pointer to a backoff", retry.Policy{Backoff: &retry.Exponential{}}, []string{`backoff: *retry.Exponential: has no JSON form`}},
		{
			"in an override",
			retry.Policy{Overrides: map[string]retry.Override{"b": {Backoff: constantOfUser{}}, "a": {Jitter: jitterOfUser{}}}},
			[]string{
				`overrides.a.jitter: retry_test.jitterOfUser: has no JSON form`,
				`overrides.b.backoff: retry_test.constantOfUser: has no JSON form`,
			},
		},
		{"attempts", retry.Policy{MaxAttempts: -1}, []string{`max_attempts: -1: must be at least 1, or 0 for the default`}},
		{"NaN multiplier", retry.Policy{Backoff: retry.Exponential{Multiplier: math.NaN()}}, []string{
			`backoff.exponential.multiplier: NaN: must be a number of at least 1, or 0 for the default`,
		}},
		{"several", retry.Policy{MaxElapsed: -1, Jitter: jitterOfUser{}}, []string{
			`max_elapsed: -1ns: must not be negative`,
			`jitter: retry_test.jitterOfUser: has no JSON form`,
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			want := "retry: invalid policy: " + strings.Join(tt.faults, "\n")
			for range 20 { // Overrides is a map
				data, err := tt.policy.MarshalJSON()
				assert.EqualError(t, err, want)
				assert.Nil(t, data)
			}
			_, err := json.Marshal(tt.policy)
			assert.ErrorContains(t, err, want)
			_, err = tt.policy.MarshalYAML()
			assert.EqualError(t, err, want)
		})
	}
}

// TestPolicyInsideOthers checks that a Policy is a good field, by value and by
// pointer.
func TestPolicyInsideOthers(t *testing.T) {
	t.Parallel()
	type service struct {
		URL      string                  `json:"url"`
		Retry    retry.Policy            `json:"retry"`
		Fallback *retry.Policy           `json:"fallback,omitempty"`
		Routes   map[string]retry.Policy `json:"routes,omitempty"`
		List     []retry.Policy          `json:"list,omitempty"`
		Rest     *retry.Policy           `json:"rest"`
	}
	in := service{
		URL:      "http://localhost",
		Retry:    retry.Policy{MaxAttempts: 5, Backoff: retry.Constant(0)},
		Fallback: &retry.Policy{Jitter: retry.NoJitter},
		Routes:   map[string]retry.Policy{"/a": {MaxAttempts: 2}},
		List:     []retry.Policy{{}, {Name: "x"}},
	}
	data := testkit.Must(json.Marshal(in))(t)
	assert.JSONEq(t, `{"url":"http://localhost","retry":{"backoff":{"constant":"0s"},"max_attempts":5},`+
		`"fallback":{"jitter":"none"},"routes":{"/a":{"max_attempts":2}},"list":[{},{"name":"x"}],"rest":null}`, string(data))
	byPointer := testkit.Must(json.Marshal(&in))(t)
	assert.Equal(t, data, byPointer)
	var out service
	require.NoError(t, json.Unmarshal(data, &out))
	assert.Equal(t, in, out)

	// Defaults of the program stay if the document does not set them.
	out = service{Retry: retry.Policy{MaxAttempts: 9}, Fallback: &retry.Policy{MaxAttempts: 8}}
	require.NoError(t, json.Unmarshal([]byte(`{"url":"x","retry":null}`), &out))
	assert.Equal(t, 9, out.Retry.MaxAttempts)
	assert.Equal(t, 8, out.Fallback.MaxAttempts)

	err := json.Unmarshal([]byte(`{"fallback": {"max_delay": 0}}`), &out)
	assert.EqualError(t, err, "retry: invalid policy: max_delay: 0: must be positive; leave it out for the default")
}

// TestPolicyYAMLForm checks the two methods that YAML libraries call, without
// one. Package cmd/retry/internal/yamltest has the libraries.
func TestPolicyYAMLForm(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(13, 4))
	for range 500 {
		p := randomPolicy(r)
		v := testkit.Must(p.MarshalYAML())(t)
		asJSON := testkit.Must(json.Marshal(v))(t)
		want := testkit.Must(json.Marshal(p))(t)
		assert.JSONEq(t, string(want), string(asJSON), "the shape is that of the JSON form")

		var got retry.Policy
		require.NoError(t, got.UnmarshalYAML(func(to any) error {
			d := json.NewDecoder(bytes.NewReader(asJSON))
			d.UseNumber()
			return d.Decode(to)
		}))
		assert.Equal(t, p, got)
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
			p.Overrides["k"+randomText(r)] = retry.Override{
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
	letters := []rune("abz_.-/ \"\\<&>{}[]:,'é日☃\n\t\u2028\U0001f600\ufffd")
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

// TestPolicyJSONReading reads forms that MarshalJSON does not write.
func TestPolicyJSONReading(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		json string
		want retry.Policy
	}{
		{` {} `, retry.Policy{}},
		{`{"max_retries": 0}`, retry.Policy{MaxAttempts: 1}},
		{`{"max_retries": 4}`, retry.Policy{MaxAttempts: 5}},
		{`{"max_retries": "unlimited"}`, retry.Policy{MaxAttempts: retry.Unlimited}},
		{fmt.Sprintf(`{"max_retries": %d}`, math.MaxInt), retry.Policy{MaxAttempts: retry.Unlimited}}, // one more is not negative
		{fmt.Sprintf(`{"max_retries": %d}`, math.MaxInt-1), retry.Policy{MaxAttempts: retry.Unlimited}},
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
		{`{"max_delay": 1e-6}`, retry.Policy{MaxDelay: time.Microsecond}},
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
	} {
		t.Run(tt.json, func(t *testing.T) {
			t.Parallel()
			var got retry.Policy
			require.NoError(t, json.Unmarshal([]byte(tt.json), &got))
			assert.Equal(t, tt.want, got)
		})
	}
}

// topKeys follows an unknown key of a policy.
const topKeys = "; the keys here are attempt_timeout, backoff, free_rate_limits, jitter, max_attempts, max_delay, max_elapsed, " +
	"max_retries, max_retry_after, name, non_idempotent, overrides, reset_after, timeout"

// policyFaults has JSON forms with their faults: path, value and problem, all
// of them in one error and in a fixed order.
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
	{`{"backoff": {"fibonacci": {"initial": 1e-10}}}`, []string{`backoff.fibonacci.initial: 1e-10: is less than a microsecond`}},
	{`{"max_delay": 5e-9}`, []string{`max_delay: 5e-9: is less than a microsecond`}},
	{`{"max_delay": 9.994e-7}`, []string{`max_delay: 9.994e-7: is less than a microsecond`}},
	{`{"timeout": "5ns", "backoff": {"schedule": ["1us", "0.4ns", 0, "999ns"]}}`, []string{
		`backoff.schedule[1]: "0.4ns": is less than a microsecond`,
		`backoff.schedule[3]: "999ns": is less than a microsecond`,
		`timeout: "5ns": is less than a microsecond`,
	}},
	{`{"overrides": {"timeout": {"max_attempts": 0}}}`, []string{`overrides.timeout.max_attempts: 0: must be at least 1; leave it out for the default`}},
	{`{"overrides": {"timeout": {"max_delay": 0}}}`, []string{`overrides.timeout.max_delay: 0: must be positive; leave it out for the default`}},

	// What Validate says of a literal it says of a form, in the spelling of Go.
	{`{"max_retries": -1}`, []string{`max_retries: -1: must be at least 0; leave it out for the default`}},
	{`{"attempt_timeout": "-1ms"}`, []string{`attempt_timeout: -1ms: must not be negative`}},
	{`{"backoff": {"schedule": [1, -2, "3s", "-4s"]}}`, []string{
		`backoff.schedule[1]: -2s: must not be negative`,
		`backoff.schedule[3]: -4s: must not be negative`,
	}},

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
	{`{"max_attempts": "3"}`, []string{`max_attempts: "3": must be a whole number, or "unlimited"`}},
	{`{"max_attempts": 2.5}`, []string{`max_attempts: 2.5: must be a whole number`}},
	{`{"max_attempts": null}`, []string{`max_attempts: null: must be a whole number`}},
	{`{"max_attempts": true}`, []string{`max_attempts: true: must be a whole number`}},
	{`{"max_attempts": "infinite"}`, []string{`max_attempts: "infinite": must be a whole number, or "unlimited"`}},
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
	{`{"attempts": 3}`, []string{`attempts: 3: unknown key; did you mean max_attempts?`}},
	{`{"MaxAttempts": 3}`, []string{`MaxAttempts: 3: unknown key; did you mean max_attempts?`}},
	{`{"Max_attempts": 3}`, []string{`Max_attempts: 3: unknown key; did you mean max_attempts?`}},
	{`{"max_atempts": 3}`, []string{`max_atempts: 3: unknown key; did you mean max_attempts?`}},
	{`{"retries": 3, "non-idempotent": true}`, []string{
		`non-idempotent: true: unknown key; did you mean non_idempotent?`, `retries: 3: unknown key; did you mean max_retries?`,
	}},
	{`{"max_": 3, "delays": 1, "` + strings.Repeat("name", 1000) + `": 1}`, []string{
		`delays: 1: unknown key` + topKeys, `max_: 3: unknown key` + topKeys, strings.Repeat("name", 15) + `…: 1: unknown key` + topKeys,
	}},
	{`{"backoff": {"constnat": 3}}`, []string{`backoff.constnat: 3: unknown key; did you mean constant?`}},
	{`{"overrides": {"unknown": {"jiter": 1}}}`, []string{`overrides.unknown.jiter: 1: unknown key; did you mean jitter?`}},
	{`{"": {"a": [1, 2]}}`, []string{`: {"a":[1,2]}: unknown key` + topKeys}},
	{`{"clock": null, "rand": null, "budget": {}, "classifier": "x", "observer": 1}`, []string{
		`budget: {}: unknown key` + topKeys, `classifier: "x": unknown key` + topKeys, `clock: null: unknown key` + topKeys, `observer: 1: unknown key` + topKeys, `rand: null: unknown key` + topKeys,
	}},
	{`{"backoff": {"decorrelated": {}}}`, []string{`backoff.decorrelated: {}: unknown key; the keys here are constant, exponential, fibonacci, linear, schedule`}},
	{`{"backoff": {"exponential": {"initial": "1s", "max": "5s"}}}`, []string{`backoff.exponential.max: "5s": unknown key; the keys here are initial, multiplier`}},
	{`{"backoff": {"fibonacci": {"step": 1}}}`, []string{`backoff.fibonacci.step: 1: unknown key; the keys here are initial`}},
	{`{"jitter": {"plusminus": 1}}`, []string{`jitter.plusminus: 1: unknown key; did you mean plus_minus?`}},
	{`{"overrides": {"timeout": {"max_elapsed": 1}}}`, []string{`overrides.timeout.max_elapsed: 1: unknown key; the keys here are backoff, jitter, max_attempts, max_delay, max_retries`}},

	// Repeated keys.
	{`{"max_attempts": 3, "max_attempts": 3}`, []string{`max_attempts: 3: repeated key`}},
	{`{"max_attempts": 3, "max\u005fattempts": 4}`, []string{`max_attempts: 4: repeated key`}},
	{`{"jitter": "full", "jitter": "none", "jitter": "equal"}`, []string{`jitter: "none": repeated key`, `jitter: "equal": repeated key`}},
	{`{"backoff": {"linear": {"step": 1, "step": 2}}}`, []string{`backoff.linear.step: 2: repeated key`}},
	{`{"backoff": {"constant": 1, "constant": 1}}`, []string{`backoff.constant: 1: repeated key`}},
	{`{"overrides": {"a": {}, "a": {"max_attempts": 2}}}`, []string{`overrides.a: {"max_attempts":2}: repeated key`}},
	{`{"backoff": {"schedule": [1, {"a": 1, "a": 2}]}}`, []string{
		`backoff.schedule[1].a: 2: repeated key`, `backoff.schedule[1]: {"a":2}: must be a number`,
	}},

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
	{`{"overrides": {"a": {"backoff": {"constant": 10}}}, "max_delay": 5}`, []string{`overrides.a.backoff.constant: 10s: is above max_delay 5s`}},

	// A fault is not reported twice, and a setting that cannot be read is not
	// replaced by a default that is then reported.
	{`{"max_delay": "1s", "backoff": {"exponential": {"initial": "x"}}}`, []string{
		`backoff.exponential.initial: "x": must be a duration like "1m30s", or a number of seconds`,
	}},
	{`{"max_delay": "1s", "backoff": {"fibonacci": {"initial": 0}}}`, []string{
		`backoff.fibonacci.initial: 0: must be positive; leave it out for the default`,
	}},

	// Several at once, in the order of their paths as far as they are read.
	{
		`{"title": "x", "max_attempts": 1.5, "jitter": {"proportional": 2}, "max_delay": "-1s", "backoff": {"linear": {"steps": 1}}, "overrides": {"b": {"max_attempts": 0}, "a": {"jitter": 1}}}`,
		[]string{
			`backoff.linear.steps: 1: unknown key; did you mean step?`,
			`max_attempts: 1.5: must be a whole number`,
			`overrides.a.jitter: 1: must be "full", "equal", "none", or an object with one key of plus_minus, proportional`,
			`overrides.b.max_attempts: 0: must be at least 1; leave it out for the default`,
			`title: "x": unknown key` + topKeys,
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

// TestPolicyJSONLines: a policy of several lines tells in which line a fault is. The lines
// are those of the policy, because it does not see the document that it is part of.
func TestPolicyJSONLines(t *testing.T) {
	t.Parallel()
	const policy = `{
		"max_atempts": 3,
		"backoff": {"schedule": [
			"1s",
			"soon"
		]},
		"overrides": {
			"a.b": {"jitter": "full", "max_delay": -1}
		},
		"timeout": "-1s"
	}`
	const want = `retry: invalid policy: backoff.schedule[1]: "soon": must be a duration like "1m30s", or a number of seconds (line 5 of the policy)
max_atempts: 3: unknown key; did you mean max_attempts? (line 2 of the policy)
timeout: -1s: must not be negative (line 10 of the policy)
overrides.a.b.max_delay: -1s: must not be negative (line 8 of the policy)`
	var p retry.Policy
	assert.EqualError(t, json.Unmarshal([]byte(policy), &p), want)
	assert.EqualError(t, p.UnmarshalJSON([]byte("\n\n "+policy+"\n")), want)
	var config struct{ Retry *retry.Policy }
	assert.EqualError(t, json.Unmarshal([]byte("{\n\n\"Retry\": "+policy+"}"), &config), want)

	many := "{\n" + strings.Repeat("\"name\": 1,\n", 200) + "\"name\": 1}"
	err := p.UnmarshalJSON([]byte(many))
	require.ErrorContains(t, err, "(line 202 of the policy)")
	assert.True(t, strings.HasSuffix(err.Error(), "\nand more"), err)
}

// TestPolicyJSONTooMuch: what a caller who is not trusted may send is bounded, and the
// longest that is valid can be written and read again.
func TestPolicyJSONTooMuch(t *testing.T) {
	t.Parallel()
	list := func(n int, item string) string { return strings.Repeat(item+", ", n-1) + item }
	kinds := make([]string, 1001)
	for i := range kinds {
		kinds[i] = fmt.Sprintf(`"kind %d": {"max_attempts": 2}`, i)
	}
	for text, want := range map[string]string{
		`{"backoff": {"schedule": [` + list(1001, `"1s"`) + `]}}`:        "backoff.schedule: 1001: must have at most 1000 waits",
		`{"backoff": {"schedule": [` + list(500_000, `1`) + `]}}`:        "backoff.schedule: 500000: must have at most 1000 waits",
		`{"overrides": {` + strings.Join(kinds, ",") + `}}`:              "overrides: more: must have at most 1000",
		`{"x": [` + list(1_000_000, `1`) + `]}`:                          "must not have more than 1000000 values",
		`{"backoff": {"schedule": [` + list(100_000, `"soon"`) + `]}}`:   `backoff.schedule[0]: "soon": must be a duration`,
		`{"overrides": {"a": ` + strings.Repeat(" ", 1<<20) + `"long"}}`: `overrides.a: "long": must be an object`,
	} {
		var p retry.Policy
		err := p.UnmarshalJSON([]byte(text))
		require.ErrorContains(t, err, want)
		assert.Less(t, len(err.Error()), 15_000)
		assert.Equal(t, retry.Policy{}, p)
	}
	p := retry.Policy{Overrides: manyOverrides(1000), Backoff: make(retry.Schedule, 1000)}
	text := testkit.Must(json.Marshal(p))(t)
	var again retry.Policy
	require.NoError(t, json.Unmarshal(text, &again))
	assert.Equal(t, p, again)
	p.Backoff = make(retry.Schedule, 1001)
	_, err := json.Marshal(p)
	assert.ErrorContains(t, err, "backoff.schedule: 1001: must have at most 1000 waits", "it could not be read again")
}

// TestPolicyJSONFaultIsShort checks that a long value, pasted by mistake, does
// not fill the log.
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

// TestPolicyJSONFaultsAreNotQuadratic checks that neither the error nor the work
// grows faster than the input: a policy may come from a caller that is not
// trusted.
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

// TestPolicyJSONDeep checks that a form that is too deep for a policy is
// refused with the usual faults.
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

// TestPolicyYAMLValues reads values of types that only YAML libraries make.
func TestPolicyYAMLValues(t *testing.T) {
	t.Parallel()
	type m = map[string]any
	for _, tt := range []struct {
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
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got retry.Policy
			require.NoError(t, got.UnmarshalYAML(decoded(tt.v)))
			assert.Equal(t, tt.want, got)
		})
	}
}

// decoded is the function that a YAML library gives to UnmarshalYAML.
func decoded(v any) func(any) error {
	return func(to any) error {
		*to.(*any) = v
		return nil
	}
}

func TestPolicyYAMLFaults(t *testing.T) {
	t.Parallel()
	type m = map[string]any
	for _, tt := range []struct {
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
		{"a key that is no text", map[any]any{1: 2}, []string{`1: 2: unknown key` + topKeys}},
		{"nothing", nil, []string{`policy: null: must be an object`}},
	} {
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

// TestTextsFromStrangers: nothing in a policy begins a line of a log or moves a cursor, and an
// error stays short.
func TestTextsFromStrangers(t *testing.T) {
	t.Parallel()
	bad := "a\n::error ::b\x1b[2J\u202e\u009b" + strings.Repeat("x", 10_000)
	key, err := json.Marshal(bad)
	require.NoError(t, err)
	for _, text := range []string{
		`{KEY: 1}`, `{"overrides": {KEY: {KEY: KEY}}}`, `{"overrides": {KEY: {"max_attempts": 0}}}`, `{"name": {KEY: KEY}}`,
		`{"backoff": {KEY: 1}}`, `{"jitter": KEY}`, `{"max_delay": KEY}`, `{KEY: 1, KEY: 2}`, `{"backoff": {"schedule": [KEY]}}`, `KEY`, "\x1b[2J", "{\x9b",
	} {
		p := retry.Policy{}
		err := p.UnmarshalJSON([]byte(strings.ReplaceAll(text, "KEY", string(key))))
		require.Error(t, err, text)
		for line := range strings.SplitSeq(err.Error(), "\n") { // one for each fault
			assertShown(t, line, 500)
		}
	}
	for _, text := range []string{`{"a": 1, "::error ::b": 1}`, `{" ##[error]": 1, "a": 1}`} {
		err := new(retry.Policy).UnmarshalJSON([]byte(text))
		assert.NotRegexp(t, `(?m)^\s*(::|##)`, err.Error())
	}
	assert.Equal(t, `"::error ::b": 1 attempt`, retry.Policy{Name: "::error ::b", MaxAttempts: 1}.String())
	p := retry.Policy{Name: bad, Overrides: map[string]retry.Override{bad: {MaxAttempts: 2}}}
	assertShown(t, p.String(), 1000)
	inner := errors.New("two\nlines")
	e := &retry.Error{Policy: bad, Attempts: 1, Err: inner}
	text, own := strings.CutSuffix(e.Error(), ": two\nlines")
	assert.True(t, own, "the text of the operation's error stays")
	assertShown(t, text, 500)
	_, err = retryjob.PolicyFor(bad, nil, func(string) (*retry.Policy, error) { return nil, inner })
	text, own = strings.CutSuffix(err.Error(), ": two\nlines")
	assert.True(t, own)
	assertShown(t, text, 500)
}

func assertShown(t *testing.T, text string, most int) {
	t.Helper()
	assert.LessOrEqual(t, len(text), most)
	assert.Equal(t, -1, strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }), "%q", text)
}

// TestReadingIsLinear: ten times the text takes no more than ten times the memory, and so the
// work, whatever is wrong with it.
func TestReadingIsLinear(t *testing.T) { //nolint:paralleltest // it counts all allocations
	list := func(form string) func(int) string {
		return func(size int) string {
			var b strings.Builder
			for i := 0; b.Len() < size; i++ {
				b.WriteString(strings.ReplaceAll(form, "#", strconv.Itoa(i)) + ",\n")
			}
			return b.String()
		}
	}
	long := strings.Repeat("k", 100)
	//nolint:paralleltest // It measures.
	for name, text := range map[string]struct {
		before, after string
		form          func(int) string
	}{
		"unknown keys":       {"{", `"z":1}`, list(`"k#":1`)},
		"long keys":          {"{", `"z":1}`, list(`"` + long + `…:.[#":1`)},
		"repeated keys":      {"{", `"z":1}`, list(`"a":1`)},
		"repeated objects":   {"{", `"z":1}`, list(`"overrides":{"a":{"x":1}}`)},
		"overrides":          {`{"overrides":{`, `"z":{}}}`, list(`"k#":{"jitter":1}`)},
		"waits":              {`{"backoff":{"schedule":[`, `1]}}`, list(`-1`)},
		"lists":              {`{"name":[`, `[]]}`, list(`[]`)},
		"one key":            {`{"`, `":1}`, func(size int) string { return strings.Repeat("k", size) }},
		"a key above others": {`{"overrides":{"` + strings.Repeat(long, 300) + `":{`, `"z":1}}}`, list(`"k#":1`)},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.GrowsLikeTheInput(t, func(data []byte) {
				require.Error(t, new(retry.Policy).UnmarshalJSON(data))
			}, func(size int) []byte { return []byte(text.before + text.form(size) + text.after) })
		})
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
		again := testkit.Must(json.Marshal(p))(t)
		var q retry.Policy
		require.NoError(t, json.Unmarshal(again, &q), "%s", again)
		assert.Equal(t, p, q, "%s", again)
		_ = p.String()
	})
}
