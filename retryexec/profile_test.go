package retryexec_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retryexec"
)

// exit returns the error of a command that has ended so.
func exit(t *testing.T, code int, stderr string) error {
	t.Helper()
	err := command(t.Context(), "exit:"+strconv.Itoa(code)).Run()
	e := testkit.As[*exec.ExitError](t, err)
	e.Stderr = []byte(stderr)
	return e
}

// TestProfilesAreCopies, because a caller may append to a profile.
func TestProfilesAreCopies(t *testing.T) {
	t.Parallel()
	for _, f := range []func() retryexec.Profile{
		retryexec.Default, retryexec.Simple, retryexec.Curl, retryexec.Wget, retryexec.SSH, retryexec.Rsync,
	} {
		mine := f()
		require.NotEmpty(t, mine)
		for i := range mine {
			clear(mine[i].Codes)
			mine[i].Verdict = retry.Verdict{Category: "mine"}
		}
		for _, rule := range f() {
			assert.NotContains(t, rule.Codes, 0)
			assert.NotEqual(t, "mine", rule.Verdict.Category)
		}
	}
	assert.Equal(t, verdict(retry.Final, "exit_64"), retryexec.ClassifyExit(nil, 64, ""))
}

func TestRules(t *testing.T) {
	t.Parallel()
	boom := regexp.MustCompile(`boom`)
	errMine := errors.New("mine")
	yes := verdict(retry.Retryable, "yes")
	for _, tt := range []struct {
		name   string
		rule   retryexec.Rule
		err    error
		code   int
		stderr string
		want   bool
	}{
		{"nothing set", retryexec.Rule{}, nil, 1, "", true},
		{"nothing set, no code", retryexec.Rule{}, nil, -1, "", true},
		{"nothing set, success", retryexec.Rule{}, nil, 0, "", false},
		{"nothing set, success with an error", retryexec.Rule{}, errMine, 0, "text", false},
		{"nothing set, not run", retryexec.Rule{}, errMine, -1, "", false},
		{"nothing set, has written", retryexec.Rule{}, errMine, -1, "text", true},
		{"nothing set, has exited and an error", retryexec.Rule{}, errMine, 1, "", true},

		{"code", retryexec.Rule{Codes: []int{3, 5}}, nil, 5, "", true},
		{"other code", retryexec.Rule{Codes: []int{3, 5}}, nil, 4, "", false},
		{"success is no code", retryexec.Rule{Codes: []int{0}}, nil, 0, "", false},
		{"no code is one", retryexec.Rule{Codes: []int{-1}}, nil, -1, "", true},
		{"minimum", retryexec.Rule{MinCode: 3}, nil, 3, "", true},
		{"more", retryexec.Rule{MinCode: 3}, nil, 300, "", true},
		{"less", retryexec.Rule{MinCode: 3}, nil, 2, "", false},
		{"minimum without code", retryexec.Rule{MinCode: 3}, nil, -1, "", false},
		{"negative minimum", retryexec.Rule{MinCode: -3}, nil, 1, "", true},
		{"both", retryexec.Rule{Codes: []int{3, 5}, MinCode: 4}, nil, 3, "", false},

		{"text", retryexec.Rule{Stderr: boom}, nil, 1, "BOOM", true},
		{"other text", retryexec.Rule{Stderr: boom}, nil, 1, "bang", false},
		{"text without code", retryexec.Rule{Stderr: boom}, nil, -1, "boom", true},
		{"text and success", retryexec.Rule{Stderr: boom}, nil, 0, "boom", false},
		{"text and code", retryexec.Rule{Stderr: boom, Codes: []int{2}}, nil, 1, "boom", false},

		{"error", retryexec.Rule{Err: errMine}, fmt.Errorf("x: %w", errMine), -1, "", true},
		{"joined error", retryexec.Rule{Err: errMine}, errors.Join(io.EOF, errMine), -1, "", true},
		{"other error", retryexec.Rule{Err: errMine}, io.EOF, -1, "", false},
		{"no error", retryexec.Rule{Err: errMine}, nil, 1, "", false},
		{"error and success", retryexec.Rule{Err: errMine}, errMine, 0, "", true},
		{"error and code", retryexec.Rule{Err: errMine, Codes: []int{1}}, errMine, 1, "", true},
		{"error and other code", retryexec.Rule{Err: errMine, Codes: []int{1}}, errMine, 2, "", false},
		{"error and code, not run", retryexec.Rule{Err: errMine, Codes: []int{-1}}, errMine, -1, "", false},
		{"error and text, not run", retryexec.Rule{Err: errMine, Stderr: regexp.MustCompile(``)}, errMine, -1, "", false},
		{"error and minimum, not run", retryexec.Rule{Err: errMine, MinCode: 1}, errMine, -1, "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.rule.Verdict = yes
			var want retry.Verdict
			if tt.want {
				want = yes
			}
			assert.Equal(t, want, retryexec.Profile{tt.rule}.ClassifyExit(tt.err, tt.code, tt.stderr))
		})
	}
}

func TestFirstRuleWins(t *testing.T) {
	t.Parallel()
	p := retryexec.Profile{
		{Codes: []int{1}, Verdict: verdict(retry.Final, "a")},
		{Codes: []int{1, 2}, Verdict: verdict(retry.Retryable, "b")},
		{Codes: []int{3}},
		{Codes: []int{4}, Verdict: retry.Verdict{Class: retry.Final}},
		{Codes: []int{137}, Verdict: retry.Verdict{Class: retry.Final}},
		{Err: io.EOF},
	}
	for code, want := range map[int]retry.Verdict{
		1: verdict(retry.Final, "a"), 2: verdict(retry.Retryable, "b"), 3: verdict(retry.Unknown, "exit_3"),
		4: verdict(retry.Final, "exit_4"), 137: verdict(retry.Final, "signal_killed"), 5: {},
	} {
		assert.Equal(t, want, p.ClassifyExit(nil, code, ""), "%d", code)
		assert.Equal(t, want, p.Classify(exit(t, code, "")), "%d", code)
	}
	assert.Equal(t, verdict(retry.Unknown, "unknown"), p.ClassifyExit(io.EOF, -1, ""), "an opinion, too")
	assert.Equal(t, verdict(retry.Unknown, "unknown"), p.Classify(fmt.Errorf("job: %w", io.EOF)))
	assert.Zero(t, retryexec.Profile(nil).ClassifyExit(nil, 1, "permission denied"))
	assert.Zero(t, retryexec.Profile(nil).Classify(exit(t, 1, "permission denied")))
}

// TestClassifyExitOfErrors checks commands that were not run by this package, or
// did not run at all.
func TestClassifyExitOfErrors(t *testing.T) {
	t.Parallel()
	reset := fmt.Errorf("ssh: %w", syscall.ECONNRESET)
	for _, tt := range []struct {
		name   string
		err    error
		code   int
		stderr string
		want   retry.Verdict
	}{
		{"nothing", nil, 0, "", retry.Verdict{}},
		{"canceled", context.Canceled, -1, "", verdict(retry.Final, "canceled")},
		{"connection of the runner", reset, -1, "", verdict(retry.Retryable, "conn_reset")},
		{"connection of the runner after output", reset, -1, "timed out", verdict(retry.Retryable, "stderr_transient")},
		{"the code says more", reset, 64, "", verdict(retry.Final, "exit_64")},
		{"unknown", errors.New("exit missing"), -1, "", retry.Verdict{}},
		{"error of os/exec", exit(t, 3, ""), -1, "permission denied", verdict(retry.Final, "stderr_auth")},
		{"given code", exit(t, 3, "permission denied"), 75, "", verdict(retry.Retryable, "exit_75")},
		{"output missing", exec.ErrWaitDelay, 0, "permission denied", verdict(retry.Final, "wait_delay")},
	} {
		assert.Equal(t, tt.want, retryexec.ClassifyExit(tt.err, tt.code, tt.stderr), tt.name)
	}
}

// TestClassifyOfStart checks the errors of os/exec for commands that did not
// start.
func TestClassifyOfStart(t *testing.T) {
	t.Parallel()
	start := func(errno error) error { return &fs.PathError{Op: "fork/exec", Path: "/x", Err: errno} }
	anew := testkit.CanRetry
	for _, tt := range []struct {
		err  error
		want retry.Verdict
	}{
		{start(syscall.ENOENT), verdict(retry.Final, "not_found")},
		{start(syscall.EACCES), verdict(retry.Final, "permission")},
		{start(syscall.EPERM), verdict(retry.Final, "permission")},
		{start(syscall.ENOEXEC), verdict(retry.Final, "invalid")},
		{start(syscall.E2BIG), verdict(retry.Final, "invalid")},
		{start(syscall.EAGAIN), anew("interrupted")},
		{start(syscall.ENOMEM), anew("resources")},
		{start(syscall.EMFILE), anew("resources")},
		{start(syscall.ETIMEDOUT), anew("timeout")},
		{start(syscall.EIO), anew("start")},
		{start(errors.New("unknown")), anew("start")},
		{&exec.Error{Name: "x", Err: exec.ErrNotFound}, verdict(retry.Final, "not_found")},
		{&exec.Error{Name: "x", Err: exec.ErrDot}, verdict(retry.Final, "not_found")},
		{&exec.Error{Name: "x", Err: fs.ErrPermission}, verdict(retry.Final, "permission")},
		{&exec.Error{Name: "x", Err: &fs.PathError{Op: "stat", Path: "x", Err: syscall.ESTALE}}, anew("busy")},
		{&exec.Error{Name: "x"}, verdict(retry.Final, "not_found")},
		{exec.ErrNotFound, verdict(retry.Final, "not_found")},
		{exec.ErrDot, verdict(retry.Final, "not_found")},
		{exec.ErrWaitDelay, verdict(retry.Final, "wait_delay")},
		{os.ErrProcessDone, verdict(retry.Final, "process_done")},
		{&fs.PathError{Op: "open", Path: "/x", Err: syscall.EIO}, retry.Verdict{}},
		// Typed nil pointers and empty errors say nothing.
		{(*exec.ExitError)(nil), retry.Verdict{}},
		{(*fs.PathError)(nil), retry.Verdict{}},
		{&exec.ExitError{}, verdict(retry.Unknown, "exit_unknown")},
	} {
		assert.Equal(t, tt.want, retryexec.Classify(tt.err), "%T %v", tt.err, tt.want)
		if tt.want != (retry.Verdict{}) {
			assert.Equal(t, tt.want, retryexec.Classify(fmt.Errorf("job: %w", tt.err)), "%T %v", tt.err, tt.want)
		}
	}
	assert.Zero(t, retryexec.Classify(nil))
	assert.NotPanics(t, func() { retryexec.Classify((*exec.Error)(nil)) })
	assert.NotPanics(t, func() { retryexec.ClassifyExit((*exec.ExitError)(nil), -1, "") })
	assert.NotPanics(t, func() { retryexec.ClassifyExit(loopError{}, -1, "") })
}

// loopError refers to itself.
type loopError struct{}

func (loopError) Error() string { return "loop" }
func (loopError) Unwrap() error { return loopError{} }

// TestClassifyInTrees finds the errors of commands where they are.
func TestClassifyInTrees(t *testing.T) {
	t.Parallel()
	denied, refused := exit(t, 1, "permission denied"), exit(t, 1, "connection refused")
	for _, tt := range []struct {
		name string
		err  error
		want retry.Verdict
	}{
		{"wrapped", fmt.Errorf("job: %w", denied), verdict(retry.Final, "stderr_auth")},
		{"joined, the better chance", errors.Join(denied, refused), verdict(retry.Retryable, "stderr_transient")},
		{"in any order", errors.Join(refused, denied), verdict(retry.Retryable, "stderr_transient")},
		{"beside trouble of cleaning up", errors.Join(refused, fs.ErrClosed), verdict(retry.Retryable, "stderr_transient")},
		{"beside nothing known", errors.Join(io.EOF, denied), verdict(retry.Final, "stderr_auth")},
		{"named unknown", errors.Join(io.EOF, exit(t, 9, "")), verdict(retry.Unknown, "exit_9")},
		{"marked", retry.MarkFinal(refused), verdict(retry.Final, "")},
		{"given up", &retry.Error{Stop: retry.StopAttempts, Err: refused}, verdict(retry.Final, "gave_up")},
	} {
		assert.Equal(t, tt.want, retryexec.Classify(tt.err), tt.name)
		assert.Equal(t, tt.want, (&retry.Policy{Classifier: retryexec.Classify}).Classify(tt.err), tt.name)
	}
}

// TestErrorSaysWhy is the text of errors: it ends with the last line of standard
// error, wherever else that goes.
func TestErrorSaysWhy(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		script  []string
		prepare func(cmd *exec.Cmd)
		want    string
	}{
		{"silent", []string{"out:a result", "exit:1"}, nil, "exit status 1"},
		{"blank lines", []string{"err:", "err: ", "exit:1"}, nil, "exit status 1"},
		{"one line", []string{"err:boom", "exit:1"}, nil, "exit status 1: boom"},
		{"several", []string{"err:one", "err:two", "err:", "exit:3"}, nil, "exit status 3: two"},
		{"output after it", []string{"err:boom", "out:bye", "exit:1"}, nil, "exit status 1: boom"},
		{"long ago", []string{"err:boom", "fill:9000", "exit:1"}, nil, "exit status 1: " + strings.Repeat("x", 497) + "…"},
		{"colors", []string{"err:\x1b[31mboom\x1b[0m\a", "exit:1"}, nil, "exit status 1: boom"},
		{
			"a writer of the caller",
			[]string{"err:boom", "exit:1"},
			func(cmd *exec.Cmd) { cmd.Stderr = io.Discard }, "exit status 1: boom",
		},
		{
			"one writer for all",
			[]string{"err:boom", "out:bye", "exit:1"},
			func(cmd *exec.Cmd) { cmd.Stdout, cmd.Stderr = io.Discard, io.Discard }, "exit status 1: bye",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			newCmd := with(commands(tt.script...), func(cmd *exec.Cmd) {
				if tt.prepare != nil {
					tt.prepare(cmd)
				}
			})
			require.EqualError(t, retryexec.Once(t.Context(), newCmd), tt.want)

			p, _ := policy()
			p.MaxAttempts = 1
			err := retryexec.Run(t.Context(), p, newCmd)
			require.EqualError(t, err, "failed after 1 attempt: "+tt.want)
			require.ErrorAs(t, err, new(*exec.ExitError))
		})
	}
}

// TestErrorTextOfEveryEnd checks failures without an exit code.
func TestErrorTextOfEveryEnd(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := retryexec.Run(ctx, nil, with(commands("err:waiting for x", "hang"), func(cmd *exec.Cmd) {
		cmd.Stderr = onWrite(func([]byte) { cancel() })
	}))
	exit := testkit.As[*exec.ExitError](t, err)
	require.EqualError(t, err, "failed after 1 attempt (context canceled): "+exit.Error()+": waiting for x")

	err = retryexec.Once(t.Context(), retryexec.Command("retryexec-no-such-program"))
	assert.Regexp(t, `^exec: "retryexec-no-such-program": executable file not found in [$%]PATH%?$`, err.Error())
}

// TestErrorTextIsNotJudged: rules match standard error, and the text of the error
// has only a part of it.
func TestErrorTextIsNotJudged(t *testing.T) {
	t.Parallel()
	err := retryexec.Once(t.Context(), commands("err:connection refused", "err:boom", "exit:1"))
	require.EqualError(t, err, "exit status 1: boom")
	exit := testkit.As[*exec.ExitError](t, err)
	want := verdict(retry.Retryable, "stderr_transient")
	assert.Equal(t, want, retryexec.Classify(err))
	assert.Equal(t, want, retryexec.Classify(exit), "the same without the text")
	assert.Equal(t, retry.Verdict{}, retry.Classify(err), "without this package")

	exit.Stderr = nil
	require.EqualError(t, err, "exit status 1", "who takes it out there takes it out of the text")
	assert.Equal(t, verdict(retry.Unknown, "exit_1"), retryexec.Classify(err))
}

// FuzzClassifyExit checks that
//   - a verdict, unless it abstains, has a category, and never says that a
//     command that ran had no effect,
//   - it is the same the next time,
//   - capitals, colors and titles do not change it.
//
// TestOnlyTheEndOfStderrCounts has the long texts, because they make fuzzing
// slow.
func FuzzClassifyExit(f *testing.F) {
	for _, group := range phrases {
		f.Add(uint8(0), 1, group.texts[0], uint(3))
	}
	f.Add(uint8(0), 2, "\x1b[31musage: x", uint(0))
	f.Add(uint8(1), 1, "\x1b]8;;connection", uint(0))
	f.Add(uint8(2), 22, "curl: (22) The requested URL returned error: 503", uint(30))
	f.Add(uint8(4), 255, "\x1b]0;x\apermission denied", uint(70))
	f.Add(uint8(5), -1, "\xff\x00\x1b", uint(1))
	profiles := []retryexec.Profile{
		retryexec.Default(), retryexec.Simple(), retryexec.Curl(), retryexec.Wget(), retryexec.SSH(), retryexec.Rsync(),
	}
	f.Fuzz(func(t *testing.T, which uint8, code int, stderr string, at uint) {
		p := profiles[int(which)%len(profiles)]
		v := p.ClassifyExit(nil, code, stderr)
		if v != (retry.Verdict{}) {
			assert.NotEmpty(t, v.Category)
		}
		assert.LessOrEqual(t, v.Class, retry.RateLimited)
		assert.False(t, v.NotApplied)
		assert.Zero(t, v.After)
		assert.Equal(t, v, p.ClassifyExit(nil, code, stderr))

		plain := strings.ReplaceAll(stderr, "\x1b", "")
		want := p.ClassifyExit(nil, code, plain)
		assert.Equal(t, want, p.ClassifyExit(nil, code, capitals(plain)))
		i := int(at % uint(len(plain)+1))
		for _, escape := range []string{"\x1b[1;31m", "\x1b]0;permission denied\a", "\x1b]8;;x\x1b\\", "\x1b(B", "\x1b7"} {
			assert.Equal(t, want, p.ClassifyExit(nil, code, plain[:i]+escape+plain[i:]), "%q at %d", escape, i)
		}
	})
}

// FuzzLastLine checks that the reason in the text of an error can be printed and
// stored anywhere: one short line of printable characters, valid UTF-8.
func FuzzLastLine(f *testing.F) {
	f.Add("one\ntwo\r\n\x1b[0m\n")
	f.Add("caf\xe9\x00\u2028\u202e")
	f.Add(strings.Repeat("é", 300))
	f.Fuzz(func(t *testing.T, stderr string) {
		line := retryexec.LastLine(stderr)
		assert.True(t, utf8.ValidString(line), "%q", line)
		assert.LessOrEqual(t, len(line), 500)
		assert.Equal(t, -1, strings.IndexFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }), "%q", line)
		assert.Equal(t, strings.TrimSpace(line), line)
		assert.Equal(t, line, retryexec.LastLine(line))
		if line != "" {
			assert.Equal(t, line, retryexec.LastLine("before\n"+stderr+"\n\x1b[0m\n"))
		}
	})
}

// capitals raises ASCII letters.
func capitals(s string) string {
	b := []byte(s)
	for i, c := range b {
		if 'a' <= c && c <= 'z' {
			b[i] = c - 'a' + 'A'
		}
	}
	return string(b)
}
