//nolint:thelper // what Each calls is the test itself
package main

import (
	"context"
	"database/sql"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/lab/systems/shared"
	"github.com/seed-5ff3c98e/retry/lab/systems/shared/dbtest"
	"github.com/seed-5ff3c98e/retry/retrytable"
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

// quick is a daemon that sweeps all the time.
func quick(db *shared.DB) *daemon {
	return &daemon{
		db: db, interval: time.Millisecond, log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		policy: newPolicy(50*time.Millisecond, 150*time.Millisecond, 10*time.Millisecond),
	}
}

// TestMain runs a daemon if TestCrash starts this binary.
func TestMain(m *testing.M) {
	dbtest.Main(m, func(ctx context.Context, db *shared.DB) error { return quick(db).serve(ctx) })
}

// Crash Safety: instances die at any point, and nothing is scheduled twice, early,
// or never.
func TestCrash(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		const partitions, instances, kills = 100, 3, 50
		create(t, db)
		watch(t, db)
		d := quick(db)
		for i := range partitions {
			insert(t, db, nth(i), 0, nil)
		}
		dbtest.Kill(t, db, instances, kills, func() bool {
			return validate(t, db) == 0
		})

		type failure struct {
			key      string
			attempts int
		}
		waited := map[failure]time.Duration{}
		_, err := shared.Query(t.Context(), db, func(rows *sql.Rows) (f failure, err error) {
			var microseconds int64
			err = rows.Scan(&f.key, &f.attempts, &microseconds)
			assert.NotContains(t, waited, f, "twice")
			waited[f] = time.Duration(microseconds) * time.Microsecond
			return f, err
		}, "SELECT key, attempt_count, microseconds FROM transitions")
		require.NoError(t, err)
		assert.Len(t, waited, 3*partitions, "each after its first, second and third failure")
		for i := range partitions {
			p := nth(i)
			for p.attempts = 1; p.attempts <= 3; p.attempts++ {
				assert.GreaterOrEqual(t, waited[failure{p.name(), p.attempts}], d.delay(p), "early")
			}
		}
	})
}

// A context that ends in the middle of a sweep leaves nothing half done: the next
// sweep retries the remaining partitions.
func TestCanceledSweep(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		create(t, db)
		watch(t, db)
		const partitions = 60
		for i := range partitions {
			insert(t, db, nth(i), time.Hour, nil)
		}
		d, _ := newDaemon(db)
		for patience := 100 * time.Microsecond; len(pending(t, db)) < partitions; patience += patience / 4 {
			require.Less(t, patience, 5*time.Second, "no sweep gets to the end")
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			_, _ = d.sweep(ctx, selection{}) // fails in most cases
			cancel()
		}
		assert.Equal(t, partitions, transitions(t, db))
	})
}
