package behaviour_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write docs/evidence/behaviour.md")

// TestTable asks everybody everything, and compares the answers with those in
// docs/evidence/behaviour.md.
func TestTable(t *testing.T) { //nolint:paralleltest // Some probes count goroutines, and one sets the environment.
	if runtime.GOARCH != "amd64" {
		t.Skip("what overflows in a float64 is another wait on another processor")
	}
	quietKubernetes(t)
	name := func(c *contestant) string { return c.name }
	probes := tester{t}
	groups := []group{
		ask(probes, "Context", "What a call does with the context it is given.", contestants, name, contextPromises),
		ask(probes, "Errors", "What comes back, and what is left.", contestants, name, errorPromises),
		ask(probes, "Waits and limits", "How long the waits are, and how many.", contestants, name, delayPromises),
		ask(probes, "Hints", "Servers tell when to come back, and some talk nonsense.", contestants, name, hintPromises),
		ask(probes, "Budgets", "A shared limit for the extra load of retries, so that an outage does not become a storm; default settings.", contestants, name, budgetPromises),
		ask(probes, "Use", "In jobs, in operation, in tests.", contestants, name, usePromises),
		ask(probes, "HTTP", httpIntro, httpContestants, func(c *httpContestant) string { return c.name }, slices.Concat(httpHints, httpRequests, httpCalls)),
		ask(probes, "gRPC", grpcIntro, grpcContestants, func(c *grpcContestant) string { return c.name }, grpcPromises),
		ask(probes, "More than retries", "What a library brings beside retries, and what it asks for. Most of it we do not have.", contestants, name, featurePromises(probes)),
	}
	got := document(t, groups)
	path := filepath.Join("..", "..", "docs", "evidence", "behaviour.md")
	if *update {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
		return
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "go test ./behaviour -update writes it")
	require.Equal(t, string(want), got, "go test ./behaviour -update writes it anew")
}

// document prints the whole file.
func document(t *testing.T, groups []group) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(`# Who keeps which promise

Every cell was seen in a run: ` + "`go test ./behaviour -update`" + ` in benchmarks/ asks every library
the same and writes this file, and CI compares, on amd64. Time is that of testing/synctest.

✓ kept · ~ in part, or only by code that the caller has to write · ✗ not kept · – the library has no such thing

Every library is in its newest major version. It is set up as its documentation advises for the promise that is asked
for; a promise that some documented setting keeps is kept. The promises are ours,
and so is the choice: whoever thinks that one is unfair, or that a library can do
better, may change its adapter, a page of Go, and run the command.

What to read from it:

1. The first table counts what each library keeps of our promises, so it says how well a library suits them, and not how good it is.
2. Look at the row of the promise that your program depends on, and not at the sums.
3. ~ is code that you would have to write, and "What was seen" says which.
4. "Where a peer does better" is the list of reasons to take another library.
5. The last table, I, is about what we do not have.

`)
	summary(&b, groups[:8])
	b.WriteString("\nI, which is about more than retries, is not counted. The counts say how much the promises of this page suit a library, and no more.\n\n## The contestants\n\n| | Version | Set up with |\n|---|---|---|\n")
	versions := moduleVersions(t)
	for _, c := range contestants {
		fmt.Fprintf(&b, "| %s | %s %s | %s |\n", c.name, c.module, versions[c.module].version, c.setup)
	}
	for _, c := range httpContestants {
		fmt.Fprintf(&b, "| %s | %s %s | %s |\n", c.name, c.module, versions[c.module].version, c.setup)
	}
	for _, c := range grpcContestants {
		fmt.Fprintf(&b, "| %s | %s %s | %s |\n", c.name, c.module, versions[c.module].version, c.setup)
	}
	b.WriteString("\n## Where a peer does better\n\nThe promises that we do not keep, or not in full, and somebody else does:\n\n")
	better(&b, groups)
	b.WriteString("\n")
	for i := range groups {
		groups[i].write(&b, letter(i))
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}
