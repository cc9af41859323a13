package checks_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/analysistest"

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
