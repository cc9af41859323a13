package checks_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/seed-5ff3c98e/retry/cmd/retryvet/checks"
)

// Each check has a package of its own name in testdata/src, with mistakes and with code that
// looks like them. The third-party packages there are stubs.
func TestChecks(t *testing.T) {
	t.Parallel()
	for _, check := range checks.All() {
		t.Run(check.Name, func(t *testing.T) {
			t.Parallel()
			analysistest.RunWithSuggestedFixes(t, analysistest.TestData(), check, check.Name)
		})
	}
}

func TestAllAreValid(t *testing.T) {
	t.Parallel()
	assert.NoError(t, analysis.Validate(checks.All()))
	assert.NotContains(t, checks.Default(), checks.NoJitter)
}
