package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/lab/systems/shared"
	"github.com/seed-5ff3c98e/retry/lab/systems/shared/dbtest"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// A new database is migrated, and then served. The defaults are 8 attempts, 60 s, ×2, at
// most 3600 s. serve ends when it is interrupted.
func TestServe(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		testServe(t, filepath.Join(t.TempDir(), "runs.db"))
	})
	t.Run("mariadb", func(t *testing.T) {
		t.Parallel()
		testServe(t, dbtest.New(t, retrytable.MySQL).DSN)
	})
}

func testServe(t *testing.T, dsn string) {
	t.Helper()
	if strings.HasSuffix(dsn, ".db") {
		require.ErrorContains(t, program.Run(t.Context(), []string{"migrate", "-print", "-dsn", dsn}, io.Discard), "no such file")
	}
	assert.Contains(t, dbtest.Run(t, program.Run, "migrate", "-dsn", dsn), "CREATE INDEX idx_runs_retry ON runs (next_retry_at)")
	assert.Equal(t, "-- nothing is missing\n", dbtest.Run(t, program.Run, "migrate", "-dsn", dsn))
	out, stop := dbtest.Start(t, program.Run, "serve", "-dsn", dsn, "-categories", "web,api")
	out.Await(t, `policy="run: 8 attempts, 1m0s ×2 ≤1h0m0s, no jitter: waits 1m0s, 2m0s, 4m0s, 8m0s, 16m0s, …; hints ≤168h0m0s; 1 free rate limits" categories=web,api`)
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	dbtest.Exec(t, dbtest.Reopen(t, &shared.DB{DSN: dsn}), "INSERT INTO runs (id, category, url) VALUES ('a', 'web', $1)", server.URL)
	out.Await(t, `level=ERROR msg="permanently failed" run=a error="GET http\S+: 404 Not Found" error_class=final reason=final`)
	assert.ErrorIs(t, stop(), context.Canceled)
	assert.Equal(t, 1, strings.Count(out.String(), "level=ERROR"))
}

// Settings that make no sense are named with their value, and are no failure of the program.
func TestSettings(t *testing.T) {
	t.Parallel()
	existing := dbtest.New(t, retrytable.SQLite).DSN
	for args, want := range map[string]string{
		"":                              "a command is missing",
		"-serve":                        `"-serve" is no command`,
		"serve -max-attempts=0":         "-max-attempts: 0: must be positive",
		"serve -max-attempts=-1":        "-max-attempts: -1: must be positive",
		"serve -initial-backoff=0":      "-initial-backoff: 0s: must be positive",
		"serve -max-backoff=-1s":        "-max-backoff: -1s: must be positive",
		"serve -backoff-multiplier=0":   "-backoff-multiplier: 0: must be positive",
		"serve -backoff-multiplier=0.5": "multiplier: 0.5",
		"serve -backoff-multiplier=NaN": "multiplier: NaN",
		"serve -lease=0":                "-lease: 0s: must be positive",
		"serve -poll=0":                 "-poll: 0s: must be positive",
		"serve -workers=0":              "-workers: 0: must be positive",
		"serve -dsn=":                   "the DSN is missing",
		"serve -dsn=dbname=x":           "the DSN must be",
		"serve -dsn=missing.db":         "missing.db: no such file",
		"migrate -workers=1":            "flag provided but not defined: -workers",
		"migrate -dsn=":                 "the DSN is missing",
		"serve -max-attempts=many":      `invalid value "many" for flag -max-attempts`,
		"serve runs":                    "unexpected argument: runs",
	} {
		var out dbtest.Output
		words := strings.Fields(args)
		if len(words) > 1 && words[0] == "serve" {
			words = slices.Insert(words, 1, "-dsn="+existing)
		}
		err := program.Run(t.Context(), words, &out)
		assert.ErrorContains(t, err, want, args)
		assert.Equal(t, 2, shared.ExitCode(err), args)
		assert.Empty(t, out.String())
	}
	assert.ErrorContains(t, program.Run(t.Context(), []string{"serve", "-dsn=mysql://x"}, io.Discard), "invalid DSN")
}

var (
	errPassing = retry.MarkRetryable(errors.New("connection reset"))
	errBroken  = retry.MarkFinal(errors.New("no such test"))
)

// defaultPolicy has the defaults of the flags.
var defaultPolicy = newConfig(flag.NewFlagSet("runs", flag.ContinueOnError)).Retry.policy()

func limited(after time.Duration) error {
	return retry.MarkRateLimited(errors.New("too many requests"), after)
}

// calculate is calculate_next_retry; it returns the retry_count to store too.
func calculate(retryCount int, err error) (d time.Duration, again bool, count int) {
	next := defaultPolicy.Next(retry.State{Failures: retryCount}, err, time.Unix(0, 0))
	return next.Delay, next.Retry, next.State.Failures
}

func TestExponentialBackoffCalculation(t *testing.T) {
	t.Parallel()
	for _, err := range []error{errPassing, errors.New("unknown"), limited(0), retry.ErrLost} {
		for retryCount, minutes := range []int{1, 2, 4, 8, 16, 32, 60} {
			d, again, count := calculate(retryCount, err)
			assert.True(t, again)
			assert.Equal(t, time.Duration(minutes)*time.Minute, d, "%v after %d retries", err, retryCount)
			assert.Equal(t, retryCount+1, count)
		}
	}
	long := (&RetryConfig{retry.Unlimited, time.Minute, time.Hour, 2}).policy()
	for _, retryCount := range []int{7, 100, 1_000_000} {
		assert.Equal(t, time.Hour, long.Next(retry.State{Failures: retryCount}, errPassing, time.Time{}).Delay)
	}
}

func TestMaxAttemptsEnforcement(t *testing.T) {
	t.Parallel()
	for retryCount := range 20 {
		_, again, count := calculate(retryCount, errPassing)
		assert.Equal(t, retryCount < 7, again, "the attempt %d of 8", retryCount+1)
		assert.Equal(t, retryCount+1, count)
		_, again, _ = calculate(retryCount, limited(0))
		assert.Equal(t, retryCount < 7, again, "without retry_after it is a failure like others")
	}
	d := defaultPolicy.Next(retry.State{Failures: 7}, errPassing, time.Time{})
	assert.ErrorIs(t, d.Err, retry.StopAttempts)
	assert.EqualError(t, d.Err, "run failed after 8 attempts: connection reset")
}

func TestRateLimitedRetryScheduling(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{time.Second, 90 * time.Second, time.Hour, 3 * time.Hour, 7 * 24 * time.Hour} {
		for _, retryCount := range []int{0, 3, 7} {
			d, again, count := calculate(retryCount, limited(after))
			assert.True(t, again)
			assert.Equal(t, retryCount, count, "retry_count stays")
			assert.Equal(t, after, d, "not cut by max_backoff either")
		}
	}
	d, _, _ := calculate(0, limited(time.Nanosecond))
	assert.GreaterOrEqual(t, d, time.Second, "a service that says now is not hammered")
	next := defaultPolicy.Next(retry.State{}, limited(8*24*time.Hour), time.Time{})
	assert.Equal(t, retry.StopRetryAfter, next.Stop, "the ceiling")
	d, again, count := calculate(5, limited(0))
	assert.True(t, again)
	assert.Equal(t, 32*time.Minute, d, "no retry_after: exponential backoff")
	assert.Equal(t, 6, count)
}

func TestFinalErrorHandling(t *testing.T) {
	t.Parallel()
	for _, retryCount := range []int{0, 3, 7} {
		d, again, _ := calculate(retryCount, errBroken)
		assert.False(t, again)
		assert.Zero(t, d)
	}
}

func TestErrorClassToString(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]string{
		errBroken: "final", errPassing: "retryable", limited(0): "rate_limited", limited(time.Hour): "rate_limited",
		errors.New("unknown"): "retryable", retry.ErrLost: "retryable",
	} {
		assert.Equal(t, want, errorClass(defaultPolicy.Classify(err)), err)
	}
}
