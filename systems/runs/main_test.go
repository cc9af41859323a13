package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/retrytable"
	"github.com/seed-5ff3c98e/retry/systems/shared"
	"github.com/seed-5ff3c98e/retry/systems/shared/dbtest"
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
	out.Await(t, `level=ERROR msg="permanently failed" run=a error="404 Not Found" error_class=final reason=final`)
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
