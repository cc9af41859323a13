package retry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
)

// TestPolicyJSONForms pins the form of every setting: stored policies have to be
// read by later versions.
func TestPolicyJSONForms(t *testing.T) {
	t.Parallel()
	tests := []struct {
		policy retry.Policy
		json   string
	}{
		{retry.Policy{}, `{}`},
		{retry.Policy{Name: `pay "<é>"`}, `{"name":"pay \"\u003cé\u003e\""}`},
		{retry.Policy{MaxAttempts: 1}, `{"max_attempts":1}`},
		{retry.Policy{MaxAttempts: retry.Unlimited}, `{"max_attempts":"unlimited"}`},
		{retry.Policy{MaxElapsed: 2 * time.Minute}, `{"max_elapsed":"2m0s"}`},
		{retry.Policy{AttemptTimeout: 1500 * ms}, `{"attempt_timeout":"1.5s"}`},
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
	}
	for _, tt := range tests {
		t.Run(tt.json, func(t *testing.T) {
			t.Parallel()
			data, err := json.Marshal(tt.policy)
			require.NoError(t, err)
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
		data, err := json.Marshal(p)
		require.NoError(t, err)
		var back retry.Policy
		require.NoError(t, json.Unmarshal(data, &back), "%s", data)
		if !assert.Equal(t, p, back, "%s", data) {
			break
		}
	}
}

// TestPolicyJSONKeyOrder checks that the order of keys and the space between
// them mean nothing, to a good policy and to a bad one.
func TestPolicyJSONKeyOrder(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(13, 2))
	for range 200 {
		want := randomPolicy(r)
		data, err := json.Marshal(want)
		require.NoError(t, err)
		for range 4 {
			shuffled := shuffledJSON(t, r, data)
			var got retry.Policy
			require.NoError(t, json.Unmarshal(shuffled, &got), "%s", shuffled)
			if !assert.Equal(t, want, got, "%s", shuffled) {
				return
			}
		}
	}
	bad := []byte(`{
		"max_attempts": 0, "max_retries": 3, "jitter": {"proportional": 3}, "max_delay": "1s", "unlimited": true,
		"backoff": {"exponential": {"initial": "5s", "multiplier": 0.5, "max": 7}},
		"overrides": {"a": {"max_attempts": -1, "max_retries": -2}, "b": {"max_delay": 0}, "c": 7}
	}`)
	want := new(retry.Policy).UnmarshalJSON(bad)
	require.Error(t, want)
	for range 200 {
		shuffled := shuffledJSON(t, r, bad)
		assert.EqualError(t, new(retry.Policy).UnmarshalJSON(shuffled), want.Error(), "%s", shuffled)
	}
}

// shuffledJSON writes the same value with the keys of every object in another
// order and other space.
func shuffledJSON(t *testing.T, r *rand.Rand, data []byte) []byte {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	require.NoError(t, d.Decode(&v))
	return appendShuffled(t, r, nil, v)
}

func appendShuffled(t *testing.T, r *rand.Rand, b []byte, v any) []byte {
	t.Helper()
	b = append(b, " \n\t\r     "[:r.Uint64()%10]...)
	switch v := v.(type) {
	case map[string]any:
		keys := make([]string, 0, len(v))
		for key := range v {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		r.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
		b = append(b, '{')
		for i, key := range keys {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendShuffled(t, r, b, key), " :"[r.Uint64()%2:]...)
			b = appendShuffled(t, r, b, v[key])
		}
		return append(b, '}')
	case []any:
		b = append(b, '[')
		for i, v := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendShuffled(t, r, b, v)
		}
		return append(b, ']')
	default:
		data, err := json.Marshal(v)
		require.NoError(t, err)
		return append(b, data...)
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
		data, err := json.Marshal(p)
		require.NoError(t, err)

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

// TestPolicyJSONLeavesRuntimeFields checks that what is not data is neither
// written nor touched.
func TestPolicyJSONLeavesRuntimeFields(t *testing.T) {
	t.Parallel()
	asked, told := 0, 0
	p := retry.Policy{
		Name:       "before",
		Classifier: func(error) retry.Verdict { asked++; return retry.Verdict{} },
		Budget:     &retry.Budget{Ratio: -1},
		Observer:   retry.ObserverFunc(func(context.Context, retry.Event) { told++ }),
		Clock:      &frozenClock{},
		Rand:       word(7),
	}
	budget, clock := p.Budget, p.Clock
	data, err := json.Marshal(p)
	require.NoError(t, err, "the Budget is not part of it, nor are its faults")
	assert.JSONEq(t, `{"name":"before"}`, string(data))

	for _, in := range []string{`{"name":"after"}`, `{"name":"after","oops":1}`, `{`, `null`} {
		_ = json.Unmarshal([]byte(in), &p)
		assert.Same(t, budget, p.Budget)
		assert.Same(t, clock, p.Clock)
		assert.Equal(t, word(7), p.Rand)
		require.NotNil(t, p.Classifier)
		require.NotNil(t, p.Observer)
		p.Classifier(nil)
		p.Observer.Observe(t.Context(), retry.Event{})
	}
	assert.Equal(t, 4, asked)
	assert.Equal(t, 4, told)
	assert.Equal(t, "after", p.Name)
}

type frozenClock struct{ t time.Time }

func (c *frozenClock) Now() time.Time                       { return c.t }
func (c *frozenClock) After(time.Duration) <-chan time.Time { return nil }

// TestPolicyJSONRefusesToWrite checks that what could not be read again is not
// written.
func TestPolicyJSONRefusesToWrite(t *testing.T) {
	t.Parallel()
	nan := math.NaN()
	tests := []struct {
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
		{"duration", retry.Policy{MaxDelay: -1}, []string{`max_delay: -1ns: must not be negative`}},
		{"NaN multiplier", retry.Policy{Backoff: retry.Exponential{Multiplier: nan}}, []string{
			`backoff.exponential.multiplier: NaN: must be a number of at least 1, or 0 for the default`,
		}},
		{"infinite multiplier", retry.Policy{Backoff: retry.Exponential{Multiplier: math.Inf(1)}}, []string{
			`backoff.exponential.multiplier: +Inf: must be a number of at least 1, or 0 for the default`,
		}},
		{"NaN fraction", retry.Policy{Jitter: retry.Proportional(nan)}, []string{`jitter.proportional: NaN: must be a fraction from 0 to 1`}},
		{"several", retry.Policy{MaxElapsed: -1, Jitter: jitterOfUser{}}, []string{
			`max_elapsed: -1ns: must not be negative`,
			`jitter: retry_test.jitterOfUser: has no JSON form`,
		}},
	}
	for _, tt := range tests {
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
	data, err := json.Marshal(in)
	require.NoError(t, err)
	assert.JSONEq(t, `{"url":"http://localhost","retry":{"backoff":{"constant":"0s"},"max_attempts":5},`+
		`"fallback":{"jitter":"none"},"routes":{"/a":{"max_attempts":2}},"list":[{},{"name":"x"}],"rest":null}`, string(data))
	byPointer, err := json.Marshal(&in)
	require.NoError(t, err)
	assert.Equal(t, data, byPointer)
	var out service
	require.NoError(t, json.Unmarshal(data, &out))
	assert.Equal(t, in, out)

	// Defaults of the program stay where the document says nothing.
	out = service{Retry: retry.Policy{MaxAttempts: 9}, Fallback: &retry.Policy{MaxAttempts: 8}}
	require.NoError(t, json.Unmarshal([]byte(`{"url":"x","retry":null}`), &out))
	assert.Equal(t, 9, out.Retry.MaxAttempts)
	assert.Equal(t, 8, out.Fallback.MaxAttempts)

	err = json.Unmarshal([]byte(`{"fallback": {"max_delay": 0}}`), &out)
	assert.EqualError(t, err, "retry: invalid policy: max_delay: 0: must be positive; leave it out for the default")
}

// TestPolicyYAMLForm checks the two methods that YAML libraries call, without
// one. The nested module yamltest has the libraries.
func TestPolicyYAMLForm(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(13, 4))
	for range 500 {
		p := randomPolicy(r)
		v, err := p.MarshalYAML()
		require.NoError(t, err)
		asJSON, err := json.Marshal(v)
		require.NoError(t, err)
		want, err := json.Marshal(p)
		require.NoError(t, err)
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

// randomDuration returns a positive duration of any magnitude.
func randomDuration(r *rand.Rand) time.Duration {
	return max(time.Duration(r.Uint64()>>(1+r.Uint64()%62)), 1)
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
