//go:build unix

package cli_test

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/cmd/retry/internal/cli"
)

// use is how somebody calls the command. In its line, URL is a server that answers twice with
// 503 and then with "ok", and GONE one that answers 404.
type use struct {
	line   string // for a shell
	like   string // a line with timeout, nice, env or curl --retry, which gives the same, if they are there
	code   int
	stdout string
	stderr string // is part of it; "-" for nothing
}

var uses = []use{
	// What follows the first word that is no flag is the command's.
	{line: `retry echo hi`, like: `timeout 9 echo hi`, stdout: "hi\n", stderr: "-"},
	{line: `retry echo -n 5`, like: `timeout 9 echo -n 5`, stdout: "5"},
	{line: `retry -n 5 echo -n 5`, like: `nice -n 5 echo -n 5`, stdout: "5"},
	{line: `retry --attempts 5 echo --attempts`, like: `nice --adjustment 5 echo --attempts`, stdout: "--attempts\n"},
	{line: `retry --attempts=5 echo hi`, like: `nice --adjustment=5 echo hi`, stdout: "hi\n"},
	{line: `retry -qn 5 echo hi`, stdout: "hi\n"},
	{line: `retry -q -- echo -- hi`, like: `env -- echo -- hi`, stdout: "-- hi\n"},
	{line: `retry sh -c 'echo "$1"' sh --help`, like: `timeout 9 sh -c 'echo "$1"' sh --help`, stdout: "--help\n"},
	{line: `retry timeout 5 echo hi`, like: `timeout 9 timeout 5 echo hi`, stdout: "hi\n"},
	{line: `retry -n 2 retry echo hi`, like: `timeout 9 timeout 9 echo hi`, stdout: "hi\n"},
	{line: `retry sh -c 'echo "$@"' -- "a b" c`, like: `timeout 9 sh -c 'echo "$@"' -- "a b" c`, stdout: "a b c\n"},
	{line: `echo x | retry cat`, like: `echo x | timeout 9 cat`, stdout: "x\n"},
	{line: `echo x >in; retry cat <in`, like: `echo x >in; timeout 9 cat <in`, stdout: "x\n"},
	{line: `retry seq 3 | retry tail -n 1`, like: `timeout 9 seq 3 | timeout 9 tail -n 1`, stdout: "3\n"},
	{line: `x=$(retry echo hi); echo $x`, like: `x=$(timeout 9 echo hi); echo $x`, stdout: "hi\n"},
	{line: `echo a b | xargs retry echo`, like: `echo a b | xargs timeout 9 echo`, stdout: "a b\n"},

	// Exit codes.
	{line: `retry -n 1 sh -c 'exit 7'`, like: `timeout 9 sh -c 'exit 7'`, code: 7},
	{line: `retry -t 0.2 -n 1 sleep 5`, like: `timeout 0.2 sleep 5`, code: 124},
	{line: `retry -T 0.2s sleep 5`, like: `timeout 0.2s sleep 5`, code: 124},
	{line: `retry no-such-command`, like: `timeout 9 no-such-command`, code: 127},
	{line: `retry /dev/null`, like: `timeout 9 /dev/null`, code: 126},
	{line: `retry /`, like: `timeout 9 /`, code: 126, stderr: "/ is a directory"},
	{line: `retry -- -x`, like: `timeout 9 -x`, code: 127},
	{line: `retry -- ./plan --help`, like: `timeout 9 ./plan --help`, code: 127},
	{line: `retry --no-such-flag true`, like: `timeout --no-such-flag 9 true`, code: 125, stderr: "unknown flag: --no-such-flag"},
	{line: `retry`, like: `timeout`, code: 125, stderr: "no command"},
	{line: `retry -n x true`, like: `timeout x true`, code: 125},
	{line: `retry "" x`, code: 125, stderr: "the command is empty: is a variable not set?"},

	// Lines name the command, or have its --name.
	{line: `echo 1 2 | xargs -n 1 -P 2 retry -n 1 sh -c 'exit $0'`, code: 123, stderr: `sh -c 'exit $0' 2: exit status 2`},
	{line: `retry -n 1 curl --max-time 1 -u me:hush http://me:hush@127.0.0.1:1/?token=hush`, code: 7, stderr: `curl --max-time 1 -u *** 'http://127.0.0.1:1/?token=***': exit status 7`},
	{line: `retry -n 1 --log json --name nightly false`, code: 1, stderr: `,"name":"nightly",`},
	{line: `retry -t 3 echo hi`, stdout: "hi\n", stderr: "retry: echo hi: -t 3 is a limit of 3 seconds for each run, best written -t 3s; -n 3 is the number of runs"},
	{line: `retry -t 3s echo hi`, stdout: "hi\n", stderr: "-"},

	// What people write, and what is not there.
	{line: `retry -n infinite true`, code: 125, stderr: `"infinite": must be a whole number, or "unlimited"`},
	{line: `retry -d 5 true`, code: 125, stderr: "unknown shorthand flag: 'd' in -d; -b 5s waits"},
	{line: `retry -v true`, code: 125, stderr: "each retry is told without a flag"},
	{line: `retry --retries=3 true`, code: 125, stderr: "unknown flag: --retries; -n counts the first run too"},
	{line: `retry 'echo a | wc'`, like: `timeout 9 'echo a | wc'`, code: 127, stderr: `: a line for a shell needs one: retry bash -o pipefail -c 'echo a | wc'`},
	{line: `retry 'echo hi'`, code: 127, stderr: `retry sh -c 'echo hi'`},
	{line: `retry A=1 env`, like: `timeout 9 A=1 env`, code: 127, stderr: "variables are set by env: retry env A=1"},
	{line: `retry ulimit -n`, code: 127, stderr: `it is a part of the shell: retry sh -c 'ulimit -n'`},
	{line: `retry pln`, code: 127, stderr: "or did you mean: retry plan"},
	{line: `retry -n 1 check`, code: 127, stderr: "the subcommand must be the first word: retry check"},
	{line: `retry -- plan`, code: 127, stderr: "the subcommand must be the first word: retry plan"},
	{line: `retry plan -n 1`, stdout: "1 attempt\n"},
	{line: `retry why 503`, stdout: "503 Service Unavailable\n"},
	{line: `printf 'max_attempts: 2' >p.json; retry check p.json`, code: 1, stdout: "p.json:1:1: invalid character 'm' looking for beginning of value; the file is YAML: call it .yaml\n"},
	{line: `printf 'max_attempts: 2' >p.json; retry -p p.json true`, code: 125, stderr: "the file is YAML: call it .yaml"},
	{line: `printf '{"max_attempts": 2}' >p.yaml; retry -p p.yaml echo hi`, stdout: "hi\n"},
	{line: `printf '{"max_attempts": 2,}' >p.json; retry -p p.json true`, code: 125, stderr: "looking for beginning of object key string\n"},

	// A pipe has the exit code of its last part.
	{line: `retry sh -c 'false | cat'`, like: `timeout 9 sh -c 'false | cat'`, stderr: "retry: sh -c 'false | cat': a shell takes a pipe for a success"},
	{line: `retry env sh -ec 'echo "a|b" | cat'`, stdout: "a|b\n", stderr: "use bash -o pipefail -c"},
	{line: `retry --log json bash -c 'false |& cat'`, stderr: `"event":"warning","warning":"a shell takes a pipe`},
	{line: `retry -q sh -c 'false | cat'`, stderr: "-"},
	{line: `retry -n 1 bash -o pipefail -c 'false | cat'`, code: 1, stderr: "retry: gave up"},
	{line: `retry bash -euo pipefail -c 'echo a | cat'`, stdout: "a\n", stderr: "-"},
	{line: `retry bash -c 'set -o pipefail; echo a | cat'`, stdout: "a\n", stderr: "-"},
	{line: `retry sh -c 'false || echo "a|b" c\|d #|'`, stdout: "a|b c|d\n", stderr: "-"},
	{line: `echo 'echo a | cat' >x; retry sh x -c 'a | b'`, stdout: "a\n", stderr: "-"},
	{line: `retry --until true sh -c 'echo a | cat'`, stdout: "a\n", stderr: "-"},

	// curl, which has retries of its own.
	{line: `retry -b 1ms curl -fsS URL`, like: `curl -fsS --retry 2 --retry-delay 1 URL`, stdout: "ok"},
	{line: `retry -b 1ms curl --fail-with-body -s -o out URL; cat out`, stdout: "ok", stderr: "again in"},
	{line: `retry -b 1ms curl -sSf GONE`, like: `curl -sSf --retry 2 GONE`, code: 22, stderr: "not run again"},
	{line: `retry -b 1ms curl -s URL`, stdout: "busy", stderr: "curl exits with 0 for an HTTP error such as 503, so it is not run again; add -f"},
	{line: `retry -b 1ms curl -s -ofoo URL`, stderr: "add -f"},
	{line: `retry -b 1ms --log json curl -s URL`, stdout: "busy", stderr: `"event":"warning","warning":"curl exits with 0`},
	{line: `retry -q curl -s URL`, stdout: "busy", stderr: "-"},
	{line: `retry -b 1ms --until 'grep -q ok out' curl -s -o out URL; cat out`, stdout: "ok"},
}

func TestUses(t *testing.T) {
	t.Parallel()
	bin := t.TempDir()
	require.NoError(t, os.Symlink(os.Args[0], bin+"/retry"))
	gone := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(gone.Close)
	// The output and the exit code of a line, with a server of its own.
	shell := func(t *testing.T, line string) result {
		t.Helper()
		calls := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if calls++; calls <= 2 {
				http.Error(w, "busy", http.StatusServiceUnavailable)
				return
			}
			_, _ = w.Write([]byte("ok"))
		}))
		defer server.Close()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cmd := exec.CommandContext(ctx, "sh", "-c", strings.NewReplacer("URL", server.URL, "GONE", gone.URL).Replace(line))
		cmd.Dir = t.TempDir()
		cmd.Env = append(os.Environ(), asRetry+"=1", "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+cmd.Dir)
		return finish(t, cmd)
	}
	require.Greater(t, len(uses), 40)
	for _, u := range uses {
		t.Run(u.line, func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath("curl"); err != nil && strings.Contains(u.line, "curl") {
				t.Skip("needs curl")
			}
			got := shell(t, u.line)
			assert.Equal(t, u.code, got.code, got.stderr)
			if u.stdout == "" {
				assert.Empty(t, got.stdout)
			}
			assert.True(t, strings.HasPrefix(got.stdout, u.stdout), "%q", got.stdout)
			if u.stderr == "-" {
				assert.Empty(t, got.stderr)
			} else {
				assert.Contains(t, got.stderr, u.stderr)
			}
			if program, _, _ := strings.Cut(u.like, " "); u.like == "" || notThere(program) {
				return
			}
			like := shell(t, u.like)
			assert.Equal(t, like.code, got.code, "%s: %s", u.like, like.stderr)
			assert.Equal(t, like.stdout, got.stdout, u.like)
		})
	}
}

// notThere reports whether there is no such program, or another one than Debian's.
func notThere(program string) bool {
	if program == "curl" {
		return exec.CommandContext(context.Background(), "curl", "--version").Run() != nil
	}
	version, err := exec.CommandContext(context.Background(), "timeout", "--version").Output()
	return err != nil || !strings.Contains(string(version), "GNU coreutils")
}

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
	`retry bash -o pipefail -c 'pg_dump shop | gzip > shop.part' && mv shop.part shop.gz`: {
		{"echo all", 0, 1, "all\n"}, {"nth 3 && echo all && exit; echo half" + busy + "1", 0, 3, "all\n"}, {"echo half" + busy + "1", 1, 3, ""},
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
	`xargs -P3 -I{} retry --name {} bash -o pipefail -c 'pg_dump "$1" | gzip > "$1.part" && mv "$1.part" "$1.gz"' _ {} < databases`: {
		{"true", 0, 1, ""}, {"nth 3 && exit" + busy + "1", 0, 3, ""}, {"false" + busy + "1", 123, 3, ""},
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

var backoff = regexp.MustCompile(` -b \S+`)

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
	write("databases", "shop\n", 0o600)
	write("policies.yaml", "policies: {upload: {max_attempts: 4}}", 0o600)
	require.NoError(t, os.Mkdir(dir+"/bin", 0o700))
	for program := range strings.FieldsSeq("curl pg_dump pg_isready make-it-ready make pgrep deliver rsync check") {
		write("bin/"+program, "#!/bin/sh\necho x >>runs; nth() { test $(grep -c x runs) -ge $1; }\n"+o.script, 0o700)
	}
	line = strings.Replace(backoff.ReplaceAllString(line, ""), "retry", "retry -b 1ms", 1)
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
