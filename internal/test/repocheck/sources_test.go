package repocheck_test

import (
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

// parsed returns a file, and where its parts are.
func parsed(t *testing.T, name, src string) (*token.FileSet, *ast.File) {
	t.Helper()
	fset := token.NewFileSet()
	return fset, testkit.Must(parser.ParseFile(fset, name, src, parser.ParseComments))(t)
}

// textReaders returns where a source file calls an Error method, other than to make the text of
// another error, and whether it imports regexp, whose only use would be to match one.
func textReaders(t *testing.T, name, src string) (found []string) {
	t.Helper()
	fset, file := parsed(t, name, src)
	for _, spec := range file.Imports {
		if spec.Path.Value == `"regexp"` {
			found = append(found, name+": imports regexp")
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		if fn, ok := n.(*ast.FuncDecl); ok && name == "errors.go" && fn.Recv != nil && fn.Type.Results != nil {
			result, ok := fn.Type.Results.List[0].Type.(*ast.Ident)
			return !ok || result.Name != "string" // the methods of Error that build its text
		}
		if call, ok := n.(*ast.CallExpr); ok && len(call.Args) == 0 {
			if sel, ok := call.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Error" {
				found = append(found, fset.Position(call.Pos()).String())
			}
		}
		return true
	})
	return found
}

// No text of an error is read where errors are classified, but for the one file that compares whole texts.
func TestTextIsNotRead(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]int{
		`_ = strings.Contains(err.Error(), "reset")`: 1, `switch err.Error() { case "EOF": }`: 1, `_ = fmt.Sprint(err)`: 0, `_ = m.Error(1)`: 0,
	} {
		require.Len(t, textReaders(t, "x.go", "package p\nfunc f(err error) {\n"+src+"\n}"), want, src)
	}
	repository, files := os.DirFS("../../.."), 0
	for _, pattern := range []string{"*.go", "internal/known/*.go"} {
		names := testkit.Must(fs.Glob(repository, pattern))(t)
		for _, name := range names {
			if name == "internal/known/mute.go" {
				src := testkit.Must(fs.ReadFile(repository, name))(t)
				assert.NotContains(t, string(src), `"strings"`, "it has only whole texts")
				continue
			}
			if src, err := fs.ReadFile(repository, name); !strings.HasSuffix(name, "_test.go") && assert.NoError(t, err) {
				files++
				assert.Empty(t, textReaders(t, name, string(src)))
			}
		}
	}
	assert.Greater(t, files, 10)
}

// unchecked returns the examples of a test file whose output is not checked, and how many there are.
func unchecked(t *testing.T, name, src string) (names []string, total int) {
	t.Helper()
	_, file := parsed(t, name, src)
	for _, e := range doc.Examples(file) {
		if total++; e.Output == "" && !e.EmptyOutput {
			names = append(names, "Example"+e.Name)
		}
	}
	return names, total
}

// Examples have an output that is checked. Those of nested modules may need a server of another
// library.
func TestExamplesAreChecked(t *testing.T) {
	t.Parallel()
	bad, total := unchecked(t, "bad_test.go", "package p\nfunc ExampleA() {}\nfunc ExampleB() {\n// Output: x\n}\nfunc ExampleC() {\n// Output:\n}\n")
	require.Equal(t, []string{"ExampleA"}, bad)
	require.Equal(t, 3, total)
	repository, examples := os.DirFS("../../.."), 0
	require.NoError(t, fs.WalkDir(repository, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != ".":
			if _, err := fs.Stat(repository, path.Join(name, "go.mod")); err == nil || strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" {
				return fs.SkipDir
			}
		case strings.HasSuffix(name, "_test.go"):
			src := testkit.Must(fs.ReadFile(repository, name))(t)
			bad, n := unchecked(t, name, string(src))
			assert.Empty(t, bad, "%s: examples without // Output", name)
			examples += n
		}
		return nil
	}))
	assert.Positive(t, examples)
}

// Each of these is built for the document of a system. Its README says where each requirement
// of the document is, and which test fails when it no longer holds.
var systems = []string{"runs", "partitions", "tickets", "tasks", "pool"}

func TestRequirements(t *testing.T) {
	t.Parallel()
	for _, system := range systems {
		assert.Empty(t, requirementFaults(os.DirFS("../../.."), path.Join("lab/systems", system)))
	}
}

// TestRequirementFaults shows that every rule fires.
func TestRequirementFaults(t *testing.T) {
	t.Parallel()
	const header = "# System\n\n| Requirement | Where | Test |\n|---|---|---|\n"
	for _, tt := range []struct {
		name, readme string
		want         []string
	}{
		{"in order", header + "| It runs | `run` | `TestRun`, `TestRun/twice` |\n| It is fast | main.go | `BenchmarkRun` |\n" +
			"| `a \\| b` | `run` | none: a choice of the document |\n\nSee `TestRun`.\n", nil},
		{"a requirement in two words", "| Requirement, by section | Code | Test |\n|---|---|---|\n| It runs | | `TestRun` |\n", nil},
		{"no table", "# System\n\n| Decision | Test |\n|---|---|\n| x | y |\n", []string{
			"lab/systems/x/README.md:1: has no table | Requirement | Where | Test |",
		}},
		{"no row", header + "\nNothing.\n", []string{"lab/systems/x/README.md:1: has no requirement"}},
		{"no reason", header + "| It runs | `run` | none: |\n", []string{
			"lab/systems/x/README.md:5: names neither a test nor, after none:, a reason",
		}},
		{"code in the place of a test", header + "| It runs | `TestRun` | `run` |\n", []string{
			"lab/systems/x/README.md:5: names neither a test nor, after none:, a reason",
		}},
		{"a test that is gone", header + "| It runs | `run` | `TestRun`, `TestGone` |\n", []string{
			"lab/systems/x/README.md:5: there is no TestGone",
		}},
		{"a comment in the place of a test", header + "| It runs | `run` | `TestComment` |\n", []string{
			"lab/systems/x/README.md:5: there is no TestComment",
		}},
		{"a test of another system", header + "| It runs | `run` | `TestOther` |\n", []string{
			"lab/systems/x/README.md:5: there is no TestOther",
		}},
		{"in the text", header + "| It runs | `run` | `TestRun` |\n\nSee `TestGone/once`.\n", []string{
			"lab/systems/x/README.md:7: there is no TestGone",
		}},
		{"two cells", header + "| It runs | `TestRun` |\n", []string{"lab/systems/x/README.md:5: has 2 cells"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tt.want, requirementFaults(fstest.MapFS{
				"lab/systems/x/README.md":    &fstest.MapFile{Data: []byte(tt.readme)},
				"lab/systems/x/main.go":      &fstest.MapFile{Data: []byte("package main\n\nfunc TestGone() {}\n")},
				"lab/systems/x/main_test.go": &fstest.MapFile{Data: []byte("package main\n\nfunc TestRun() {}\n\n/*\nfunc TestComment() {}\n*/\n")},
				"lab/systems/x/more_test.go": &fstest.MapFile{Data: []byte("package main\n\nfunc BenchmarkRun() {}\n")},
				"lab/systems/y/main_test.go": &fstest.MapFile{Data: []byte("package main\n\nfunc TestOther() {}\n")},
			}, "lab/systems/x"))
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

var (
	goMinor     = regexp.MustCompile(`(?m)^go (\d+\.\d+)`)
	requirement = regexp.MustCompile(`(?m)^(?:\t|require )(\S+) (v\S+)`)
)

// TestVersions checks that a dependency has one version in all modules for the same Go. In
// two versions it is downloaded, compiled and checked twice.
func TestVersions(t *testing.T) {
	t.Parallel()
	assert.Empty(t, versionFaults(t, os.DirFS("../../..")), "run make versions")
}

func TestVersionFaults(t *testing.T) {
	t.Parallel()
	const root = "module " + modulePath + "\n\ngo 1.25\n\nrequire example.com/x v1.2.0\nrequire " + modulePath + " v0.1.0\n"
	for name, tt := range map[string]struct{ nested, fault string }{
		"the same":   {"go 1.25.0\n\nrequire (\n\texample.com/x v1.2.0 // indirect\n)\n", ""},
		"older":      {"go 1.25.3\n\nrequire (\n\texample.com/x v1.1.0\n)\n", "example.com/x: v1.1.0 in a/go.mod, v1.2.0 in go.mod"},
		"a newer Go": {"go 1.26\n\nrequire example.com/x v1.3.0\n", ""},
		"our own":    {"go 1.25\n\nrequire " + modulePath + " v0.2.0\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			faults := versionFaults(t, fstest.MapFS{
				"go.mod":                &fstest.MapFile{Data: []byte(root)},
				"a/go.mod":              &fstest.MapFile{Data: []byte(tt.nested)},
				"internal/tools/go.mod": &fstest.MapFile{Data: []byte("go 1.25\n\nrequire example.com/x v1.0.0\n")},
			})
			assert.Equal(t, tt.fault, strings.Join(faults, "; "))
		})
	}
}

func versionFaults(t *testing.T, repository fs.FS) (faults []string) {
	t.Helper()
	type dependency struct{ goVersion, path string }
	type use struct{ version, file string }
	first := map[dependency]use{}
	assert.NoError(t, fs.WalkDir(repository, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata" || name == toolsModule):
			return fs.SkipDir
		case path.Base(name) != "go.mod":
			return nil
		}
		text, err := fs.ReadFile(repository, name)
		if err != nil {
			return err
		}
		for _, m := range requirement.FindAllStringSubmatch(string(text), -1) {
			dep := dependency{goMinor.FindStringSubmatch(string(text))[1], m[1]}
			if other, ok := first[dep]; !ok {
				first[dep] = use{m[2], name}
			} else if other.version != m[2] && !strings.HasPrefix(dep.path, modulePath) {
				faults = append(faults, fmt.Sprintf("%s: %s in %s, %s in %s",
					dep.path, other.version, other.file, m[2], name))
			}
		}
		return nil
	}))
	return faults
}

// unlimited returns where a source file makes an HTTP server that waits for ever for somebody, and
// how many servers it makes.
func unlimited(t *testing.T, name, src string) (found []string, servers int) {
	t.Helper()
	fset, file := parsed(t, name, src)
	sound := map[ast.Node]bool{} // mentions of http.Server that need no limits, or have them
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.StarExpr: // a pointer to one that is made elsewhere
			sound[n.X] = true
		case *ast.CompositeLit:
			limits := []string{"ReadHeaderTimeout", "ReadTimeout", "IdleTimeout"}
			for _, e := range n.Elts {
				if pair, ok := e.(*ast.KeyValueExpr); ok {
					if key, ok := pair.Key.(*ast.Ident); ok {
						limits = slices.DeleteFunc(limits, func(limit string) bool { return limit == key.Name })
					}
				}
			}
			sound[n.Type] = len(limits) == 0
		case *ast.SelectorExpr:
			if pkg, ok := n.X.(*ast.Ident); !ok || pkg.Name != "http" {
				return true
			}
			switch n.Sel.Name {
			case "Server":
				servers++
				if !sound[n] {
					found = append(found, fset.Position(n.Pos()).String()+": http.Server without all of its limits")
				}
			case "ListenAndServe", "ListenAndServeTLS", "Serve", "ServeTLS":
				found = append(found, fset.Position(n.Pos()).String()+": http."+n.Sel.Name+" has no limits")
			}
		}
		return true
	})
	return found, servers
}

// TestServersHaveLimits: no server of this repository waits for ever for a header, a body or the next
// request. Tests may, and testdata.
func TestServersHaveLimits(t *testing.T) {
	t.Parallel()
	const all = `ReadHeaderTimeout: a, ReadTimeout: b, IdleTimeout: c`
	for src, want := range map[string]int{
		`_ = &http.Server{` + all + `}`: 0, `_ = []any{http.Server{Handler: h, ` + all + `}}`: 0, `var s *http.Server`: 0,
		`_ = &http.Server{Handler: h, ReadHeaderTimeout: a, ReadTimeout: b}`: 1, `var s http.Server`: 1, `_ = new(http.Server)`: 1,
		`http.ListenAndServe("", h)`: 1, `_ = http.Serve(l, h)`: 1, `_ = s.Serve(l)`: 0,
	} {
		found, _ := unlimited(t, "x.go", "package p\nfunc f() {\n"+src+"\n}")
		require.Len(t, found, want, src)
	}
	repository, servers := os.DirFS("../../.."), 0
	require.NoError(t, fs.WalkDir(repository, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return fs.SkipDir
		case path.Ext(name) == ".go" && !strings.HasSuffix(name, "_test.go"):
			src := testkit.Must(fs.ReadFile(repository, name))(t)
			found, n := unlimited(t, name, string(src))
			assert.Empty(t, found)
			servers += n
		}
		return nil
	}))
	assert.Greater(t, servers, 3)
}
