package checks_test

import (
	"bytes"
	"cmp"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/packages"
)

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
