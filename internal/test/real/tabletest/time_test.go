//nolint:thelper // what forEach calls is the test itself
package tabletest_test

import (
	"database/sql"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytable"
	"github.com/seed-5ff3c98e/retry/retrytest"
	"github.com/seed-5ff3c98e/retry/retrytest/retrytabletest"
)

// Workers whose clocks are an hour off, in either direction, do what all others
// do.
func TestWorkerClockOff(t *testing.T) {
	t.Parallel()
	forEachTable(t, kinds, jobs, 1, func(t *testing.T, s *store, table *retrytable.Table[int64]) {
		var delays []time.Duration
		for _, off := range []time.Duration{0, time.Hour, -time.Hour} {
			run(t, s.db, "UPDATE jobs SET status = 'ready', attempts = 0, due_at = NULL, first_at = NULL")
			clock := retrytest.NewClock(time.Now().Add(off))
			p := &retry.Policy{Backoff: retry.Constant(10 * time.Minute), Clock: clock}
			row := one(t, s.db, table)
			row.State.Key = "job 1"
			d := p.Next(row.State, errWork, p.Now())
			assert.WithinDuration(t, time.Now().Add(off+d.Delay), d.At, 10*time.Second, "the worker is wrong")
			require.NoError(t, table.Fail(t.Context(), s.db, row.Lease, d))
			near(t, s.record(t, s.db, 1).due, d.Delay)
			delays = append(delays, d.Delay)
		}
		assert.Equal(t, []time.Duration{delays[0], delays[0], delays[0]}, delays)
	})
}

// The time limit of a job is measured by the clock of the database alone.
func TestElapsedByDatabaseClock(t *testing.T) {
	t.Parallel()
	forEachTable(t, kinds, jobs, 1, func(t *testing.T, s *store, table *retrytable.Table[int64]) {
		p := &retry.Policy{
			MaxElapsed: 30 * time.Minute, Backoff: retry.Constant(time.Minute), Jitter: retry.NoJitter,
			Clock: retrytest.NewClock(time.Now().Add(time.Hour)),
		}
		row := one(t, s.db, table)
		assert.True(t, p.Next(row.State, errWork, row.Now()).Retry)
		assert.False(t, p.Next(row.State, errWork, p.Now()).Retry, "the test can tell")
		require.NoError(t, table.Release(t.Context(), s.db, row.Lease))

		s.ago(t, s.db, "first_at", 1, 31*time.Minute)
		row = one(t, s.db, table)
		assert.WithinDuration(t, time.Now().Add(-31*time.Minute), row.State.First, 10*time.Second)
		d := p.Next(row.State, errWork, row.Now())
		assert.Equal(t, retry.StopElapsed, d.Stop)
		require.NoError(t, table.Fail(t.Context(), s.db, row.Lease, d))
		assert.Equal(t, "dead", s.record(t, s.db, 1).status)
	})
}

// in opens a database once more, in a session of another time zone.
func (s *store) in(t *testing.T, zone, hours string) *sql.DB {
	t.Helper()
	if s.dialect == retrytable.PostgreSQL {
		return openDB(t, s.driver, pgDSN(t, s.dsn, "timezone", zone))
	}
	settings := "time_zone=" + url.QueryEscape("'"+hours+"'")
	if !strings.Contains(s.dsn, "parseTime") {
		settings += "&parseTime=true&loc=" + url.QueryEscape(zone)
	}
	return openDB(t, s.driver, mariaDSN(s.dsn, settings))
}

// Sessions in different zones mean the same instants.
func TestSessionZones(t *testing.T) {
	t.Parallel()
	forEachTable(t, of(kinds, retrytable.PostgreSQL, retrytable.MySQL), jobs, 1, func(t *testing.T, s *store, table *retrytable.Table[int64]) {
		ctx := t.Context()
		east := s.in(t, "Pacific/Tongatapu", "+13:00")
		west := s.in(t, "Pacific/Pago_Pago", "-11:00")
		for _, from := range []retrytable.DB{east, west} {
			for _, to := range []retrytable.DB{east, west} {
				run(t, s.db, "UPDATE jobs SET status = 'ready', attempts = 0, due_at = NULL, first_at = NULL")
				run(t, from, "UPDATE jobs SET due_at = "+s.instants.Now(s.dialect))
				row := one(t, to, table)
				require.NoError(t, table.Release(ctx, to, row.Lease))
				row = one(t, from, table)
				near(t, row.Claimed, 0)
				near(t, row.State.First, 0)
				require.NoError(t, table.Extend(ctx, from, row.Lease, 30*time.Minute))
				rows := testkit.Must(table.Sweep(ctx, to, 10))(t)
				assert.Empty(t, rows)
				require.NoError(t, table.Fail(ctx, from, row.Lease, next(row, errWork)))
				rows = testkit.Must(table.Claim(ctx, to, 10))(t)
				assert.Empty(t, rows)

				s.ago(t, from, "due_at", 1, time.Second)
				row = one(t, to, table)
				near(t, row.State.First, 0)
				s.ago(t, from, "lease_until", 1, time.Second)
				rows = testkit.Must(table.Sweep(ctx, to, 10))(t)
				assert.Len(t, rows, 1)
			}
		}
	})
}

// In a transaction that has been open for a while, the delay counts from the
// statement.
func TestDelayInLongTransaction(t *testing.T) {
	t.Parallel()
	forEachTable(t, of(databases, retrytable.PostgreSQL, retrytable.MySQL), jobs, 1, func(t *testing.T, s *store, table *retrytable.Table[int64]) {
		tx := s.begin(t.Context(), t)
		row := one(t, tx, table)
		sleep := "SELECT pg_sleep(0.2)"
		if s.dialect == retrytable.MySQL {
			sleep = "DO sleep(0.2)"
		}
		run(t, tx, sleep)
		require.NoError(t, table.Fail(t.Context(), tx, row.Lease, next(row, errWork)))
		require.NoError(t, tx.Commit())
		due := s.record(t, s.db, 1).due
		assert.GreaterOrEqual(t, due.Sub(row.Claimed), time.Hour+200*time.Millisecond)
	})
}

// Nothing is early, whatever the columns cut off.
func TestNeverEarly(t *testing.T) {
	t.Parallel()
	forEachTable(t, kinds, jobs, 1, func(t *testing.T, s *store, table *retrytable.Table[int64]) {
		for i := range 20 {
			row := one(t, s.db, table)
			delay := 100*time.Millisecond + time.Duration(i)*37*time.Microsecond + 1
			p := &retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Constant(delay), Jitter: retry.NoJitter}
			require.NoError(t, table.Fail(t.Context(), s.db, row.Lease, p.Next(row.State, errWork, row.Now())))
			due := s.record(t, s.db, 1).due
			assert.GreaterOrEqual(t, due.Sub(row.Claimed), delay)
			assert.Less(t, due.Sub(row.Claimed), delay+s.unit()+10*time.Second)
			assert.Zero(t, due.UnixNano()%int64(s.unit()))
			rows := testkit.Must(table.Claim(t.Context(), s.db, 1))(t)
			if len(rows) > 0 { // the machine was slow
				assert.GreaterOrEqual(t, rows[0].Claimed, due)
			}
			run(t, s.db, "UPDATE jobs SET status = 'ready', due_at = NULL")
		}
	})
}

// The longest delays there are fit.
func TestLongestDelay(t *testing.T) {
	t.Parallel()
	forEachTable(t, kinds, jobs, 1, func(t *testing.T, s *store, table *retrytable.Table[int64]) {
		row := one(t, s.db, table)
		longest := time.Duration(1<<63 - 1)
		require.NoError(t, table.Extend(t.Context(), s.db, row.Lease, longest))
		d := next(row, errWork)
		d.Delay = longest
		require.NoError(t, table.Fail(t.Context(), s.db, row.Lease, d))
		assert.Greater(t, s.record(t, s.db, 1).due.Year(), 2300)
	})
}

// The instants of the program's own statements are those of the table.
func TestInstants(t *testing.T) {
	t.Parallel()
	forEachTable(t, kinds, jobs, 2, func(t *testing.T, s *store, table *retrytable.Table[int64]) {
		run(t, s.db, "UPDATE jobs SET due_at = "+s.instants.Now(s.dialect)+" WHERE id = 1")
		at := time.Now().Add(time.Hour)
		run(t, s.db, "UPDATE jobs SET due_at = $1 WHERE id = 2", retrytable.Instant{Time: at, As: s.instants})
		assert.Equal(t, int64(1), one(t, s.db, table).ID)
		due := retrytable.Instant{As: s.instants}
		require.NoError(t, s.db.QueryRowContext(t.Context(), "SELECT due_at FROM jobs WHERE id = 2").Scan(&due))
		assert.WithinRange(t, due.Time, at.Truncate(time.Microsecond), at.Add(s.unit()))
		assert.Equal(t, time.UTC, due.Location())
		require.NoError(t, s.db.QueryRowContext(t.Context(), "SELECT due_at FROM jobs WHERE id = 1").Scan(&due))
		assert.True(t, due.IsZero(), "it was claimed")
		require.NoError(t, s.db.QueryRowContext(t.Context(), "SELECT "+s.instants.Now(s.dialect)).Scan(&due))
		near(t, due.Time, 0)
	})
}

// With a retrytabletest.Clock, nothing happens before its time and everything at it.
func TestStoppedClock(t *testing.T) {
	t.Parallel()
	forEachTable(t, []kind{kinds[0], kinds[5]}, jobs, 1, func(t *testing.T, s *store, table *retrytable.Table[int64]) { //nolint:thelper // the test itself
		at := time.Date(2031, time.February, 3, 4, 5, 6, 0, time.UTC)
		clock := retrytabletest.NewClock(at)
		of := s.db.Driver()
		if s.driver == "pgx" {
			of = stdlib.GetDefaultDriver()
		}
		db := sql.OpenDB(clock.Connector(retrytabletest.Opener(of, s.dsn)))
		t.Cleanup(func() { assert.NoError(t, db.Close()) })
		if s.dialect == retrytable.SQLite {
			db.SetMaxOpenConns(1)
		}
		row := one(t, db, table)
		assert.Equal(t, at, row.Claimed)
		clock.Advance(time.Minute - time.Millisecond)
		swept := testkit.Must(table.Sweep(t.Context(), db, 1))(t)
		assert.Empty(t, swept)
		clock.Advance(time.Millisecond)
		swept = testkit.Must(table.Sweep(t.Context(), db, 1))(t)
		require.Len(t, swept, 1)
		require.NoError(t, table.Fail(t.Context(), db, swept[0].Lease, next(swept[0], errWork)))
		clock.Set(at.Add(time.Hour))
		assert.Empty(t, testkit.Must(table.Claim(t.Context(), db, 1))(t))
		clock.Set(at.Add(time.Hour + time.Minute))
		assert.Equal(t, 1, one(t, db, table).State.Failures)
	})
}
