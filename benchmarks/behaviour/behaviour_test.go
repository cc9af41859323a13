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
	if testing.Verbose() {
		var all strings.Builder
		for i := range groups {
			groups[i].seen(&all, letter(i), kept, partly, broken, absent)
		}
		t.Log(all.String())
	}
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
the same and writes this file, and CI compares, on amd64. With ` + "`-v`" + ` it prints what was seen in every cell.

✓ kept · ~ in part, or only by code that the caller has to write · ✗ not kept · – the library has no such thing

Every library is in its newest major version, set up as its documentation advises for the promise.
The promises are ours: whoever thinks that one is unfair, or that a library can do
better, may change its adapter, a page of Go, and run the command.

Look at the row that your program depends on, not at the sums: they say how well a library suits these promises, and
leave out I, which is about what we do not have.

`)
	summary(&b, groups[:8])
	b.WriteString("\n## The contestants\n\n| | Version | Set up with |\n|---|---|---|\n")
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
