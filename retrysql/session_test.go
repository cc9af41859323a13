package retrysql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"io"
	"os"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrysql"
)

// TestFreshConnection shows after which errors of a statement a connection is not
// used again, and neither are the idle ones.
func TestFreshConnection(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		opts *retrysql.TxOptions
		errs []error
		open int // of 3 connections, before the second attempt
	}{
		{"kept", nil, []error{
			pg("40001"), pg("40P01"), pg("55P03"), pg("53200"), pg("23505"), my(1213), my(1205), codes(517)["sqlite_517"],
			serverError(1205), pg("0A000"), errBusiness,
		}, 3},
		{"kept after a mistake of fn", &retrysql.TxOptions{ReadOnly: true}, []error{pg("25006")}, 3},
		{"evicted", nil, []error{
			pg("57P01"), pg("57P02"), pg("57P03"), pg("57P05"), pg("08006"), pg("08003"), pg("08P01"), pg("26000"), pg("42P05"), pg("25P03"),
			my(1053), my(1158), my(1927), my(4031), my(2013), my(3058), driver.ErrBadConn,
			serverError(596),
		}, 2},
		{"evicted with the idle ones", nil, []error{
			pg("25006"), my(1290), my(1836), my(1792), my(1209),
			my(1047), my(3797), serverError(976), serverError(3906),
			&pgAnswer{"ERROR", "0A000", "RevalidateCachedQuery"},
		}, 0},
	} {
		for _, err := range tt.errs {
			t.Run(tt.name+" "+retrysql.Classify(err).Category, func(t *testing.T) {
				t.Parallel()
				s, db := newServer(t)
				testkit.Warm(t, db, 3)
				s.on("exec", err)
				p := &retry.Policy{MaxAttempts: 1}
				require.ErrorIs(t, retrysql.InTx(t.Context(), db, p, tt.opts, update), err)
				assert.Equal(t, tt.open, db.Stats().OpenConnections)
				assert.Equal(t, 3, s.connections(), "none is opened to be closed")
			})
		}
	}
}

// TestDrainLeavesBusyConnections closes idle connections without a wait for the
// others.
func TestDrainLeavesBusyConnections(t *testing.T) {
	t.Parallel()
	s, db := newServer(t)
	testkit.Warm(t, db, 4)
	db.SetMaxOpenConns(4)
	busy := make([]*sql.Conn, 2)
	for i := range busy {
		busy[i] = testkit.Must(db.Conn(t.Context()))(t)
	}
	s.on("exec", pg("25006"))
	require.NoError(t, retrysql.InTx(t.Context(), db, quick(), nil, update))
	assert.Equal(t, 3, db.Stats().OpenConnections, "two busy ones, and that of the second attempt")
	for _, conn := range busy {
		require.NoError(t, conn.PingContext(t.Context()))
		require.NoError(t, conn.Close())
	}
}

// TestBeginOnIdleConnections fails to begin on idle connections. The first attempt replaces
// those that broke while they were idle, but not for ever.
func TestBeginOnIdleConnections(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		errs   []error
		fails  int // times
		begins bool
		opened int // connections, with the 5 idle ones
		open   int // at the end
	}{
		{"replaced", []error{
			driver.ErrBadConn, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE, pg("57P01"), unsentError{},
		}, 5, true, 6, 1},
		{"not for ever", []error{io.ErrUnexpectedEOF}, 6, false, 6, 0},
		{"times out", []error{os.ErrDeadlineExceeded}, 1, false, 5, 4},
		{"the server says no", []error{codes(5)["sqlite_5"]}, 1, false, 5, 5},
	} {
		for _, err := range tt.errs {
			t.Run(tt.name+" "+err.Error(), func(t *testing.T) {
				t.Parallel()
				s, db := newServer(t)
				testkit.Warm(t, db, 5)
				s.on("begin", slices.Repeat([]error{err}, tt.fails)...)
				got := retrysql.InTx(t.Context(), db, &retry.Policy{MaxAttempts: 1}, nil, update)
				if tt.begins {
					require.NoError(t, got)
				} else {
					require.ErrorIs(t, got, err)
				}
				assert.Equal(t, tt.opened, s.connections())
				assert.Equal(t, tt.open, db.Stats().OpenConnections)
			})
		}
	}
}

// TestLostConnectionDrains: BEGIN did not notice that the connection was dead. The others that were
// idle cost no attempts.
func TestLostConnectionDrains(t *testing.T) {
	t.Parallel()
	s, db := newServer(t)
	testkit.Warm(t, db, 10)
	s.on("exec", syscall.ECONNRESET)
	s.on("rollback", driver.ErrBadConn)
	require.NoError(t, retrysql.InTx(t.Context(), db, quick(), nil, update))
	assert.Equal(t, 11, s.connections())
	assert.Equal(t, 1, db.Stats().OpenConnections)
}

// TestRollbackFails closes the connection, unless SQLite was faster.
func TestRollbackFails(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err  error
		open int
	}{
		{io.EOF, 0},
		{errBusiness, 0},
		{pg("57P01"), 0},
		{driver.ErrBadConn, 0},
		{codes(10)["sqlite_10"], 0},
		{codes(1)["sqlite_1"], 1}, // no transaction is active
	} {
		t.Run(tt.err.Error(), func(t *testing.T) {
			t.Parallel()
			s, db := newServer(t)
			s.on("exec", pg("23505"))
			s.on("rollback", tt.err)
			err := retrysql.InTx(t.Context(), db, nil, nil, update)
			assert.Equal(t, pg("23505"), err, "the error of fn")
			assert.Equal(t, tt.open, db.Stats().OpenConnections)
		})
	}
}

// TestRollbackOutlivesTheContext has its own time, so that the connection can be
// kept.
func TestRollbackOutlivesTheContext(t *testing.T) {
	t.Parallel()
	s, db := newServer(t)
	ctx, cancel := context.WithCancel(t.Context())
	s.does("rollback", func(ctx context.Context) error { return ctx.Err() })
	err := retrysql.InTx(ctx, db, nil, nil, func(context.Context, *sql.Tx) error {
		cancel()
		return errBusiness
	})
	require.ErrorIs(t, err, errBusiness)
	assert.Equal(t, 1, db.Stats().OpenConnections)
	assert.Equal(t, []string{"open 1", "begin 1", "rollback 1"}, s.events())
}

// TestRollbackHangs is left after a while.
func TestRollbackHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, db := newServer(t)
		s.does("rollback", func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
		start := time.Now()
		err := retrysql.InTx(t.Context(), db, nil, nil, func(context.Context, *sql.Tx) error { return errBusiness })
		assert.Equal(t, errBusiness, err)
		assert.Equal(t, 5*time.Second, time.Since(start))
		assert.Zero(t, db.Stats().OpenConnections)
	})
}

// TestDrainWaitsNotLong loses the race for an idle connection, and finds the pool
// full.
func TestDrainWaitsNotLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, db := newServer(t)
		testkit.Warm(t, db, 2)
		s.on("exec", pg("25006"))
		s.does("close", func(context.Context) error {
			s.does("open", func(ctx context.Context) error { // for the connection that drain asks for
				<-ctx.Done()
				return ctx.Err()
			})
			s.on("reset", driver.ErrBadConn, driver.ErrBadConn)
			return nil
		})
		start := time.Now()
		err := retrysql.InTx(t.Context(), db, &retry.Policy{MaxAttempts: 1}, nil, update)
		require.ErrorIs(t, err, retry.StopAttempts)
		assert.Equal(t, 100*time.Millisecond, time.Since(start))
	})
}
