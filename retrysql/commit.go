package retrysql

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/done"
	"github.com/seed-5ff3c98e/retry/internal/errtree"
	"github.com/seed-5ff3c98e/retry/internal/known"
	"github.com/seed-5ff3c98e/retry/internal/sqlerr"
)

// commit commits, unless the context has ended.
func (t *transaction) commit(ctx context.Context, s *session) error {
	if done.Is(ctx) {
		return t.failed(s, context.Cause(ctx))
	}
	var err error
	s.over = true
	interrupted := s.during(ctx, func() { err = s.tx.Commit() })
	switch {
	case err == nil:
		return nil
	case !interrupted && err == sql.ErrTxDone: //nolint:errorlint // of package sql, not of the driver
		t.open = true // it may have been a commit
		return retry.MarkFinal(errEnded)
	case !rolledBack(err):
		s.evict = true
		return t.unknown(err)
	}
	v := Classify(err)
	t.blame(s, v)
	s.rollbackCommit(ctx, v)
	return err
}

// unknown returns the failure of a commit that may have taken effect.
func (t *transaction) unknown(err error) error {
	t.open = true
	v := retry.Verdict{Class: retry.Final, Category: "commit_unknown"}
	if t.opts.Idempotent || t.opts.ReadOnly {
		v.Class, v.NotApplied = retry.Retryable, true // treated as not applied: it may be repeated
	}
	return retry.Mark(&commitError{err}, v)
}

// commitError is the error of a commit whose outcome is unknown.
type commitError struct{ err error }

func (e *commitError) Error() string { return ErrCommitUnknown.Error() + ": " + e.err.Error() }

func (e *commitError) Unwrap() error { return e.err }

func (e *commitError) Is(target error) bool { return target == ErrCommitUnknown }

// rolledBack reports whether the error of a commit proves that it had no effect:
// the server says so. Nothing else proves it, no errno and no failed dial, because the
// driver may have tried the commit before. driver.ErrBadConn and the SafeToRetry of pgx
// promise that nothing was sent, but drivers also return them if the connection ends
// before the answer comes (lib/pq 1.12, pgx 5.12).
func rolledBack(err error) bool {
	var e interface{ SQLState() string }
	if errors.As(err, &e) {
		state, _ := errtree.Try(e.SQLState)
		return stateRolledBack(state)
	}
	v := Classify(err)
	switch v.Category {
	case sqlerr.BadConn, sqlerr.TxDone, sqlerr.ConnDone, sqlerr.NoRows: // from package sql, not from a server
		return false
	case "mysql_1317", "mysql_1969", "mysql_3024": // stopped, perhaps after the commit
		return false
	}
	if code, ok := strings.CutPrefix(v.Category, "sqlite_"); ok {
		return sqliteRolledBack(code)
	}
	return answered(v) && (v.Class == retry.Final || v.NotApplied)
}

// sqliteRolledBack reports whether the result code of a COMMIT leaves the
// transaction open or undone. It does, unless the file could not be written or
// read.
func sqliteRolledBack(code string) bool {
	n, err := strconv.Atoi(code)
	if err != nil {
		return false
	}
	switch n & 0xff {
	case known.SQLiteIOErr, known.SQLiteCorrupt, known.SQLiteNotADB:
		return false
	default:
		return true
	}
}

// stateRolledBack reports whether a COMMIT that failed with a SQLSTATE was a
// rollback. Other states may come from a connection or a server that ended
// during the COMMIT, or after it, as CockroachDB's XXA00; and CockroachDB's
// 57014 may hide a 40003.
func stateRolledBack(state string) bool {
	certain := []string{
		"40",                                     // rolled back, except 40003
		"0A", "21", "22", "23", "42", "44", "P0", // by a deferred constraint or its trigger
		"25", "26", "53", "54", "55",
	}
	switch {
	case len(state) != 5 || state == "40003":
		return false
	case state == "CR000":
		return true
	default:
		return slices.Contains(certain, state[:2])
	}
}

// rollbackCommit rolls back a transaction that a failed COMMIT may have left
// open: in MySQL and SQLite a failed COMMIT can be repeated, although package sql
// considers the transaction ended.
func (s *session) rollbackCommit(ctx context.Context, v retry.Verdict) {
	if s.evict || !strings.HasPrefix(v.Category, "mysql_") && !strings.HasPrefix(v.Category, "sqlite_") {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackGrace)
	defer cancel()
	_, err := s.conn.ExecContext(ctx, "ROLLBACK")
	s.evict = err != nil && Classify(err).Category != sqliteNoTx
}
