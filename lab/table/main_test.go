package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/lab/peers"
	"github.com/seed-5ff3c98e/retry/lab/table/rounds"
)

const header = `go: go1.26.8
goos: linux
goarch: amd64
pkg: example.com/benchmarks
cpu: Some CPU
`

// layer is a workload of another package, of which only the contestants are known.
const layer = header + `BenchmarkLayer/by=hand-2         	1000	 10.0 ns/op	 0 B/op	 0 allocs/op
BenchmarkLayer/by=failsafehttp-2 	1000	 4e+02 ns/op	 8 B/op	 2 allocs/op
BenchmarkLayer/by=retry-2        	1000	 12.0 ns/op	 0 B/op	 0 allocs/op
PASS
` + header + `BenchmarkLayer/by=failsafehttp-2 	1000	 3000 ns/op	 9 B/op	 3 allocs/op
BenchmarkLayer/by=retry-2        	1000	 80.0 ns/op	 0 B/op	 0 allocs/op
BenchmarkLayer/by=hand-2         	1000	 100 ns/op	 0 B/op	 0 allocs/op
PASS
ok  	example.com/benchmarks	9.003s
` + header + `BenchmarkLayer/by=hand-2         	1000	 20.0 ns/op	 0 B/op	 0 allocs/op
BenchmarkLayer/by=failsafehttp-2 	1000	 700 ns/op	 8 B/op	 2 allocs/op
BenchmarkLayer/by=retry-2        	1000	 22.0 ns/op	 0 B/op	 0 allocs/op
PASS
`

// The slow round counts once, although everything was slow in it.
func TestTable(t *testing.T) {
	t.Parallel()
	assert.Equal(t, `linux/amd64, Some CPU, go1.26.8, GOMAXPROCS 2.

`+rounds.Legend+`

### Layer

3 rounds.

| by | × hand | min–max | ns/op | B/op | allocs/op | checks context | note |
|---|--:|--:|--:|--:|--:|---|---|
| hand | 1.00 | 1.00–1.00 | 20 | 0 | 0 | yes |  |
| retry | 1.10 | 0.80–1.20 | 22 | 0 | 0 | yes |  |
| failsafehttp | 35.0 | 30.0–40.0 | 700 | 8 | 2 |  | leaves the responses it retries open, and reads a body into memory for every call |
`, table(t, layer))
}

func TestRatios(t *testing.T) {
	t.Parallel()
	d := rounds.New("ns/op")
	require.NoError(t, d.Read("x", strings.NewReader(layer+
		`BenchmarkOther/by=hand-2 10 2 ns/op
BenchmarkOther/by=hand-2 10 3 ns/op
BenchmarkOther/by=hand-2 10 4 ns/op
`)))
	assert.Equal(t, `| × hand | hand | retry | failsafehttp |
|---|--:|--:|--:|
| Layer | 1.00 | 1.10 | 35.0 |
| Other | 1.00 | – | – |
`, d.Ratios())
}

// Another unit, names without GOMAXPROCS, other benchmarks in the same input, and
// one that nothing is compared with.
func TestMetric(t *testing.T) {
	t.Parallel()
	const in = `goos: linux
goarch: amd64
BenchmarkSleepers/by=hand 100000 3000.5 B/sleeper 2048 stack-B/sleeper
BenchmarkSleepers/by=backoff-v5 100000 4500.75 B/sleeper 4096 stack-B/sleeper
BenchmarkCancel/by=hand 10000 9 ns/op
BenchmarkPool/context=none/by=retry 1000000 312 B/sleeper
`
	assert.Equal(t, `linux/amd64.

`+rounds.Legend+`

### Sleepers

1 round.

| by | × hand | min–max | B/sleeper | stack-B/sleeper | checks context |
|---|--:|--:|--:|--:|---|
| hand | 1.00 | 1.00–1.00 | 3000 | 2048 | yes |
| backoff-v5 | 1.50 | 1.50–1.50 | 4501 | 4096 | no |

### Pool/context=none

1 round.

| by | B/sleeper | checks context |
|---|--:|---|
| retry | 312 | yes |
`, table(t, in, "-metric", "B/sleeper"))
}

// Of a known workload it is known what it is, who takes part, and what is forced.
func TestKnownWorkload(t *testing.T) {
	t.Parallel()
	got := table(t, complete("TenDelays"))
	assert.Contains(t, got, "Computes ten delays. 1 round. Not to be had from: failsafe, go-resiliency.\n")
	assert.Regexp(t, `\| k8s-wait \|.*\| jitter of \+0…100 %, which exceeds the cap \|`, got)
	got = table(t, complete("Exhausted"))
	assert.Regexp(t, `\| k8s-wait \|.*\| yes \| no wait is a timer of 0; loses the last error \|`, got)
}

// complete is a round of a workload.
func complete(workload string) string {
	var b strings.Builder
	for _, w := range peers.Workloads() {
		for _, c := range peers.Contestants() {
			if w.Name == workload && w.Takes(c) {
				fmt.Fprintf(&b, "Benchmark%s/by=%s-2 1 5 ns/op\n", workload, c.Name)
			}
		}
	}
	return b.String()
}

func table(t *testing.T, in string, args ...string) string {
	t.Helper()
	var out strings.Builder
	require.NoError(t, run(args, strings.NewReader(in), &out))
	return out.String()
}

// Rounds may be spread over files.
func TestFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var names []string
	for i, ns := range []int{20, 40} {
		name := filepath.Join(dir, fmt.Sprint(i))
		text := fmt.Sprintf("BenchmarkLayer/by=hand-2 1 10 ns/op\nBenchmarkLayer/by=retry-2 1 %d ns/op\n", ns)
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		names = append(names, name)
	}
	assert.Contains(t, table(t, "", names...), "2 rounds.")
	assert.Contains(t, table(t, "", names...), "| retry | 3.00 | 2.00–4.00 | 30 |")
	assert.Error(t, run([]string{filepath.Join(dir, "none")}, nil, nil))
}

func TestRejects(t *testing.T) {
	t.Parallel()
	const hand, retry = "BenchmarkA/by=hand-2 10 1 ns/op\n", "BenchmarkA/by=retry-2 10 1 ns/op\n"
	tests := []struct{ name, in, want string }{
		{"nothing", "PASS\n", "no benchmark with ns/op"},
		{"another unit", "BenchmarkA/by=hand-2 10 1 B/sleeper\n", "no benchmark with ns/op"},
		{"a failure", hand + "--- FAIL: BenchmarkB\n", `standard input:2: not the output of benchmarks that passed: "--- FAIL`},
		{"a panic", hand + "panic: boom\n", "not the output"},
		{"an exit", hand + "exit status 2\n", "not the output"},
		{"a line cut off", hand + "BenchmarkA/by=retry-2\n", "not the output"},
		{"a unit cut off", hand + "BenchmarkA/by=retry-2 10 1 ns/op 8\n", "a value without a unit"},
		{"not a number", hand + "BenchmarkA/by=retry-2 10 x ns/op\n", "invalid syntax"},
		{"another benchmark", "BenchmarkNext-2 10 1 ns/op\n", "not the output"},
		{"a contestant less in a round", hand + retry + hand, "of 2 rounds, A/by=retry has 1"},
		{"a workload less in a round", hand + retry + hand + retry + "BenchmarkB/by=hand-2 10 1 ns/op\n", "of 2 rounds, B/by=hand has 1"},
		{"none by hand", retry + "BenchmarkA/by=gax-2 10 1 ns/op\n", "A: there is nothing by=hand"},
		{"nothing by hand", "BenchmarkA/by=hand-2 10 0 ns/op\n" + retry, "A: ns/op by=hand is 0"},
		{"another machine", "cpu: one\n" + hand + retry + "cpu: two\n" + hand + retry, `another machine: cpu "two" after "one"`},
		{"other cores", hand + "BenchmarkA/by=retry-4 10 1 ns/op\n", `another machine: cores "4" after "2"`},
		{"a known contestant is missing", "BenchmarkFinal/by=hand-2 10 1 ns/op\n", "Final: by=retry is missing"},
		{"an unknown one", complete("Final") + "BenchmarkFinal/by=me-2 10 1 ns/op\n", "Final: by=me should not be there"},
		{"one that cannot", complete("TenDelays") + "BenchmarkTenDelays/by=failsafe-2 10 1 ns/op\n", "by=failsafe should not"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			assert.ErrorContains(t, run(nil, strings.NewReader(tt.in), &strings.Builder{}), tt.want)
		})
	}
}
