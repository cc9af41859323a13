package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
)

// statusError is what a client of an API returns.
type statusError struct {
	status int
	after  time.Duration
}

func (e *statusError) Error() string             { return "the server said no" }
func (e *statusError) HTTPStatusCode() int       { return e.status }
func (e *statusError) RetryAfter() time.Duration { return e.after }

// Error classification accuracy.
func TestErrorClassificationAccuracy(t *testing.T) {
	t.Parallel()
	text := errors.New
	for want, all := range map[string][]error{
		transient: {
			text("Rate limit exceeded"), text("API rate limit exceeded"), text("rate_limit_error"),
			text("429 Too Many Requests"), text("HTTP 503"), text("Service Unavailable"), text("Overloaded"),
			text("request timed out"), text("Request timeout"), text("connect ETIMEDOUT 10.0.0.1:443"),
			text("read ECONNRESET"), text("504 Gateway Time-out"), text("git fetch: connection reset by peer"),
			context.DeadlineExceeded, fmt.Errorf("agent: %w", os.ErrDeadlineExceeded),
			&statusError{status: 429}, &statusError{status: 503}, &statusError{status: 504},
			syscall.ETIMEDOUT, syscall.ECONNREFUSED,
		},
		apiError: {
			text("API error: bad request"), text("401 Unauthorized"), text("403 Forbidden"), text("invalid api_key"),
			text("authentication failed"), text("auth failure"), text("500 Internal Server Error"), text("Invalid token"),
			&statusError{status: 400}, &statusError{status: 401}, &statusError{status: 500},
		},
		codeError: {
			text("SyntaxError: Unexpected token }"), text("sh: 1: Syntax error: end of file unexpected"),
			text("TypeError: x is not a function"), text("ReferenceError: y is not defined"), text("logic error in step 2"), text("business logic: logical contradiction"),
			text("AssertionError: 1 == 2"),
		},
		systemError: {
			text("ENOENT: no such file or directory, open 'a'"), text("EACCES: permission denied, mkdir '/a'"),
			text("fatal: not a git repository"), text("git push failed"), text("bash: jq: command not found"),
			text("exit status 127"), text("fatal: unable to read tree"),
			&os.PathError{Op: "open", Path: "a", Err: syscall.ENOENT}, syscall.EACCES, errLost,
		},
		unknown: {text("boom"), text("exit status 3"), text("gitter"), text("capital"), text("5001 rows"), text("topological sort"), text("technological")},
	} {
		for _, err := range all {
			v := newPolicy(time.Second, time.Minute).Classify(fmt.Errorf("ticket: %w", err))
			assert.Equal(t, want, v.Category, err)
			assert.NotEqual(t, retry.Final, v.Class, err)
		}
	}
}

// The whole end of standard error counts, and not its last line alone. Numbers and
// words in other places mean nothing.
func TestClassificationOfWholeStandardError(t *testing.T) {
	t.Parallel()
	const frames = "\n    at Object.<anonymous> (/srv/api/auth/git/logic.js:503:429)" +
		"\n    at Timeout._onTimeout (/srv/timeout.js:1:1)\n    at listOnTimeout (node:internal/timers:573:17)\n\nNode.js v20.11.0"
	for want, all := range map[string][]string{
		transient: {
			"Error: 429 Too Many Requests" + frames,
			"Error: Request failed with status code 503" + frames,
			"Error: request failed" + frames + "\n{ status: 429 }",
			"RateLimitError: 429 {\"error\": {}}" + frames,
			"curl: (7) Failed to connect to 127.0.0.1 port 1 after 0 ms: Couldn't connect to server",
			"TypeError: fetch failed" + frames + "\n  [cause]: Error: connect ECONNREFUSED 127.0.0.1:80",
			"\x1b[31mError: rate limit exceeded\x1b[0m\nsee the log",
			"HTTP/1.1 503 Service Unavailable\nSyntaxError: Unexpected token < in JSON at position 0" + frames,
			"Traceback (most recent call last):\n  File \"x.py\", line 1\nrequests.exceptions.HTTPError: 429 Client Error: Too Many Requests for url",
		},
		apiError: {
			"Error: Request failed with status code 401" + frames,
			"requests.exceptions.HTTPError: 404 Client Error: Not Found for url: http://x\nparsed 3 rows",
			"API error: bad request" + frames,
		},
		codeError: {
			"[eval]:1\nfunction\n        \n\nSyntaxError: Unexpected token '}'" + frames,
			"ReferenceError: setTimeoutx is not defined" + frames,
			"TypeError: timeout is not a function" + frames,
			"x.sh: line 503: syntax error near unexpected token `fi'",
			"info: the rate limit is 100\nTraceback (most recent call last):\nNameError: name 'rate_limit' is not defined",
			"setTimeoutx is not defined",
		},
		systemError: {
			"Error: ENOENT: no such file or directory, open 'timeout.json'" + frames,
			"fatal: not a git repository\nsee git help",
		},
		unknown: {"parsed 450 rows", "line 503", "Error: boom" + frames, "wrote 429 bytes to /srv/api/504", "capital", ""},
	} {
		for _, stderr := range all {
			err := fmt.Errorf("ticket: %w", &exec.ExitError{Stderr: []byte(stderr)})
			assert.Equal(t, want, classify(err).Category, stderr)
		}
	}
}

// What is stored of a failure shows its cause, which the last line does not.
func TestStory(t *testing.T) {
	t.Parallel()
	err := shell(t.Context(), ticket{ID: "1", Definition: "printf 'SyntaxError: x\\n  at y\\nNode.js v20\\n' >&2; exit 1"})
	assert.Equal(t, "exit status 1: Node.js v20\nSyntaxError: x\n  at y\nNode.js v20", told(err).Error())
	err = shell(t.Context(), ticket{ID: "1", Definition: "echo why >&2; exit 1"})
	assert.Equal(t, "exit status 1: why", told(err).Error())
	assert.EqualError(t, told(errors.New("boom")), "boom")
	require.NoError(t, told(nil))
	long := told(&exec.ExitError{ProcessState: new(os.ProcessState), Stderr: bytes.Repeat([]byte("a\n"), 4000)})
	assert.Len(t, long.Error(), len("exit status 0\n"+"\n[...]\n")+1400)
}

// The same with what real commands say.
func TestClassificationOfRealCommands(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ definition, want string }{
		{"if true; do", codeError},
		{"cat /nowhere/at/all", systemError},
		{"git -C / log", systemError},
		{"no-such-command-at-all", systemError},
		{filepath.Dir(os.Args[0]), systemError}, // a directory cannot be run
		{"exit 3", unknown},
		{"echo 'HTTP 429' >&2; echo '    at main (x.js:1:1)' >&2; exit 1", transient},
		{"echo 'parsed 450 rows' >&2; exit 1", unknown},
		{"echo 'Error: 429 Too Many Requests' >&2; yes '    at frame (/srv/x.js:1:1)' | head -n 2000 >&2; exit 1", transient},
		{"sleep 5", transient}, // the timeout
		{"echo 'HTTP 429' >&2; exit 1", transient},
		{"echo 'API error: 401' >&2; exit 1", apiError},
		{"", codeError},
	} {
		t.Run(test.definition, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			err := shell(ctx, ticket{ID: "1", Definition: test.definition})
			require.Error(t, err)
			assert.Equal(t, test.want, classify(err).Category, err)
		})
	}
	assert.NoError(t, shell(t.Context(), ticket{ID: "7", Retries: 2, Rejections: 3, Definition: "test $TICKET_ID-$RETRY_COUNT-$REJECTION_COUNT = 7-2-3"}))
	var exit *exec.ExitError
	require.ErrorAs(t, shell(t.Context(), ticket{Definition: "exit 3"}), &exit)
}

// Backoff calculation correctness, with the limit and the
// kind of backoff of every category.
func TestBackoffCalculation(t *testing.T) {
	t.Parallel()
	const s = time.Second
	for category, want := range map[string][]time.Duration{
		transient:   {30 * s, 60 * s, 120 * s}, // exponential, 3 retries
		apiError:    {30 * s, 60 * s},          // linear, 2
		codeError:   {0},                       // none, 1
		systemError: {30 * s, 60 * s},          // exponential, 2
		unknown:     {30 * s},                  // linear, 1
	} {
		p := newPolicy(30*s, time.Hour)
		require.NoError(t, p.Validate())
		var state retry.State
		for i, delay := range want {
			d := p.Decide(state, retry.Verdict{Category: category}, time.Now())
			assert.True(t, d.Retry, category)
			assert.Equal(t, delay, d.Delay, category)
			assert.Equal(t, len(want)-i, d.Limit-d.State.Failures, "%s: attempts remaining", category)
			state = d.State
		}
		d := p.Decide(state, retry.Verdict{Category: category}, time.Now())
		assert.False(t, d.Retry, category)
		assert.Equal(t, retry.StopAttempts, d.Stop, category)
	}
	// What tells linear from exponential is the third delay.
	third := func(category string) time.Duration {
		return newPolicy(s, time.Hour).Overrides[category].Backoff.Delay(3)
	}
	assert.Equal(t, []time.Duration{4 * s, 3 * s, 0, 4 * s, 3 * s},
		[]time.Duration{third(transient), third(apiError), third(codeError), third(systemError), third(unknown)})

	d := newPolicy(30*s, 45*s).Decide(retry.State{Failures: 1}, retry.Verdict{Category: transient}, time.Now())
	assert.Equal(t, 45*s, d.Delay, "the cap")
}

// There is one retry_count, and the category of the current failure has the limit.
func TestLimitIsThatOfTheCurrentCategory(t *testing.T) {
	t.Parallel()
	p := newPolicy(time.Second, time.Hour)
	after2 := retry.State{Failures: 2}
	assert.True(t, p.Next(after2, errors.New("rate limit"), time.Now()).Retry)
	assert.False(t, p.Next(after2, errors.New("API error"), time.Now()).Retry)
	assert.False(t, p.Next(retry.State{Failures: 1}, errors.New("SyntaxError"), time.Now()).Retry)
}

// Rate limits count here, and a Retry-After of the server is waited for.
func TestRetryAfterOfTheServer(t *testing.T) {
	t.Parallel()
	p := newPolicy(time.Second, time.Hour)
	d := p.Next(retry.State{}, &statusError{429, 10 * time.Minute}, time.Now())
	assert.True(t, d.Retry)
	assert.True(t, d.Counted)
	assert.Equal(t, transient, d.Verdict.Category)
	assert.GreaterOrEqual(t, d.Delay, 10*time.Minute)
	assert.LessOrEqual(t, d.Delay, 11*time.Minute)
	assert.Equal(t, retry.StopRetryAfter, p.Next(retry.State{}, &statusError{429, 25 * time.Hour}, time.Now()).Stop)
}
