// Package behaviour checks promises about retrying by running every library: who
// keeps which, and what was seen. Its test writes docs/evidence/behaviour.md anew and
// compares; nothing in that file but its frame is written by hand.
//
//	go test ./behaviour            # from lab/: compare
//	go test ./behaviour -update    # write the file
//
// A probe is a small function that gives a contestant a script and returns a
// cell. Time is that of testing/synctest, so a probe may wait for a day. Nothing
// random may reach a text: it is rounded, or counted among so many that the
// outcome is certain.
package behaviour_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

var update = flag.Bool("update", false, "write docs/evidence/behaviour.md")

// TestTable asks everybody everything, and compares the answers with those in
// docs/evidence/behaviour.md.
func TestTable(t *testing.T) { //nolint:paralleltest // Some probes count goroutines, and one sets the environment.
	if runtime.GOARCH != "amd64" {
		t.Skip("what overflows in a float64 is another wait on another processor")
	}
	quietKubernetes(t)
	name := func(c *contestant) string { return c.name }
	probes := tester{t}
	groups := []group{
		ask(probes, "Context", "What a call does with the context it is given.", contestants, name, contextPromises),
		ask(probes, "Errors", "What comes back, and what is left.", contestants, name, errorPromises),
		ask(probes, "Waits and limits", "How long the waits are, and how many.", contestants, name, delayPromises),
		ask(probes, "Hints", "Servers tell when to come back, and some talk nonsense.", contestants, name, hintPromises),
		ask(probes, "Budgets", "A shared limit for the extra load of retries, so that an outage does not become a storm; default settings.", contestants, name, budgetPromises),
		ask(probes, "Use", "In jobs, in operation, in tests.", contestants, name, usePromises),
		ask(probes, "HTTP", httpIntro, httpContestants, func(c *httpContestant) string { return c.name }, slices.Concat(httpHints, httpRequests, httpCalls)),
		ask(probes, "gRPC", grpcIntro, grpcContestants, func(c *grpcContestant) string { return c.name }, grpcPromises),
		ask(probes, "More than retries", "What a library brings beside retries, and what it asks for. Most of it we do not have.", contestants, name, featurePromises(probes)),
	}
	got := document(t, groups)
	path := filepath.Join("..", "..", "docs", "evidence", "behaviour.md")
	if testing.Verbose() {
		var all strings.Builder
		for i := range groups {
			groups[i].seen(&all, letter(i), kept, partly, broken, absent)
		}
		t.Log(all.String())
	}
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "go test ./behaviour -update writes it")
	require.Equal(t, string(want), got, "go test ./behaviour -update writes it anew")
}

// document prints the whole file.
func document(t *testing.T, groups []group) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(`# Who keeps which promise

Every cell was seen in a run: ` + "`go test ./behaviour -update`" + ` in lab/ asks every library
the same and writes this file, and CI compares, on amd64. With ` + "`-v`" + ` it prints what was seen in every cell.

✓ kept · ~ in part, or only by code that the caller has to write · ✗ not kept · – the library has no such thing

Every library is in its newest major version, set up as its documentation advises for the promise.
The promises are ours: whoever thinks that one is unfair, or that a library can do
better, may change its adapter, a page of Go, and run the command.

Look at the row that your program depends on, not at the sums: they say how well a library suits these promises, and
leave out I, which is about what we do not have.

`)
	summary(&b, groups[:8])
	b.WriteString("\n## The contestants\n\n| | Version | Set up with |\n|---|---|---|\n")
	versions := moduleVersions(t)
	for _, c := range contestants {
		fmt.Fprintf(&b, "| %s | %s %s | %s |\n", c.name, c.module, versions[c.module].version, c.setup)
	}
	for _, c := range httpContestants {
		fmt.Fprintf(&b, "| %s | %s %s | %s |\n", c.name, c.module, versions[c.module].version, c.setup)
	}
	for _, c := range grpcContestants {
		fmt.Fprintf(&b, "| %s | %s %s | %s |\n", c.name, c.module, versions[c.module].version, c.setup)
	}
	b.WriteString("\n## Where a peer does better\n\nThe promises that we do not keep, or not in full, and somebody else does:\n\n")
	better(&b, groups)
	b.WriteString("\n")
	for i := range groups {
		groups[i].write(&b, letter(i))
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// module is what go.mod says of a library.
type module struct {
	version string
	goMod   string // the path of its go.mod
	needs   string // the version of Go
}

// goTool runs the go command in this module.
func goTool(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", args...).Output()
	require.NoError(t, err, "go %s", strings.Join(args, " "))
	return strings.TrimSpace(string(out))
}

// moduleVersions returns the modules of all contestants. Ours has no version
// here: it is the one of the same commit.
func moduleVersions(t *testing.T) map[string]module {
	t.Helper()
	args := []string{"list", "-m", "-f", "{{.Path}}\t{{if .Replace}}of this commit{{else}}{{.Version}}{{end}}\t{{.GoMod}}\t{{.GoVersion}}"}
	for _, c := range contestants {
		args = append(args, c.module)
	}
	for _, c := range httpContestants {
		args = append(args, c.module)
	}
	for _, c := range grpcContestants {
		args = append(args, c.module)
	}
	modules := map[string]module{}
	for line := range strings.Lines(goTool(t, args...)) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		modules[f[0]] = module{f[1], f[2], f[3]}
	}
	return modules
}

// linked returns how many foreign modules a package links.
func linked(t *testing.T, c *contestant) int {
	t.Helper()
	modules := map[string]bool{}
	for line := range strings.Lines(goTool(t, "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", c.pkg)) {
		if path := strings.TrimSpace(line); path != "" && path != c.module {
			modules[path] = true
		}
	}
	return len(modules)
}

// required returns how many modules the go.mod of a library asks for, tests
// included.
func required(t *testing.T, m module) int {
	t.Helper()
	var mod struct{ Require []struct{ Path string } }
	require.NoError(t, json.Unmarshal([]byte(goTool(t, "mod", "edit", "-json", m.goMod)), &mod))
	return len(mod.Require)
}

// lines returns the number of lines of a package, without tests.
func lines(t *testing.T, c *contestant) int {
	t.Helper()
	n := 0
	files := strings.Split(goTool(t, "list", "-f", "{{.Dir}}{{range .GoFiles}}\t{{.}}{{end}}", c.pkg), "\t")
	for _, name := range files[1:] {
		src := testkit.Must(os.ReadFile(filepath.Join(files[0], name)))(t)
		n += bytes.Count(src, []byte("\n"))
	}
	return n
}

// mark says how a promise is kept.
type mark string

const (
	kept   mark = "✓"
	partly mark = "~"
	broken mark = "✗"
	absent mark = "–"
)

// cell is a mark and what was seen.
type cell struct {
	mark mark
	seen string
}

func keptIf(ok bool, format string, args ...any) cell {
	return cell{choose(ok, kept, broken), fmt.Sprintf(format, args...)}
}

func choose[T any](ok bool, yes, no T) T {
	if ok {
		return yes
	}
	return no
}

// promise is a row: what is promised to users of C, how it is asked for, and the
// probe that asks.
type promise[C any] struct {
	title string
	how   string
	probe func(tester, C) cell
}

// row is a promise with its cells, in the order of the columns.
type row struct {
	title, how string
	cells      []cell
}

// group is a table.
type group struct {
	title string
	intro string
	peers []string
	rows  []row
}

// ask runs every probe on every contestant.
func ask[C any](t tester, title, intro string, contestants []C, name func(C) string, promises []promise[C]) group {
	t.Helper()
	g := group{title: title, intro: intro}
	for _, c := range contestants {
		g.peers = append(g.peers, name(c))
	}
	for _, p := range promises {
		r := row{title: p.title, how: p.how}
		for _, c := range contestants {
			r.cells = append(r.cells, p.probe(t, c))
		}
		g.rows = append(g.rows, r)
	}
	return g
}

// write prints the table, and what was seen where a promise is not kept.
func (g *group) write(b *strings.Builder, letter string) {
	fmt.Fprintf(b, "## %s. %s\n\n%s\n\n", letter, g.title, g.intro)
	fmt.Fprintf(b, "| | Promise | %s |\n", strings.Join(g.peers, " | "))
	fmt.Fprintf(b, "|---|---%s|\n", strings.Repeat("|:-:", len(g.peers)))
	for i, r := range g.rows {
		fmt.Fprintf(b, "| %s%d | %s", letter, i+1, r.title)
		for _, c := range r.cells {
			fmt.Fprintf(b, " | %s", c.mark)
		}
		b.WriteString(" |\n")
	}
	b.WriteString("\n<details><summary>What was seen</summary>\n\n")
	g.seen(b, letter, partly, broken)
	b.WriteString("</details>\n\n")
}

// seen prints what was seen in the cells with these marks, equal ones together.
func (g *group) seen(b *strings.Builder, letter string, marks ...mark) {
	for i, r := range g.rows {
		if slices.ContainsFunc(r.cells, func(c cell) bool { return slices.Contains(marks, c.mark) }) {
			fmt.Fprintf(b, "**%s%d.** %s\n\n", letter, i+1, r.how)
			r.seen(b, g.peers, marks)
			b.WriteString("\n")
		}
	}
}

func (r *row) seen(b *strings.Builder, peers []string, marks []mark) {
	for _, m := range marks {
		var seen []string
		by := map[string][]string{}
		for i, c := range r.cells {
			if c.mark != m {
				continue
			}
			if by[c.seen] == nil {
				seen = append(seen, c.seen)
			}
			by[c.seen] = append(by[c.seen], peers[i])
		}
		for _, s := range seen {
			fmt.Fprintf(b, "- %s %s: %s\n", m, strings.Join(by[s], ", "), s)
		}
	}
}

// summary counts the marks of every contestant.
func summary(b *strings.Builder, groups []group) {
	var names []string
	counts := map[string]map[mark]int{}
	for _, g := range groups {
		for i, name := range g.peers {
			if counts[name] == nil {
				names = append(names, name)
				counts[name] = map[mark]int{}
			}
			for _, r := range g.rows {
				counts[name][r.cells[i].mark]++
			}
		}
	}
	b.WriteString("| | ✓ | ~ | ✗ | – |\n|---|--:|--:|--:|--:|\n")
	for _, name := range names {
		c := counts[name]
		fmt.Fprintf(b, "| %s | %d | %d | %d | %d |\n", name, c[kept], c[partly], c[broken], c[absent])
	}
}

// better lists the rows in which somebody keeps what the first contestant does
// not.
func better(b *strings.Builder, groups []group) {
	for g, group := range groups {
		for i, r := range group.rows {
			if r.cells[0].mark == kept {
				continue
			}
			var peers []string
			for j, c := range r.cells {
				if c.mark == kept {
					peers = append(peers, group.peers[j])
				}
			}
			if len(peers) > 0 {
				fmt.Fprintf(b, "- %s%d %s: %s. Ours: %s %s.\n", letter(g), i+1, r.title,
					strings.Join(slices.Compact(peers), ", "), r.cells[0].mark, r.cells[0].seen)
			}
		}
	}
}

func letter(i int) string { return string(rune('A' + i)) }
