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

	"github.com/seed-5ff3c98e/retry/examples/shared/dbtest"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// The demonstration ends by itself, with every partition retried as often as it
// failed by one of three instances, and the terminal one left alone.
func TestDemonstration(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{"", dbtest.New(t, retrytable.PostgreSQL).DSN} {
		t.Run(dsn, func(t *testing.T) {
			t.Parallel()
			out := dbtest.Run(t, run, "-dsn", dsn, "-base", "1m", "-interval", "10s")
			assert.Equal(t, 9, strings.Count(out, "msg=retry instance="), out)
			assert.Equal(t, 5, strings.Count(out, "msg=validator")-strings.Count(out, "status=success"))
			assert.Equal(t, 4, strings.Count(out, "status=success"))
			assert.NotContains(t, out, "zeta/keywords")
			assert.NotContains(t, out, "ERROR")
		})
	}
}

func TestDemonstrationDryRun(t *testing.T) {
	t.Parallel()
	out := dbtest.Run(t, run, "-dry-run", "-base", "1m", "-jitter", "0")
	assert.Equal(t, 2, strings.Count(out, "msg=retry partition=acme/campaigns/"), "the first failures")
	assert.Equal(t, strings.Count(out, "msg=retry"), strings.Count(out, "msg=retry partition=")-
		strings.Count(out, "dry_run=false"), "none of them real")
	assert.NotContains(t, out, "validator")
}

// Automation Flow: sleep, fetch, retry, again and again, until interrupted. A sweep
// that fails does not end the daemon.
func TestServe(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t, retrytable.PostgreSQL)
	require.NoError(t, create(t.Context(), db))
	out, stop := dbtest.Start(t, run, "-serve", "-dsn", db.DSN, "-interval", "5ms")
	for i := range 3 {
		insert(t, db, nth(i), time.Hour, nil)
		out.Await(t, "msg=retry partition="+nth(i).key())
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
	out, stop := dbtest.Start(t, run, "-base", "999ns", "-cap", "999ns", "-jitter", "999us")
	out.Await(t, "unlimited attempts, 1µs ×2 ≤1µs, ±0s jitter")
	assert.ErrorIs(t, stop(), context.Canceled)
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"the DSN is missing":                                {"state", "retry"},
		"the DSN is missing: postgres://…":                  {"-serve"},
		"no such file or directory":                         {"state", "retry", "-dsn", filepath.Join(t.TempDir(), "typo.db")},
		"typo.db: no such file or directory":                {"-serve", "-dry-run", "-dsn", filepath.Join(t.TempDir(), "typo.db")},
		"a temporary one needs postgres://… or no DSN":      {"-dsn", filepath.Join(t.TempDir(), "test.db")},
		"flag provided but not defined: -force":             {"-force"},
		"unexpected argument: retry":                        {"retry"},
		"the DSN must be postgres://… or the name of a fil": {"-serve", "-dsn", "mysql://x"},
		"-base: 0s: must be positive":                       {"-base", "0"},
		"-base: -5m0s: must be positive":                    {"state", "retry", "-dsn", "mysql://x", "-base", "-5m"},
		"-cap: 0s: must be positive":                        {"-cap", "0"},
		"-jitter: -5s: must not be negative":                {"-jitter", "-5s"},
		"-interval: 0s: must be positive":                   {"-serve", "-dsn", "mysql://x", "-interval", "0"},
		"-interval: -1s: must be positive":                  {"-serve", "-dsn", "mysql://x", "-interval", "-1s"},
	} {
		assert.ErrorContains(t, run(t.Context(), args, io.Discard), want)
	}
}
