// Package sqlerr knows the errors of package sql and of its drivers, for the packages that
// run statements.
package sqlerr

import (
	"database/sql/driver"
	"strconv"
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

// mysqlText reads the text of go-sql-driver's errors: "Error 1213 (40001): …" or
// "Error 1213: …".
func mysqlText(text string) (number int, state string, ok bool) {
	head, _, ok := strings.Cut(text, ": ")
	if !ok {
		return 0, "", false
	}
	head, ok = strings.CutPrefix(head, "Error ")
	if !ok {
		return 0, "", false
	}
	digits, state, stated := strings.Cut(head, " (")
	if stated {
		state, ok = strings.CutSuffix(state, ")")
		if !ok || len(state) != 5 {
			return 0, "", false
		}
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	return int(n), state, err == nil
}

// sqliteText finds the two retryable codes in a text, which may have the
// extended code in parentheses: "database is locked (5) (SQLITE_BUSY)".
func sqliteText(text string) int {
	switch {
	case strings.Contains(text, "database table is locked"), strings.Contains(text, "(SQLITE_LOCKED"):
		return extended(text, known.SQLiteLocked)
	case strings.Contains(text, "database is locked"), strings.Contains(text, "(SQLITE_BUSY"):
		return extended(text, known.SQLiteBusy)
	default:
		return 0
	}
}

// extended returns the last number in parentheses that extends a code, or the
// code itself.
func extended(text string, code int) int {
	for {
		i := strings.LastIndexByte(text, '(')
		if i < 0 {
			return code
		}
		digits, _, _ := strings.Cut(text[i+1:], ")")
		if n, err := strconv.ParseUint(digits, 10, 16); err == nil && int(n)&0xff == code {
			return int(n)
		}
		text = text[:i]
	}
}
