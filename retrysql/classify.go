package retrysql

import (
	"database/sql"
	"database/sql/driver"
	"path"
	"reflect"
	"strings"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/errtree"
	"github.com/seed-5ff3c98e/retry/internal/known"
	"github.com/seed-5ff3c98e/retry/internal/verdict"
)

// Classify is [retry.Classify] with the errors of database/sql and its drivers.
// The unit of a retry is the whole transaction: a verdict of NotApplied means
// that the transaction was rolled back, or never began. Repeating a single
// statement in an open transaction never helps.
//
// It adds:
//
//   - sql.ErrNoRows and sql.ErrTxDone are Final. driver.ErrBadConn and
//     sql.ErrConnDone are Retryable: they promise that nothing was sent. (lib/pq
//     1.12, and pgx 5.12 with the SafeToRetry of its errors, break that promise
//     when a connection ends in the middle of a statement. InTx does not rely on
//     it where it matters, at the commit.)
//   - MySQL, MariaDB and TiDB, by the number in the errors of their drivers, and
//     "invalid connection", which may have taken effect.
//   - SQLite, by the code in the errors of modernc.org/sqlite, ncruces/go-sqlite3
//     and mattn/go-sqlite3. BUSY and LOCKED are Retryable.
//   - PostgreSQL's "cached plan must not change result type" is Retryable, because
//     a new connection cures it, and so is a BEGIN that a standby refuses. Errors raised
//     in PL/pgSQL (class P0) are Final, and so is the commit of a transaction in which a
//     statement had failed.
//   - PgBouncer has one code, 08P01, for all its failures: a server that is down, one that
//     has crashed, but also a wrong password. They are Retryable. The same code with a
//     severity other than FATAL is PostgreSQL's protocol violation, and Final.
//
// Categories are "sql_40001" with the SQLSTATE, "mysql_1213" and "mssql_1205" with the
// error number, and "sqlite_517" with the extended result code. Other codes of MySQL and
// SQLite are Unknown, with a category: a Policy retries them, and for InTx they are
// Final. The errors of a statement that was stopped (57014, 1317, 3024, SQLite's
// INTERRUPT) are Final; if the timeout of an attempt stopped it, a Policy and InTx know
// that before they classify.
//
// Text is read only in errors of the type that errors.New returns: an ORM may
// turn a driver's error into such an error.
func Classify(err error) retry.Verdict { return classify(err) }

var classify = retry.Extend(node)

// Categories that InTx looks for.
const (
	badConn    = "sql_bad_conn"
	connDone   = "sql_conn_done"
	txDone     = "sql_tx_done"
	noRows     = "sql_no_rows"
	notHere    = "sql_0A000" // if Retryable: a new connection is likely to help
	readOnlyTx = "sql_25006"
)

// sentinels are the error variables of database/sql.
var sentinels = []struct {
	err     error
	verdict retry.Verdict
}{
	{sql.ErrNoRows, verdict.Permanent(noRows)},
	{sql.ErrTxDone, verdict.Permanent(txDone)},
	{sql.ErrConnDone, verdict.Unapplied(connDone)},
	{driver.ErrBadConn, verdict.Unapplied(badConn)},
}

// node classifies one error and not the errors that it wraps.
func node(err error) retry.Verdict {
	for i := range sentinels {
		if err == sentinels[i].err { //nolint:errorlint // the tree is walked already
			return sentinels[i].verdict
		}
	}
	t := reflect.TypeOf(err)
	if t == plainType {
		return textVerdict(err.Error())
	}
	if state := sqlState(err); state != "" {
		return stateVerdict(state, err)
	}
	if v := typeVerdict(t, err); v != (retry.Verdict{}) {
		return v
	}
	if e, ok := err.(interface{ Is(error) bool }); ok { // go-mssqldb's RetryableError
		if bad, _ := errtree.Try(func() bool { return e.Is(driver.ErrBadConn) }); bad {
			return verdict.Unapplied(badConn)
		}
	}
	return retry.Verdict{}
}

// sqlState returns the SQLSTATE that an error of pgx or lib/pq has.
func sqlState(err error) string {
	e, ok := err.(interface{ SQLState() string })
	if !ok {
		return ""
	}
	state, _ := errtree.Try(e.SQLState)
	return state
}

// stateVerdict classifies the SQLSTATEs that the root package does not know.
func stateVerdict(state string, err error) retry.Verdict {
	switch {
	case state == "0A000": // feature_not_supported, mostly
		text, _ := errtree.Try(err.Error)
		if strings.Contains(text, "cached plan must not change result type") || onStandby(err) {
			return verdict.Unapplied(notHere)
		}
	case state == "08P01", state == "58000": // protocol_violation, system_error
		switch severity := field(err, "Severity"); {
		case severity == "FATAL": // PgBouncer and PgCat have no other codes for their own failures
			return verdict.Transient("sql_" + state)
		case severity != "" && state == "08P01":
			return verdict.Permanent("sql_08P01")
		}
	case len(state) == 5 && state[:2] == "P0": // PL/pgSQL, RAISE EXCEPTION
		return verdict.Permanent("sql_" + state)
	}
	return retry.Verdict{}
}

// onStandby reports whether BEGIN asked for a transaction that a standby cannot have: one
// that writes (lib/pq asks for it), or a serializable one. The text of these errors is in
// the language of the server, so this looks at the functions of PostgreSQL that fail: the
// checks of two settings, and the snapshot of a transaction that is serializable by
// default.
func onStandby(err error) bool {
	switch field(err, "Routine") {
	case "call_bool_check_hook", "call_enum_check_hook", "GetSerializableTransactionSnapshot":
		return true
	default:
		return false
	}
}

// field reads a text field of the errors of pgx and lib/pq.
func field(err error, name string) string {
	e := reflect.Indirect(reflect.ValueOf(err))
	if e.Kind() != reflect.Struct {
		return ""
	}
	if f := e.FieldByName(name); f.IsValid() && f.Kind() == reflect.String {
		return f.String()
	}
	return ""
}

// typeVerdict knows the error types of drivers by their names, and reads their
// fields by reflection, so that a program links no driver because of this
// package.
func typeVerdict(t reflect.Type, err error) retry.Verdict {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch path.Base(t.PkgPath()) {
	case "mysql":
		if number, state, ok := mysqlError(t, err); ok {
			return verdict.Of(known.MySQL(number, state))
		}
	case "sqlite", "sqlite3", "go-sqlite", "go-sqlite3":
		if code := sqliteCode(t, err); code != 0 {
			return verdict.Of(known.SQLite(code))
		}
	}
	return retry.Verdict{}
}

// plainType is the type of the errors of errors.New, and of fmt.Errorf without
// %w.
var plainType = reflect.TypeOf(sql.ErrNoRows)

// textVerdict classifies errors that have only a text.
func textVerdict(text string) retry.Verdict {
	switch text {
	case "invalid connection": // mysql.ErrInvalidConn: something was sent
		return verdict.Transient(mysqlInvalidConn)
	case "commit unexpectedly resulted in rollback", // pgx.ErrTxCommitRollback
		"pq: could not complete operation in a failed transaction", // pq.ErrInFailedTransaction
		"pq: Could not complete operation in a failed transaction":
		return verdict.Permanent("sql_25P02")
	}
	if number, state, ok := mysqlText(text); ok {
		return verdict.Of(known.MySQL(number, state))
	}
	if code := sqliteText(text); code != 0 {
		return verdict.Of(known.SQLite(code))
	}
	return retry.Verdict{}
}
