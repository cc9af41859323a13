package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTable(t *testing.T) {
	t.Parallel()
	modules := [][]string{
		{"example.com/a", "v1.0.0", "made", "sleep a.go a/a#1;leak b.go a/a#2", "new", "3 packages"},
		{"example.com/b", "v2.0.0", "unseen", "", "", ""},
		{"example.com/c", "v2.0.0", "second", "", "old", "4 packages"},
		{"example.com/d", "v2.0.0", "second", "", "", ""},
	}
	findings := [][]string{
		{"example.com/a", "v1.0.0", "sleep", "a.go:7", "ignores ctx"},
		{"example.com/a", "v1.0.0", "sleep", "a.go:8", "ignores ctx"},
		{"example.com/a", "v1.0.0", "sleep", "c.go:9", "ignores ctx"},
		{"example.com/a", "v0.9.0", "leak", "b.go:7", "of another version"},
	}
	judged := [][]string{
		{"example.com/a", "v1.0.0", "sleep", "a.go:7", "true", "it does"},
		{"example.com/a", "v1.0.0", "sleep", "a.go:8", "true", "as above"},
		{"example.com/a", "v1.0.0", "sleep", "c.go:9", "false", "it does not"},
		{"example.com/a", "v1.0.0", "leak", "b.go:7", "false", "not reported any more"},
		{"example.com/c", "v2.0.0", "leak", "b.go:7", "false", "not reported any more"},
		{"example.com/c", "v2.0.0", "leak", "c.go:7", "true", "left open"},
		{"example.com/c", "v2.0.0", "leak", "c.go:8", "true", "left open"},
	}
	loops := [][]string{
		{"example.com/a", "v1.0.0", "a.go:5-9", "sleep", "ignores ctx"},
		{"example.com/a", "v1.0.0", "b.go:5-9", "leak", "left open"},
		{"example.com/a", "v1.0.0", "c.go:1-8", "", "works on items"},
	}
	got := (&evidence{version: "new", modules: modules, findings: findings, judged: judged, loops: loops}).table()
	for _, want := range []string{
		"Of the 4 modules, 1 were looked at with the checks as they are, version new.",
		"| example.com/a | a.go:5-9 | sleep | yes |\n| example.com/a | b.go:5-9 | leak | no |\n\n1 of 2 mistakes",
		"In 1 of the 1 loops without one, nothing is reported.",
		"| sleep | 2 | 1 | 67 % | 50 % |\n",
		"| round | modules | findings | true | precision |\n|---|---:|---:|---:|---:|\n| second | 2 | 3 | 2 | 67 % |\n",
		"| all | 2 | 1 | 67 % | 50 % |\n",
		"| a/a#1 | sleep | a.go | yes |\n| a/a#2 | leak | b.go | no |\n\n1 of 2.\n",
	} {
		assert.Contains(t, got, want)
	}
	assert.Contains(t, got, "second round\n\n| check | true | false | precision | by file |\n|---|---:|---:|---:|---:|\n| leak | 2 | 1 | 67 % | 50 % |\n")
	_, madeWith, _ := strings.Cut(got, "made with\n")
	assert.NotContains(t, madeWith, "\n| leak |")
}

// The figures in the documentation are those of the tables.
func TestDocs(t *testing.T) {
	t.Parallel()
	e, err := readEvidence(".")
	require.NoError(t, err)
	text, err := os.ReadFile("../../../../docs/retryvet.md")
	require.NoError(t, err)
	assert.Contains(t, string(text), total(e.modules, e.judged))
	assert.Contains(t, string(text), fmt.Sprintf("%d loops", len(e.loops)))
	assert.Contains(t, string(text), loopSums(e.findings, e.loops))
}

// total says of all rounds together, and of the last, what sums says of each.
func total(modules, judged [][]string) string {
	set := sets(modules)
	count := func(rounds []round) (looked, all, good int) {
		has := func(set string) bool { return slices.ContainsFunc(rounds, func(r round) bool { return r.has(set) }) }
		found := in(judged, func(j []string) bool { return has(set[j[0]+"@"+j[1]]) })
		return len(in(modules, func(m []string) bool { return has(m[2]) })), len(found), len(in(found, func(j []string) bool { return j[4] == "true" }))
	}
	looked, all, good := count(rounds)
	lastLooked, lastAll, lastGood := count(rounds[len(rounds)-1:])
	return fmt.Sprintf("Of %d findings in %d public modules that nobody had looked at, %d are true. Each kind that was false was mended afterwards: "+
		"of the %d in the last %d of these modules, %d are true.", all, looked, good, lastAll, lastLooked, lastGood)
}

func TestOutdated(t *testing.T) {
	t.Parallel()
	a, b, c1, c2 := []string{"a", "v1", "", "", "old"}, []string{"b", "v1", "", "", "new"}, []string{"c", "v1", "", "", ""}, []string{"c", "v2", "", "", "old"}
	findings := [][]string{{"b", "v1", "sleep", "b.go:1", ""}, {"c", "v2", "sleep", "c.go:1", ""}}
	assert.Equal(t, [][]string{c2, a, c1}, outdated([][]string{a, b, c1, c2}, findings, "new"))
}

func TestChecksVersion(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	version := func(name, text string) string {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		v, err := checksVersion(dir)
		require.NoError(t, err)
		return v
	}
	first := version("a.go", "package a")
	assert.Len(t, first, 8)
	assert.Equal(t, first, version("a_test.go", "package a"))
	assert.NotEqual(t, first, version("a.go", "package b"))
	assert.Equal(t, first, version("a.go", "package a"))
}

func TestDropReplaces(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "here"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "here", "go.mod"), []byte("module example.com/here\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte(
		"module example.com/m\n\nreplace example.com/here => ./here\n\nreplace example.com/away => ../away\n\nreplace example.com/x => example.com/y v1.0.0\n"), 0o600))
	require.NoError(t, dropReplaces(dir, "example.com/m"))
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	require.NoError(t, err)
	assert.Contains(t, string(text), "./here")
	assert.Contains(t, string(text), "example.com/y")
	assert.NotContains(t, string(text), "away")
}

func TestRows(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "x.tsv")
	require.NoError(t, os.WriteFile(name, []byte("a\tb\n1\t2\n"), 0o600))
	require.NoError(t, writeRows(name, [][]string{{"5", "6"}, {"3", "4"}}))
	rows, err := readRows(name, 2)
	require.NoError(t, err)
	assert.Equal(t, [][]string{{"5", "6"}, {"3", "4"}}, rows)
	require.NoError(t, os.WriteFile(name, []byte("a\tb\n1\t2\n3\n"), 0o600))
	_, err = readRows(name, 2)
	assert.ErrorContains(t, err, "x.tsv:3: 1 columns, not 2")
}
