package enginetest

import "testing"

// Check runs one script, and returns how the engine differs from Execute.
func (e *Engine) Check(t testing.TB, name string) Result {
	t.Helper()
	return e.check(t, name)
}

// Report fails the test if the engine is not as it says.
var Report = report
