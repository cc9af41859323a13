package main

import (
	"context"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/retrytable"
	"github.com/seed-5ff3c98e/retry/systems/shared/dbtest"
)

// The demonstration ends by itself, with every partition retried as often as it
// failed by one of three instances, and the terminal one left alone.
func TestDemonstration(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{"", dbtest.New(t, retrytable.PostgreSQL).DSN} {
		t.Run(dsn, func(t *testing.T) {
			t.Parallel()
			out := dbtest.Run(t, program.Run, "demo", "-postgres", dsn, "-base", "1m", "-interval", "10s")
			assert.Equal(t, 9, strings.Count(out, "msg=retry instance="), out)
			assert.Equal(t, 5, strings.Count(out, "msg=validator")-strings.Count(out, "status=success"))
			assert.Equal(t, 4, strings.Count(out, "status=success"))
			assert.NotContains(t, out, "zeta/keywords")
			assert.NotContains(t, out, "ERROR")
		})
	}
}

// Automation Flow: sleep, fetch, retry, again and again, until interrupted. A sweep
// that fails does not end the daemon.
func TestServe(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t, retrytable.PostgreSQL)
	require.NoError(t, create(t.Context(), db))
	out, stop := dbtest.Start(t, program.Run, "serve", "-dsn", db.DSN, "-interval", "5ms")
	for i := range 3 {
		insert(t, db, nth(i), time.Hour, nil)
		out.Await(t, "msg=retry partition="+nth(i).name())
		dbtest.Exec(t, db, "ALTER TABLE partition_state RENAME TO away")
		out.Await(t, "level=ERROR msg=sweep")
		dbtest.Exec(t, db, "ALTER TABLE away RENAME TO partition_state")
	}
	assert.ErrorIs(t, stop(), context.Canceled)
	assert.Len(t, pending(t, db), 3)
}

// A demonstration that is too fast for its delays has the shortest possible
// delays.
func TestShortDelays(t *testing.T) {
	t.Parallel()
	out, stop := dbtest.Start(t, program.Run, "demo", "-base", "999ns", "-cap", "999ns", "-jitter", "999us")
	out.Await(t, "unlimited attempts, 1µs ×2 ≤1µs, ±0s jitter")
	assert.ErrorIs(t, stop(), context.Canceled)
}

// The settings that the document has are the defaults.
func TestDefaults(t *testing.T) {
	t.Parallel()
	help := dbtest.Run(t, program.Run, "serve", "-h")
	for flag, value := range map[string]string{"base": "5m0s", "cap": "6h0m0s", "jitter": "30s", "interval": "1m0s"} {
		assert.Regexp(t, `-`+flag+` duration\n.*\(default `+value+`\)`, help)
	}
}

// A command has the flags that it uses: one that would be ignored is an error, and above
// all a dry run that would not be dry.
func TestUsage(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "typo.db")
	for _, tt := range []struct{ args, want string }{
		{"", "a command is missing"},
		{"-dsn x.db", `"-dsn" is no command`},
		{"-dry-run -dsn x.db", `"-dry-run" is no command`},
		{"state -dsn x.db", `"state" is no command`},
		{"demo -dry-run", "flag provided but not defined: -dry-run"},
		{"demo -dsn x.db", "flag provided but not defined: -dsn"},
		{"index -dry-run", "flag provided but not defined: -dry-run"},
		{"index -base 5m", "flag provided but not defined: -base"},
		{"serve -force", "flag provided but not defined: -force"},
		{"serve -customer acme", "flag provided but not defined: -customer"},
		{"state retry -interval 5m", "flag provided but not defined: -interval"},
		{"state retry -force -base 5m", "-base: with -force, nothing waits for it"},
		{"serve now", "unexpected argument: now"},
		{"state retry", "the DSN is missing"},
		{"serve", "the DSN is missing: postgres://…"},
		{"index", "the DSN is missing"},
		{"state retry -dsn " + missing, "no such file or directory"},
		{"serve -dsn " + missing, "no such file or directory"},
		{"serve -dry-run -dsn " + missing, "no such file or directory"},
		{"serve -dsn mysql://x", "the DSN must be postgres://… or the name of a file"},
		{"demo -postgres test.db", "a temporary one needs postgres://…"},
		{"demo -base 0", "-base: 0s: must be positive"},
		{"state retry -dsn mysql://x -base -5m", "-base: -5m0s: must be positive"},
		{"demo -cap 0", "-cap: 0s: must be positive"},
		{"demo -jitter -5s", "-jitter: -5s: must not be negative"},
		{"demo -interval 0", "-interval: 0s: must be positive"},
		{"serve -dsn mysql://x -interval -1s", "-interval: -1s: must be positive"},
	} {
		assert.ErrorContains(t, program.Run(t.Context(), strings.Fields(tt.args), io.Discard), tt.want, tt.args)
	}
	assert.NoFileExists(t, missing)
}
