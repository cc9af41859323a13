package retrysql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrysql"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// TestCommitFails goes through the errors that a commit can fail with.
func TestCommitFails(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		outcome string // retried, final, unknown
		errs    []error
	}{
		{"retried", []error{
			pg("40001"), pg("40P01"), pg("CR000"), pg("55P03"), pg("53200"), pg("25006"),
			my(1213), my(1205), my(3101), my(1290), my(8022), my(9007), fmt.Errorf("x: %w", my(1213)),
			codes(5)["sqlite_5"], codes(517)["sqlite_517"], serverError(1205), serverError(3960),
		}},
		{"final", []error{
			pg("40000"), pg("40002"), pg("23505"), pg("23503"), pg("P0001"), pg("22012"), pg("42P01"), pg("25P02"), pg("53100"),
			my(1062), my(1452), codes(19)["sqlite_19"], codes(787)["sqlite_787"], codes(13)["sqlite_13"], codes(9)["sqlite_9"],
			errors.New("commit unexpectedly resulted in rollback"),
			errors.New("pq: could not complete operation in a failed transaction"),
		}},
		{"unknown", []error{
			pg("40003"), pg("08007"), pg("08006"), pg("08000"), pg("08P01"), pg("57P01"), pg("57P02"), pg("57P05"),
			pg("XX000"), pg("XXA00"), pg("58030"), pg("57014"), pg(""), pg("4000"),
			my(1053), my(1927), my(1158), my(4031), my(1317), my(3024), my(1969), my(1180), my(1105), my(9002),
			my(1047), my(3100), my(2013), serverError(976), serverError(3303),
			&pgAnswer{Severity: "FATAL", Code: "08P01"}, &pgAnswer{Severity: "ERROR", Code: "08P01"},
			errors.New("invalid connection"),
			codes(10)["sqlite_10"], codes(1034)["sqlite_1034"], codes(11)["sqlite_11"], codes(26)["sqlite_26"],
			serverError(10054), serverError(40197), serverError(40501), serverError(50000),
			driver.ErrBadConn,
			unsentError{},
			badConnError{io.EOF},
			&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)},
			&net.OpError{Op: "write", Err: os.NewSyscallError("write", syscall.ENOBUFS)},
			&net.DNSError{IsTemporary: true}, syscall.EMFILE, syscall.EINTR, sql.ErrNoRows,
			sql.ErrConnDone, io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE,
			syscall.ECONNREFUSED, os.ErrDeadlineExceeded, context.Canceled, context.DeadlineExceeded, errBusiness,
		}},
	} {
		for _, err := range tt.errs {
			t.Run(fmt.Sprintf("%s %T %v", tt.outcome, err, err), func(t *testing.T) {
				t.Parallel()
				testCommitFails(t, tt.outcome, err)
			})
		}
	}
}

func testCommitFails(t *testing.T, outcome string, failure error) {
	t.Helper()
	category := retrysql.Classify(failure).Category
	readOnly := category == "sql_25006" || category == "mysql_1290" // Final for a transaction that is read-only on purpose
	for _, opts := range []retrysql.TxOptions{{}, {Idempotent: true}, {ReadOnly: true}} {
		for _, classifier := range []retry.Classifier{nil, retrysql.Classify} {
			if opts.ReadOnly && classifier != nil {
				continue
			}
			s, db := newServer(t)
			s.on("commit", failure)
			p := quick()
			p.Classifier, p.NonIdempotent = classifier, true
			err := retrysql.InTx(t.Context(), db, p, &opts, update)
			events := strings.Join(s.events(), ", ")
			what := fmt.Sprintf("%+v, with a classifier: %t", opts, classifier != nil)
			testkit.Idle(t, db)
			switch {
			case outcome == "unknown" && opts == retrysql.TxOptions{}:
				require.ErrorIs(t, err, retrysql.ErrCommitUnknown, what)
				require.ErrorIs(t, err, failure, what)
				assert.ErrorContains(t, err, "retrysql: the outcome of the commit is unknown: "+failure.Error())
				assert.Equal(t, 1, strings.Count(events, "commit"), what)
				assert.Equal(t, 0, db.Stats().OpenConnections, "the connection is not used again")
			case outcome == "final", opts.ReadOnly && readOnly:
				assert.True(t, err == failure, "%s: %#v", what, err)
				assert.Equal(t, 1, strings.Count(events, "commit"), what)
			default:
				require.NoError(t, err, what)
				assert.Equal(t, 2, strings.Count(events, "commit"), what)
			}
		}
	}
}

// TestCommitUnknownRepeated gives up in the end, and the error is still
// ErrCommitUnknown.
func TestCommitUnknownRepeated(t *testing.T) {
	t.Parallel()
	s, db := newServer(t)
	s.on("commit", io.EOF, io.EOF, io.EOF)
	err := retrysql.InTx(t.Context(), db, quick(), &retrysql.TxOptions{Idempotent: true}, update)
	require.ErrorIs(t, err, retry.StopAttempts)
	require.ErrorIs(t, err, retrysql.ErrCommitUnknown)
	require.ErrorIs(t, err, io.EOF)
}

// TestCommitInterrupted ends the context of the caller or of the attempt while the server does
// not answer. The driver learns of it by the context that it got with BEGIN, as pgx does. The
// timeout of an attempt would be retried if it were not a commit; a success counts, whatever
// the context.
func TestCommitInterrupted(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name       string
		timeout    bool // of the attempt
		succeeds   bool
		idempotent bool
		want       error
		stop       error
		opened     int
	}{
		{name: "canceled", want: retrysql.ErrCommitUnknown, stop: retry.StopCanceled, opened: 1},
		{name: "times out", timeout: true, want: retrysql.ErrCommitUnknown, opened: 1},
		{name: "times out, idempotent", timeout: true, idempotent: true, opened: 2},
		{name: "succeeds late", succeeds: true, opened: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, db := newServer(t)
			clock := &retrytest.Clock{}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s.does("commit", func(ctx context.Context) error {
				if tt.timeout {
					clock.Advance(time.Minute)
				} else {
					cancel()
				}
				<-ctx.Done()
				if tt.succeeds {
					return nil
				}
				return ctx.Err()
			})
			p := &retry.Policy{Clock: clock, AttemptTimeout: time.Second}
			err := retrysql.InTx(ctx, db, p, &retrysql.TxOptions{Idempotent: tt.idempotent}, update)
			require.ErrorIs(t, err, tt.want)
			if tt.stop != nil {
				require.ErrorIs(t, err, context.Canceled)
				require.ErrorIs(t, err, tt.stop)
			}
			assert.Equal(t, tt.opened, s.connections())
			assert.Equal(t, tt.want != nil || tt.idempotent, slices.Contains(s.events(), "close 1"))
		})
	}
}

// TestCommitLeavesOpen rolls back a transaction that MySQL and SQLite keep open
// after a failed COMMIT, although package sql considers it ended.
func TestCommitLeavesOpen(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		err      error
		rollback error
		want     []string // between the two commits
	}{
		{"MySQL", my(1290), nil, []string{"close 1", "open 2", "begin 2", "exec 2 UPDATE"}}, // read-only: evicted anyway
		{"MySQL locked", my(1205), nil, []string{"exec 1 ROLLBACK", "begin 1", "exec 1 UPDATE"}},
		{"SQLite", codes(5)["sqlite_5"], nil, []string{"exec 1 ROLLBACK", "begin 1", "exec 1 UPDATE"}},
		{
			"SQLite that has rolled back", codes(5)["sqlite_5"], codes(1)["sqlite_1"],
			[]string{"exec 1 ROLLBACK", "begin 1", "exec 1 UPDATE"},
		},
		{
			"SQLite that fails", codes(5)["sqlite_5"], codes(10)["sqlite_10"],
			[]string{"exec 1 ROLLBACK", "close 1", "open 2", "begin 2", "exec 2 UPDATE"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, db := newServer(t)
			s.keepsOpen = true
			s.on("commit", tt.err)
			s.on("exec", nil, tt.rollback)
			require.NoError(t, retrysql.InTx(t.Context(), db, quick(), nil, update))
			events := s.events()
			assert.Equal(t, tt.want, events[4:len(events)-1])
		})
	}
}

func TestAfterCommit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		op   string // that fails
		errs []error
		opts *retrysql.TxOptions
		want []string // what is called
		err  error
	}{
		{"committed", "", nil, nil, []string{"1a", "1b"}, nil},
		{"a rolled back attempt", "exec", []error{pg("40001")}, nil, []string{"2a", "2b"}, nil},
		{"a commit that is refused", "commit", []error{pg("40001"), pg("40001")}, nil, []string{"3a", "3b"}, nil},
		{"rolled back for good", "exec", []error{errBusiness}, nil, nil, errBusiness},
		{"out of attempts", "commit", []error{pg("40001"), pg("40001"), pg("40001")}, nil, nil, nil},
		{"a commit of unknown outcome", "commit", []error{driver.ErrBadConn}, nil, nil, retrysql.ErrCommitUnknown},
		{
			"one that is repeated", "commit",
			[]error{driver.ErrBadConn},
			&retrysql.TxOptions{Idempotent: true},
			[]string{"2a", "2b"},
			nil,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, db := newServer(t)
			s.on(tt.op, tt.errs...)
			var called []string
			attempt := 0
			err := retrysql.InTx(t.Context(), db, quick(), tt.opts, func(ctx context.Context, tx *sql.Tx) error {
				attempt++
				this := attempt
				for _, name := range []string{"a", "b"} {
					retrysql.AfterCommit(ctx, func(ctx context.Context) {
						called = append(called, fmt.Sprint(this, name))
						testkit.Idle(t, db)
						assert.Equal(t, t.Context(), ctx)
					})
				}
				assert.Empty(t, called, "not before the commit")
				return update(ctx, tx)
			})
			assert.Equal(t, tt.want, called)
			assert.Equal(t, tt.want != nil, err == nil)
			if tt.err != nil {
				assert.ErrorIs(t, err, tt.err)
			}
		})
	}
}

// A panic after the commit undoes nothing, and passes through.
func TestAfterCommitPanics(t *testing.T) {
	t.Parallel()
	s, db := newServer(t)
	assert.PanicsWithValue(t, "hook", func() {
		_ = retrysql.InTx(t.Context(), db, quick(), nil, func(ctx context.Context, _ *sql.Tx) error {
			retrysql.AfterCommit(ctx, func(context.Context) { panic("hook") })
			retrysql.AfterCommit(ctx, func(context.Context) { t.Error("called") })
			return nil
		})
	})
	assert.Equal(t, []string{"open 1", "begin 1", "commit 1"}, s.events())
}

// A transaction in a transaction has its own.
func TestAfterCommitNested(t *testing.T) {
	t.Parallel()
	_, db := newServer(t)
	var called []string
	require.NoError(t, retrysql.InTx(t.Context(), db, nil, nil, func(ctx context.Context, _ *sql.Tx) error {
		retrysql.AfterCommit(ctx, func(context.Context) { called = append(called, "outer") })
		return retrysql.InTx(ctx, db, nil, nil, func(ctx context.Context, _ *sql.Tx) error {
			retrysql.AfterCommit(ctx, func(context.Context) { called = append(called, "inner") })
			return nil
		})
	}))
	assert.Equal(t, []string{"inner", "outer"}, called)
}

// A function that is handed to no transaction would never be called.
func TestAfterCommitOutside(t *testing.T) {
	t.Parallel()
	assert.PanicsWithValue(t, "retrysql: AfterCommit: the context is not that of a function of InTx", func() {
		retrysql.AfterCommit(t.Context(), func(context.Context) {})
	})
}

func ExampleAfterCommit() {
	db := openDB()
	defer func() { _ = db.Close() }()
	err := retrysql.InTx(context.Background(), db, quick(), nil, func(ctx context.Context, tx *sql.Tx) error {
		retrysql.AfterCommit(ctx, func(context.Context) { fmt.Println("tell the customer") })
		for range 2 { // the second one conflicts with another transaction, once
			if _, err := tx.ExecContext(ctx, "UPDATE"); err != nil {
				fmt.Println("rolled back")
				return err
			}
		}
		return nil
	})
	fmt.Println(err)
	// Output:
	// rolled back
	// tell the customer
	// <nil>
}
