// Package fieldtest has errors of clients that nobody had in mind when the tables of
// internal/known were written, each with what its client's or its service's documents say about
// another attempt.
//
// testdata has one file for each draw. A line that begins with "==" names a module with its
// version, the packages of the rows below it, and the documents that the expectations are from.
// A row has the expectation and a Go expression for the error:
//
//   - limit: a refusal for load, which another attempt after a wait may get past
//   - again: another attempt may help, and the first one may have had an effect
//   - unsent: another attempt may help, and the first one certainly had no effect
//   - never: another attempt cannot help
//
// The modules are no requirements of this one. With FIELD=folder, the test makes a program of
// the rows, in a module of its own in that folder, and asks retry.Classify. This takes minutes and
// the network. DRAW=second asks one file.
//
// At their first runs, the second draw was right in 80 % of its values, the third in 70 %, the fourth
// in 67 % and the fifth in 69 %. All that was wrong was retried in vain: half of it has only a text, and
// most of the rest numbers of its own.
package fieldtest_test

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

// row is one value.
type row struct{ module, want, expr string }

// draw is what a file has.
type draw struct {
	requires []string // path@version
	imports  []string // name "path"
	rows     []row
}

func parse(t *testing.T, file string) (d draw) {
	t.Helper()
	text := testkit.Must(os.ReadFile(file))(t)
	var module string
	var names [][2]string // in the rows, and in the program
	for n, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		if header, ok := strings.CutPrefix(line, "== "); ok {
			parts := strings.Split(header, " | ")
			require.Len(t, parts, 3, "%s:%d", file, n+1)
			require.Contains(t, parts[2], "https://", "%s:%d", file, n+1)
			d.requires, names = append(d.requires, parts[0]), nil
			module, _, _ = strings.Cut(parts[0], "@")
			for pkg := range strings.SplitSeq(parts[1], ", ") {
				name, folder, _ := strings.Cut(pkg, "=")
				unique := fmt.Sprintf("%s%d", name, len(d.requires))
				names = append(names, [2]string{name + ".", unique + "."})
				d.imports = append(d.imports, fmt.Sprintf("%s %q", unique, path.Join(module, folder)))
			}
			continue
		}
		want, expr, ok := strings.Cut(line, "\t")
		require.True(t, ok, "%s:%d", file, n+1)
		for _, name := range names {
			expr = regexp.MustCompile(`\b`+regexp.QuoteMeta(name[0])).ReplaceAllString(expr, name[1])
		}
		d.rows = append(d.rows, row{module, want, expr})
	}
	return d
}

// TestField asks about the values of each draw, and prints those that are wrong by effect.
func TestField(t *testing.T) { //nolint:paralleltest // its programs share a folder
	if os.Getenv("FIELD") == "" {
		t.Skip("takes minutes, and the network: set FIELD to a folder for the program")
	}
	files := testkit.Must(filepath.Glob("testdata/" + cmp.Or(os.Getenv("DRAW"), "*") + ".txt"))(t)
	for _, file := range files { //nolint:paralleltest // likewise
		t.Run(filepath.Base(file), func(t *testing.T) {
			d := parse(t, file)
			said := strings.Split(strings.TrimSpace(run(t, d)), "\n")
			require.Len(t, said, len(d.rows))
			right := 0
			for n, row := range d.rows {
				class, applied, _ := strings.Cut(said[n], " ")
				retried := class != "final"
				switch {
				case row.want != "never" && !retried:
					t.Errorf("a job is buried: %s %s", said[n], row.expr)
				case row.want == "again" && applied == "not-applied":
					t.Errorf("an effect is repeated: %s %s", said[n], row.expr)
				case row.want == "never" && retried:
					t.Logf("retried in vain: %s: %s", said[n], row.expr)
				default:
					if right++; row.want == "limit" && class != "rate_limited" {
						t.Logf("no limit, but retried: %s: %s", said[n], row.expr)
					}
				}
			}
			t.Logf("%d modules, %d values, %d right by effect: %d %%", len(d.requires), len(d.rows), right, 100*right/len(d.rows))
			assert.GreaterOrEqual(t, 10*right, 9*len(d.rows))
		})
	}
}

// run makes a program of the rows and returns what it prints: a line for each.
func run(t *testing.T, d draw) string {
	t.Helper()
	root := testkit.Must(filepath.Abs("../../.."))(t)
	dir := filepath.Join(os.Getenv("FIELD"), filepath.Base(t.Name()))
	require.NoError(t, os.MkdirAll(dir, 0o700))
	write := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	helpers := testkit.Must(os.ReadFile("testdata/program.txt"))(t)
	var exprs strings.Builder
	for _, row := range d.rows {
		fmt.Fprintf(&exprs, "\t\tfunc() error { return %s },\n", row.expr)
	}
	program := strings.Replace(string(helpers), "// IMPORTS", strings.Join(d.imports, "\n\t"), 1)
	write("main.go", strings.Replace(program, "// VALUES", exprs.String(), 1))
	write("go.mod", "module field\n\ngo 1.26\n\nreplace github.com/seed-5ff3c98e/retry => "+root+
		"\n\nrequire (\n\tgithub.com/seed-5ff3c98e/retry v0.0.0\n\t"+
		strings.ReplaceAll(strings.Join(d.requires, "\n\t"), "@", " ")+"\n)\n")
	cmd := exec.CommandContext(t.Context(), "go", "run", "-mod=mod", ".")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	return string(out)
}
