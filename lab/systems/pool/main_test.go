package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/lab/systems/shared"
	"github.com/seed-5ff3c98e/retry/lab/systems/shared/dbtest"
)

// TestMain runs the program itself if a test starts this binary.
func TestMain(m *testing.M) {
	if os.Getenv("POOL_TEST_MAIN") != "" {
		main()
	}
	os.Exit(m.Run())
}

var stamp = regexp.MustCompile(`(?m)^ *\d+\.\d\ds +(\S+) +`)

// run runs the program, and returns its exit code.
func run(ctx context.Context, args []string, out, errs io.Writer) int {
	err := program(errs).Run(ctx, args, out)
	if err != nil {
		fmt.Fprintln(errs, err)
	}
	return shared.ExitCode(err)
}

// A node of each kind, with real commands: only one worker, and no node keeps it while it waits.
func TestAllKinds(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	var out, audit dbtest.Output
	assert.Equal(t, 1, run(t.Context(), []string{"run", "-config", write(t, strings.ReplaceAll(`
workers: 1
retry: {init_delay_seconds: 1}
nodes:
  - {name: fetch, command: "test -e DIR/fetched || { touch DIR/fetched; echo 'dial tcp: connection refused' >&2; exit 1; }"}
  - {name: lint, command: "test -e DIR/linted || { touch DIR/linted; kill -9 $$; }"}
  - {name: mirror, command: "echo 'rsync: timeout in data send' >&2; exit 1"}
  - {name: license, command: "echo 'license server is busy' >&2; exit 75"}
  - {name: build, command: "true", needs: [fetch, lint]}
  - {name: deploy, command: "true", needs: [build, license]}
  - {name: announce, command: "true", needs: [deploy]}
`, "DIR", state))}, &out, &audit))
	text := stamp.ReplaceAllString(out.String(), "$1 ")
	for _, line := range []string{
		"task: 3 attempts, 1s ×2 ≤30s, no jitter: waits 1s, 2s; workers: 1",
		"fetch completed",
		"lint completed",
		"mirror failed: task failed after 3 attempts: exit status 1: rsync: timeout in data send",
		"license failed: task failed after 1 attempt: exit status 75: license server is busy",
		"build completed",
		"deploy skipped: needs license, which was not completed",
		"announce skipped: needs deploy, which was not completed",
		"3 completed, 2 failed, 2 skipped, 0 canceled",
	} {
		assert.Contains(t, text, line+"\n")
	}
	for entry, count := range map[string]int{
		`"node":"fetch"`: 2, `"node":"lint"`: 2, `"node":"mirror"`: 3, `"node":"license"`: 1, `"node":"build"`: 1, `"node":"deploy"`: 0,
	} {
		assert.Equal(t, count, strings.Count(audit.String(), entry), entry)
	}
	assert.Contains(t, audit.String(), `"attempt":1,"delay":"1s","class":"unknown","category":"signal_killed"`)
}

func TestOwnConfig(t *testing.T) {
	t.Parallel()
	var out, audit dbtest.Output
	file := write(t, "nodes:\n  - {name: a, command: echo from a}\n  - {name: b, command: echo from b, needs: [a]}\n")
	assert.Equal(t, 0, run(t.Context(), []string{"run", "-config", file}, &out, &audit))
	assert.Regexp(t, `(?s)a +running.*from a.*a +completed.*b +running.*from b.*b +completed.*2 completed`, out.String())
}

// Where there is no sh, the error says so.
func TestNoShell(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	var out, audit dbtest.Output
	assert.Equal(t, 1, run(t.Context(), []string{"run", "-config", write(t, nodes)}, &out, &audit))
	assert.Contains(t, out.String(), "failed: task failed after 1 attempt: exec: \"sh\"")
}

// Standard error is seen whole, though an error has its last line alone.
func TestStandardError(t *testing.T) {
	t.Parallel()
	var out, audit dbtest.Output
	file := write(t, "retry: {max_attempts: 1}\nnodes: [{name: a, command: 'echo the cause >&2; echo aborted >&2; exit 1'}]")
	assert.Equal(t, 1, run(t.Context(), []string{"run", "-config", file}, &out, &audit))
	assert.Contains(t, out.String(), "\na          | the cause\na          | aborted\n")
	assert.Contains(t, out.String(), "failed: task failed after 1 attempt: exit status 1: aborted\n")
	assert.NotContains(t, audit.String(), "the cause")
}

func TestTimeoutSeconds(t *testing.T) {
	t.Parallel()
	var out, audit dbtest.Output
	file := write(t, "timeout_seconds: 1\nretry: {max_attempts: 1}\nnodes: [{name: a, command: sleep 60}]")
	assert.Equal(t, 1, run(t.Context(), []string{"run", "-config", file}, &out, &audit))
	assert.Contains(t, out.String(), "a          failed: task failed after 1 attempt: attempt timed out")
}

func TestNothingToRun(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		args []string
		code int
		want string
	}{
		{"nothing", nil, 2, "a command is missing"},
		{"no command", []string{"-config", write(t, nodes)}, 2, "pool run "},
		{"unknown flag", []string{"run", "-x"}, 2, "not defined: -x"},
		{"flag forgotten", []string{"run", "graph.yaml"}, 2, `unexpected argument: graph.yaml`},
		{"second file", []string{"run", "-config", write(t, nodes), "b.yaml"}, 2, `unexpected argument: b.yaml`},
		{"empty name", []string{"run", "-config", ""}, 2, `-config: "": must be a file`},
		{"no graph", []string{"run"}, 2, `-config: "": must be a file`},
		{"no file", []string{"run", "-config", "no-such-file"}, 2, "no-such-file"},
		{"bad setting", []string{"run", "-config", write(t, "workers: 0"+nodes)}, 2, "workers: 0:"},
		{"two documents", []string{"run", "-config", write(t, nodes+"\n---"+nodes)}, 2, "a second document: there must be one"},
		{"bad graph", []string{"run", "-config", write(t, "nodes: [{name: a, command: b, needs: [a]}]")}, 2, "a needs a"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var out, errs dbtest.Output
			assert.Equal(t, test.code, run(t.Context(), test.args, &out, &errs))
			assert.Contains(t, errs.String(), test.want)
			assert.Empty(t, out.String())
		})
	}
	var out, errs dbtest.Output
	assert.Zero(t, run(t.Context(), []string{"run", "-h"}, &out, &errs))
	assert.Contains(t, out.String(), "-config file")
}

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "graph.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// Nodes that run at once write whole lines, each with the name of its node, however the
// command cuts them up.
func TestNamesBeforeLines(t *testing.T) {
	t.Parallel()
	const command = "for i in 1 2 3 4 5 6 7 8 9; do printf 'from '; printf \"%s \" NAME; echo line $i; echo NAME error >&2; done; printf NAME"
	text := "nodes:\n"
	names := []string{"a", "bee", "a-long-name", "d"}
	for _, name := range names {
		text += "  - name: " + name + "\n    command: |\n      " + strings.ReplaceAll(command, "NAME", name) + "\n"
	}
	var out, audit dbtest.Output
	require.Equal(t, 0, run(t.Context(), []string{"run", "-config", write(t, text)}, &out, &audit))
	for _, name := range names {
		lines := regexp.MustCompile(`(?m)^`+name+` *\| (from `+name+` line \d|`+name+` error|`+name+`)$`).FindAllString(out.String(), -1)
		assert.Len(t, lines, 9+9+1, name)
	}
	assert.Equal(t, len(names)*19, strings.Count(out.String(), " | "))
}

// A line without an end does not fill the memory, and is not lost.
func TestLongLine(t *testing.T) {
	t.Parallel()
	var out dbtest.Output
	l := &lines{out: &out, node: "a"}
	for range 300 {
		n, err := l.Write([]byte(strings.Repeat("x", 10_000)))
		require.NoError(t, err)
		require.Equal(t, 10_000, n)
	}
	l.end()
	assert.Equal(t, 3_000_000, strings.Count(out.String(), "x"))
	assert.Greater(t, strings.Count(out.String(), "\n"), 30)
	assert.Len(t, l.kept, mostKept)
	assert.Less(t, cap(l.rest), 4*longestLine)
	l.end()
	assert.True(t, strings.HasSuffix(out.String(), "x\n"), "and no empty line")
}
