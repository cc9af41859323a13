package main

import (
	"context"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/retrytable"
	"github.com/seed-5ff3c98e/retry/systems/shared/dbtest"
)

// The demonstration ends by itself, with every run as it should be.
func TestDemo(t *testing.T) {
	t.Parallel()
	for name, dsn := range map[string]string{"sqlite": "", "postgres": dbtest.New(t, retrytable.PostgreSQL).DSN} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := dbtest.Run(t, run, "demo", "-postgres", dsn, "-max-attempts", "5", "-categories", "api")
			for _, line := range []string{
				`policy="run: 5 attempts, 60ms ×2 ≤3.6s, no jitter: waits 60ms, 120ms, 240ms, 480ms; hints ≤168h0m0s; 1 free rate limits" categories=api`,
				`level=WARN msg="retry scheduled" run=orphaned error="retry: worker lost" error_class=retryable attempt=2 delay=60ms`,
				`level=INFO msg="retry succeeded" run=orphaned attempt=2 status=passed`,
				`level=INFO msg="retry succeeded" run=flaky attempt=2 status=passed`,
				`level=INFO msg="retry succeeded" run=overloaded attempt=2 status=passed`,
				`level=WARN msg="retry scheduled" run=busy error="429 Too Many Requests" error_class=rate_limited attempt=1 delay=1s`,
				`level=INFO msg="retry succeeded" run=busy attempt=1 status=passed`,
				`level=ERROR msg="permanently failed" run=missing error="404 Not Found" error_class=final reason=final`,
				`level=ERROR msg="max attempts reached" run=down error="503 Service Unavailable" error_class=retryable attempts=5`,
				`level=INFO msg=succeeded run=new attempt=1 status=needs_review`,
				`level=INFO msg=succeeded run=changed attempt=1 status=failed`,
			} {
				assert.Contains(t, out, line)
			}
		})
	}
}

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
		require.ErrorContains(t, run(t.Context(), []string{"migrate", "-print", "-dsn", dsn}, io.Discard), "no such file")
	}
	assert.Contains(t, dbtest.Run(t, run, "migrate", "-dsn", dsn), "CREATE INDEX idx_runs_retry ON runs (next_retry_at)")
	assert.Equal(t, "-- nothing is missing\n", dbtest.Run(t, run, "migrate", "-dsn", dsn))
	out, stop := dbtest.Start(t, run, "serve", "-dsn", dsn, "-categories", "web,api")
	out.Await(t, `policy="run: 8 attempts, 1m0s ×2 ≤1h0m0s, no jitter: waits 1m0s, 2m0s, 4m0s, 8m0s, 16m0s, …; hints ≤168h0m0s; 1 free rate limits" categories=web,api`)
	assert.ErrorIs(t, stop(), context.Canceled)
	assert.NotContains(t, out.String(), "level=ERROR")
}

// Settings that make no sense are named with their value.
func TestSettings(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"":                             "a command is missing",
		"-serve":                       `"-serve" is no command`,
		"demo -max-attempts=0":         "-max-attempts: 0: must be positive",
		"demo -max-attempts=-1":        "-max-attempts: -1: must be positive",
		"demo -initial-backoff=0":      "-initial-backoff: 0s: must be positive",
		"demo -max-backoff=-1s":        "-max-backoff: -1s: must be positive",
		"demo -backoff-multiplier=0":   "-backoff-multiplier: 0: must be positive",
		"demo -backoff-multiplier=0.5": "multiplier: 0.5",
		"demo -backoff-multiplier=NaN": "multiplier: NaN",
		"demo -lease=0":                "-lease: 0s: must be positive",
		"demo -poll=0":                 "-poll: 0s: must be positive",
		"demo -workers=0":              "-workers: 0: must be positive",
		"demo -dsn=x":                  "flag provided but not defined: -dsn",
		"demo -postgres=x":             "a temporary one needs postgres://",
		"serve":                        "the DSN is missing",
		"serve -dsn=mysql://x":         "invalid DSN",
		"serve -dsn=dbname=x":          "the DSN must be",
		"serve -dsn=missing.db":        "missing.db: no such file",
		"migrate -workers=1":           "flag provided but not defined: -workers",
		"migrate":                      "the DSN is missing",
		"demo -max-attempts=many":      `invalid value "many" for flag -max-attempts`,
		"serve runs":                   "unexpected argument: runs",
	} {
		var out dbtest.Output
		assert.ErrorContains(t, run(t.Context(), strings.Fields(args), &out), want, args)
		assert.Empty(t, out.String())
	}
}
