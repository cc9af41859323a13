package cli_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/cmd/retry/internal/cli"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

// asRetry makes the test program the command.
const asRetry = "TEST_AS_RETRY"

func TestMain(m *testing.M) {
	if os.Getenv(asRetry) != "" {
		prepare()
		os.Exit(cli.Main(os.Args[1:]))
	}
	// What nohup or a shell has the tests ignore, every process that they start would ignore
	// too. A signal that is caught is a usual one to them.
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	os.Exit(m.Run())
}

// command returns the command as a process, which is killed with the test.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), asRetry+"=1")
	cmd.Dir = t.TempDir()
	return cmd
}

// result is what a process has left.
type result struct {
	code           int
	stdout, stderr string
}

func run(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	cmd := command(t, args...)
	cmd.Stdin = strings.NewReader(stdin)
	return finish(t, cmd)
}

func finish(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// quick waits a millisecond between runs.
func quick(args ...string) []string {
	return append([]string{"-b", "1ms", "-j", "none", "--name", "work"}, args...)
}

// counting is a shell script that counts its runs in a file, and then goes on.
func counting(script string) []string {
	return []string{"--", "sh", "-c", "echo x >>runs; n=$(($(wc -l <runs))); " + script}
}

// TestExitCodes is the contract.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		args []string
		code int
		runs int // of the command
	}{
		{"success", counting("exit 0"), 0, 1},
		{"success at last", counting("test $n = 3"), 0, 3},
		{"the last run's", counting("exit $((10+n))"), 13, 3},
		{"attempts", append([]string{"-n", "5"}, counting("exit 9")...), 9, 5},
		{"final", counting("exit 64"), 64, 1},
		{"final by what it says", counting("echo permission denied >&2; exit 1"), 1, 1},
		{"final exit", append([]string{"--final-exit", "2,9-11"}, counting("exit 10")...), 10, 1},
		{"not that final exit", append([]string{"--final-exit", "2"}, counting("exit 10")...), 10, 3},
		{"on exit", append([]string{"--on-exit", "64"}, counting("exit 64")...), 64, 3},
		{"not on exit", append([]string{"--on-exit", "75"}, counting("exit 1")...), 1, 1},
		{"on exit, killed", append([]string{"--on-exit", "75"}, counting("kill -9 $$")...), 137, 1},
		{"on exit, too slow", append([]string{"--on-exit", "75", "-t", "500ms"}, counting("exec sleep 60")...), 124, 3},
		{"final and on exit", append([]string{"--on-exit", "1-9", "--final-exit", "3"}, counting("exit 3")...), 3, 1},
		{"give up", append([]string{"--give-up-exit", "77"}, counting("exit 9")...), 77, 3},
		{"give up is not final", append([]string{"--give-up-exit", "77"}, counting("exit 64")...), 64, 1},
		{"until", append([]string{"--until", "test $(wc -l <runs) = 2"}, counting("exit 0")...), 0, 2},
		{"until never", append([]string{"--until", "exit 5"}, counting("exit 0")...), 123, 3},
		{"until it fails", append([]string{"--until-fails"}, counting("test $n -lt 3")...), 0, 3},
		{"until it fails at once", append([]string{"--until-fails"}, counting("exit 64")...), 0, 1},
		{"until it fails, never", append([]string{"--until-fails"}, counting("exit 0")...), 123, 3},
		{"until it fails, and gives up", append([]string{"--until-fails", "--give-up-exit", "7"}, counting("exit 0")...), 7, 3},
		{"until it fails, too slow", append([]string{"--until-fails", "-t", "500ms"}, counting("exec sleep 60")...), 124, 3},
		{"until it fails, killed", append([]string{"--until-fails", "-n", "2"}, counting("kill -9 $$")...), 137, 2},
		{"until it fails, a final exit", append([]string{"--until-fails", "--final-exit", "2"}, counting("exit 2")...), 2, 1},
		{"until it fails, not that one", append([]string{"--until-fails", "--final-exit", "2"}, counting("test $n = 1")...), 0, 2},
		{"until it fails, on exit", append([]string{"--until-fails", "--on-exit", "2"}, counting("test $n = 3 || exit 2; exit 1")...), 0, 3},
		{"until it fails, not found", []string{"--until-fails", "--", "no-such-command"}, 127, 0},
		{"until, but the command fails", append([]string{"--until", "exit 0"}, counting("exit 9")...), 9, 3},
		{"timeout of a run", append([]string{"-t", "500ms", "-n", "2"}, counting("exec sleep 60")...), 124, 2},
		{"timeout of all", append([]string{"-T", "200ms"}, counting("exec sleep 60")...), 124, 1},
		{"no time for another", append([]string{"-T", "30s", "-b", "40s"}, counting("exit 9")...), 9, 1},
		{"max elapsed", append([]string{"--max-elapsed", "30s", "-b", "40s"}, counting("exit 9")...), 9, 1},
		{"killed by a signal", counting("kill -9 $$"), 137, 3},
		{"below a file", []string{"--", "/dev/null/x"}, 126, 0},
		{"simple profile", append([]string{"--profile", "simple"}, counting("exit 2")...), 2, 1},
		{"profile by name", []string{"-n", "2", "--", "./curl"}, 22, 1},
		{"profile by name, switched off", []string{"-n", "2", "--profile", "default", "--", "./curl"}, 22, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cmd := command(t, quick(tt.args...)...)
			script := "#!/bin/sh\necho x >>runs\necho 'curl: (22) The requested URL returned error: 404' >&2\nexit 22\n"
			require.NoError(t, os.WriteFile(filepath.Join(cmd.Dir, "curl"), []byte(script), 0o700)) //nolint:gosec // it is run
			got := finish(t, cmd)
			assert.Equal(t, tt.code, got.code, got.stderr)
			runs, err := os.ReadFile(filepath.Join(cmd.Dir, "runs"))
			if tt.runs > 0 {
				require.NoError(t, err)
			}
			assert.Equal(t, tt.runs, strings.Count(string(runs), "x"), got.stderr)
			assert.Empty(t, got.stdout)
		})
	}
}

func TestWrongUse(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args string
		want string
	}{
		{"", "no command: write it after the flags, as in: retry -n 5 curl -fsS"},
		{"-n 5", "no command"},
		{"-fsS http://localhost", "unknown shorthand flag: 'f' in -fsS"},
		{"-p / true", "read /: is a directory"},
		{"--bogus -- true", "unknown flag: --bogus"},
		{"-n 0 -- true", `invalid argument "0" for "-n, --attempts" flag: max_attempts: 0: must be at least 1; leave it out for the default`},
		{"-b fast -- true", `"fast" for "-b, --backoff" flag: backoff.fast: {}: unknown key`},
		{"-b linear:0s -- true", `backoff.linear.initial: "0s": must be positive`},
		{"-j some -- true", `jitter: "some": must be "full", "equal", "none"`},
		{"-j 101% -- true", "jitter.proportional: 1.01: must be a fraction from 0 to 1"},
		{"-t -1s -- true", "attempt_timeout: -1s: must not be negative"},
		{"-m 1s -b 5s -- true", "backoff.constant: 5s: is above max_delay 1s"},
		{"--on-exit 0 -- true", "must be exit codes from 1 to 255, such as 1,75-78"},
		{"--give-up-exit 256 -- true", "must be an exit code from 1 to 255"},
		{"--log xml -- true", "--log xml: must be text or json"},
		{"--profile wegt -- true", "--profile wegt: must be one of auto, curl, default, rsync, simple, ssh, wget"},
		{"-p nowhere.yaml -- true", "open nowhere.yaml: no such file or directory"},
		{"--policy-name x -- true", "--policy-name x: needs --policy FILE"},
		{"plan --failure 2", "must be a share from 0 to 1"},
		{"plan --rows 0", "must be a number from 1 to 1000"},
		{"plan a b c", "accepts at most 2 arg(s)"},
		{"check", "check: name the files with policies, or - for standard input, as in: retry check policies.yaml"},
		{"--until-fails --until true -- true", "--until and --until-fails exclude each other"},
		{"-p - -- true", "--policy -: standard input is that of the command; name a file"},
		{"completion nosh", "completion nosh: must be one of bash, fish, powershell, zsh"},
		{"completion bash zsh", `unknown command "zsh" for "retry completion bash"`},
		{"plan - x", "--policy-name x: stdin has one policy, and no names"},
		{"plan -", "stdin:1:1: policy: null: must be an object"},
		{"storm --clients 0", "--clients: 0: must be from 1 to 100000"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			t.Parallel()
			input := ""
			if strings.HasSuffix(tt.args, " x") {
				input = "max_attempts: 2"
			}
			got := run(t, input, strings.Fields(tt.args)...)
			assert.Equal(t, 125, got.code)
			assert.Contains(t, got.stderr, tt.want)
			assert.Empty(t, got.stdout)
		})
	}
}

func TestOutput(t *testing.T) {
	t.Parallel()
	script := counting("printf 'out %s\\n' $n; echo err $n >&2; test $n = 3 || exit 75")
	got := run(t, "", quick(script...)...)
	assert.Equal(t, result{0, "out 1\nout 2\nout 3\n", `err 1
retry: attempt 1 of 3: work: exit status 75; again in 1ms
err 2
retry: attempt 2 of 3: work: exit status 75; again in 1ms
err 3
`}, got)

	got = run(t, "", quick(append([]string{"-q"}, script...)...)...)
	assert.Equal(t, result{0, "out 1\nout 2\nout 3\n", "err 1\nerr 2\nerr 3\n"}, got)

	got = run(t, "", quick(append([]string{"-n", "unlimited"}, counting("test $n = 2")...)...)...)
	assert.Equal(t, "retry: attempt 1: work: exit status 1; again in 1ms\n", got.stderr)

	got = run(t, "", quick(append([]string{"-n", "2"}, counting("exit 9")...)...)...)
	assert.Regexp(t, `^retry: attempt 1 of 2: work: exit status 9; again in 1ms\n`+
		`retry: gave up \(attempts\) after 2 attempts in \S+: work: exit status 9\n$`, got.stderr)

	got = run(t, "", quick(counting("exit 64")...)...)
	assert.Equal(t, "retry: not run again (exit_64): work: exit status 64\n", got.stderr)
}

func TestHoldStdout(t *testing.T) {
	t.Parallel()
	script := counting("printf 'out %s\\n' $n; test $n = 3 || exit 75")
	got := run(t, "", quick(append([]string{"-q", "--hold-stdout"}, script...)...)...)
	assert.Equal(t, result{0, "out 3\n", ""}, got)
	got = run(t, "", quick(append([]string{"-q", "--hold-stdout", "-n", "2"}, script...)...)...)
	assert.Equal(t, result{75, "out 2\n", ""}, got, "the last run's, too, if it failed")
}

// TestHoldStdoutInAFile: what does not fit into memory is kept in a file, or not at all.
func TestHoldStdoutInAFile(t *testing.T) {
	t.Parallel()
	const size = cli.InMemory + 1<<20
	args := quick(append([]string{"-q", "--hold-stdout"}, counting(fmt.Sprintf("head -c %d /dev/zero; echo $n; test $n = 2", size))...)...)
	got := run(t, "", args...)
	assert.Equal(t, 0, got.code, got.stderr)
	assert.Len(t, got.stdout, size+len("2\n"))
	assert.Equal(t, "2\n", strings.TrimLeft(got.stdout, "\x00"))

	args[len(args)-1] = "trap '' PIPE; " + args[len(args)-1] + "; exit 0"
	cmd := command(t, args...)
	cmd.Env = append(cmd.Env, "TMPDIR="+filepath.Join(cmd.Dir, "missing"))
	got = finish(t, cmd)
	assert.Equal(t, 125, got.code)
	assert.Empty(t, got.stdout)
	assert.Contains(t, got.stderr, "retry: standard output cannot be held back: open "+cmd.Dir+"/missing/retry-stdout-")
	assert.Contains(t, got.stderr, ": no such file or directory; set TMPDIR to a folder with room\n")
}

func TestHelpFitsAScreen(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--help"}, {"-h"}, {"plan", "--help"}, {"check", "--help"}, {"storm", "--help"}} {
		got := run(t, "", args...)
		assert.Equal(t, 0, got.code)
		assert.Empty(t, got.stderr)
		assert.LessOrEqual(t, strings.Count(got.stdout, "\n"), 24, args)
		if args[0] == "storm" {
			continue // its flags explain more
		}
		for line := range strings.Lines(got.stdout) {
			assert.LessOrEqual(t, len([]rune(strings.TrimSuffix(line, "\n"))), 80, line)
		}
	}
	assert.Contains(t, run(t, "", "--help").stdout, "128+n signal n")
	assert.Contains(t, run(t, "", "--version").stdout, "retry version ")
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		got := run(t, "", "completion", shell)
		assert.Equal(t, 0, got.code)
		assert.Contains(t, got.stdout, "retry", shell)
	}
	got := run(t, "", "__complete", "--profile", "")
	for _, name := range []string{"auto\n", "curl\n", "default\n", "rsync\n"} {
		assert.Contains(t, got.stdout, name)
	}
	got = run(t, "", "__complete", "p")
	assert.Contains(t, got.stdout, "plan\t")
	assert.NotContains(t, run(t, "", "__complete", "-n", "5", "true", "--prof").stdout, "--profile", "the flags of the command are its own")
}

// TestCompletionOfTheCommand: a shell is told where the command begins, if what is being
// completed belongs to it.
func TestCompletionOfTheCommand(t *testing.T) {
	t.Parallel()
	for words, want := range map[string]string{
		"git|sta": "1", "-n|3|git|sta": "3", "-n3|git|": "2", "-qn|3|git|sta": "3", "--attempts=3|git|": "2",
		"--|git|sta": "2", "-q|--|git|sta": "3", "--until|test -f x|git|sta": "3", "-n|3|check|": "3",
		"-b|constant|:|5s|git|": "5", "--attempts|=|3|git|": "4",
		"": "", "git": "", "-n|3": "", "-n|3|git": "", "--": "", "check|x|y": "", "completion|bash": "",
	} {
		got := run(t, "", append([]string{"__command"}, strings.Split(words, "|")...)...)
		assert.Equal(t, result{stdout: want + "\n"}, got, words)
	}
	for shell, line := range map[string]string{"bash": `_command_offset "$at"`, "zsh": "_normal\n", "fish": "complete -C"} {
		for _, args := range [][]string{{"completion", shell}, {"completion", shell, "--no-descriptions"}} {
			assert.Contains(t, run(t, "", args...).stdout, line, args)
		}
	}
}

// TestCompletionInBash: a function takes the place of the package bash-completion.
func TestCompletionInBash(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("needs bash")
	}
	script := command(t, "completion", "bash")
	text := testkit.Must(script.Output())(t)
	cmd := exec.CommandContext(t.Context(), bash, "-c", string(text)+`
_command_offset() { echo "offset $1"; }
COMP_WORDS=("$0" -b constant : 5s git sta) COMP_CWORD=6; __start_retry
COMP_WORDS=("$0" git sta) COMP_CWORD=2; __start_retry`, os.Args[0])
	cmd.Env = append(os.Environ(), asRetry+"=1")
	got := finish(t, cmd)
	assert.Equal(t, "offset 5\noffset 1\n", got.stdout, got.stderr)
}

func TestPlain(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                         "",
		`a "b" \n é 世 `:            `a "b" \n é 世 `,
		"\x1b[31m\a\r\n::error\t":  `\x1b[31m\a\r\n::error\t`,
		"\u009b31m \u202e \u2028 ": `\u009b31m \u202e \u2028 `,
		"\xff\ufffd":               `\xff` + "\ufffd",
	} {
		assert.Equal(t, want, cli.Plain(text))
	}
}

// TestArgumentsAreShownEscaped: neither a terminal nor a CI obeys what an argument has.
func TestArgumentsAreShownEscaped(t *testing.T) {
	t.Parallel()
	const bad = "x\x1b[31m\n::error::x\u009b"
	for _, args := range [][]string{
		{bad},
		{"--" + bad, "--", "true"},
		{"-" + bad, "--", "true"},
		{"-b", bad, "--", "true"},
		{"--on-exit", bad, "--", "true"},
		{"-p", bad, "--", "true"},
		{"--policy-name", bad, "--", "true"},
		{"--", bad},
		{"--", "./" + bad},
		{"--log", "json", "--", "./" + bad},
		{"completion", bad},
		{"plan", bad},
		{"why", bad},
		{"why", "503", "-H", bad},
		{"why", "--exit", bad},
		{"check", bad},
		{"storm", bad},
		{"playground", bad},
	} {
		got := run(t, "", args...)
		assert.NotZero(t, got.code)
		assert.Empty(t, got.stdout)
		for _, character := range []string{"\x1b", "\n::", "\u009b"} {
			assert.NotContains(t, got.stderr, character, "%q", args)
		}
		assert.Contains(t, strings.ReplaceAll(got.stderr, `\\`, `\`), `x\x1b[31m\n::error`, "%q", args)
	}
}

// TestPlayground: the command shows the page, and answers what it asks.
func TestPlayground(t *testing.T) {
	t.Parallel()
	cmd := command(t, "playground", "--listen", "127.0.0.1:0")
	stdout := testkit.Must(cmd.StdoutPipe())(t)
	require.NoError(t, cmd.Start())
	defer func() {
		assert.NoError(t, cmd.Process.Kill())
		assert.Error(t, cmd.Wait())
	}()
	address, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	address = strings.TrimSpace(address)

	send := func(method, path, body string) string {
		r := testkit.Must(http.NewRequestWithContext(t.Context(), method, address+path, strings.NewReader(body)))(t)
		resp := testkit.Must(http.DefaultClient.Do(r))(t)
		defer resp.Body.Close()
		assert.Equal(t, http.StatusOK, resp.StatusCode, path)
		text := testkit.Must(io.ReadAll(resp.Body))(t)
		return string(text)
	}
	assert.Contains(t, send(http.MethodGet, "/", ""), "<title>retry: playground</title>")
	for _, file := range []string{"/style.css", "/app.js", "/pictures.js", "/library.js", "/vendor/uPlot.iife.min.js", "/vendor/js-yaml.umd.min.js"} {
		assert.NotEmpty(t, send(http.MethodGet, file, ""))
	}
	assert.Contains(t, send(http.MethodPost, "/ask", `["plan", "{\"max_attempts\": 2}"]`), `"text":"2 attempts`)

	got := run(t, "", "playground", "--listen", strings.TrimPrefix(address, "http://"))
	assert.Equal(t, 125, got.code)
	assert.Contains(t, got.stderr, "address already in use")
	assert.Equal(t, 125, run(t, "", "playground", "x").code)
}
