package main

import (
	"bytes"
	"context"
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
			var out bytes.Buffer
			require.NoError(t, run(t.Context(), []string{"-dsn", dsn, "-base", "1m", "-interval", "10s"}, &out))
			assert.Equal(t, 9, strings.Count(out.String(), "msg=retry instance="), out.String())
			assert.Equal(t, 5, strings.Count(out.String(), "msg=validator")-strings.Count(out.String(), "status=success"))
			assert.Equal(t, 4, strings.Count(out.String(), "status=success"))
			assert.NotContains(t, out.String(), "zeta/keywords")
			assert.NotContains(t, out.String(), "ERROR")
		})
	}
}

func TestDemonstrationDryRun(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), []string{"-dry-run", "-base", "1m", "-jitter", "0"}, &out))
	assert.Equal(t, 2, strings.Count(out.String(), "msg=retry partition=acme/campaigns/"), "the first failures")
	assert.Equal(t, strings.Count(out.String(), "msg=retry"), strings.Count(out.String(), "msg=retry partition=")-
		strings.Count(out.String(), "dry_run=false"), "none of them real")
	assert.NotContains(t, out.String(), "validator")
}

// lines is a writer whose lines can be waited for.
type lines chan string

func (l lines) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

func (l lines) await(t *testing.T, what string) {
	t.Helper()
	for {
		select {
		case line := <-l:
			if strings.Contains(line, what) {
				return
			}
		case <-time.After(10 * time.Second):
			require.Fail(t, "there is no "+what)
		}
	}
}

// Automation Flow: sleep, fetch, retry, again and again, until interrupted. A sweep
// that fails is not the end.
func TestServe(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t, retrytable.PostgreSQL)
	require.NoError(t, create(t.Context(), db))
	ctx, interrupt := context.WithCancel(t.Context())
	out, ended := make(lines, 10_000), make(chan error)
	go func() {
		ended <- run(ctx, []string{"-serve", "-dsn", db.DSN, "-interval", "5ms"}, out)
	}()
	for i := range 3 {
		insert(t, db, nth(i), time.Hour, nil)
		out.await(t, "msg=retry partition="+nth(i).key())
		dbtest.Exec(t, db, "ALTER TABLE partition_state RENAME TO away")
		out.await(t, "level=ERROR msg=sweep")
		dbtest.Exec(t, db, "ALTER TABLE away RENAME TO partition_state")
	}
	interrupt()
	assert.ErrorIs(t, <-ended, context.Canceled)
	assert.Len(t, pending(t, db), 3)
}

func TestUsage(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"state retry: -dsn is missing":                      {"state", "retry"},
		"a temporary one needs postgres://… or no DSN":      {"-dsn", filepath.Join(t.TempDir(), "test.db")},
		"flag provided but not defined: -force":             {"-force"},
		"unexpected argument: retry":                        {"retry"},
		"the DSN must be postgres://… or the name of a fil": {"-serve", "-dsn", "mysql://x"},
	} {
		assert.ErrorContains(t, run(t.Context(), args, &bytes.Buffer{}), want)
	}
}
