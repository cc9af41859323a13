package retryexec_test

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryexec"
)

func verdict(c retry.Class, category string) retry.Verdict {
	return retry.Verdict{Class: c, Category: category}
}

// TestExitCodes checks the class of every exit code alone, and whether standard
// error can change it.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	definitive := map[int]retry.Class{
		64: retry.Final, 65: retry.Final, 66: retry.Final, 67: retry.Final, 68: retry.Final,
		69: retry.Retryable, 71: retry.Retryable, 72: retry.Final, 73: retry.Final,
		74: retry.Retryable, 75: retry.Retryable, 76: retry.Retryable, 77: retry.Final, 78: retry.Final,
		124: retry.Retryable, 126: retry.Final, 127: retry.Final,
		129: retry.Final, 130: retry.Final, 141: retry.Final,
	}
	names := map[int]string{
		129: "signal_hangup", 130: "signal_interrupt", 131: "signal_quit", 132: "signal_ill",
		133: "signal_5", 134: "signal_abort", 135: "signal_7", 136: "signal_fpe", 137: "signal_killed",
		138: "signal_10", 139: "signal_segv", 140: "signal_12", 141: "signal_pipe", 142: "signal_alarm",
		143: "signal_terminated",
	}
	texts := map[string]retry.Verdict{
		"too many requests": verdict(retry.RateLimited, "stderr_rate_limit"),
		"permission denied": verdict(retry.Final, "stderr_auth"),
		"timed out":         verdict(retry.Retryable, "stderr_transient"),
		"usage: x":          verdict(retry.Final, "stderr_usage"),
	}
	for code := 1; code <= 255; code++ {
		class, decided := definitive[code]
		name := "exit_" + strconv.Itoa(code)
		if 128 < code && code < 160 {
			decided, name = true, "signal_"+strconv.Itoa(code-128)
		}
		if names[code] != "" {
			name = names[code]
		}
		want := verdict(class, name)
		assert.Equal(t, want, retryexec.ClassifyExit(nil, code, ""), "%d", code)
		assert.Equal(t, want, retryexec.ClassifyExit(nil, code, "boom"), "%d", code)
		for text, byText := range texts {
			if !decided {
				want = byText
			}
			assert.Equal(t, want, retryexec.ClassifyExit(nil, code, text), "%d %s", code, text)
		}
	}
	if crash := int64(0xC0000005); int64(int(crash)) == crash { // where an int can hold it
		assert.Equal(t, verdict(retry.Unknown, "exit_3221225477"), retryexec.ClassifyExit(nil, int(crash), ""), "Windows")
	}
	assert.Equal(t, verdict(retry.Unknown, "exit_unknown"), retryexec.ClassifyExit(nil, -1, ""))
	for text := range texts {
		assert.Zero(t, retryexec.ClassifyExit(nil, 0, text), "success")
	}
}

// TestExitCodeTwo: exit code 2 is wrong usage, or a Go program that panics.
func TestExitCodeTwo(t *testing.T) {
	t.Parallel()
	for stderr, want := range map[string]retry.Verdict{
		"foo: unknown flag: --x":                                        verdict(retry.Final, "stderr_usage"),
		"ls: unrecognized option '--x'":                                 verdict(retry.Final, "stderr_usage"),
		"Usage of foo:\n  -x":                                           verdict(retry.Unknown, "exit_2"),
		"bash: cd: usage: cd [-L]":                                      verdict(retry.Final, "stderr_usage"),
		"panic: runtime error: invalid memory address\n\ngoroutine 1":   verdict(retry.Unknown, "exit_2"),
		"panic: dial tcp: connect: connection refused\n\ngoroutine 1":   verdict(retry.Retryable, "stderr_transient"),
		"ls: cannot access 'x': No such file or directory":              verdict(retry.Unknown, "exit_2"),
		"Error: dial: i/o timeout\nUsage:\n  foo [flags]\n":             verdict(retry.Retryable, "stderr_transient"),
		"foo: error: unauthorized\nusage: foo [-h]":                     verdict(retry.Final, "stderr_auth"),
		"panic: runtime error: index out of range [5] with length 3":    verdict(retry.Unknown, "exit_2"),
		"panic: http 429 too many requests, invalid response, usage: x": verdict(retry.RateLimited, "stderr_rate_limit"),
	} {
		assert.Equal(t, want, retryexec.ClassifyExit(nil, 2, stderr), "%q", stderr)
	}
}

// phrases has texts of standard error, in order of priority.
var phrases = []struct {
	want  retry.Verdict
	texts []string
}{
	{verdict(retry.Final, "stderr_quota"), []string{
		"quota exceeded, check your billing account", "daily quota exceeded", "quota exceeded for daily requests",
		"quota exceeded\nreason: dailyLimitExceeded",
	}},
	{verdict(retry.RateLimited, "stderr_rate_limit"), []string{
		"rate limit", "rate-limit", "ratelimit", "rate limits", "rate limited", "rate limiting", "rate limiter",
		"rate limit: 60 per hour", "rate_limit_exceeded", "RateLimitExceeded",
		"too many requests", "toomanyrequests", "throttl", "throttled", "throttling", "ThrottlingException",
		"RequestThrottled", "slow down", "An error occurred (SlowDown) when calling", "quota exceeded", "secondary rate",
		"HTTP 429", "HTTP/1.1 429", "HTTP/2 429", "http status 429", "status: 429", "status=429", "status code: 429",
		"statusCode 429", `"status_code": 429`, "error 429", "error: 429", "error code 429",
		"The requested URL returned error: 429", "HTTP error 429",
	}},
	{verdict(retry.Final, "stderr_auth"), []string{
		"permission denied", "access denied", "unauthorized", "authentication failed", "forbidden",
		"denied: requested access", "bad credentials", "host key verification failed", "certificate verify failed",
		"x509: certificate has expired",
	}},
	{verdict(retry.Retryable, "stderr_transient"), []string{
		"timed out", "i/o timeout", "deadline exceeded", "timeout exceeded", "tls handshake timeout",
		"gateway timeout", "gateway time-out",
		"connection refused", "connection reset", "connection closed", "connection aborted", "connection lost",
		"connection broken", "broken pipe", "unexpected eof", "early eof", "remote end hung up",
		"temporary failure in name resolution", "could not resolve", "server misbehaving",
		"network is unreachable", "no route to host", "service unavailable", "bad gateway",
		"internal server error", "temporarily unavailable", "try again", "resource busy", "could not get lock",
		"database is locked", "deadlock", "index.lock",
	}},
	{verdict(retry.Final, "stderr_usage"), []string{
		"unknown flag", "unknown option", "unknown command", "unrecognized option", "usage: x", "x: usage: x",
	}},
	{verdict(retry.Final, "stderr_invalid"), []string{
		"command not found", "no such file or directory", "not found", "does not exist", "invalid", "syntax error",
		"no space left on device", "unsupported", "already exists", "not a git repository",
	}},
}

func TestPhrases(t *testing.T) {
	t.Parallel()
	for _, group := range phrases {
		for _, text := range group.texts {
			for _, stderr := range []string{
				text, strings.ToUpper(text), text + "\n", "first\n" + text + "\nlast", text + ".", text + "\r",
				"\x1b[1;31m" + text + "\x1b[0m",
			} {
				assert.Equal(t, group.want, retryexec.ClassifyExit(nil, 1, stderr), "%q", stderr)
			}
		}
	}
}

// TestPhrasesTogether checks the priority: the kind that says more about the
// cause wins, wherever it stands.
func TestPhrasesTogether(t *testing.T) {
	t.Parallel()
	for i, first := range phrases {
		for _, second := range phrases[i:] {
			for _, a := range first.texts {
				for _, b := range []string{second.texts[0], second.texts[len(second.texts)-1]} {
					if b == "usage: x" {
						b = "\n" + b
					}
					if strings.Contains(a+b, "quota exceeded") {
						continue // has words of two kinds
					}
					assert.Equal(t, first.want, retryexec.ClassifyExit(nil, 1, a+", "+b), "%s, %s", a, b)
					assert.Equal(t, first.want, retryexec.ClassifyExit(nil, 1, b+"\n"+a), "%s, %s", b, a)
				}
			}
		}
	}
}

// TestNoPhrases are texts that look like one.
func TestNoPhrases(t *testing.T) {
	t.Parallel()
	for _, stderr := range []string{
		"", "boom", "timeout", "connection", "timeout=30s", "--timeout 30", "connection #0", "connecting",
		"rate_limit=5", "rate-limit=5", "ratelimiting_interval", "corporate limit", "pirate limitation",
		"429", "line 429", "error on line 429", "status 4290", "status 1429", "http://x:429x", "took 429 ms",
		"xpermission deniedx", "untimed outx", "deadlocked", "tryagain", "retry again", "indexxlock",
		"disk usage: 80%", "memory usage: 5 MB", "flag unknown", "not_found", "notfound", "invalidate", "invalid_grant",
		"unsupportedx", "x509", "try\nagain", "connection\nreset",
	} {
		assert.Equal(t, verdict(retry.Unknown, "exit_1"), retryexec.ClassifyExit(nil, 1, stderr), "%q", stderr)
	}
}

func TestBothEndsOfStderrCount(t *testing.T) {
	t.Parallel()
	const size = 8 << 10
	const phrase = "permission denied"
	fill := func(n int) string { return strings.Repeat(".", n) }
	want, none := verdict(retry.Final, "stderr_auth"), verdict(retry.Unknown, "exit_1")
	classify := func(stderr string) retry.Verdict { return retryexec.ClassifyExit(nil, 1, stderr) }
	assert.Equal(t, want, classify(fill(100*size)+phrase))
	assert.Equal(t, want, classify(phrase+fill(100*size)))
	assert.Equal(t, want, classify(fill(100*size)+phrase+fill(size-len(phrase))))
	assert.Equal(t, none, classify(fill(100*size)+phrase+fill(size-len(phrase)+1)))
	assert.Equal(t, want, classify(fill(size-len(phrase))+phrase+fill(100*size)))
	assert.Equal(t, none, classify(fill(size-len(phrase)+1)+phrase+fill(100*size)))
	assert.Equal(t, none, classify(fill(size-len("permission "))+"permission "+fill(100*size)+"denied"+fill(size-len("denied"))),
		"a phrase is in one end")
	// Text that a terminal does not show does not count toward the 8 KiB.
	colors := strings.Repeat("\x1b[38;5;196m", size)
	assert.Equal(t, want, classify(fill(100*size)+"permission"+colors+" denied"+fill(size-len(phrase))))
	assert.Equal(t, want, classify("permission"+colors+" denied"+fill(100*size)))
}

// TestEndsSoonOnHostileText would take hours if every escape looked at all that follows.
func TestEndsSoonOnHostileText(t *testing.T) {
	t.Parallel()
	for _, unit := range []string{"\x1b]", "\x1b[", "\x1b[1;", "\x1b", "quota exceeded", "rate limi", "error ", "connection ", "\n ", "a"} {
		stderr := strings.Repeat(unit, (1<<20)/len(unit))
		assert.NotZero(t, retryexec.ClassifyExit(nil, 1, stderr), "%q", unit)
	}
}

func TestSimple(t *testing.T) {
	t.Parallel()
	simple := retryexec.Simple()
	for _, tt := range []struct {
		code   int
		stderr string
		want   retry.Verdict
	}{
		{1, "", verdict(retry.Unknown, "exit_1")},
		{1, "boom", verdict(retry.Unknown, "exit_1")},
		{1, "request timeout", verdict(retry.Retryable, "stderr_transient")},
		{1, "Rate Limit reached", verdict(retry.Retryable, "stderr_transient")},
		{1, "connection refused", verdict(retry.Retryable, "stderr_transient")},
		{1, "connection: permission denied", verdict(retry.Retryable, "stderr_transient")},
		{1, "context deadline exceeded", verdict(retry.Retryable, "stderr_transient")},
		{4, "context deadline exceeded", verdict(retry.Retryable, "stderr_transient")},
		{1, "Permission denied", verdict(retry.Final, "stderr_invalid")},
		{1, "invalid argument", verdict(retry.Final, "stderr_invalid")},
		{1, "not found", verdict(retry.Final, "stderr_invalid")},
		{2, "", verdict(retry.Final, "exit_2")},
		{2, "timeout", verdict(retry.Final, "exit_2")},
		{75, "", verdict(retry.Final, "exit_75")},
		{255, "connection lost", verdict(retry.Final, "exit_255")},
		{-1, "", verdict(retry.Unknown, "exit_unknown")},
		{0, "timeout", retry.Verdict{}},
	} {
		assert.Equal(t, tt.want, simple.ClassifyExit(nil, tt.code, tt.stderr), "%d %q", tt.code, tt.stderr)
	}
	assert.Equal(t, verdict(retry.Retryable, "timeout"), simple.ClassifyExit(context.DeadlineExceeded, -1, ""))
	assert.Equal(t, verdict(retry.Retryable, "timeout"), simple.Classify(fmt.Errorf("x: %w", context.DeadlineExceeded)))
	assert.Equal(t, verdict(retry.Final, "not_found"), simple.Classify(&exec.Error{Name: "x", Err: exec.ErrNotFound}))
}

// TestPrograms checks the verdicts of the profiles about every exit code.
func TestPrograms(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name             string
		profile          retryexec.Profile
		retryable, final []int
	}{
		{
			"curl", retryexec.Curl(),
			[]int{5, 6, 7, 16, 18, 28, 35, 52, 55, 56, 92, 95},
			[]int{1, 2, 3, 4, 23, 26, 27, 43, 60, 67, 77},
		},
		{"wget", retryexec.Wget(), []int{4}, []int{1, 2, 6, 7}},
		{"ssh", retryexec.SSH(), []int{255}, nil},
		{"rsync", retryexec.Rsync(), []int{10, 12, 30, 35}, []int{1, 2, 3, 5}},
	} {
		for code := -1; code <= 256; code++ {
			var want retry.Verdict
			switch {
			case slices.Contains(tt.retryable, code):
				want = verdict(retry.Retryable, "exit_"+strconv.Itoa(code))
			case slices.Contains(tt.final, code):
				want = verdict(retry.Final, "exit_"+strconv.Itoa(code))
			}
			assert.Equal(t, want, tt.profile.ClassifyExit(nil, code, "boom"), "%s %d", tt.name, code)
		}
	}
}

// TestStatusesOfPrograms are told by curl --fail and wget.
func TestStatusesOfPrograms(t *testing.T) {
	t.Parallel()
	classes := map[retry.Class][]int{
		retry.RateLimited: {420, 429, 509, 529},
		retry.Retryable:   {408, 421, 425, 449, 500, 502, 503, 504, 520, 521, 522, 523, 524, 530, 598, 599},
	}
	names := map[retry.Class]string{
		retry.RateLimited: "stderr_rate_limit", retry.Retryable: "stderr_transient", retry.Final: "stderr_invalid",
	}
	for status := 300; status < 600; status++ {
		want := retry.Final
		for class, statuses := range classes {
			if slices.Contains(statuses, status) {
				want = class
			}
		}
		assert.Equal(t, verdict(want, names[want]), retryexec.Curl().ClassifyExit(nil, 22,
			fmt.Sprintf("curl: (22) The requested URL returned error: %d\n", status)))
		assert.Equal(t, verdict(want, names[want]), retryexec.Wget().ClassifyExit(nil, 8,
			fmt.Sprintf("2026-11-20 12:00:00 ERROR %d: Whatever.\n", status)))
	}
	assert.Zero(t, retryexec.Curl().ClassifyExit(nil, 22, "error: 5031"))
	assert.Zero(t, retryexec.Curl().ClassifyExit(nil, 94, "returned error: 503"))
	assert.Zero(t, retryexec.Wget().ClassifyExit(nil, 3, "ERROR 503: Service Unavailable."))
}

func TestSSH(t *testing.T) {
	t.Parallel()
	for stderr, want := range map[string]retry.Verdict{
		"git@x: Permission denied (publickey).":               verdict(retry.Final, "stderr_auth"),
		"Host key verification failed.":                       verdict(retry.Final, "stderr_auth"),
		"unknown option -- y\nusage: ssh [-46AaCf]":           verdict(retry.Final, "stderr_usage"),
		"ssh: connect to host x port 22: Connection refused":  verdict(retry.Retryable, "exit_255"),
		"Warning: Identity file k: No such file or directory": verdict(retry.Retryable, "exit_255"),
	} {
		assert.Equal(t, want, retryexec.SSH().ClassifyExit(nil, 255, stderr), stderr)
		assert.Zero(t, retryexec.SSH().ClassifyExit(nil, 1, stderr), "of the remote command")
	}
}
