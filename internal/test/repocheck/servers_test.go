package repocheck_test

import (
	"go/ast"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
			src, err := fs.ReadFile(repository, name)
			require.NoError(t, err)
			found, n := unlimited(t, name, string(src))
			assert.Empty(t, found)
			servers += n
		}
		return nil
	}))
	assert.Greater(t, servers, 3)
}
