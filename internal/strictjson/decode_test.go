package strictjson_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/internal/strictjson"
)

// FuzzDecode compares Decode with encoding/json.
func FuzzDecode(f *testing.F) {
	for _, text := range []string{
		`{"a": [1, -2.5e3, "x", true, false, null, {}, []], "b": {"c": {"d": ""}}}`,
		` "\u00e9\n\ud83d\ude00 \ud83d" `, "\"\xff\"", "\t-0 ", `{"\u0061": 1, "a": [[], [[]], "]", "\"}"]}`, `{`, `[1,]`, ``,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		var want any
		wantErr := json.Unmarshal([]byte(text), new(any))
		var faults strictjson.Faults
		got, err := strictjson.Decode([]byte(text), &faults)
		if wantErr != nil {
			if !json.Valid([]byte(text)) { // it may also be a number that no float64 holds
				require.EqualError(t, err, wantErr.Error())
			}
			return
		}
		require.NoError(t, err)
		require.NoError(t, d.Decode(&want))
		if strings.Count(text, "{")+strings.Count(text, "[") <= 20 {
			require.Equal(t, want, got)
		}
		strictjson.Show(got)
	})
}

func TestDecodeNotes(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, text, want string }{
		{"nothing", `{"a": {"b": 1}, "b": [{"a": 1}, {"a": 2}]}`, "[]"},
		{"a repeated key", `{"a": {"b": [0, {"c": 1, "\u0063": "x"}]}}`, `[a.b[1].c: "x": repeated key]`},
		{"many", `{` + strings.Repeat(`"a": 1, `, 500) + `"a": 2}`, "[" + strings.Repeat("a: 1: repeated key ", 100) + "and more]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var faults strictjson.Faults
			_, err := strictjson.Decode([]byte(tt.text), &faults)
			require.NoError(t, err)
			assert.Equal(t, tt.want, fmt.Sprint([]error(faults)))
		})
	}
}

func TestDecodeErrors(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, text, want string
		offset           int
	}{
		{"a syntax error", `{"a": ]}`, "invalid character ']' looking for beginning of value", 6},
		{"the end", `{"a": 1`, "unexpected end of JSON input", 6},
		{"empty", ``, "unexpected end of JSON input", 0},
		{"too many values", `[` + strings.Repeat("1,", 2_000_000) + `1]`, "must not have more than 1000000 values", 1_999_999},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := strictjson.Decode([]byte(tt.text), new(strictjson.Faults))
			var e *strictjson.Error
			require.ErrorAs(t, err, &e)
			require.EqualError(t, e, tt.want)
			assert.Equal(t, tt.offset, e.Offset)
		})
	}
}

// TestDecodeDeep: what is deeper than any configuration is left out.
func TestDecodeDeep(t *testing.T) {
	t.Parallel()
	const depth = 9000
	v, err := strictjson.Decode([]byte(strings.Repeat(`[1,`, depth)+`2`+strings.Repeat(`]`, depth)), new(strictjson.Faults))
	require.NoError(t, err)
	for range 20 {
		list, ok := v.([]any)
		require.True(t, ok)
		require.Len(t, list, 2)
		v = list[1]
	}
	assert.Equal(t, `[1,"…"]`, strictjson.Show(v))
}

func TestShow(t *testing.T) {
	t.Parallel()
	large := strictjson.Object{}
	for i := range 5000 {
		large[fmt.Sprint(i)] = i
	}
	var deep any = 1
	for range 100_000 {
		deep = []any{deep}
	}
	for _, tt := range []struct {
		name string
		v    any
		want string
	}{
		{"nothing", nil, "null"},
		{"text", "a\"b", `"a\"b"`},
		{"the longest", strings.Repeat("x", 58), `"` + strings.Repeat("x", 58) + `"`},
		{"longer", strings.Repeat("x", 59), `"` + strings.Repeat("x", 59) + "…"},
		{"a letter at the cut", strings.Repeat("x", 58) + "é", `"` + strings.Repeat("x", 58) + "…"},
		{"an object", strictjson.Object{"b": []any{}, "a": strictjson.Object{}}, `{"a":{},"b":[]}`},
		{"a large one", strictjson.Object{"a": large}, `{"a":an object with 5000 keys}`},
		{"a list", []any{1, json.Number("2.50"), nil, true}, `[1,2.50,null,true]`},
		{"a long list", make([]any, 1_000_000), "[" + strings.Repeat("null,", 11) + "null…"},
		{"deep", deep, strings.Repeat("[", 60) + "…"},
		{"no JSON", map[any]any{1: 2}, "a map[interface {}]interface {}"},
		{"terminal", "\x1b[1m\u009b\u202e\xff", `"\u001b[1m\u009b\u202e�"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tt.want, strictjson.Show(tt.v))
		})
	}
}

// TestPlain: what an alias stands for counts as often as it is met, and before anything is
// made of it.
func TestPlain(t *testing.T) { //nolint:paralleltest // it counts allocations
	loop := []any{nil}
	loop[0] = loop
	var shared any = []any{1}
	for range 7 {
		shared = []any{shared, shared, shared, shared, shared, shared, shared, shared, shared}
	}
	for want, v := range map[string]any{
		"must not have more than 1000000 values, those behind aliases included": shared,
		"must not be deeper than 20 levels":                                     loop,
	} {
		var err error
		allocs := testing.AllocsPerRun(1, func() { _, err = strictjson.Plain(v) })
		require.EqualError(t, err, want)
		assert.Less(t, allocs, 10.0)
	}
	v, err := strictjson.Plain(map[any]any{1: []any{map[any]any{true: nil}}, "a": strictjson.Object{"b": 2.5}})
	require.NoError(t, err)
	assert.Equal(t, strictjson.Object{"1": []any{strictjson.Object{"true": nil}}, "a": strictjson.Object{"b": 2.5}}, v)
}

// Each key of a policy is compared with each name.
//
//nolint:paralleltest // It measures.
func TestComparingNamesIsCheap(t *testing.T) {
	n := testing.AllocsPerRun(100, func() { strictjson.Misspells("Rate-Limits", "rate_limited") })
	assert.LessOrEqual(t, n, 5.0)
}

func TestPlaces(t *testing.T) {
	t.Parallel()
	const text = "\n {\"größe\": [1, \n\t{\"b.c\": null}],\"a\":{\"x\":1},\n\"a\": {\"\\u0062\":[[\"]\"],2]}}"
	tests := []struct {
		path []string
		want strictjson.Place
	}{
		{nil, strictjson.Place{Line: 2, Column: 2}},
		{[]string{"größe"}, strictjson.Place{Line: 2, Column: 3}},
		{[]string{"größe", "0"}, strictjson.Place{Line: 2, Column: 13}},
		{[]string{"größe", "1"}, strictjson.Place{Line: 3, Column: 2}},
		{[]string{"größe", "1", "b.c"}, strictjson.Place{Line: 3, Column: 3}},
		{[]string{"größe", "1", "b.c", "d"}, strictjson.Place{Line: 3, Column: 3}},
		{[]string{"größe", "2"}, strictjson.Place{Line: 2, Column: 3}},
		{[]string{"a"}, strictjson.Place{Line: 4, Column: 1}},
		{[]string{"a", "x"}, strictjson.Place{Line: 4, Column: 1}},
		{[]string{"a", "b", "1"}, strictjson.Place{Line: 4, Column: 23}},
		{[]string{"nowhere", "at", "all"}, strictjson.Place{Line: 2, Column: 2}},
	}
	paths := make([][]string, len(tests))
	for i, tt := range tests {
		paths[i] = tt.path
	}
	got := strictjson.Places([]byte(text), paths)
	for i, tt := range tests {
		assert.Equal(t, tt.want, got[i], tt.path)
		assert.Equal(t, tt.want, strictjson.Places([]byte(text), [][]string{tt.path})[0], tt.path)
	}
}
