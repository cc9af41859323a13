package repocheck_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
)

// Each of these is built for the document of a system. Its README says where each requirement
// of the document is, and which test fails when it no longer holds.
var systems = []string{"runs", "partitions", "tickets", "tasks", "pool"}

func TestRequirements(t *testing.T) {
	t.Parallel()
	for _, system := range systems {
		assert.Empty(t, requirementFaults(os.DirFS("../../.."), path.Join("systems", system)))
	}
}

// TestRequirementFaults shows that every rule fires.
func TestRequirementFaults(t *testing.T) {
	t.Parallel()
	const header = "# System\n\n| Requirement | Where | Test |\n|---|---|---|\n"
	tests := []struct {
		name, readme string
		want         []string
	}{
		{"in order", header + "| It runs | `run` | `TestRun`, `TestRun/twice` |\n| It is fast | main.go | `BenchmarkRun` |\n" +
			"| `a \\| b` | `run` | none: a choice of the document |\n\nSee `TestRun`.\n", nil},
		{"a requirement in two words", "| Requirement, by section | Code | Test |\n|---|---|---|\n| It runs | | `TestRun` |\n", nil},
		{"no table", "# System\n\n| Decision | Test |\n|---|---|\n| x | y |\n", []string{
			"systems/x/README.md:1: has no table | Requirement | Where | Test |",
		}},
		{"no row", header + "\nNothing.\n", []string{"systems/x/README.md:1: has no requirement"}},
		{"no reason", header + "| It runs | `run` | none: |\n", []string{
			"systems/x/README.md:5: names neither a test nor, after none:, a reason",
		}},
		{"code in the place of a test", header + "| It runs | `TestRun` | `run` |\n", []string{
			"systems/x/README.md:5: names neither a test nor, after none:, a reason",
		}},
		{"a test that is gone", header + "| It runs | `run` | `TestRun`, `TestGone` |\n", []string{
			"systems/x/README.md:5: there is no TestGone",
		}},
		{"a comment in the place of a test", header + "| It runs | `run` | `TestComment` |\n", []string{
			"systems/x/README.md:5: there is no TestComment",
		}},
		{"a test of another system", header + "| It runs | `run` | `TestOther` |\n", []string{
			"systems/x/README.md:5: there is no TestOther",
		}},
		{"in the text", header + "| It runs | `run` | `TestRun` |\n\nSee `TestGone/once`.\n", []string{
			"systems/x/README.md:7: there is no TestGone",
		}},
		{"two cells", header + "| It runs | `TestRun` |\n", []string{"systems/x/README.md:5: has 2 cells"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tt.want, requirementFaults(fstest.MapFS{
				"systems/x/README.md":    &fstest.MapFile{Data: []byte(tt.readme)},
				"systems/x/main.go":      &fstest.MapFile{Data: []byte("package main\n\nfunc TestGone() {}\n")},
				"systems/x/main_test.go": &fstest.MapFile{Data: []byte("package main\n\nfunc TestRun() {}\n\n/*\nfunc TestComment() {}\n*/\n")},
				"systems/x/more_test.go": &fstest.MapFile{Data: []byte("package main\n\nfunc BenchmarkRun() {}\n")},
				"systems/y/main_test.go": &fstest.MapFile{Data: []byte("package main\n\nfunc TestOther() {}\n")},
			}, "systems/x"))
		})
	}
}

var (
	testInLine   = regexp.MustCompile("`((?:Test|Benchmark|Fuzz|Example)[A-Z]\\w*)(?:/[^`]*)?`")
	betweenCells = regexp.MustCompile(`(?:^|[^\\])\|`)
	reason       = regexp.MustCompile(`^none: \S`)
)

// requirementFaults returns what is not true of the README of an example.
func requirementFaults(repository fs.FS, folder string) (faults []string) {
	name := path.Join(folder, "README.md")
	fault := func(line int, format string, args ...any) {
		faults = append(faults, fmt.Sprintf("%s:%d: ", name, line)+fmt.Sprintf(format, args...))
	}
	text, err := fs.ReadFile(repository, name)
	if err != nil {
		return []string{err.Error()}
	}
	known := testFuncs(repository, folder)
	tables, rows, inTable := 0, 0, false
	for i, line := range strings.Split(string(text), "\n") {
		for _, test := range testInLine.FindAllStringSubmatch(line, -1) {
			if !known[test[1]] {
				fault(i+1, "there is no %s", test[1])
			}
		}
		cells := betweenCells.Split(line, -1)
		switch {
		case !strings.HasPrefix(line, "|"):
			inTable = false
		case strings.HasPrefix(line, "| Requirement"):
			inTable = true
			tables++
		case !inTable, strings.HasPrefix(line, "|---"):
		case len(cells) != 5: // before the first and after the last is nothing
			fault(i+1, "has %d cells", len(cells)-2)
		default:
			rows++
			if last := strings.TrimSpace(cells[3]); !testInLine.MatchString(last) && !reason.MatchString(last) {
				fault(i+1, "names neither a test nor, after none:, a reason")
			}
		}
	}
	switch {
	case tables == 0:
		fault(1, "has no table | Requirement | Where | Test |")
	case rows == 0 && len(faults) == 0:
		fault(1, "has no requirement")
	}
	return faults
}

// testFuncs returns the names of the functions in the tests of a folder.
func testFuncs(repository fs.FS, folder string) map[string]bool {
	known := map[string]bool{}
	files, _ := fs.Glob(repository, path.Join(folder, "*_test.go"))
	for _, name := range files {
		text, _ := fs.ReadFile(repository, name)
		file, err := parser.ParseFile(token.NewFileSet(), name, text, parser.SkipObjectResolution)
		if err != nil {
			continue // the compiler will say so
		}
		for _, decl := range file.Decls {
			if f, ok := decl.(*ast.FuncDecl); ok && f.Recv == nil {
				known[f.Name.Name] = true
			}
		}
	}
	return known
}
