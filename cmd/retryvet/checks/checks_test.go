package checks_test

import (
	"bytes"
	"cmp"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/analysistest"
	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/packages"
	"golang.org/x/tools/txtar"

	"github.com/seed-5ff3c98e/retry/cmd/retryvet/checks"
)

// Each check has a package of its own name in testdata/src, with mistakes and with code that
// looks like them. libraries.txtar has stubs of the third-party packages. All are loaded at once,
// because the standard library that they import takes longer than the checks.
func TestChecks(t *testing.T) {
	t.Parallel()
	byName := map[string]*analysis.Analyzer{}
	all := &analysis.Analyzer{Name: "all", Doc: "the check that a package has the name of", Run: func(pass *analysis.Pass) (any, error) {
		return byName[pass.Pkg.Path()].Run(pass)
	}}
	for _, check := range checks.All() {
		byName[check.Name] = check
		all.Requires = check.Requires // the same of each
	}
	dir, libraries := t.TempDir(), archive(t, "testdata/libraries.txtar")
	require.NoError(t, os.CopyFS(dir, os.DirFS("testdata")))
	require.NoError(t, os.CopyFS(filepath.Join(dir, "src"), libraries))
	for _, result := range analysistest.RunWithSuggestedFixes(t, dir, all, slices.Collect(maps.Keys(byName))...) {
		compileFixes(t, result.Action)
	}
}

// archive returns the files of an archive in text.
func archive(t *testing.T, name string) fs.FS {
	t.Helper()
	parsed, err := txtar.ParseFile(name)
	require.NoError(t, err)
	files, err := txtar.FS(parsed)
	require.NoError(t, err)
	return files
}

func TestAllAreValid(t *testing.T) {
	t.Parallel()
	assert.NoError(t, analysis.Validate(checks.All()))
	assert.NotContains(t, checks.Default(), checks.NoJitter)
}

// A driver runs the checks of a package at the same time. They find the same as one after the other,
// also where they have much to look at.
func TestAtTheSameTime(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.com/many\n\ngo 1.26\n"), 0o600))
	code := "package many\n\nimport (\n\t\"context\"\n\t\"time\"\n)\n\nfunc deeper(err error, n int) bool { return err != nil && n < 400 }\n" +
		"\nfunc again(err error, n int) bool {\n" + strings.Repeat("\tif deeper(err, n+1) {\n\t\treturn true\n\t}\n", 20) + "\treturn false\n}\n" +
		"\nfunc many(ctx context.Context, call func(context.Context) (int, error)) error {\n\tvar err error\n\tfor range 5 {\n\t\tvar n int\n\t\tn, err = call(ctx)\n" +
		strings.Repeat("\t\tif n == 7 || again(err, n) {\n\t\t\ttime.Sleep(time.Second)\n\t\t\tcontinue\n\t\t}\n", 100) +
		"\t\tbreak\n\t}\n\treturn err\n}\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "many.go"), []byte(code), 0o600))
	loaded, err := packages.Load(&packages.Config{Mode: packages.LoadAllSyntax, Dir: dir}, ".")
	require.NoError(t, err)
	found := func(sequential bool) map[string]int {
		messages := map[string]int{}
		graph, err := checker.Analyze(checks.All(), loaded, &checker.Options{Sequential: sequential})
		require.NoError(t, err)
		for action := range graph.All() {
			require.NoError(t, action.Err)
			for _, d := range action.Diagnostics {
				messages[action.Analyzer.Name+d.Message]++
			}
		}
		return messages
	}
	want := found(true)
	assert.Len(t, want, 2)
	assert.Equal(t, want, found(false))
}

// compileFixes type-checks what the fixes of a package write, each alone and all together. The
// comments stay, and the result can be formatted.
func compileFixes(t *testing.T, act *checker.Action) {
	t.Helper()
	var together []analysis.TextEdit
	for _, d := range act.Diagnostics {
		for _, fix := range d.SuggestedFixes {
			compile(t, act.Package, fix.TextEdits)
			together = append(together, fix.TextEdits...)
		}
	}
	compile(t, act.Package, together)
}

// compile type-checks a package after edits.
func compile(t *testing.T, pkg *packages.Package, edits []analysis.TextEdit) {
	t.Helper()
	fset, byFile := token.NewFileSet(), map[*token.File][]analysis.TextEdit{}
	for _, e := range edits {
		file := pkg.Fset.File(e.Pos)
		byFile[file] = append(byFile[file], e)
	}
	var files []*ast.File
	for _, old := range pkg.Syntax {
		file := pkg.Fset.File(old.FileStart)
		src, err := os.ReadFile(file.Name())
		require.NoError(t, err)
		src, err = format.Source(apply(t, file, src, byFile[file]))
		require.NoError(t, err)
		parsed, err := parser.ParseFile(fset, file.Name(), src, parser.ParseComments)
		require.NoError(t, err)
		assert.Equal(t, comments(old), comments(parsed))
		files = append(files, parsed)
	}
	config := types.Config{Importer: importer(pkg.Imports)}
	_, err := config.Check(pkg.PkgPath, fset, files, nil)
	assert.NoError(t, err)
}

// apply returns the text of a file after edits, which must not overlap.
func apply(t *testing.T, file *token.File, src []byte, edits []analysis.TextEdit) []byte {
	t.Helper()
	slices.SortStableFunc(edits, func(a, b analysis.TextEdit) int { return cmp.Compare(a.Pos, b.Pos) })
	var out bytes.Buffer
	last := 0
	for _, e := range edits {
		require.LessOrEqual(t, last, file.Offset(e.Pos))
		out.Write(src[last:file.Offset(e.Pos)])
		out.Write(e.NewText)
		last = file.Offset(e.End)
	}
	out.Write(src[last:])
	return out.Bytes()
}

func comments(file *ast.File) []string {
	var texts []string
	for _, group := range file.Comments {
		for _, c := range group.List {
			texts = append(texts, c.Text)
		}
	}
	return texts
}

// importer finds the packages that a package imports.
type importer map[string]*packages.Package

func (i importer) Import(path string) (*types.Package, error) {
	if path == "unsafe" {
		return types.Unsafe, nil
	}
	return i[path].Types, nil
}
