package retry_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A function that is called and never stored lets its closure, and the variables
// in that, stay on the stack of the caller. One careless line moves them to the
// heap, in every call of every user. The tests of allocations notice that too;
// the compiler says where it is.

func TestFuncParametersDoNotEscape(t *testing.T) {
	t.Parallel()
	said := compile(t, "-gcflags="+modulePath+"=-m", ".")
	positions := funcParameters(t, "retry.go")
	for _, name := range []string{"Execute", "run", "try"} {
		require.Contains(t, positions, name)
	}
	for name, position := range positions {
		about := regexp.MustCompile(`(?m)^.*`+regexp.QuoteMeta(position)+`: .*$`).FindAllString(said, -1)
		if assert.Len(t, about, 1, name) {
			assert.Regexp(t, `: fn does not escape$`, about[0], name)
		}
	}
}

// funcParameters returns where functions have a parameter fn. It leaves out
// generic ones, about which the compiler says something where they are used.
func funcParameters(t *testing.T, name string) map[string]string {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, nil, 0)
	require.NoError(t, err)
	positions := map[string]string{}
	for _, decl := range file.Decls {
		f, ok := decl.(*ast.FuncDecl)
		if !ok || f.Type.TypeParams != nil {
			continue
		}
		for _, field := range f.Type.Params.List {
			for _, ident := range field.Names {
				if ident.Name == "fn" {
					positions[f.Name.Name] = files.Position(ident.Pos()).String()
				}
			}
		}
	}
	return positions
}

// callers is a package that exists for the compiler only.
const callers = `package callers

import (
	"context"

	"` + modulePath + `"
)

func Execute(ctx context.Context, p *retry.Policy) (n int, err error) {
	err = p.Execute(ctx, func(context.Context) error { n++; return nil })
	return n, err
}

func Do(ctx context.Context, p *retry.Policy) (n int, err error) {
	_, err = retry.Do(ctx, p, func(context.Context) (int, error) { n++; return n, nil })
	return n, err
}
`

func TestClosuresOfCallersDoNotEscape(t *testing.T) {
	t.Parallel()
	place, err := filepath.Abs(filepath.FromSlash("internal/callers/callers.go"))
	require.NoError(t, err)
	source := filepath.Join(t.TempDir(), "callers.go")
	require.NoError(t, os.WriteFile(source, []byte(callers), 0o600))
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{place: source}})
	require.NoError(t, err)
	list := filepath.Join(t.TempDir(), "overlay.json")
	require.NoError(t, os.WriteFile(list, overlay, 0o600))

	said := compile(t, "-overlay="+list, "-gcflags="+modulePath+"/internal/callers=-m", "./internal/callers")
	assert.NotContains(t, said, "moved to heap")
	literals := regexp.MustCompile(`(?m)^.*: func literal .*$`).FindAllString(said, -1)
	assert.Len(t, literals, 3, "two of the caller's, and that of Do")
	for _, literal := range literals {
		assert.Regexp(t, `: func literal does not escape$`, literal)
	}
}

// compile returns what the compiler says about a package. The go command repeats
// it when there is nothing to compile.
func compile(t *testing.T, args ...string) string {
	t.Helper()
	said, err := exec.CommandContext(t.Context(), "go", append([]string{"build"}, args...)...).CombinedOutput()
	require.NoError(t, err, "%s", said)
	return string(said)
}
