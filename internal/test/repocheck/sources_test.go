package repocheck_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// parsed returns a file, and where its parts are.
func parsed(t *testing.T, name, src string) (*token.FileSet, *ast.File) {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, src, parser.ParseComments)
	require.NoError(t, err)
	return fset, file
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
		names, err := fs.Glob(repository, pattern)
		require.NoError(t, err)
		for _, name := range names {
			if name == "internal/known/mute.go" {
				src, err := fs.ReadFile(repository, name)
				require.NoError(t, err)
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
			src, err := fs.ReadFile(repository, name)
			require.NoError(t, err)
			bad, n := unchecked(t, name, string(src))
			assert.Empty(t, bad, "%s: examples without // Output", name)
			examples += n
		}
		return nil
	}))
	assert.Positive(t, examples)
}
