package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fast makes the waits short, and the same every time.
var fast = []string{"-initial=1ms", "-max-delay=2ms", "-jitter=none", "-retry-after=0s"}

// play runs the program and returns its output, without the parts that differ
// from run to run.
func play(t *testing.T, args ...string) (code int, output string) {
	t.Helper()
	var b bytes.Buffer
	code = run(args, &b)
	output = regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllString(b.String(), "HOST")
	return code, output
}

// rows returns the timeline without its times, and with one space between columns.
func rows(output string) []string {
	var rows []string
	for line := range strings.Lines(output) {
		if fields := strings.Fields(line); regexp.MustCompile(`^ *[0-9.]+s `).MatchString(line) {
			rows = append(rows, strings.Join(fields[1:], " "))
		}
	}
	return rows
}

var timelineRows = []string{
	"1 conn_refused retryable 0.001s connection refused",
	"2 conn_reset retryable 0.002s connection reset by peer",
	"3 http_503 retryable 0.002s GET http://HOST/greeting: 503 Service Unavailable",
	"4 http_429 rate_limited 0.002s GET http://HOST/greeting: 429 Too Many Requests",
	"5 success",
}

func TestGetsThrough(t *testing.T) {
	t.Parallel()
	code, output := play(t, fast...)
	assert.Equal(t, 0, code)
	assert.Equal(t, timelineRows, rows(output))
	assert.Contains(t, output, "quickstart: 5 attempts, 1ms ×2 ≤2ms, no jitter: waits 1ms, 2ms, 2ms, 2ms\n")
	assert.Regexp(t, `\ngot through on attempt 5 after \d+\.\d{3}s, 0\.007s of it waiting\n200 OK: hello\n$`, output)
}

func TestWaitsAsLongAsTheServerAsks(t *testing.T) {
	t.Parallel()
	code, output := play(t, append(fast, "-retry-after=50ms")...)
	assert.Equal(t, 0, code)
	// The hint, and up to a tenth of it.
	assert.Regexp(t, `http_429 +rate_limited +0\.05\ds `, output)
}

func TestGivesUp(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args     []string
		row, why string
	}{
		{
			[]string{"-attempts=1"},
			"1 conn_refused retryable gave up connection refused",
			`gave up \(attempts\) on attempt 1 after .*\nGet "http://HOST/greeting": quickstart failed after 1 attempt: `,
		},
		{
			[]string{"-attempts=2"},
			"2 conn_reset retryable gave up connection reset by peer",
			`gave up \(attempts\) on attempt 2 after .*\nGet "http://HOST/greeting": quickstart failed after 2 attempts: `,
		},
		{
			[]string{"-attempts=3"},
			"3 http_503 retryable gave up GET http://HOST/greeting: 503 Service Unavailable",
			`gave up \(attempts\) on attempt 3 after .*\nthe last answer was 503 Service Unavailable\n`,
		},
		{
			[]string{"-retry-after=2m"},
			"4 http_429 rate_limited gave up GET http://HOST/greeting: 429 Too Many Requests",
			`gave up \(retry_after\) on attempt 4 after .*\nthe last answer was 429 Too Many Requests\n`,
		},
		{
			[]string{"-retry-after=50s"},
			"4 http_429 rate_limited gave up GET http://HOST/greeting: 429 Too Many Requests",
			`gave up \(deadline\) on attempt 4 after .*\nthe last answer was 429 Too Many Requests\n`,
		},
	} {
		t.Run(test.args[0], func(t *testing.T) {
			t.Parallel()
			code, output := play(t, append(fast, test.args...)...)
			assert.Equal(t, 1, code)
			rows := rows(output)
			require.NotEmpty(t, rows)
			assert.Equal(t, test.row, rows[len(rows)-1])
			assert.Equal(t, timelineRows[:len(rows)-1], rows[:len(rows)-1])
			assert.Regexp(t, test.why, output)
		})
	}
}

func TestPolicyFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "policy.json")
	const policy = `{"name": "mine", "max_attempts": 9, "backoff": {"constant": "1ms"}}`
	require.NoError(t, os.WriteFile(file, []byte(policy), 0o600))
	code, output := play(t, "-attempts=1", "-retry-after=0s", "-json="+file)
	assert.Equal(t, 0, code)
	assert.Contains(t, output, "mine: 9 attempts, ")
	assert.Len(t, rows(output), 5)
}

// The same seed makes the same waits.
func TestSeed(t *testing.T) {
	t.Parallel()
	waits := func(seed string) []string {
		code, output := play(t, "-initial=20ms", "-max-delay=40ms", "-retry-after=0s", "-seed="+seed)
		assert.Equal(t, 0, code)
		return rows(output)
	}
	first := waits("1")
	assert.Equal(t, first, waits("1"))
	assert.NotEqual(t, first, waits("2"))
}

func TestHelp(t *testing.T) {
	t.Parallel()
	code, output := play(t, "-h")
	assert.Equal(t, 0, code)
	for _, name := range []string{"attempts", "initial", "max-delay", "jitter", "deadline", "retry-after", "seed", "json"} {
		assert.Contains(t, output, "\n  -"+name+" ")
	}
}

func TestBadArguments(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"-jitter=some":   "-jitter some: want full, equal or none",
		"-attempts=-1":   "max_attempts: -1: must be",
		"-initial=1h":    "above max_delay 2s",
		"-json=/no/such": "no such file",
		"-no-such-flag":  "flag provided but not defined",
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			code, output := play(t, args)
			assert.Equal(t, 2, code)
			assert.Contains(t, output, want)
		})
	}
}
