package model_test

import (
	"encoding/json"
	"fmt"
	"go/format"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/docs/playground/model"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

// random returns a valid policy in its JSON form.
func random(r *rand.Rand) string {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	initial := fmt.Sprintf("%dms", 1+r.IntN(5000))
	fields := []string{
		fmt.Sprintf(`"max_attempts": %d`, 1+r.IntN(12)),
		`"backoff": ` + strings.ReplaceAll(pick(
			`{"exponential": {"initial": "INITIAL", "multiplier": 1.5}}`, `{"linear": {"initial": "INITIAL", "step": "1s"}}`,
			`{"fibonacci": {"initial": "INITIAL"}}`, `{"constant": "INITIAL"}`, `{"schedule": ["INITIAL", "2s", "1m"]}`,
		), "INITIAL", initial),
		`"jitter": ` + pick(`"full"`, `"equal"`, `"none"`, `{"proportional": 0.3}`, `{"plus_minus": "20ms"}`),
		`"max_delay": "1m"`,
	}
	for _, field := range []string{
		`"name": "a \"b\" \\ c"`, `"max_elapsed": "1h2m3s"`, `"attempt_timeout": ` + pick(`"1500µs"`, `"equal_share"`), `"timeout": "2h"`, `"reset_after": "1007ns"`,
		`"max_retry_after": "90s"`, `"free_rate_limits": 3`, `"non_idempotent": true`,
		`"overrides": {"unknown": {"max_attempts": 2, "jitter": "none"}, "http_503": {"backoff": {"schedule": ["1s", "1m"]}, "max_delay": "2m"}}`,
	} {
		if r.IntN(3) == 0 {
			fields = append(fields, field)
		}
	}
	return "{" + strings.Join(fields, ", ") + "}"
}

// TestPlanIsTheLibrary: the waits of 100 policies are those of Policy.Bounds, and their
// Go code is read as the same policy.
func TestPlanIsTheLibrary(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(16, 1))
	for range 100 {
		text := random(r)
		var p retry.Policy
		require.NoError(t, json.Unmarshal([]byte(text), &p), text)
		plan := testkit.Must(model.MakePlan([]byte(text)))(t)
		assert.Equal(t, p.String(), plan.Text)
		assert.Len(t, plan.Attempts, p.MaxAttempts)
		for _, a := range plan.Attempts[1:] {
			shortest, longest := p.Bounds(a.Attempt - 1)
			assert.Equal(t, shortest.Seconds(), a.Shortest, text)
			assert.Equal(t, longest.Seconds(), a.Longest, text)
		}
		assert.Equal(t, p, fromGo(t, plan.Go), plan.Go)
		formatted := testkit.Must(format.Source([]byte(plan.Go)))(t)
		assert.Equal(t, string(formatted), plan.Go)
	}
}

func fromGo(t *testing.T, code string) (p retry.Policy) {
	t.Helper()
	form, err := model.FromGo(code)
	require.NoError(t, err, code)
	require.NoError(t, json.Unmarshal(form, &p), "%s", form)
	return p
}

func TestPlan(t *testing.T) {
	t.Parallel()
	plan, err := model.MakePlan([]byte(`{"name": "x", "max_attempts": "unlimited", "max_retries_": 0}`))
	require.EqualError(t, err, "retry: invalid policy: max_retries_: 0: unknown key; did you mean max_retries?")
	assert.Nil(t, plan)

	plan, err = model.MakePlan([]byte(`{
		"name": "x", "max_attempts": "unlimited", "backoff": {"exponential": {"initial": "90s"}}, "max_delay": "1h",
		"jitter": "equal", "timeout": "5m", "overrides": {"http_503": {"max_attempts": 2, "backoff": {"constant": "1500ms"}}}
	}`))
	require.NoError(t, err)
	assert.True(t, plan.More)
	assert.Equal(t, `retry.Policy{
	Name:        "x",
	MaxAttempts: retry.Unlimited,
	Timeout:     5 * time.Minute,
	Backoff:     retry.Exponential{Initial: 90 * time.Second},
	MaxDelay:    time.Hour,
	Jitter:      retry.EqualJitter,
	Overrides: map[string]retry.Override{
		"http_503": {MaxAttempts: 2, Backoff: retry.Constant(1500 * time.Millisecond)},
	},
}`, plan.Go)
	none := testkit.Must(model.MakePlan([]byte(`{}`)))(t)
	assert.Equal(t, "retry.Policy{}", none.Go)
	assert.InDelta(t, 45+90, plan.Attempts[2].Earliest, 0)
	assert.InDelta(t, 90+180, plan.Attempts[2].Latest, 0)
}

func TestFromGo(t *testing.T) {
	t.Parallel()
	want := retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Constant(90e9), MaxRetryAfter: 500e6, Jitter: retry.Proportional(0.25)}
	for _, code := range []string{
		"retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Constant(90*time.Second), MaxRetryAfter: time.Second/2, Jitter: retry.Proportional(0.5/2)}",
		"p := &Policy{\n\tMaxAttempts: math.MaxInt,\n\tBackoff: retry.Constant(time.Minute + 30*time.Second), // a comment\n" +
			"\tMaxRetryAfter: time.Duration(5e8), Jitter: retry.Proportional(1/4.), Budget: new(retry.Budget), Rand: f(),\n}\nuse(p)",
	} {
		assert.Equal(t, want, fromGo(t, code), code)
	}
	for code, want := range map[string]string{
		"":                                     "1:1: there is no retry.Policy{…}",
		"retry.Policy{":                        "2:2: expected '}', found 'EOF'",
		"retry.Policy{\n\tMaxDelay: \"1s\" 5}": "2:17: missing ',' in composite literal",
		"retry.Policy{MaxDelay: d}":            "1:24: must be a constant",
		"retry.Policy{MaxDelay: 1.5}":          "1:24: must be a whole number of nanoseconds",
		"retry.Policy{MaxDelay: 1/0}":          "1:24: must be a constant",
		"retry.Policy{\n  3}":                  "2:3: a field needs its name",
		"retry.Policy{Multiplier: 1e999}":      "1:26: is too large",
		"retry.Policy{Overrides: map[string]retry.Override{\"a\": f()}}": "1:56: must be a retry.Override{…}",
		"retry.Policy{Overrides: map[string]retry.Override{f()}}":        "1:51: an entry needs its key",
	} {
		_, err := model.FromGo(code)
		assert.EqualError(t, err, want, code)
	}
	form, err := model.FromGo("retry.Policy{MaxAtempts: 3}")
	require.NoError(t, err)
	_, err = model.MakePlan(form)
	require.ErrorContains(t, err, "max_atempts", "the library says what is wrong")
}

func FuzzFromGo(f *testing.F) {
	for _, preset := range model.Presets() {
		form := testkit.Must(json.Marshal(preset.Policy))(f)
		plan := testkit.Must(model.MakePlan(form))(f)
		f.Add(plan.Go)
	}
	f.Fuzz(func(t *testing.T, code string) {
		if form, err := model.FromGo(code); err == nil {
			assert.True(t, json.Valid(form), "%s", form)
		}
	})
}

func TestClients(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, policy                    string
		outage                          float64
		through, gaveUp, rows, attempts int
		more                            bool
		busiest                         int
		hammering                       int
	}{
		{"in step", `{"max_attempts": 2, "jitter": "none", "backoff": {"constant": "4s"}}`, 3, 1000, 0, 2, 2000, false, 1000, 0},
		{"all give up", `{"max_attempts": 3, "jitter": "none", "backoff": {"constant": "1s"}}`, 3, 0, 1000, 3, 3000, false, 1000, 0},
		{"a timeout", `{"max_attempts": "unlimited", "jitter": "none", "backoff": {"constant": "1s"}, "timeout": "2500ms"}`, 4, 0, 1000, 3, 3000, false, 1000, 0},
		{"no wait", `{"max_attempts": "unlimited", "backoff": {"constant": "0s"}}`, 3, 0, 0, 12, 201_000, true, 200_000, 1000},
		{"many attempts", `{"max_attempts": 20, "jitter": "none", "backoff": {"constant": "1s"}}`, 15, 1000, 0, 12, 16_000, true, 1000, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := testkit.Must(model.MakeClients([]byte(tt.policy), tt.outage))(t)
			assert.Equal(t, tt.through, c.Through)
			assert.Equal(t, tt.gaveUp, c.GaveUp)
			assert.Equal(t, tt.hammering, c.Hammering)
			assert.Equal(t, tt.busiest, c.Busiest)
			assert.Len(t, c.Cells, tt.rows)
			assert.Equal(t, tt.attempts, c.Attempts)
			assert.Equal(t, tt.more, c.More)
			assert.Equal(t, 1000, c.Cells[0][0], "all begin together")
			sum := 0
			for _, row := range c.Cells {
				for _, n := range row {
					sum += n
				}
			}
			assert.Equal(t, c.Attempts, sum, "every attempt is in the picture")
		})
	}

	c := testkit.Must(model.MakeClients([]byte(`{}`), 3))(t)
	assert.Less(t, c.Busiest, 800, "jitter spreads them")
	assert.Equal(t, 1000, c.Through+c.GaveUp)
	again, err := model.MakeClients([]byte(`{}`), 3)
	require.NoError(t, err)
	assert.Equal(t, c, again)

	for _, outage := range []float64{0, -1, 1e9} {
		_, err = model.MakeClients([]byte(`{}`), outage)
		require.EqualError(t, err, "outage: must be above 0 s and at most 24 h")
	}
	_, err = model.MakeClients([]byte(`{"max_attempts": 0}`), 3)
	require.ErrorContains(t, err, "max_attempts")
}

func TestCompare(t *testing.T) {
	t.Parallel()
	all, err := model.Compare(3)
	require.NoError(t, err)
	require.Len(t, all, len(model.Presets()))
	for _, c := range all {
		require.NoError(t, c.Policy.Validate(), c.Name)
		assert.Equal(t, c.Policy.String(), c.Plan.Text)
		assert.Equal(t, 1000, c.Clients.Through+c.Clients.GaveUp, c.Name)
		assert.InDelta(t, 15, c.Clients.Column*80, 1e-9, "one scale for all")
	}
	assert.Equal(t, "Job table", all[2].Name)
	assert.Equal(t, 0, all[2].Clients.Later)
	assert.Positive(t, all[6].Clients.Column)
	_, err = model.Compare(0)
	require.ErrorContains(t, err, "outage")
}

func TestStorm(t *testing.T) {
	t.Parallel()
	storm, err := model.MakeStorm([]byte(`{}`), "stall")
	require.NoError(t, err)
	require.Len(t, storm.Lines, 3)
	budget, without, none := storm.Lines[0], storm.Lines[1], storm.Lines[2]
	assert.Equal(t, -1.0, without.Recovery, "without a budget it stays down")
	good := func(l model.Line) (calls int) {
		for _, n := range l.Good[10+storm.Fault[1]:] {
			calls += n
		}
		return calls
	}
	assert.Zero(t, good(without))
	assert.Greater(t, without.Amplification, 2.0)
	assert.Equal(t, 1.0, none.Amplification)
	assert.Less(t, budget.Amplification, 1.1)
	assert.Positive(t, budget.Recovery)
	assert.InDelta(t, none.Recovery, budget.Recovery, 5, "nearly as soon as without retries")
	assert.Greater(t, good(budget), good(none)*9/10)
	assert.GreaterOrEqual(t, budget.Everyday, 0.999, "and what retries are good for stays")
	assert.InDelta(t, 1-storm.Background, none.Everyday, 0.005)
	assert.Len(t, budget.Attempts, len(storm.Seconds))
	assert.Len(t, budget.Good, len(storm.Seconds))
	assert.Equal(t, -10, storm.Seconds[0])

	_, err = model.MakeStorm([]byte(`{}`), "fire")
	require.ErrorContains(t, err, "fault: fire: must be one of")
	_, err = model.MakeStorm([]byte(`[]`), "stall")
	require.ErrorContains(t, err, "must be an object")
}

func TestBacklog(t *testing.T) {
	t.Parallel()
	b, err := model.MakeBacklog(50, 2)
	require.NoError(t, err)
	require.Len(t, b.Ways, 2)
	alone, shared := b.Ways[0], b.Ways[1]
	assert.Greater(t, alone.Refused, 30*shared.Refused)
	assert.InDelta(t, alone.Took.Seconds(), shared.Took.Seconds(), 4)
	for _, limit := range [][2]float64{{0, 2}, {1001, 2}, {50, 0}, {50, 3601}} {
		_, err = model.MakeBacklog(limit[0], limit[1])
		require.EqualError(t, err, "limit: must be 1 to 1000 requests in at most 1 h")
	}
}

func TestAsk(t *testing.T) {
	t.Parallel()
	for question, want := range map[string]string{
		`["plan", "{\"max_attempts\": 1}"]`: `{"text":"1 attempt","go":"retry.Policy{\n\tMaxAttempts: 1,\n}","policy":{"max_attempts":1},` +
			`"attempts":[{"attempt":1,"shortest":0,"longest":0,"earliest":0,"latest":0}],"more":false}`,
		`["plan"]`:                   `{"error":"unexpected end of JSON input"}`,
		`["go", "x"]`:                `{"error":"1:1: there is no retry.Policy{…}"}`,
		`["clients", "{}", "1"]`:     `{"error":"outage: must be above 0 s and at most 24 h"}`,
		`["compare"]`:                `{"error":"outage: must be above 0 s and at most 24 h"}`,
		`["fire"]`:                   `{"error":"question: nobody knows fire"}`,
		`{}`:                         `{"error":"question: json: cannot unmarshal object into Go value of type []interface {}"}`,
		`["backlog", "50"]`:          `{"error":"limit: must be 1 to 1000 requests in at most 1 h"}`,
		`["storm", "{}", "fire", 1]`: `{"error":"fault: fire: must be one of stall, outage, partial, brownout, quota"}`,
	} {
		assert.JSONEq(t, want, string(model.Ask([]byte(question))), question)
	}
	for _, question := range []string{`["go", "retry.Policy{}"]`, `["clients", "{}", 3]`, `["compare", 3]`, `["storm", "{}", "stall"]`, `["backlog", 50, 2]`} {
		assert.NotContains(t, string(model.Ask([]byte(question)))[:12], "error", question)
	}
}
