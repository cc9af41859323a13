//go:build unix

package cli_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/cmd/retry/internal/cli"
)

// outcome is how a line of a document ends. Its command is a script in the place of the program that
// the line names; in it, "nth N" is true from the Nth run on.
type outcome struct {
	script string
	code   int
	runs   int
	stdout string // or what is in shop.gz
}

const busy = `; echo "Connection refused" >&2; exit `

// documented has the lines of documents that run a program, and how each ends if that succeeds, fails
// for a while, and fails for good. A line of a subcommand, which runs nothing, has to end with 0.
var documented = map[string][]outcome{
	`retry curl -fsS https://example.com`: {{"echo ok", 0, 1, "ok\n"}, {"nth 3 && exit" + busy + "22", 0, 3, ""}, {"false" + busy + "22", 22, 3, ""}},
	`retry bash -o pipefail -c 'pg_dump shop | gzip > shop.gz'`: {
		{"echo all", 0, 1, "all\n"}, {"nth 3 && echo all && exit; echo half" + busy + "1", 0, 3, "all\n"}, {"echo half" + busy + "1", 1, 3, "half\n"},
	},
	`retry -n 10 -b constant:5s --until 'test -f ready' make-it-ready`: {
		{"touch ready", 0, 1, ""}, {"nth 3 && touch ready", 0, 3, ""}, {"true", 123, 10, ""}, {"touch ready; exit 1", 1, 10, ""},
	},
	`retry -n 10 -b constant:5s --until 'test -f ready' make ready`: {{"nth 3 && touch ready", 0, 3, ""}, {"true", 123, 10, ""}},
	`retry -n unlimited -T 5m -b 1s --until-fails --final-exit 2,3 pgrep -x backup`: {
		{"exit 1", 0, 1, ""}, {"nth 3 && exit 1; exit 0", 0, 3, ""}, {"exit 3", 3, 1, ""}, {"nth 3 && exit 2; exit 0", 2, 3, ""},
	},
	`retry -n unlimited -T 10m --on-exit 75,111 deliver < mail`: {
		{"cat", 0, 1, "a mail\n"}, {"read x; nth 3 || exit 75; echo $x", 0, 3, "a mail\n"}, {"exit 1", 1, 1, ""},
	},
	`retry -p policies.yaml --policy-name upload rsync -a . host:backup`: {
		{"true", 0, 1, ""}, {"nth 2 && exit" + busy + "30", 0, 2, ""}, {"false" + busy + "30", 30, 4, ""}, {"exit 1", 1, 1, ""},
	},
	`retry -n unlimited -T 2m -b constant:1s pg_isready -q -h db && make ci`: {
		{"true", 0, 2, ""}, {"nth 3 || exit 2", 0, 4, ""}, {"test ${0##*/} = pg_isready || exit 3", 3, 2, ""},
	},
	`retry -n 5 check`: {{"nth 5", 0, 5, ""}, {"false", 1, 5, ""}}, `retry -- check`: {{"nth 3", 0, 3, ""}, {"false", 1, 3, ""}},
}

// unmade are lines that are not run here, by their beginning, with the reason.
var unmade = map[string]string{
	"retry playground": "serves until it is killed: TestPlayground", "retry --on-exit CODE": "has no command: TestExitCodes",
	"retry storm": "takes minutes: TestStorm", "retry why": "TestWhy, TestWhyInDocument", "retry completion": "TestCompletion",
	"make 2>&1 >/dev/null | retry why": "TestWhy has --stderr -", "retry check": "TestCheck", "retry plan": "TestPlan",
	"git clone ": "needs the network", "go get ": "needs the network", "go install ": "needs the network", "go run github.com/": "needs the network",
	"cd cmd/retry && go install .": "writes to the user's folder", "go vet -vettool=": "the test of retryvet's program",
	"go run ./examples/quickstart": "its own test", "go test ./...": "make test",
}

var retryInLine = regexp.MustCompile("(?s)`(retry (?:-|[a-z])[^`]*)`")

// documentedLines returns the commands in the documents and in the manual pages.
func documentedLines(t *testing.T) (found []string) {
	t.Helper()
	add := func(text, prompt string) {
		for line := range strings.SplitSeq(text, "\n") {
			line, shown := strings.CutPrefix(strings.TrimSpace(line), prompt)
			if line, _, _ = strings.Cut(line, " # "); shown && line != "" {
				found = append(found, strings.TrimSpace(line))
			}
		}
	}
	names, err := filepath.Glob("../../../../docs/*.md")
	require.NoError(t, err)
	for _, name := range append(names, "../../../../README.md") {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		for i, part := range strings.Split("\n"+string(text), "\n```") {
			language, code, _ := strings.Cut(part, "\n")
			switch {
			case i%2 == 1 && slices.Contains([]string{"sh", "bash"}, language):
				add(code, "")
			case i%2 == 1:
				add(code, "$ ")
			default:
				for _, m := range retryInLine.FindAllStringSubmatch(part, -1) {
					add(strings.Join(strings.Fields(m[1]), " "), "")
				}
			}
		}
	}
	root := cli.Command()
	for _, c := range append(root.Commands(), root) {
		add(c.Example, "")
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// TestDocumentedCommands: a command that a document shows does what it is for, is run again when it
// fails, and does not end with 0 if it failed for good.
func TestDocumentedCommands(t *testing.T) {
	t.Parallel()
	bin, documented := t.TempDir(), maps.Clone(documented)
	require.NoError(t, os.Symlink(os.Args[0], bin+"/retry"))
	for _, line := range documentedLines(t) {
		outcomes, known := documented[line]
		delete(documented, line)
		isUnmade := func(start string) bool { return strings.HasPrefix(line, start) }
		if !known && !slices.ContainsFunc(slices.Collect(maps.Keys(unmade)), isUnmade) {
			assert.Fail(t, "no test runs a command of a document", "%s", line)
		}
		for _, o := range outcomes {
			t.Run(line+" # "+o.script, func(t *testing.T) {
				t.Parallel()
				o.check(t, bin, line)
			})
		}
	}
	assert.Empty(t, documented, "no document has these")
}

var backoff = regexp.MustCompile(` -b \S+|^retry`)

func (o *outcome) check(t *testing.T, bin, line string) {
	t.Helper()
	if _, err := exec.LookPath("bash"); err != nil && strings.Contains(line, "bash ") {
		t.Skip("needs bash")
	}
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), mode))
	}
	write("mail", "a mail\n", 0o600)
	write("policies.yaml", "policies: {upload: {max_attempts: 4}}", 0o600)
	require.NoError(t, os.Mkdir(dir+"/bin", 0o700))
	for program := range strings.FieldsSeq("curl pg_dump pg_isready make-it-ready make pgrep deliver rsync check") {
		write("bin/"+program, "#!/bin/sh\necho x >>runs; nth() { test $(grep -c x runs) -ge $1; }\n"+o.script, 0o700)
	}
	line = "retry -b 1ms" + backoff.ReplaceAllString(line, "")
	if strings.Contains(line, "shop.gz") {
		line += "; code=$?; gzip -dc shop.gz; exit $code"
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", line)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), asRetry+"=1", "PATH="+dir+"/bin:"+bin+":"+os.Getenv("PATH"))
	got := finish(t, cmd)
	runs, err := os.ReadFile(filepath.Join(dir, "runs"))
	require.NoError(t, err, got.stderr)
	assert.Equal(t, o.code, got.code, got.stderr)
	assert.Equal(t, o.runs, strings.Count(string(runs), "x"), got.stderr)
	assert.Equal(t, o.stdout, got.stdout)
}
