package main

import (
	"context"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry/retrytable"
	"github.com/seed-5ff3c98e/retry/systems/shared"
	"github.com/seed-5ff3c98e/retry/systems/shared/dbtest"
)

// Automation Flow: sleep, fetch, retry, again and again, until interrupted. A sweep
// that fails does not end the daemon.
func TestServe(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t, retrytable.PostgreSQL)
	create(t, db)
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
	db := dbtest.New(t, retrytable.SQLite)
	create(t, db)
	missing, existing := filepath.Join(t.TempDir(), "typo.db"), db.DSN
	for _, tt := range []struct{ args, want string }{
		{"", "a command is missing"},
		{"-dsn x.db", `"-dsn" is no command`},
		{"-dry-run -dsn x.db", `"-dry-run" is no command`},
		{"state -dsn x.db", `"state" is no command`},
		{"index -dry-run", "flag provided but not defined: -dry-run"},
		{"index -base 5m", "flag provided but not defined: -base"},
		{"serve -force", "flag provided but not defined: -force"},
		{"serve -customer acme", "flag provided but not defined: -customer"},
		{"state retry -interval 5m", "flag provided but not defined: -interval"},
		{"state retry -force -base 5m -dsn " + existing, "-base: with -force, nothing waits for it"},
		{"serve now", "unexpected argument: now"},
		{"state retry", "the DSN is missing"},
		{"serve", "the DSN is missing: postgres://"},
		{"index", "the DSN is missing"},
		{"state retry -dsn " + missing, "no such file or directory"},
		{"serve -dsn " + missing, "no such file or directory"},
		{"serve -dry-run -dsn " + missing, "no such file or directory"},
		{"serve -dsn mysql://x", "the DSN must be postgres://user@host/name or the name of a file"},
		{"serve -base 0 -dsn " + existing, "-base: 0s: must be positive"},
		{"state retry -base -5m -dsn " + existing, "-base: -5m0s: must be positive"},
		{"serve -cap 0 -dsn " + existing, "-cap: 0s: must be positive"},
		{"serve -jitter -5s -dsn " + existing, "-jitter: -5s: must not be negative"},
		{"serve -interval 0 -dsn " + existing, "-interval: 0s: must be positive"},
		{"serve -interval -1s -dsn " + existing, "-interval: -1s: must be positive"},
	} {
		err := program.Run(t.Context(), strings.Fields(tt.args), io.Discard)
		assert.ErrorContains(t, err, tt.want, tt.args)
		assert.Equal(t, 2, shared.ExitCode(err), tt.args)
	}
	assert.NoFileExists(t, missing)
}
