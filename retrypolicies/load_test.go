package retrypolicies_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrypolicies"
)

// keys follows an unknown key of a policy.
const keys = "; the keys here are attempt_timeout, backoff, free_rate_limits, jitter, max_attempts, max_delay, max_elapsed, " +
	"max_retries, max_retry_after, name, non_idempotent, overrides, reset_after, timeout"

func TestFaults(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k", 70)
	tests := []struct {
		name, text string
		want       []string
	}{
		{"no JSON", "{\n  \"default\": {,}\n}", []string{
			`f.json:2:15: invalid character ',' looking for beginning of object key string`,
		}},
		{"ends too early", "{\n  \"default\": {", []string{`f.json:2:14: unexpected end of JSON input`}},
		{"empty", "", []string{`f.json:1:1: unexpected end of JSON input`}},
		{"more than one value", "{}\n{}", []string{`f.json:2:1: invalid character '{' after top-level value`}},
		{"a list", `[{}]`, []string{`f.json:1:1: [{}]: must be an object with the keys default and policies`}},
		{"null", `null`, []string{`f.json:1:1: null: must be an object with the keys default and policies`}},
		{"a policy alone", "{\n\"max_attempts\": 3}", []string{
			`f.json:2:1: max_attempts: unknown key; must be default or policies`,
		}},
		{"a default that is none", `{"default": 5, "policies": {"a": {}}}`, []string{`f.json:1:2: default: 5: must be an object`}},
		{"policies that are none", `{"policies": ["a"]}`, []string{
			`f.json:1:2: policies: ["a"]: must be an object of policies by name`,
		}},
		{"a policy that is none", `{"policies": {"a": null}}`, []string{`f.json:1:15: policies.a: null: must be an object`}},
		{"default among the others", `{"policies": {"default": {}, "": {}}}`, []string{
			`f.json:1:15: policies.default: must stand beside policies, not among them`,
			`f.json:1:30: policies: "": must not be the name of a policy`,
		}},
		{"every fault at its line", `{
  "default": {"max_attempts": -1, "jiter": "full"},
  "policies": {
    "a": {
      "backoff": {"schedule": [
        "1s",
        "soon",
        "-1s"
      ]},
      "overrides": {"final": {}, "http_503.x": {"max_attempts": 0}}
    },
    "b": {"timeout": true, "timeout": "1s"}
  }
}`, []string{
			`f.json:2:15: default.max_attempts: -1: must be at least 1; leave it out for the default`,
			`f.json:2:35: default.jiter: "full": unknown key; did you mean jitter?`,
			`f.json:7:9: policies.a.backoff.schedule[1]: "soon": must be a duration like "1m30s", or a number of seconds`,
			`f.json:8:9: policies.a.backoff.schedule[2]: -1s: must not be negative`,
			`f.json:10:7: policies.a.overrides: final: final errors are not retried`,
			`f.json:10:49: policies.a.overrides.http_503.x.max_attempts: 0: must be at least 1; leave it out for the default`,
			`f.json:12:28: policies.b.timeout: "1s": repeated key`,
		}},
		{"characters, not bytes", `{"policies": {"größe": {}, "x": 1}}`, []string{`f.json:1:28: policies.x: 1: must be an object`}},
		{"contradicts the default", `{
  "default": {"backoff": {"constant": "10s"}, "overrides": {"timeout": {"backoff": {"constant": "20s"}}}},
  "policies": {
    "a": {"max_attempts": 9,
          "max_delay": "5s"}
  }
}`, []string{
			`f.json:4:5: policies.a.backoff.constant: 10s: is above max_delay 5s`,
			`f.json:4:5: policies.a.overrides.timeout.backoff.constant: 20s: is above max_delay 5s`,
		}},
		{"long keys", `{"default": {"` + long + `": 1}}`, []string{
			`f.json:1:14: default.` + long[:60] + `…: 1: unknown key` + keys,
		}},
		{"too deep", `{"default": {"a": ` + strings.Repeat("[", 30) + strings.Repeat("]", 30) + `}}`, []string{
			`f.json:1:14: default.a: [[[[[[[[[[[[[[[[[[["…"]]]]]]]]]]]]]]]]]]]: unknown key` + keys,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ps := load(t, sound)
			before := get(t, ps, "search")
			err := ps.Load("f.json", []byte(tt.text))
			var got []string
			for _, f := range testkit.As[*retrypolicies.InvalidError](t, err).Faults {
				got = append(got, f.String())
			}
			assert.Equal(t, tt.want, got)
			assert.Equal(t, "retrypolicies: "+strings.Join(tt.want, "\n"), err.Error())
			assert.Same(t, before, get(t, ps, "search"), "the old ones stay")
		})
	}
}

// TestYAML: a file of the other format says what reads it.
func TestYAML(t *testing.T) {
	t.Parallel()
	const advice = "; YAML is read by a YAML library, as yaml.Unmarshal(data, &policies)"
	for text, says := range map[string]bool{
		"default:\n  max_attempts: 4\n": true, "# policies\npolicies: {}\n": true, "---\nname: x\n": true,
		`{"default": {}`: false, `["a:b"`: false, `"a:`: false, "": false, "x": false,
	} {
		file := filepath.Join(t.TempDir(), "policies.yaml")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		err := new(retrypolicies.Policies).LoadFile(file)
		require.Error(t, err, text)
		assert.Equal(t, says, strings.HasSuffix(err.Error(), advice), "%v", err)
	}
}

func TestFaultOfAFileWithoutANameOfParts(t *testing.T) {
	t.Parallel()
	ps := &retrypolicies.Policies{Parts: map[string]retrypolicies.Parts{
		"payments": {}, "search": {Budget: &retry.Budget{Ratio: 2}},
	}}
	err := ps.Load("f.json", []byte("{\"policies\":\n {\"search\": {}}}"))
	assert.EqualError(t, err, "retrypolicies: "+
		"f.json:1:2: policies: \"payments\" is missing; the program has parts for it\n"+
		"f.json:2:3: policies.search.budget.ratio: 2: must be a fraction from 0 to 1")
}

// TestManyFaults: of thousands, the first hundred that were found are enough.
func TestManyFaults(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, text, first string }{
		{"unknown keys", "{" + members(5000, `"a%d": 1`) + "}", "f.json:1:2: a0: unknown key; must be default or policies"},
		{"in the default", `{"default": {` + members(5000, `"a%d": 1`) + "}}", "f.json:1:14: default.a0: 1: unknown key" + keys},
		{"policies", `{"policies": {` + members(5000, `"a%d": {"x": 1, "max_attempts": 0}`) + "}}", "f.json:1:22: policies.a0.x: 1: unknown key" + keys},
		{"repeated keys", `{"default": {` + strings.Repeat(`"name": "a", `, 5000) + `"name": "b"}}`, `f.json:1:65014: default.name: "a": repeated key`},
		{"waits", `{"default": {"backoff": {"schedule": [` + strings.Repeat(`"soon", `, 900) + `1]}}}`, `f.json:1:39: default.backoff.schedule[0]: "soon": must be a duration`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			invalid := testkit.As[*retrypolicies.InvalidError](t, new(retrypolicies.Policies).Load("f.json", []byte(tt.text)))
			require.Len(t, invalid.Faults, 101)
			assert.Equal(t, "f.json: has more faults than these 100", invalid.Faults[0].String())
			assert.Contains(t, invalid.Faults[1].String(), tt.first)
			for _, fault := range invalid.Faults[1:] {
				assert.NotContains(t, fault.Problem, "and more")
			}
		})
	}
	err := new(retrypolicies.Policies).Load("f.json", []byte("{"+members(100, `"a%d": 1`)+"}"))
	assert.NotContains(t, err.Error(), "more", "a hundred are all")
}

// members returns the members of an object, one in a line.
func members(n int, format string) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(list, ",\n")
}

// TestInheritedByTooMany: a short file does not make much work.
func TestInheritedByTooMany(t *testing.T) {
	t.Parallel()
	waits := strings.Repeat("1,", 998) + "1"
	file := func(policies int) []byte {
		return []byte(`{"default": {"backoff": {"schedule": [` + waits + `]}},` + "\n" + `"policies": {` + members(policies, `"a%d": {}`) + "}}")
	}
	var ps retrypolicies.Policies
	require.NoError(t, ps.Load("f.json", file(900)))
	require.EqualError(t, ps.Load("f.json", file(1000)),
		"retrypolicies: f.json:2:1: policies: 1002000 values are inherited from the default: must be at most 1000000 in all policies")
}

// TestLongFiles: 10 MB take less than a second on a machine that is idle, and five minutes
// nowhere. Work in proportion to the square of the length would take hours.
func TestLongFiles(t *testing.T) {
	t.Parallel()
	name := `"name": "` + strings.Repeat("x", 400) + `"`
	for what, format := range map[string]string{
		"valid": `"a%d": {"max_attempts": 3, ` + name + `}`, "faults": `"a%d": {"max_attempts": -1, ` + name + `}`,
	} {
		lines := `{"policies": {` + members(10<<20/(len(format)+4), format) + "}}"
		for how, text := range map[string]string{"many lines": lines, "one line": strings.ReplaceAll(lines, "\n", " ")} {
			t.Run(what+" in "+how, func(t *testing.T) {
				t.Parallel()
				began := time.Now()
				var invalid *retrypolicies.InvalidError
				if err := new(retrypolicies.Policies).Load("f.json", []byte(text)); what == "valid" {
					require.NoError(t, err)
				} else {
					require.ErrorAs(t, err, &invalid)
				}
				assert.Less(t, time.Since(began), 5*time.Minute)
			})
		}
	}
}

func TestFaultFields(t *testing.T) {
	t.Parallel()
	var ps retrypolicies.Policies
	err := ps.Load("", []byte(`{"policies": {"a.b": {"backoff": {"schedule": [1, "x"]}}}}`))
	invalid := testkit.As[*retrypolicies.InvalidError](t, err)
	require.Len(t, invalid.Faults, 1)
	fault := invalid.Faults[0]
	assert.Equal(t, retrypolicies.Fault{
		Line: 1, Column: 51,
		Path:    []string{"policies", "a.b", "backoff", "schedule", "1"},
		Problem: `policies.a.b.backoff.schedule[1]: "x": must be a duration like "1m30s", or a number of seconds`,
	}, fault)
	assert.Equal(t, "line 1, column 51: "+fault.Problem, fault.String())
}

// TestHooks: policies as a part of a larger document, of JSON or YAML.
func TestHooks(t *testing.T) {
	t.Parallel()
	var config struct {
		Port  int
		Retry retrypolicies.Policies
	}
	require.NoError(t, json.Unmarshal([]byte(`{"Port": 1, "Retry": `+sound+`}`), &config))
	assert.Len(t, config.Retry.Names(), 3)
	require.NoError(t, json.Unmarshal([]byte(`{"Retry": null}`), &config))
	assert.Len(t, config.Retry.Names(), 3)
	err := json.Unmarshal([]byte(`{"Retry": {"default": {"jitter": 1}, "x": 1}}`), &config)
	require.EqualError(t, err, "retrypolicies: x: unknown key; must be default or policies\n"+
		`default.jitter: 1: must be "full", "equal", "none", or an object with one key of plus_minus, proportional`)
	assert.Len(t, config.Retry.Names(), 3)

	// What libraries make of YAML.
	yaml := func(v any) func(any) error {
		return func(to any) error { *to.(*any) = v; return nil }
	}
	require.NoError(t, config.Retry.UnmarshalYAML(yaml(map[string]any{
		"policies": map[any]any{"a": map[string]any{"max_attempts": uint64(4), "backoff": map[string]any{"schedule": []any{1, 2.5}}}},
	})))
	assert.Equal(t, 4, get(t, &config.Retry, "a").MaxAttempts)
	err = config.Retry.UnmarshalYAML(yaml(map[string]any{"policies": map[string]any{"b": map[string]any{"max_delay": -1}}}))
	require.EqualError(t, err, "retrypolicies: policies.b.max_delay: -1s: must not be negative")
	broken := errors.New("yaml: line 3: did not find expected key")
	assert.Equal(t, broken, config.Retry.UnmarshalYAML(func(any) error { return broken }))
	assert.Equal(t, []string{"a", "default"}, config.Retry.Names())
}

// FuzzLoad: nothing panics, a default is accepted exactly if it is a policy, and every
// fault stands in the file.
func FuzzLoad(f *testing.F) {
	f.Add(`{"max_attempts": 4, "backoff": {"exponential": {"initial": "1s", "multiplier": 2}}}`)
	f.Add(`{"max_delay": "1s", "backoff": {"schedule": ["2s", -1, null]}, "jitter": {"plus_minus": 1}}`)
	f.Add(`{"overrides": {"a.b": {"max_attempts": 0}, "a": {"b": 1}, "final": {}}, "x": 1, "x": 2}`)
	f.Add("{\n\"timeout\": \"5m\",\n\"reset_after\": 1e400}")
	f.Fuzz(func(t *testing.T, text string) {
		var p retry.Policy
		policyErr := json.Unmarshal([]byte(text), &p)
		if strings.TrimSpace(text) == "null" {
			t.Skip("is no policy here")
		}
		var ps retrypolicies.Policies
		file := "{\"policies\":\n{\"a\":" + text + "}}"
		err := ps.Load("f.json", []byte(file))
		if strings.Contains(file, "\xff") || !json.Valid([]byte(text)) {
			return // it may be JSON together with what is around it
		}
		if policyErr == nil {
			require.NoError(t, err)
			if p.Name == "" {
				p.Name = "a"
			}
			assert.Equal(t, &p, get(t, &ps, "a"))
			return
		}
		var invalid *retrypolicies.InvalidError
		require.ErrorAs(t, err, &invalid, "%v", policyErr)
		lines := strings.Split(file, "\n")
		for _, fault := range invalid.Faults {
			require.True(t, fault.Line >= 2 && fault.Line <= len(lines), "%v", fault)
			require.True(t, fault.Column >= 1 && fault.Column <= utf8.RuneCountInString(lines[fault.Line-1]), "%v", fault)
		}
	})
}

// TestTextsFromStrangers: every fault is one short line, whatever the names in a file are, and
// that of the file.
func TestTextsFromStrangers(t *testing.T) {
	t.Parallel()
	bad := "a\n::error ::b\x1b[2J\u202e" + strings.Repeat("x", 10_000)
	key := testkit.Must(json.Marshal(bad))(t)
	for _, text := range []string{
		`{KEY: 1}`, `{"policies": {KEY: KEY}}`, `{"policies": {KEY: {KEY: KEY}}}`, `{"default": {"overrides": {KEY: {"jitter": KEY}}}}`, "{\x1b[2J",
	} {
		var ps retrypolicies.Policies
		err := ps.Load(bad+".json", []byte(strings.ReplaceAll(text, "KEY", string(key))))
		require.Len(t, testkit.As[*retrypolicies.InvalidError](t, err).Faults, 1)
		assert.LessOrEqual(t, len(err.Error()), 2500)
		assert.Equal(t, -1, strings.IndexFunc(err.Error(), func(r rune) bool { return !unicode.IsPrint(r) }), "%q", err)
	}
	var ps retrypolicies.Policies
	policies := map[string]any{bad: map[string]any{}}
	for i := range 1000 {
		policies[fmt.Sprint(i)] = map[string]any{}
	}
	data := testkit.Must(json.Marshal(map[string]any{"policies": policies}))(t)
	require.NoError(t, ps.Load("x", data))
	_, err := ps.Get(bad + "?")
	require.ErrorIs(t, err, retrypolicies.ErrUnknown)
	assert.Less(t, len(err.Error()), 1000)
	assert.Contains(t, err.Error(), `"0", "1", "10"`)
	assert.Contains(t, err.Error(), "and 982 more")
}
