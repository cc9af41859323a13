package cli_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/cmd/retry/internal/cli"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

const named = `# Policies of the shop.
default:
  max_attempts: 4
  attempt_timeout: 5s
  backoff: {constant: 1ms}

policies:
  deliver:
    max_attempts: 2
  search: {}
`

// in runs the command in a directory with files.
func in(t *testing.T, files map[string]string, args ...string) result {
	t.Helper()
	cmd := command(t, args...)
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(cmd.Dir, name), []byte(text), 0o600))
	}
	return finish(t, cmd)
}

func TestPolicyOfAFile(t *testing.T) {
	t.Parallel()
	files := map[string]string{
		"named.yaml":  named,
		"one.yaml":    "max_attempts: 2\nbackoff: {constant: 1ms}\n",
		"tabs.json":   "{\n\t\"max_attempts\": 2,\n\t\"backoff\": {\"constant\": \"1ms\"}\n}",
		"broken.yaml": "max_attempts: 0\n",
	}
	for _, tt := range []struct {
		args string
		runs int
		says string
	}{
		{"-p named.yaml --policy-name deliver", 2, ""},
		{"-p named.yaml --policy-name search", 4, ""},
		{"-p named.yaml --policy-name search -n 3", 3, ""},
		{"-p one.yaml", 2, ""},
		{"-p tabs.json", 2, ""},
		{"-p named.yaml", 0, "named.yaml: has policies by name: say which with --policy-name: default, deliver, search"},
		{"-p named.yaml --policy-name serch", 0, `unknown policy "serch": must be one of "default", "deliver", "search"`},
		{"-p one.yaml --policy-name x", 0, "one.yaml has one policy, and no names"},
		{"-p broken.yaml", 0, "broken.yaml:1:1: max_attempts: 0: must be at least 1; leave it out for the default"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			t.Parallel()
			got := in(t, files, append(strings.Fields(tt.args), "--", "sh", "-c", "echo run; exit 9")...)
			assert.Equal(t, tt.runs, strings.Count(got.stdout, "run"), got.stderr)
			assert.Contains(t, got.stderr, tt.says)
			if tt.runs == 0 {
				assert.Equal(t, 125, got.code)
			}
		})
	}
}

// policyKeys is what the decoder says of the keys that it knows.
const policyKeys = "the keys here are attempt_timeout, backoff, free_rate_limits, jitter, max_attempts, max_delay, max_elapsed, " +
	"max_retries, max_retry_after, name, non_idempotent, overrides, reset_after, timeout"

func TestCheck(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, file, text string
		args             []string
		code             int
		want             string
	}{
		{"in order", "p.yaml", named, nil, 0, "p.yaml: ok\n"},
		{"in order, quiet", "p.yaml", named, []string{"-q"}, 0, ""},
		{"JSON", "p.json", `{"max_attempts": 4}`, nil, 0, "p.json: ok\n"},
		{"every fault of YAML", "p.yaml", `default:
  max_attempts: 0
policies:
  a:
    jiter: full
    backoff:
      schedule:
        - 1s
        - soon
  "b.c":
    overrides:
      timeout: {max_attempts: -1}
other: 1
`, nil, 1, `p.yaml:2:3: default.max_attempts: 0: must be at least 1; leave it out for the default
p.yaml:5:5: policies.a.jiter: "full": unknown key; did you mean jitter?
p.yaml:9:11: policies.a.backoff.schedule[1]: "soon": must be a duration like "1m30s", or a number of seconds
p.yaml:12:17: policies.b.c.overrides.timeout.max_attempts: -1: must be at least 1; leave it out for the default
p.yaml:13:1: other: unknown key; must be default or policies
`},
		{"every fault of one policy", "p.yaml", "max_delay: 1s\nbackoff:\n  constant: 2s\nx: 1\n", nil, 1, `p.yaml:3:3: backoff.constant: 2s: is above max_delay 1s
p.yaml:4:1: x: 1: unknown key; ` + policyKeys + `
`},
		{"every fault of JSON", "p.json", "{\"x\": 1,\n  \"max_attempts\": 0}", nil, 1, `p.json:1:2: x: 1: unknown key; ` + policyKeys + `
p.json:2:3: max_attempts: 0: must be at least 1; leave it out for the default
`},
		{"no JSON", "p.json", "{\n\"x\": }", nil, 1, "p.json:2:6: invalid character '}' looking for beginning of value\n"},
		{"jitter", "p.yaml", "jitter: none\n", nil, 0, "p.yaml:1:1: warning: there is no jitter: clients that fail together come back together\n"},
		{"no wait", "p.yaml", "backoff: {constant: 0}\n", nil, 0, "p.yaml:1:1: warning: there is no wait before the first retry\n"},
		{"warnings that count", "p.yaml", "jitter: none\n", []string{"--strict"}, 1, "p.yaml:1:1: warning: there is no jitter: clients that fail together come back together\n"},
		{
			"unlimited", "p.yaml", "policies:\n  a:\n    max_attempts: unlimited\n", nil, 0,
			"p.yaml:3:5: warning: a: unlimited attempts without max_elapsed or timeout: attach a Budget, or bound the context\n",
		},
		{"unlimited in time", "p.yaml", "max_attempts: unlimited\ntimeout: 5m\n", nil, 0, "p.yaml: ok\n"},
		{"reconnects for ever", "p.yaml", "max_attempts: unlimited\nreset_after: 5m\n", nil, 0, "p.yaml: ok\n"},
		{"inherited", "p.yaml", "default:\n  jitter: none\npolicies:\n  a: {}\n", nil, 0, `p.yaml:2:3: warning: default: there is no jitter: clients that fail together come back together
p.yaml:4:3: warning: a: there is no jitter: clients that fail together come back together
`},
		{
			"waits above the limit", "p.yaml", "max_attempts: 4\nmax_elapsed: 10s\n", nil, 0,
			"p.yaml:2:1: warning: the waits add up to as much as 14s, longer than max_elapsed 10s: not all 4 attempts may be made\n",
		},
		{
			"attempts above the limit", "p.yaml", "attempt_timeout: 1m\ntimeout: 1m\n", nil, 0,
			"p.yaml:1:1: warning: attempt_timeout 1m0s is not below timeout 1m0s: one slow attempt leaves no time for another\n",
		},
		{
			"deadline", "p.yaml", "max_attempts: 3\nattempt_timeout: 5s\n",
			[]string{"--deadline", "20s"},
			0,
			"p.yaml:1:1: warning: may take 21s, longer than the deadline 20s\n",
		},
		{"deadline that is kept", "p.yaml", "max_attempts: 3\nattempt_timeout: 5s\ntimeout: 20s\n", []string{"--deadline", "20s"}, 0, "p.yaml: ok\n"},
		{
			"deadline for ever", "p.yaml", "max_attempts: unlimited\nreset_after: 1s\n",
			[]string{"--deadline", "20s"},
			0,
			"p.yaml:1:1: warning: may take for ever, longer than the deadline 20s\n",
		},
		{
			"layers", "p.yaml", "policies:\n  edge: {}\n  api: {}\n  db: {}\n",
			[]string{"--layers", "edge,api,db"},
			0,
			"p.yaml:2:3: warning: edge, api, db retry inside each other: 3 × 3 × 3 = 27 attempts for one call; retry in one layer\n",
		},
		{"layers of which one retries", "p.yaml", "policies:\n  edge: {}\n  api: {max_attempts: 1}\n", []string{"--layers", "edge,api"}, 0, "p.yaml: ok\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := in(t, map[string]string{tt.file: tt.text}, append(append([]string{"check"}, tt.args...), tt.file)...)
			assert.Equal(t, result{tt.code, tt.want, ""}, got)
		})
	}
}

// TestStandardInput: - is JSON or YAML from there.
func TestStandardInput(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]result{
		named: {0, "stdin: ok\n", ""},
		"{\n\t\"max_attempts\": 4,\n\t\"x\": 1\n}": {1, "stdin:3:2: x: 1: unknown key; " + policyKeys + "\n", ""},
		"max_delay: 1s\nbackoff: {constant: 2s}\n": {1, "stdin:2:11: backoff.constant: 2s: is above max_delay 1s\n", ""},
	} {
		assert.Equal(t, want, run(t, text, "check", "-"))
	}
	assert.Contains(t, run(t, named, "plan", "-", "search").stdout, "search: 4 attempts")
	got := run(t, "max_attempts: 2\n", "plan", "-p", "-").stdout
	assert.Regexp(t, "^2 attempts", got, "it has no name")
	assert.Contains(t, run(t, "max_attempts: 2\n", "storm", "-", "--rate", "0").stderr, "--rate")
}

func TestPlanOfNothing(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-f", "-0", "-j", "-0%", "-b", "-0"}, {"-f", "0"}} {
		got := run(t, `{"jitter": {"proportional": -0.0}}`, append([]string{"plan", "-"}, args...)...)
		assert.Equal(t, 0, got.code, got.stderr)
		assert.Contains(t, got.stdout, "All attempts fail in 0 % of the calls, if 0 % of the attempts do")
		assert.Contains(t, got.stdout, "±0% jitter")
		assert.NotContains(t, got.stdout, "-0")
	}
}

func TestCheckOfManyFiles(t *testing.T) {
	t.Parallel()
	files := map[string]string{"a.yaml": "max_attempts: 0", "b.yaml": "", "c.yaml": "a: {\n", "d.yaml": "max_attempts: 1\nmax_attempts: 2\n", "e.yaml": named}
	got := in(t, files, "check", "a.yaml", "b.yaml", "c.yaml", "d.yaml", "e.yaml")
	assert.Equal(t, 1, got.code)
	for _, want := range []string{"a.yaml:1:1: max_attempts: 0", "b.yaml:1:1: policy: null", "c.yaml:", "d.yaml:2:1: ", "e.yaml: ok\n"} {
		assert.Contains(t, got.stdout, want)
	}
	got = in(t, files, "check", "--layers", "deliver,nobody", "e.yaml")
	assert.Equal(t, 125, got.code)
	assert.Contains(t, got.stderr, `e.yaml: --layers: retrypolicies: unknown policy "nobody"`)
}

// TestCheckAcceptsWhatIsAPolicy compares check with what a program makes of a file.
func TestCheckAcceptsWhatIsAPolicy(t *testing.T) {
	t.Parallel()
	durations := []any{"1s", "1m30s", 2, 0.5, "0s", "-1s", "soon", true, nil}
	policies := []map[string]any{{}, {"max_atempts": 1}, {"": nil}}
	for key, values := range map[string][]any{
		"max_attempts": {1, 5, "unlimited", 3.0, 0, 1.5}, "max_retries": {0, -1}, "jitter": {"full", "some", map[string]any{"proportional": 0.3}},
		"max_elapsed": durations, "attempt_timeout": durations, "max_delay": durations,
		"overrides": {map[string]any{"a.b": map[string]any{"max_attempts": 4}}, map[string]any{"unknown": map[string]any{"max_delay": "0s"}}},
	} {
		for _, value := range values {
			policies = append(policies, map[string]any{key: value})
		}
	}
	for _, d := range durations {
		for _, backoff := range []map[string]any{
			{"exponential": map[string]any{"initial": d, "multiplier": 1.5}},
			{"linear": map[string]any{"initial": "1s", "step": d}},
			{"schedule": []any{d, "1s"}},
			{"constant": d},
		} {
			policies = append(policies, map[string]any{"backoff": backoff}, map[string]any{"backoff": backoff, "max_delay": "1m"})
		}
	}
	dir, valid := t.TempDir(), 0
	for i, p := range policies {
		asJSON := testkit.Must(json.MarshalIndent(p, "", "\t"))(t)
		asYAML, err := yaml.Marshal(p)
		require.NoError(t, err)
		for ext, text := range map[string][]byte{".json": asJSON, ".yaml": asYAML} {
			var want retry.Policy
			var wantErr error
			if ext == ".json" {
				wantErr = json.Unmarshal(text, &want)
			} else {
				wantErr = yaml.Unmarshal(text, &want)
			}
			if wantErr == nil {
				wantErr = want.Validate()
			}
			name := filepath.Join(dir, fmt.Sprint(i)+ext)
			require.NoError(t, os.WriteFile(name, text, 0o600))
			got, err := cli.ReadPolicy(name)
			if wantErr != nil {
				require.Error(t, err, "%s\n%v", text, wantErr)
				continue
			}
			require.NoError(t, err, "%s", text)
			require.Equal(t, &want, got, "%s", text)
			valid++
		}
	}
	assert.Greater(t, valid, 50)
	assert.Less(t, valid, 2*len(policies)-50)
}

func TestPlan(t *testing.T) {
	t.Parallel()
	got := in(t, map[string]string{"p.yaml": named}, "plan", "p.yaml", "deliver", "-n", "4", "-b", "1s,2s,4s", "-j", "50%", "--max-elapsed", "5s", "--takes", "500ms", "-f", "0.5")
	assert.Equal(t, result{0, `deliver: 4 attempts within 5s, schedule 1s, 2s, 4s, ±50% jitter: waits 500ms–1.5s, 1s–3s, 2s–6s; attempt timeout 5s

   attempt   wait before it   begins after   succeeded by then
         1                -             0s              50.0 %
         2       500ms–1.5s          1s–2s              75.0 %
         3            1s–3s      2.5s–5.5s              87.5 %  perhaps: the time may be up
         4            2s–6s         5s–12s              93.8 %  perhaps: the time may be up

wait  0                                                         6s
   1       ██████████
   2            ████████████████████
   3                      ████████████████████████████████████████

All attempts fail in 6.2 % of the calls, if 50.0 % of the attempts do; that takes 5.5s–12.5s.
A server's hint (Retry-After) of up to 1m0s is waited for in place of the wait, and up to 10 % more; a longer one ends the call.
`, ""}, got)

	got = run(t, "", "plan", "-n", "unlimited", "-b", "constant:10s", "-j", "none", "-T", "25s", "--rows", "5")
	assert.Contains(t, got.stdout, "3   ")
	assert.Regexp(t, `(?m)^ +4 +10s +30s +99\.19 %  never: out of time$`, got.stdout)
	assert.Contains(t, got.stdout, "… and so on, an unlimited number in all\n")
	assert.NotContains(t, got.stdout, "All attempts fail")
	assert.Contains(t, got.stdout, "in place of the wait; a longer one", "without jitter a hint has none")

	got = run(t, "", "plan", "-n", "1")
	assert.NotContains(t, got.stdout, "hint")
	assert.NotContains(t, got.stdout, "wait  0")
}

func TestLongestHint(t *testing.T) {
	t.Parallel()
	assert.Equal(t, time.Minute, cli.LongestHint(&retry.Policy{}))
	assert.Equal(t, time.Hour, cli.LongestHint(&retry.Policy{MaxDelay: time.Hour}))
	assert.Equal(t, 5*time.Second, cli.LongestHint(&retry.Policy{MaxRetryAfter: 5 * time.Second, NonIdempotent: true, MaxElapsed: 1}))
	assert.Equal(t, time.Duration(math.MaxInt64)-1, cli.LongestHint(&retry.Policy{MaxRetryAfter: math.MaxInt64}))
}

func TestStorm(t *testing.T) {
	t.Parallel()
	quick := []string{"--rate", "80", "--workers", "1", "--seeds", "1", "--after", "1m"}
	got := in(t, map[string]string{"p.yaml": named}, append([]string{"storm", "p.yaml", "deliver", "--service", "11ms", "--budget", "off"}, quick...)...)
	assert.Equal(t, 0, got.code, got.stderr)
	assert.Empty(t, got.stderr)
	for _, want := range []string{"Policy   deliver: 2 attempts, constant 1ms", "Budget   off", "in 11ms", "no retries", "3 attempts, no budget"} {
		assert.Contains(t, got.stdout, want)
	}
	assert.Equal(t, got, in(t, map[string]string{"p.yaml": named}, append([]string{"storm", "p.yaml", "deliver", "--service", "11ms", "--budget", "off"}, quick...)...))
}

func TestLogJSON(t *testing.T) {
	t.Parallel()
	got := run(t, "", quick(append([]string{"--log", "json"}, counting("test $n = 2 || { echo busy >&2; exit 75; }")...)...)...)
	assert.Equal(t, 0, got.code)
	lines := strings.Split(strings.ReplaceAll(got.stderr, "busy\n", ""), "\n")
	require.Len(t, lines, 3)
	var first, second map[string]any
	require.NoError(t, json.Unmarshal([]byte(lines[0]), &first))
	require.NoError(t, json.Unmarshal([]byte(lines[1]), &second))
	for _, key := range []string{"time", "elapsed_seconds"} {
		assert.NotEmpty(t, first[key])
		delete(first, key)
		delete(second, key)
	}
	assert.Equal(t, map[string]any{
		"event": "retrying", "name": "work", "attempt": 1.0, "limit": 3.0, "delay_seconds": 0.001, "class": "retryable", "category": "exit_75",
		"exit_code": 75.0, "error": "exit status 75: busy",
	}, first)
	assert.Equal(t, map[string]any{"event": "succeeded", "name": "work", "attempt": 2.0}, second)

	// Every run makes progress.
	files := map[string]string{"p.yaml": "max_attempts: 3\nbackoff: {constant: 1ms}\njitter: none\nreset_after: 1us\n"}
	got = in(t, files, append([]string{"-p", "p.yaml", "--log", "json"}, counting("test $n = 2")...)...)
	assert.Contains(t, got.stderr, `"event":"retrying","attempt":1,"progress":true,"limit":3,`)
	got = in(t, files, append([]string{"-p", "p.yaml", "--name", "work"}, counting("test $n = 5")...)...)
	assert.Equal(t, strings.Repeat("retry: attempt 1 of 3, counted again after progress: work: exit status 1; again in 1ms\n", 4), got.stderr)

	got = run(t, "", quick("--log", "json", "-n", "1", "--", "sh", "-c", "exit 9")...)
	assert.Regexp(t, `"event":"gave_up","attempt":1,"limit":1,.*"stop":"attempts","exit_code":9,`, got.stderr)
}

// TestTextsFromStrangers: nothing in a file, nor its name, is a command to a terminal or a CI.
func TestTextsFromStrangers(t *testing.T) {
	t.Parallel()
	const bad = "::error ::a\n::error ::b\x1b[2J\u202e"
	key := testkit.Must(json.Marshal(bad))(t)
	for _, tt := range []struct{ text, args string }{
		{`{KEY: 1, "a": 1}`, "check"},
		{`{"default": {KEY: 1}}`, "check"},
		{`{"policies": {KEY: {"jitter": "none"}}}`, "check"},
		{`{"name": KEY}`, "check"},
		{`{"name": KEY}`, "plan"},
		{`{"overrides": {KEY: {"max_attempts": 2}}}`, "plan"},
		{`{"policies": {KEY: {}, "a": {}}}`, "plan"},
		{bad, "check"},
		{"{" + bad, "check"},
	} {
		for _, ext := range []string{".json", ".yaml"} {
			text := strings.ReplaceAll(tt.text, "KEY", string(key))
			for _, name := range []string{"plain" + ext, bad + ext} {
				got := in(t, map[string]string{name: text}, tt.args, name)
				for line := range strings.SplitSeq(got.stdout+"\n"+got.stderr, "\n") {
					assert.NotRegexp(t, `^\s*(::|##)`, line, text)
					assert.NotRegexp(t, `[\x00-\x08\x0b-\x1f\x7f]|\x{202e}`, line, text)
				}
			}
		}
	}
	missing := finish(t, command(t, "check", bad))
	assert.NotContains(t, missing.stderr, "\x1b")
	assert.NotContains(t, missing.stderr, "\n::")
}

// Behind a limit, jobs that share a Quota are refused far less often than those that do not.
func TestPlanBacklog(t *testing.T) {
	t.Parallel()
	got := run(t, "", "plan", "-n", "2", "--limit", "20/1s", "--backlog", "300")
	assert.Contains(t, got.stdout, "Behind a limit of 20 requests in 1s, 300 jobs, 100 at a time:")
	rows := regexp.MustCompile(`(?m)^(each waits by its own hint|they share a Quota) +(\d+) +\d+.*s$`).FindAllStringSubmatch(got.stdout, -1)
	require.Len(t, rows, 2, got.stdout)
	alone := testkit.Must(strconv.Atoi(rows[0][2]))(t)
	shared := testkit.Must(strconv.Atoi(rows[1][2]))(t)
	assert.Greater(t, alone, 10*shared)
	assert.NotContains(t, run(t, "", "plan", "-n", "2").stdout, "Behind a limit")
	for _, args := range [][]string{
		{"--limit", "20"},
		{"--limit", "0/1s"},
		{"--limit", "20/0s"},
		{"--limit", "x/1s"},
		{"--limit", "/"},
		{"--limit", "20/1s", "--backlog", "0"},
		{"--limit", "20/1s", "--backlog", "1000000"},
	} {
		got := run(t, "", append([]string{"plan"}, args...)...)
		assert.Equal(t, 125, got.code, args)
		assert.Contains(t, got.stderr, args[len(args)-1])
	}
}
