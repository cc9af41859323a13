package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestMain runs the program itself if a test starts this binary.
func TestMain(m *testing.M) {
	if os.Getenv("POOL_TEST_MAIN") != "" {
		main()
	}
	os.Exit(m.Run())
}

// buffer may be written to by several goroutines.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

var stamp = regexp.MustCompile(`(?m)^ *\d+\.\d\ds +(\S+) +`)

func TestDemo(t *testing.T) {
	t.Parallel()
	var out, audit buffer
	assert.Equal(t, 0, run(t.Context(), []string{"demo"}, &out, &audit))
	text := stamp.ReplaceAllString(out.String(), "$1 ")
	for _, line := range []string{
		"task: 3 attempts, 1s ×2 ≤30s, no jitter: waits 1s, 2s; workers: 1",
		"fetch completed",
		"lint completed",
		"mirror failed: task failed after 3 attempts: exit status 1: rsync: timeout in data send",
		"license failed: task failed after 1 attempt: exit status 75: license server is busy",
		"secrets failed: task failed after 1 attempt: exit status 1: /srv/secrets: Permission denied",
		"test completed",
		"deploy skipped: needs secrets, which was not completed",
		"announce skipped: needs deploy, which was not completed",
		"4 completed, 3 failed, 2 skipped, 0 canceled\nthe demonstration is over: what failed was meant to",
	} {
		assert.Contains(t, text, line+"\n")
	}
	for entry, count := range map[string]int{
		`"node":"fetch"`: 3, `"node":"lint"`: 2, `"node":"mirror"`: 3, `"node":"license"`: 1,
		`"node":"secrets"`: 1, `"node":"build"`: 1, `"node":"test"`: 1, `"node":"deploy"`: 0,
	} {
		assert.Equal(t, count, strings.Count(audit.String(), entry), entry)
	}
	assert.Contains(t, audit.String(), `"attempt":1,"delay":"1s","class":"unknown","category":"signal_killed"`)
}

func TestOwnConfig(t *testing.T) {
	t.Parallel()
	var out, audit buffer
	file := write(t, "nodes:\n  - {name: a, command: echo from a}\n  - {name: b, command: echo from b, needs: [a]}\n")
	assert.Equal(t, 0, run(t.Context(), []string{"run", "-config", file}, &out, &audit))
	assert.Regexp(t, `(?s)a +running.*from a.*a +completed.*b +running.*from b.*b +completed.*2 completed`, out.String())
}

// The graph of the demonstration has no special rules if it is given as a file.
func TestDemoAsOwnConfig(t *testing.T) {
	t.Chdir(t.TempDir())
	var out, audit buffer
	assert.Equal(t, 1, run(t.Context(), []string{"run", "-config", write(t, string(demo))}, &out, &audit))
	assert.Contains(t, out.String(), "\n"+demoEnd+"\n")
}

// A demonstration that does not end as expected says so. Here there is no sh.
func TestDemoFails(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	var out, audit buffer
	assert.Equal(t, 1, run(t.Context(), []string{"demo"}, &out, &audit))
	assert.NotContains(t, out.String(), "the demonstration is over")
}

// Standard error is seen whole, though an error has its last line alone.
func TestStandardError(t *testing.T) {
	t.Parallel()
	var out, audit buffer
	file := write(t, "retry: {max_attempts: 1}\nnodes: [{name: a, command: 'echo the cause >&2; echo aborted >&2; exit 1'}]")
	assert.Equal(t, 1, run(t.Context(), []string{"run", "-config", file}, &out, &audit))
	assert.Contains(t, out.String(), "\na          | the cause\na          | aborted\n")
	assert.Contains(t, out.String(), "failed: task failed after 1 attempt: exit status 1: aborted\n")
	assert.NotContains(t, audit.String(), "the cause")
}

func TestTimeoutSeconds(t *testing.T) {
	t.Parallel()
	var out, audit buffer
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
		{"nothing", nil, 2, "pool demo"},
		{"no command", []string{"-config", write(t, nodes)}, 2, "pool run "},
		{"help for a command", []string{"run", "-h"}, 0, "-config file"},
		{"unknown flag", []string{"run", "-x"}, 2, "not defined: -x"},
		{"a flag that the demonstration has no use for", []string{"demo", "-config", "x"}, 2, "not defined: -config"},
		{"flag forgotten", []string{"run", "graph.yaml"}, 2, `unexpected argument: "graph.yaml"`},
		{"second file", []string{"run", "-config", write(t, nodes), "b.yaml"}, 2, `unexpected argument: "b.yaml"`},
		{"empty name", []string{"run", "-config", ""}, 2, `-config: "": must be a file`},
		{"no graph", []string{"run"}, 2, `-config: "": must be a file`},
		{"no file", []string{"run", "-config", "no-such-file"}, 2, "no-such-file"},
		{"bad setting", []string{"run", "-config", write(t, "workers: 0"+nodes)}, 2, "workers: 0:"},
		{"two documents", []string{"run", "-config", write(t, nodes+"\n---"+nodes)}, 2, "a second document: there must be one"},
		{"bad graph", []string{"run", "-config", write(t, "nodes: [{name: a, command: b, needs: [a]}]")}, 2, `node "a"`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var out, errs buffer
			assert.Equal(t, test.code, run(t.Context(), test.args, &out, &errs))
			assert.Contains(t, errs.String(), test.want)
			assert.Empty(t, out.String())
		})
	}
	var out, errs buffer
	assert.Zero(t, run(t.Context(), []string{"-h"}, &out, &errs))
	assert.Contains(t, out.String(), "pool run ")
}

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "graph.yaml")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}
