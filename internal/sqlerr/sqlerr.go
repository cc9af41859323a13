// Package sqlerr knows the errors of package sql and of its drivers, for the packages that
// run statements.
package sqlerr

import (
	"database/sql/driver"

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

// node classifies what retry.Classify must not know of one error: by a part of its text, and by
// the value of a package that it does not link. A panic is no opinion.
func node(err error) (v retry.Verdict) {
	defer func() { _ = recover() }()
	if known.Mute(err) {
		return textVerdict(err.Error())
	}
	if e, ok := err.(interface{ Is(error) bool }); ok { // go-mssqldb's RetryableError
		if bad, _ := errtree.Try(func() bool { return e.Is(driver.ErrBadConn) }); bad {
			return verdict.Unapplied(BadConn)
		}
	}
	return retry.Verdict{}
}

// textVerdict classifies errors that have only a text, because an ORM may have put the text of
// a driver's error into one.
func textVerdict(text string) retry.Verdict {
	if number, state, ok := mysqlText(text); ok {
		return verdict.Of(known.MySQL(number, state))
	}
	if code := sqliteText(text); code != 0 {
		return verdict.Of(known.SQLite(code))
	}
	return retry.Verdict{}
}
