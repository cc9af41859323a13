// Package sqlerr knows the errors of package sql and of its drivers, for the packages that
// run statements.
package sqlerr

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

// Classify is the Classify of package retrysql; see there.
func Classify(err error) retry.Verdict { return classify(err) }

var classify = retry.Extend(node)

// Categories that say what to do about the connection.
const (
	BadConn     = "sql_bad_conn"
	ConnDone    = "sql_conn_done"
	TxDone      = "sql_tx_done"
	NoRows      = "sql_no_rows"
	NotHere     = "sql_0A000" // if Retryable: a new connection is likely to help
	ReadOnlyTx  = "sql_25006"
	InvalidConn = "mysql_invalid_conn"
)

// sentinels are the error variables of database/sql.
var sentinels = []struct {
	err     error
	verdict retry.Verdict
}{
	{sql.ErrNoRows, verdict.Permanent(NoRows)},
	{sql.ErrTxDone, verdict.Permanent(TxDone)},
	{sql.ErrConnDone, verdict.Unapplied(ConnDone)},
	{driver.ErrBadConn, verdict.Unapplied(BadConn)},
}

// node classifies one error and not the errors that it wraps. A panic is no opinion.
func node(err error) (v retry.Verdict) {
	defer func() { _ = recover() }()
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
	if v = typeVerdict(t, err); v != (retry.Verdict{}) {
		return v
	}
	if e, ok := err.(interface{ Is(error) bool }); ok { // go-mssqldb's RetryableError
		if bad, _ := errtree.Try(func() bool { return e.Is(driver.ErrBadConn) }); bad {
			return verdict.Unapplied(BadConn)
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
			return verdict.Unapplied(NotHere)
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
		return verdict.Transient(InvalidConn)
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
