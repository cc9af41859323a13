package tabletest_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/retrytable"
	"github.com/seed-5ff3c98e/retry/retrytest/retrytabletest"
)

// With a retrytabletest.Clock, nothing happens before its time and everything at it.
func TestStoppedClock(t *testing.T) {
	t.Parallel()
	forEach(t, []kind{kinds[0], kinds[5]}, func(t *testing.T, s *store) { //nolint:thelper // the test itself
		table := jobs()
		s.create(t, table, 1)
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
		swept, err := table.Sweep(t.Context(), db, 1)
		require.NoError(t, err)
		assert.Empty(t, swept)
		clock.Advance(time.Millisecond)
		swept, err = table.Sweep(t.Context(), db, 1)
		require.NoError(t, err)
		require.Len(t, swept, 1)
		require.NoError(t, table.Fail(t.Context(), db, swept[0].Lease, next(swept[0], errWork)))
		clock.Set(at.Add(time.Hour))
		rows, err := table.Claim(t.Context(), db, 1)
		require.NoError(t, err)
		assert.Empty(t, rows)
		clock.Set(at.Add(time.Hour + time.Minute))
		assert.Equal(t, 1, one(t, db, table).State.Failures)
	})
}
