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

// unknown is the failure of a commit that may have taken effect.
func (t *transaction) unknown(err error) error {
	t.open = true
	v := retry.Verdict{Class: retry.Final, Category: "commit_unknown"}
	if t.opts.Idempotent || t.opts.ReadOnly {
		v.Class, v.NotApplied = retry.Retryable, true // as good as
	}
	return retry.Mark(&commitError{err}, v)
}

// commitError is the error of a commit whose outcome is unknown.
type commitError struct{ err error }

func (e *commitError) Error() string { return ErrCommitUnknown.Error() + ": " + e.err.Error() }

func (e *commitError) Unwrap() error { return e.err }

func (e *commitError) Is(target error) bool { return target == ErrCommitUnknown }

// rolledBack reports whether the error of a commit proves that it had no effect:
// whether a server says so. Drivers promise that nothing was sent by
// driver.ErrBadConn and pgx by SafeToRetry, but they do that also if the
// connection ends before the answer comes (lib/pq 1.12, pgx 5.12).
func rolledBack(err error) bool {
	var e interface{ SQLState() string }
	if errors.As(err, &e) {
		state, _ := errtree.Try(e.SQLState)
		return stateRolledBack(state)
	}
	v := Classify(err)
	switch v.Category {
	case badConn, txDone, connDone: // from package sql, not from a server
		return false
	case "mysql_1317", "mysql_1969", "mysql_3024": // stopped, but where?
		return false
	}
	if code, ok := strings.CutPrefix(v.Category, "sqlite_"); ok {
		return sqliteRolledBack(code)
	}
	return answered(v) && (v.Class == retry.Final || v.NotApplied)
}

// sqliteRolledBack says that the result code of a COMMIT leaves the transaction
// open or undone, which holds unless the file could not be written or read.
func sqliteRolledBack(code string) bool {
	n, err := strconv.Atoi(code)
	if err != nil {
		return false
	}
	switch n & 0xff {
	case sqliteIOErr, sqliteCorrupt, sqliteNotADB:
		return false
	default:
		return true
	}
}

// stateRolledBack says that a COMMIT that was answered with a SQLSTATE was a
// rollback. What is not listed may come from a connection or a server that ended
// in the middle of it, or after it, as CockroachDB's XXA00; and a 57014 that
// CockroachDB sends may hide a 40003.
func stateRolledBack(state string) bool {
	certain := []string{
		"40",                                     // rolled back, but for 40003
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

// rollbackCommit rolls back what a COMMIT may have left open: in MySQL and SQLite
// it can fail and be tried again, while package sql takes the transaction for
// over.
func (s *session) rollbackCommit(ctx context.Context, v retry.Verdict) {
	if s.evict || !strings.HasPrefix(v.Category, "mysql_") && !strings.HasPrefix(v.Category, "sqlite_") {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackGrace)
	defer cancel()
	_, err := s.conn.ExecContext(ctx, "ROLLBACK")
	s.evict = err != nil && Classify(err).Category != sqliteNoTx
}
