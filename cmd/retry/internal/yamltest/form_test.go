package yamltest_test

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrypolicies"
)

var update = flag.Bool("update", false, "write the tables of docs/policy.md")

// key is what a row says about a key. The decoder says which keys there are, and their types.
type key struct{ fallback, example, meaning string }

var policyKeys = map[string]key{
	"name":             {"none", `"payments"`, "is part of errors, logs and metrics"},
	"max_attempts":     {"`3`", `5`, "calls in all, the first included"},
	"max_retries":      {"`2`", `4`, "`max_attempts` - 1; one of the two"},
	"max_elapsed":      {"no limit", `"2m"`, "no attempt starts later than this after the first; interrupts none"},
	"attempt_timeout":  {"no limit", `"10s"`, "limits each attempt; `\"equal_share\"` divides the time left among the attempts left"},
	"timeout":          {"no limit", `"5m"`, "limits the whole call, waits included, and interrupts an attempt"},
	"reset_after":      {"never", `"1m"`, "a failure of an attempt that lasted this long is the first of a new count"},
	"backoff":          {"`{\"exponential\": {}}`", `{"constant": "5s"}`, "the wait before each retry: see [Backoffs](#backoffs)"},
	"max_delay":        {"`\"30s\"`", `"10s"`, "caps every wait but a server's hint; the default is the first wait if that is longer, and no cap for `constant` and `schedule`"},
	"jitter":           {"`\"full\"`", `"equal"`, "spreads the waits: see [Jitters](#jitters); the default of `constant` and `schedule` is `{\"proportional\": 0.1}`"},
	"max_retry_after":  {"`\"1m\"`", `"1h"`, "the longest hint of a server that is waited for; the default is `max_delay` if that is longer"},
	"free_rate_limits": {"`0`", `10`, "so many rate limits with a hint cost no attempt"},
	"non_idempotent":   {"`false`", `true`, "retry only failures that certainly had no effect"},
	"overrides":        {"none", `{"unknown": {"max_attempts": 1}}`, "other settings for one kind of failure: see [Overrides](#overrides)"},
}

var backoffs = map[string]key{
	"exponential": {"", `{"initial": "1s", "multiplier": 3}`, "each wait is `multiplier` times (default 2) the one before; `initial` defaults to 2 s"},
	"linear":      {"", `{"initial": "1s", "step": "2s"}`, "each wait is longer by `step`, by default `initial`, which defaults to 2 s"},
	"fibonacci":   {"", `{"initial": "1s"}`, "each wait is the sum of the two before; `initial` defaults to 2 s"},
	"constant":    {"", `"5s"`, "every wait is the same; `0` is allowed"},
	"schedule":    {"", `["1s", "10s", "1m"]`, "these waits, and then the last one again"},
}

var jitters = map[string]key{
	`"full"`:         {"", "", "from [0, d], where d is the wait"},
	`"equal"`:        {"", "", "from [d/2, d]"},
	`"none"`:         {"", "", "d; also a server's hint is followed exactly"},
	`"proportional"`: {"", `0.1`, "from d - 10 % to d + 10 %"},
	`"plus_minus"`:   {"", `"2s"`, "from d - 2 s to d + 2 s"},
}

// faults returns what the decoder says about a policy.
func faults(t *testing.T, policy string) string {
	t.Helper()
	err := new(retry.Policy).UnmarshalJSON([]byte(policy))
	require.Error(t, err, policy)
	return strings.TrimPrefix(err.Error(), "retry: invalid policy: ")
}

// keysAt returns the keys that the decoder names at a place, where %s is an object.
func keysAt(t *testing.T, place string) []string {
	t.Helper()
	_, list, ok := strings.Cut(faults(t, fmt.Sprintf(place, `{"?": 0}`)), "unknown key; the keys here are ")
	require.True(t, ok, place)
	return strings.Split(list, ", ")
}

// typeOf returns what the decoder says that the value of a key must be.
func typeOf(t *testing.T, key string) string {
	t.Helper()
	_, must, ok := strings.Cut(faults(t, fmt.Sprintf(`{%q: null}`, key)), "null: must be ")
	require.True(t, ok, key)
	if before, _, object := strings.Cut(must, "an object with one key of "); object {
		return before + "an object"
	}
	switch {
	case strings.HasPrefix(must, `a duration`), strings.HasPrefix(must, "a number") && duration(key):
		must = "a duration"
	case strings.HasSuffix(key, "_attempts"), strings.HasSuffix(key, "_retries"):
		must += ", or `\"unlimited\"`"
	}
	return must
}

// duration reports whether a key takes a text like "1s".
func duration(key string) bool {
	return new(retry.Policy).UnmarshalJSON(fmt.Appendf(nil, `{%q: "1s"}`, key)) == nil
}

// form returns an example in JSON and in YAML, which are the same policy, and whether it is
// one.
func form(t *testing.T, text string) (asJSON, asYAML string) {
	t.Helper()
	var node yaml.Node
	require.NoError(t, yaml.Unmarshal([]byte(text), &node), text)
	plain(&node)
	out, err := yaml.Marshal(&node)
	require.NoError(t, err)
	asYAML = strings.TrimSpace(string(out))
	var fromJSON, fromYAML retry.Policy
	require.NoError(t, json.Unmarshal([]byte("{"+text+"}"), &fromJSON), text)
	require.NoError(t, yaml.Unmarshal([]byte("{"+asYAML+"}"), &fromYAML), asYAML)
	require.Equal(t, fromJSON, fromYAML)
	require.NotEqual(t, retry.Policy{}, fromJSON, "the example says nothing: %s", text)
	return "`" + text + "`", "`" + asYAML + "`"
}

// plain takes the quotes of JSON away where YAML needs none.
func plain(n *yaml.Node) {
	n.Style &^= yaml.DoubleQuotedStyle
	for _, child := range n.Content {
		plain(child)
	}
}

var formTables = map[string]func(t *testing.T) string{
	"keys": func(t *testing.T) string {
		t.Helper()
		return table(t)
	},
	"overrides": func(t *testing.T) string {
		t.Helper()
		var names []string
		for _, name := range inOrder(keysAt(t, `{"overrides": {"timeout": %s}}`)) {
			require.Contains(t, policyKeys, name)
			names = append(names, "`"+name+"`")
		}
		asJSON, asYAML := form(t, `"overrides": {"http_503": {"max_attempts": 5, "backoff": {"constant": "5s"}}}`)
		return "An override may have " + strings.Join(names, ", ") + ", as above: " + asJSON + ", or " + asYAML + ".\n"
	},
	"backoffs": func(t *testing.T) string {
		t.Helper()
		const place = `{"backoff": %s}`
		rows := "| Name | JSON | It waits |\n| --- | --- | --- |\n"
		names := keysAt(t, place)
		assert.Len(t, backoffs, len(names))
		for _, name := range names {
			require.Contains(t, backoffs, name)
			if strings.HasPrefix(backoffs[name].example, "{") {
				for _, argument := range keysAt(t, fmt.Sprintf(`{"backoff": {%q: %%s}}`, name)) {
					assert.Contains(t, backoffs[name].example, fmt.Sprintf("%q", argument), "the example of %s", name)
				}
			}
			asJSON, _ := form(t, fmt.Sprintf(`"backoff": {%q: %s}`, name, backoffs[name].example))
			rows += fmt.Sprintf("| `%s` | %s | %s |\n", name, asJSON, backoffs[name].meaning)
		}
		return rows
	},
	"jitters": func(t *testing.T) string {
		t.Helper()
		_, must, ok := strings.Cut(faults(t, `{"jitter": null}`), "null: must be ")
		require.True(t, ok)
		words, objects, ok := strings.Cut(must, ", or an object with one key of ")
		require.True(t, ok)
		rows := "| Name | JSON | It draws |\n| --- | --- | --- |\n"
		names := strings.Split(words, ", ")
		for name := range strings.SplitSeq(objects, ", ") {
			names = append(names, fmt.Sprintf("%q", name))
		}
		assert.Len(t, jitters, len(names))
		for _, name := range names {
			require.Contains(t, jitters, name)
			value := name
			if argument := jitters[name].example; argument != "" {
				value = "{" + name + ": " + argument + "}"
			}
			asJSON, _ := form(t, `"jitter": `+value)
			rows += fmt.Sprintf("| `%s` | %s | %s |\n", strings.Trim(name, `"`), asJSON, jitters[name].meaning)
		}
		return rows
	},
	"file": func(t *testing.T) string {
		t.Helper()
		const file = `default:
  max_attempts: 4
  attempt_timeout: 5s
policies:
  payments:
    non_idempotent: true
  search:
    max_attempts: 2
    backoff: {constant: 100ms}
`
		var policies retrypolicies.Policies
		require.NoError(t, yaml.Unmarshal([]byte(file), &policies))
		require.Equal(t, []string{"default", "payments", "search"}, policies.Names())
		return "```yaml\n" + file + "```\n"
	},
}

// table has a row for each key of a policy.
func table(t *testing.T) string {
	t.Helper()
	names := inOrder(keysAt(t, "%s"))
	assert.Len(t, policyKeys, len(names))
	rows := "| Key | Value | Default | JSON | It |\n| --- | --- | --- | --- | --- |\n"
	for _, name := range names {
		row, ok := policyKeys[name]
		require.True(t, ok, "the page says nothing about %s", name)
		asJSON, _ := form(t, fmt.Sprintf("%q: %s", name, row.example))
		rows += fmt.Sprintf("| `%s` | %s | %s | %s | %s |\n", name, typeOf(t, name), row.fallback, asJSON, row.meaning)
		// A default that is written out is what the zero policy has.
		if value, quoted := strings.CutPrefix(row.fallback, "`"); quoted && row.fallback != "`0`" {
			var said, zero retry.Policy
			require.NoError(t, json.Unmarshal(fmt.Appendf(nil, "{%q: %s}", name, strings.TrimSuffix(value, "`")), &said))
			text, _, _ := strings.Cut(said.String(), "; hints ≤1m0s") // the default, written out
			assert.Equal(t, zero.String(), text, name)
		}
	}
	return rows
}

// inOrder sorts keys in the order in which people need them.
func inOrder(names []string) []string {
	order := []string{
		"name", "max_attempts", "max_retries", "backoff", "max_delay", "jitter", "attempt_timeout", "timeout", "max_elapsed",
		"max_retry_after", "free_rate_limits", "non_idempotent", "reset_after", "overrides",
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Compare(slices.Index(order, a), slices.Index(order, b)) })
	return names
}

// TestForm compares docs/policy.md with the decoder.
func TestForm(t *testing.T) {
	t.Parallel()
	const document, begin, end = "../../../../docs/policy.md", "<!-- table: ", "<!-- end -->"
	text, err := os.ReadFile(document)
	require.NoError(t, err)
	var want strings.Builder
	places, rest := 0, string(text)
	for {
		before, after, ok := strings.Cut(rest, begin)
		want.WriteString(before)
		if !ok {
			break
		}
		name, after, _ := strings.Cut(after, " -->\n")
		require.Contains(t, formTables, name)
		_, rest, ok = strings.Cut(after, end)
		require.True(t, ok, name)
		want.WriteString(begin + name + " -->\n" + formTables[name](t) + end)
		places++
	}
	require.Len(t, formTables, places)
	if *update {
		require.NoError(t, os.WriteFile(document, []byte(want.String()), 0o644)) //nolint:gosec // a document is for everybody
		return
	}
	assert.Equal(t, want.String(), string(text), "docs/policy.md is behind the decoder: in cmd/retry, go test ./internal/yamltest -run TestForm -update")
}
