package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

var full = flag.Bool("storm.full", false, "compare docs/evidence/storms.md with all that makes it")

// quick makes a run short.
var quick = []string{"-rate", "80", "-workers", "1", "-seeds", "2", "-after", "1m"}

func storm(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, run(append(slices.Clip(quick), args...), &out))
	return out.String()
}

func policyFile(t *testing.T, json string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "policy.json")
	require.NoError(t, os.WriteFile(file, []byte(json), 0o600))
	return file
}

func TestReport(t *testing.T) {
	t.Parallel()
	policy := policyFile(t, `{"name": "mine", "max_attempts": 5, "backoff": {"constant": "50ms"}}`)
	text := storm(t, "-policy", policy, "-budget", "0.2/10s/0", "-clients", "3")
	for _, want := range []string{
		"Policy   mine: 5 attempts, constant 50ms",
		"Budget   0.2/10s/0",
		"Service  80 calls/s from 3 clients; serves 1 at a time in 10ms, so 100/s: 80 % are used; timeout 1s",
		"Fault    stall of 100 % for 10s; mean of 2 runs",
		"your policy", "no retries", "3 attempts, no budget", "never",
	} {
		assert.Contains(t, text, want)
	}
}

func TestSameFlagsSameReport(t *testing.T) {
	t.Parallel()
	first, second := storm(t), storm(t)
	assert.Equal(t, first, second)
	assert.NotEqual(t, first, storm(t, "-seed", "2"))
}

func TestVerdict(t *testing.T) {
	t.Parallel()
	hammer := policyFile(t, `{"max_attempts": 10, "backoff": {"constant": "100ms"}}`)
	assert.Contains(t, storm(t, "-policy", hammer, "-budget", "off"), "keeps the overload alive")
	assert.Contains(t, storm(t, "-budget", "0.1/30s/3"), "delays the recovery by")
	assert.Contains(t, storm(t, "-fault", "outage"), "recovers as it does without retries")
	assert.Regexp(t, `as it does without retries\. During the fault, \+(3[67])\.\d % of the calls succeed, for \+7\d % attempts\.`,
		storm(t, "-fault", "partial", "-budget", "off"))
}

// Every flag that shapes the service changes what comes of it.
func TestFlagsReachTheSimulation(t *testing.T) {
	t.Parallel()
	plain := table(storm(t))
	for _, args := range [][]string{
		{"-budget", "off"},
		{"-clients", "30"},
		{"-rate", "70"},
		{"-workers", "2"},
		{"-service", "11ms"},
		{"-timeout", "900ms"},
		{"-queue", "100"},
		{"-fault", "outage"},
		{"-duration", "9s"},
		{"-fault", "partial", "-severity", "0.3"},
		{"-seed", "9"},
		{"-seeds", "3"},
		{"-policy", policyFile(t, `{"max_attempts": 1}`)},
	} {
		assert.NotEqual(t, plain, table(storm(t, args...)), args)
	}
	assert.NotEqual(t, table(storm(t, "-fault", "brownout")), table(storm(t, "-fault", "brownout", "-queue", "50")))
	assert.Equal(t, plain, table(storm(t, "-budget", "0.1/5s/3")), "the default")
}

// table returns the figures of a report.
func table(report string) string {
	_, figures, _ := strings.Cut(report, "\n\n")
	return figures
}

func TestBadFlags(t *testing.T) {
	t.Parallel()
	noPolicy := filepath.Join(t.TempDir(), "none.json")
	badPolicy := policyFile(t, `{"max_attempts": -1, "backof": {}}`)
	for _, test := range []struct {
		args []string
		want []string
	}{
		{[]string{"-clients", "0"}, []string{"-clients: 0: must be from 1 to 100000"}},
		{[]string{"-clients", "many"}, []string{`invalid value "many" for flag -clients`}},
		{[]string{"-rate", "0", "-workers", "0"}, []string{"-rate: 0: must", "\n-workers: 0: must"}},
		{[]string{"-fault", "fire"}, []string{"-fault: fire: must be one of stall, outage, partial, brownout, quota"}},
		{[]string{"-severity", "2"}, []string{"-severity: 2: must be above 0 and at most 1"}},
		{[]string{"-severity", "0"}, []string{"-severity: 0: must be above 0 and at most 1"}},
		{[]string{"-seeds", "0"}, []string{"-seeds: 0: must be from 1 to 100"}},
		{[]string{"-budget", "0.1"}, []string{`invalid value "0.1" for flag -budget: want ratio/ttl/reserve, such as 0.1/5s/3, or off`}},
		{[]string{"-budget", "2/5s/3"}, []string{`"2/5s/3" for flag -budget: the ratio must be above 0 and at most 1`}},
		{[]string{"-budget", "NaN/5s/3"}, []string{"the ratio must be"}},
		{[]string{"-budget", "0.1/5/3"}, []string{"the ttl must be a positive duration, such as 5s"}},
		{[]string{"-budget", "0.1/0s/3"}, []string{"the ttl must be"}},
		{[]string{"-budget", "0.1/5s/-1"}, []string{"the reserve must be a number of retries, 0 or more"}},
		{[]string{"-policy", noPolicy}, []string{"-policy: " + noPolicy + ": no such file"}},
		{[]string{"-policy", badPolicy, "-seeds", "0"}, []string{
			"-seeds: 0", "-policy: " + badPolicy + ": retry: invalid policy:", "max_attempts: -1", "backof",
		}},
		{[]string{"policy.json"}, []string{`"policy.json": there are flags only, no arguments`}},
		{[]string{"-colour"}, []string{"flag provided but not defined: -colour"}},
		{[]string{"-plot", filepath.Join(noPolicy, "x.svg")}, []string{"-plot: ", "no such file"}},
		{
			[]string{"-fault", "outage", "-policy", policyFile(t, `{"max_attempts": "unlimited", "backoff": {"constant": 0}}`), "-budget", "off"},
			[]string{"your policy: more than", "this policy hammers a service that is down"},
		},
	} {
		var out bytes.Buffer
		err := run(append(slices.Clip(quick), test.args...), &out)
		for _, want := range test.want {
			assert.ErrorContains(t, err, want, "%v", test.args)
		}
	}
}

func TestHelp(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	assert.ErrorIs(t, run([]string{"-help"}, &out), flag.ErrHelp)
	assert.Contains(t, out.String(), "-budget ratio/ttl/reserve")
}

func TestPlot(t *testing.T) {
	t.Parallel()
	draw := func() string {
		file := filepath.Join(t.TempDir(), "load.svg")
		storm(t, "-plot", file)
		svg := testkit.Must(os.ReadFile(file))(t)
		return string(svg)
	}
	svg := draw()
	for _, want := range []string{"<svg", "stall of 10s, 10 clients, 80 % load", "your policy", "no retries", "capacity", "</svg>"} {
		assert.Contains(t, svg, want)
	}
	assert.NotContains(t, svg, "#-", "a color")
	assert.Equal(t, svg, draw())
}

// Every table has a place in the text, and every place has a table.
func TestDocumentNamesItsTables(t *testing.T) {
	t.Parallel()
	var places []string
	for line := range strings.Lines(document) {
		if name, ok := strings.CutPrefix(line, "{{"); ok {
			places = append(places, strings.TrimSuffix(strings.TrimSpace(name), "}}"))
		}
	}
	var names []string
	for name := range tables {
		names = append(names, name)
	}
	assert.ElementsMatch(t, names, places)
}

// The page that is committed is the one that is made. That takes minutes.
func TestDocumentIsUpToDate(t *testing.T) {
	t.Parallel()
	if !*full {
		t.Skip("needs -storm.full")
	}
	want := testkit.Must(os.ReadFile("../../docs/evidence/storms.md"))(t)
	var got strings.Builder
	require.NoError(t, reproduce(&got))
	assert.Equal(t, string(want), got.String())
}

func TestMarkdown(t *testing.T) {
	t.Parallel()
	var m markdown
	m.head("a", "b", "c")
	m.row("1", "2", "3")
	assert.Equal(t, "| a | b | c |\n| --- | ---: | ---: |\n| 1 | 2 | 3 |\n", m.String())
}
