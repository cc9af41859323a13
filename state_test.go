package retry_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
)

var firstAttempt = time.Date(2026, 11, 21, 6, 48, 0, 0, time.UTC)

// TestStateForms pins both forms: rows that were written by an old version have
// to be read by a new one.
func TestStateForms(t *testing.T) {
	t.Parallel()
	east := time.FixedZone("", 5*3600+45*60)
	tests := []struct {
		name       string
		state      retry.State
		json, text string
	}{
		{"zero", retry.State{}, `{}`, ``},
		{"failures", retry.State{Failures: 2}, `{"failures":2}`, `f=2`},
		{"rate limited", retry.State{RateLimited: 1}, `{"rate_limited":1}`, `r=1`},
		{"first", retry.State{First: firstAttempt}, `{"first":"2026-11-21T06:48:00Z"}`, `t=2026-11-21T06:48:00Z`},
		{
			"all",
			retry.State{Failures: 2, RateLimited: 1, First: firstAttempt},
			`{"failures":2,"rate_limited":1,"first":"2026-11-21T06:48:00Z"}`,
			`f=2 r=1 t=2026-11-21T06:48:00Z`,
		},
		{
			"nanoseconds and a zone",
			retry.State{Failures: 1, First: time.Date(2026, 1, 2, 3, 4, 5, 678_900_001, east)},
			`{"failures":1,"first":"2026-01-02T03:04:05.678900001+05:45"}`,
			`f=1 t=2026-01-02T03:04:05.678900001+05:45`,
		},
		{
			"the most",
			retry.State{Failures: math.MaxInt32, RateLimited: math.MaxInt32},
			`{"failures":2147483647,"rate_limited":2147483647}`,
			`f=2147483647 r=2147483647`,
		},
		{"unix epoch", retry.State{First: time.Unix(0, 0).UTC()}, `{"first":"1970-01-01T00:00:00Z"}`, `t=1970-01-01T00:00:00Z`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			data, err := json.Marshal(tt.state)
			require.NoError(t, err)
			assert.Equal(t, tt.json, string(data))
			var back retry.State
			require.NoError(t, json.Unmarshal(data, &back))
			assertSameState(t, tt.state, back)

			text, err := tt.state.MarshalText()
			require.NoError(t, err)
			assert.Equal(t, tt.text, string(text))
			back = retry.State{}
			require.NoError(t, back.UnmarshalText(text))
			assertSameState(t, tt.state, back)
		})
	}
}

// assertSameState compares everything that is stored.
func assertSameState(t *testing.T, want, got retry.State) {
	t.Helper()
	assert.Equal(t, want.Failures, got.Failures)
	assert.Equal(t, want.RateLimited, got.RateLimited)
	assert.True(t, want.First.Equal(got.First), "first: want %v, got %v", want.First, got.First)
	assert.Equal(t, want.First.IsZero(), got.First.IsZero())
}

func TestStateRoundTrip(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		s := retry.State{
			Failures:    int(r.Uint64() >> 1 >> (r.Uint64() % 64)),
			RateLimited: int(r.Uint64() >> 1 >> (r.Uint64() % 64)),
		}
		s.Failures, s.RateLimited = max(s.Failures, 0), max(s.RateLimited, 0) // where an int has 32 bits
		if r.Uint64()%4 > 0 {
			s.First = time.Unix(int64(r.Uint64()%(1<<37)), int64(r.Uint64()%1_000_000_000))
		}
		data, err := json.Marshal(s)
		require.NoError(t, err)
		var fromJSON retry.State
		require.NoError(t, json.Unmarshal(data, &fromJSON))
		assertSameState(t, s, fromJSON)

		text, err := s.MarshalText()
		require.NoError(t, err)
		var fromText retry.State
		require.NoError(t, fromText.UnmarshalText(text))
		assertSameState(t, s, fromText)
	}
}

// TestStateKeyIsNotStored checks that the key, which the reader knows, is
// neither written nor touched.
func TestStateKeyIsNotStored(t *testing.T) {
	t.Parallel()
	s := retry.State{Failures: 1, Key: "secret-job"}
	data, err := json.Marshal(s)
	require.NoError(t, err)
	assert.Equal(t, `{"failures":1}`, string(data))
	text, err := s.MarshalText()
	require.NoError(t, err)
	assert.Equal(t, `f=1`, string(text))

	got := retry.State{Failures: 9, RateLimited: 9, First: firstAttempt, Key: "mine"}
	require.NoError(t, json.Unmarshal([]byte(`{"failures":2,"key":"theirs","Key":"theirs"}`), &got))
	assert.Equal(t, retry.State{Failures: 2, Key: "mine"}, got, "what is left out is zero")
	got = retry.State{Failures: 9, RateLimited: 9, First: firstAttempt, Key: "mine"}
	require.NoError(t, got.UnmarshalText([]byte("r=3 k=theirs key=theirs")))
	assert.Equal(t, retry.State{RateLimited: 3, Key: "mine"}, got)
}

// TestStateReading reads forms that this version does not write but another
// may.
func TestStateReading(t *testing.T) {
	t.Parallel()
	all := retry.State{Failures: 2, RateLimited: 1, First: firstAttempt}
	fromJSON := []struct {
		in   string
		want retry.State
	}{
		{`{}`, retry.State{}},
		{`{"failures":0,"rate_limited":0,"first":"0001-01-01T00:00:00Z"}`, retry.State{}},
		{`{"v":2,"failures":2,"trace":{"id":[1,2]},"rate_limited":1,"first":"2026-11-21T06:48:00Z"}`, all},
		{"{\n  \"first\": \"2026-11-21T08:48:00+02:00\",\n  \"rate_limited\": 1,\n  \"failures\": 2\n}", all},
		{`{"failures":null,"rate_limited":null,"first":null}`, retry.State{}},
	}
	for _, tt := range fromJSON {
		var got retry.State
		if assert.NoError(t, json.Unmarshal([]byte(tt.in), &got), "%s", tt.in) {
			assertSameState(t, tt.want, got)
		}
	}
	fromText := []struct {
		in   string
		want retry.State
	}{
		{"", retry.State{}},
		{" \t\n", retry.State{}},
		{"f=0 r=0", retry.State{}},
		{"f=2 r=1 t=2026-11-21T06:48:00Z", all},
		{"  t=2026-11-21T08:48:00+02:00\tr=1\n f=2 ", all},
		{"v=2 f=2 x= trace=a=b r=1 t=2026-11-21T06:48:00Z", all},
		{"f=02 r=+1", retry.State{Failures: 2, RateLimited: 1}},
	}
	for _, tt := range fromText {
		var got retry.State
		if assert.NoError(t, got.UnmarshalText([]byte(tt.in)), "%q", tt.in) {
			assertSameState(t, tt.want, got)
		}
	}
}

// TestStateFaults checks that errors name the fault, and that the state is then
// unchanged.
func TestStateFaults(t *testing.T) {
	t.Parallel()
	fromJSON := []struct{ in, says string }{
		{`{"failures":-1}`, "retry: state: failures: -1: must not be negative"},
		{`{"rate_limited":-7}`, "retry: state: rate_limited: -7: must not be negative"},
		{`{"failures":2.5}`, "failures"},
		{`{"failures":"2"}`, "failures"},
		{`{"failures":1e99}`, "failures"},
		{`{"failures":9223372036854775808}`, "failures"},
		{`{"rate_limited":true}`, "rate_limited"},
		{`{"first":"yesterday"}`, "yesterday"},
		{`{"first":0}`, "retry: state: "},
		{`[]`, "retry: state: "},
		{`"f=2"`, "retry: state: "},
		{`7`, "retry: state: "},
	}
	for _, tt := range fromJSON {
		assertStateFault(t, tt.in, tt.says, func(s *retry.State) error { return json.Unmarshal([]byte(tt.in), s) })
		assertStateFault(t, tt.in, tt.says, func(s *retry.State) error { return s.UnmarshalJSON([]byte(tt.in)) })
	}
	for _, in := range []string{``, `{`, `{"failures":1`, `{"failures":1}}`, `{"failures":1} {}`, `nul`, "\x00", `{failures:1}`} {
		assertStateFault(t, in, "retry: state: ", func(s *retry.State) error { return s.UnmarshalJSON([]byte(in)) })
	}
	fromText := []struct{ in, says string }{
		{"f=-1", "retry: state: failures: -1: must not be negative"},
		{"f=1 r=-2", "retry: state: rate_limited: -2: must not be negative"},
		{"f=", "retry: state: f=: "},
		{"f=two", "retry: state: f=two: "},
		{"f=1.5", "retry: state: f=1.5: "},
		{"f=99999999999999999999", "retry: state: f=99999999999999999999: "},
		{"r=0x1", "retry: state: r=0x1: "},
		{"t=yesterday", "retry: state: t=yesterday: "},
		{"t=", "retry: state: t=: "},
		{"t=2026-11-21", "retry: state: t=2026-11-21: "},
		{"garbage", `retry: state: "garbage": want key=value`},
		{"f=1 \x00\xff", `retry: state: "\x00\xff": want key=value`},
		{`{"failures":1}`, "want key=value"},
	}
	for _, tt := range fromText {
		assertStateFault(t, tt.in, tt.says, func(s *retry.State) error { return s.UnmarshalText([]byte(tt.in)) })
	}
}

func assertStateFault(t *testing.T, in, says string, read func(*retry.State) error) {
	t.Helper()
	before := retry.State{Failures: 3, RateLimited: 4, First: firstAttempt, Key: "k"}
	s := before
	assert.ErrorContains(t, read(&s), says, "%q", in)
	assert.Equal(t, before, s, "%q", in)
}

// TestStateFromStrangers: whatever a message says, the error is short and in one line, and no
// work is done for what is too long.
func TestStateFromStrangers(t *testing.T) { //nolint:paralleltest // it counts allocations
	const size = 10 << 20
	digits, lines := strings.Repeat("9", 60_000), strings.Repeat("\n::error ::\x1b[2J\u202e", 2000)
	for _, text := range []string{
		strings.Repeat("x", size), "f=" + strings.Repeat("9", size), strings.Repeat("f=1 ", size/4), "t=" + strings.Repeat("2", size),
		"f=" + digits, "t=" + digits, lines, "f=" + strings.ReplaceAll(lines, "\n", "\x00"), "t=\u009b" + digits,
	} {
		for _, read := range []func(*retry.State) error{
			func(s *retry.State) error { return s.UnmarshalText([]byte(text)) },
			func(s *retry.State) error { return s.UnmarshalJSON([]byte(text)) },
			func(s *retry.State) error { return s.UnmarshalJSON(fmt.Appendf(nil, `{"failures": %s}`, text)) },
			func(s *retry.State) error { return s.UnmarshalJSON(fmt.Appendf(nil, `{"first": %q}`, text)) },
		} {
			var s retry.State
			err := read(&s)
			require.Error(t, err, "%.20q", text)
			assert.Less(t, len(err.Error()), 1500, "%.20q", text)
			assert.Equal(t, -1, strings.IndexFunc(err.Error(), func(r rune) bool { return !unicode.IsPrint(r) }), "%q", err)
		}
		if big := []byte(text); len(big) == size {
			var s retry.State
			assert.Less(t, testing.AllocsPerRun(1, func() { _ = s.UnmarshalText(big) }), 10.0)
		}
	}
}

// TestStateInsideOthers checks that a State serves as a field, behind a pointer,
// in a map and, through its text form, where only strings fit.
func TestStateInsideOthers(t *testing.T) {
	t.Parallel()
	type job struct {
		ID    string                 `json:"id"`
		Retry retry.State            `json:"retry"`
		Last  *retry.State           `json:"last,omitempty"`
		Legs  map[string]retry.State `json:"legs,omitempty"`
	}
	in := job{
		ID:    "a",
		Retry: retry.State{Failures: 1},
		Last:  &retry.State{RateLimited: 2},
		Legs:  map[string]retry.State{"x": {Failures: 3, First: firstAttempt}, "y": {}},
	}
	data, err := json.Marshal(in)
	require.NoError(t, err)
	assert.JSONEq(t, `{"id":"a","retry":{"failures":1},"last":{"rate_limited":2},`+
		`"legs":{"x":{"failures":3,"first":"2026-11-21T06:48:00Z"},"y":{}}}`, string(data))
	var out job
	require.NoError(t, json.Unmarshal(data, &out))
	assert.Equal(t, in, out)
}

// TestStateCountSaturates checks that a counter at its maximum stays there.
func TestStateCountSaturates(t *testing.T) {
	t.Parallel()
	p := &retry.Policy{MaxAttempts: retry.Unlimited, FreeRateLimits: math.MaxInt, Jitter: retry.NoJitter}
	now := firstAttempt
	failed := retry.Verdict{Class: retry.Retryable}
	limited := retry.Verdict{Class: retry.RateLimited, After: time.Second}

	d := p.Decide(retry.State{Failures: math.MaxInt - 2}, failed, now)
	assert.True(t, d.Retry)
	assert.Equal(t, math.MaxInt-1, d.State.Failures)
	assert.Equal(t, 30*time.Second, d.Delay, "as after any other failure")
	for range 3 {
		d = p.Decide(d.State, failed, now)
		assert.Equal(t, math.MaxInt, d.State.Failures)
		assert.False(t, d.Retry, "no number of attempts is larger")
	}

	d = p.Decide(retry.State{Failures: math.MaxInt, RateLimited: math.MaxInt - 1}, limited, now)
	assert.True(t, d.Retry)
	assert.Equal(t, math.MaxInt, d.State.RateLimited)
	assert.GreaterOrEqual(t, d.Delay, time.Second)
	d = p.Decide(d.State, limited, now)
	assert.Equal(t, math.MaxInt, d.State.RateLimited)
}

// TestStateTextFitsAHeader checks that the text form has no character that a
// header or a shell would quote.
func TestStateTextFitsAHeader(t *testing.T) {
	t.Parallel()
	s := retry.State{Failures: math.MaxInt, RateLimited: math.MaxInt, First: firstAttempt.Add(123456789)}
	text, err := s.MarshalText()
	require.NoError(t, err)
	assert.Less(t, len(text), 100)
	assert.Empty(t, strings.Trim(string(text), "frt= 0123456789-:.TZ"), "%s", text)
}

func TestStateAttempts(t *testing.T) {
	t.Parallel()
	for state, want := range map[retry.State]int{
		{}: 0,
		{Failures: 2, RateLimited: 3, Pending: 4}:           9,
		{Failures: 2, Pending: -3}:                          2,
		{Failures: -1, RateLimited: -1, Pending: 1}:         1,
		{Failures: math.MaxInt, RateLimited: 1}:             math.MaxInt,
		{Failures: 1, RateLimited: 1, Pending: math.MaxInt}: math.MaxInt,
		{Failures: math.MaxInt, RateLimited: math.MaxInt}:   math.MaxInt,
	} {
		assert.Equal(t, want, state.Attempts(), "%+v", state)
	}
}

// FuzzStateText checks that a decoded state is valid, and reads the same after
// it was written again.
func FuzzStateText(f *testing.F) {
	for _, seed := range []string{
		"", "f=2 r=1 t=2026-11-21T06:48:00Z", "f=-1", "f=1 f=2", "t=0001-01-01T00:00:00Z", "t=2026-11-21T06:48:00.123456789+05:45",
		"t=9999-12-31T23:59:59Z", "v=2 x= =", "f=9223372036854775807 r=99999999999999999999", "garbage", "\u00a0f=1", "f=1\x00",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		fuzzState(t, text, (*retry.State).UnmarshalText, retry.State.MarshalText)
	})
}

// FuzzStateJSON is FuzzStateText for the other form.
func FuzzStateJSON(f *testing.F) {
	for _, seed := range []string{
		`{}`, `null`, `{"failures":2,"rate_limited":1,"first":"2026-11-21T06:48:00Z"}`, `{"failures":-1}`, `{"failures":1e2}`,
		`{"first":"0001-01-01T00:00:00Z"}`, `{"first":"2026-11-21T06:48:00.5+23:59"}`, `{"v":{"a":[1,null]},"Failures":3}`, `[`, `{"failures":"1"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		fuzzState(t, data, (*retry.State).UnmarshalJSON, retry.State.MarshalJSON)
	})
}

func fuzzState(t *testing.T, data []byte, read func(*retry.State, []byte) error, write func(retry.State) ([]byte, error)) {
	t.Helper()
	before := retry.State{Failures: 3, RateLimited: 4, First: firstAttempt, Key: "k"}
	s := before
	if read(&s, data) != nil {
		assert.Equal(t, before, s)
		return
	}
	assert.Equal(t, "k", s.Key)
	assert.GreaterOrEqual(t, s.Failures, 0)
	assert.GreaterOrEqual(t, s.RateLimited, 0)
	again, err := write(s)
	require.NoError(t, err)
	var back retry.State
	require.NoError(t, read(&back, again), "%s", again)
	assertSameState(t, s, back)
	twice, err := write(back)
	require.NoError(t, err)
	assert.Equal(t, string(again), string(twice))
}
