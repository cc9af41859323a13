package checks_test

import (
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

	"github.com/seed-5ff3c98e/retry/cmd/retryvet/checks"
)

// Each check has a package of its own name in testdata/src, with mistakes and with code that
// looks like them. The third-party packages there are stubs. All are loaded at once, because
// the standard library that they import takes longer than the checks.
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
	for _, result := range analysistest.RunWithSuggestedFixes(t, analysistest.TestData(), all, slices.Collect(maps.Keys(byName))...) {
		compileFixes(t, result.Action)
	}
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
