package retrysql

import (
	"database/sql"
	"database/sql/driver"
	"path"
	"reflect"
	"strings"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/errtree"
)

// Classify is [retry.Classify] with what it cannot know without database/sql and
// the habits of its drivers. The unit of a retry is the whole transaction: a
// verdict of NotApplied means that the transaction was rolled back, or never
// began. To repeat a single statement in an open transaction never helps.
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
//     a new connection cures it. Errors raised in PL/pgSQL (class P0) are Final,
//     and so is the commit of a transaction in which a statement had failed.
//
// Categories are "sql_40001" with the SQLSTATE, "mysql_1213" and "mssql_1205"
// with the error number, and "sqlite_517" with the extended result code. Codes of
// MySQL and SQLite that nobody has an opinion about are Unknown, with a category:
// a Policy retries them, and for InTx they are Final. Errors that a server sent because somebody stopped
// the statement (57014, 1317, 3024, SQLite's INTERRUPT) are Final; if it was the
// timeout of an attempt, a Policy and InTx know that without asking.
//
// Text is looked at in errors of no type but errors.New's only, such as an ORM
// may leave of a driver's error.
func Classify(err error) retry.Verdict { return classify(err) }

var classify = retry.Extend(node)

// Categories that InTx looks for.
const (
	badConn    = "sql_bad_conn"
	connDone   = "sql_conn_done"
	txDone     = "sql_tx_done"
	cachedPlan = "sql_0A000"
	readOnlyTx = "sql_25006"
)

func final(category string) retry.Verdict {
	return retry.Verdict{Class: retry.Final, Category: category}
}

// again is the verdict for a transaction that may have taken effect.
func again(category string) retry.Verdict {
	return retry.Verdict{Class: retry.Retryable, Category: category}
}

// anew is the verdict for a transaction that had no effect.
func anew(category string) retry.Verdict {
	return retry.Verdict{Class: retry.Retryable, NotApplied: true, Category: category}
}

// limited is the verdict for a transaction that was refused for its load.
func limited(category string) retry.Verdict {
	return retry.Verdict{Class: retry.RateLimited, NotApplied: true, Category: category}
}

// sentinels are the error variables of database/sql.
var sentinels = []struct {
	err     error
	verdict retry.Verdict
}{
	{sql.ErrNoRows, final("sql_no_rows")},
	{sql.ErrTxDone, final(txDone)},
	{sql.ErrConnDone, anew(connDone)},
	{driver.ErrBadConn, anew(badConn)},
}

// node judges one error and not what it wraps.
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
			return anew(badConn)
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

// stateVerdict adds to what the core knows of SQLSTATE.
func stateVerdict(state string, err error) retry.Verdict {
	switch {
	case state == "0A000": // feature_not_supported, mostly
		text, _ := errtree.Try(err.Error)
		if strings.Contains(text, "cached plan must not change result type") {
			return anew(cachedPlan)
		}
	case len(state) == 5 && state[:2] == "P0": // PL/pgSQL, RAISE EXCEPTION
		return final("sql_" + state)
	}
	return retry.Verdict{}
}

// typeVerdict knows the error types of drivers by their names, and their values
// by reflection: to look at a field costs a program nothing that it does not
// link anyway.
func typeVerdict(t reflect.Type, err error) retry.Verdict {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch path.Base(t.PkgPath()) {
	case "mysql":
		if number, state, ok := mysqlError(t, err); ok {
			return mysqlVerdict(number, state)
		}
	case "sqlite", "sqlite3", "go-sqlite", "go-sqlite3":
		if code := sqliteCode(t, err); code != 0 {
			return sqliteVerdict(code)
		}
	}
	return retry.Verdict{}
}

// plainType is the type of what errors.New makes, and fmt.Errorf without %w.
var plainType = reflect.TypeOf(sql.ErrNoRows)

// textVerdict judges errors that have nothing but a text.
func textVerdict(text string) retry.Verdict {
	switch text {
	case "invalid connection": // mysql.ErrInvalidConn: something was sent
		return again(mysqlInvalidConn)
	case "commit unexpectedly resulted in rollback", // pgx.ErrTxCommitRollback
		"pq: could not complete operation in a failed transaction", // pq.ErrInFailedTransaction
		"pq: Could not complete operation in a failed transaction":
		return final("sql_25P02")
	}
	if number, state, ok := mysqlText(text); ok {
		return mysqlVerdict(number, state)
	}
	if code := sqliteText(text); code != 0 {
		return sqliteVerdict(code)
	}
	return retry.Verdict{}
}
