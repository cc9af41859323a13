//go:build unix

package cli_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
