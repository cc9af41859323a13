package retrytable

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/known"
	"github.com/seed-5ff3c98e/retry/internal/sqlerr"
)

// rowCategory is the category of an outcome that the database refuses to have in its row.
const rowCategory = "row"

// classifyStoring judges why an outcome could not be stored. Whatever the database says
// may pass. What the program itself says is left to its own policy.
func classifyStoring(err error) retry.Verdict {
	var effect *effectError
	var group *leftOutError
	switch {
	case errors.Is(err, ErrLeaseLost):
		return retry.Verdict{Class: retry.Final}
	case errors.As(err, &group): // nobody knows what is wrong with this one, if anything
		return retry.Verdict{Class: retry.Retryable}
	case errors.As(err, &effect):
		if c := sqlerr.Classify(effect.error).Class; c != retry.Retryable && c != retry.RateLimited {
			return retry.Verdict{Class: retry.Final}
		}
	case rowFault(err):
		return retry.Verdict{Class: retry.Retryable, Category: rowCategory}
	}
	return retry.Verdict{Class: retry.Retryable}
}

// effectError is an error of what a program writes in the transaction of an outcome, or
// of what it says about it.
type effectError struct{ error }

// Unwrap returns the program's error.
func (e *effectError) Unwrap() error { return e.error }

// rowFault reports whether the database has answered that it does not write this row, as
// a constraint or a trigger says. All other errors may be those of an outage.
func rowFault(err error) bool {
	v := sqlerr.Classify(err)
	number, ours := strings.CutPrefix(v.Category, "mysql_")
	switch {
	case ours:
		return number == mysqlSignal || v.Class == retry.Final && !slices.Contains(mysqlOutages, number)
	case strings.HasPrefix(v.Category, "sqlite_"):
		code, _ := strconv.Atoi(v.Category[len("sqlite_"):])
		return code&0xff == sqliteConstraint
	}
	state := sqlState(err)
	return state != "" && !slices.Contains(stateOutages, state)
}

// answered reports whether the database has answered with an error, which may be about a
// row, whatever it says: a trigger may use any code. The row is at fault if the
// database writes another one, or else there is an outage.
func answered(err error) bool {
	if sqlState(err) != "" {
		return true
	}
	kind, code, _ := strings.Cut(sqlerr.Classify(err).Category, "_")
	number, notNumber := strconv.Atoi(code)
	switch {
	case notNumber != nil:
		return false
	case kind == "sqlite": // another connection has the database: that is nobody's row
		return number&0xff != known.SQLiteBusy && number&0xff != known.SQLiteLocked
	default:
		return kind == "mysql"
	}
}

// maybeOfRow reports whether an error may be about a row: it was answered, or there was no
// answer in time, as where a trigger waits for a lock, or the program cannot encode the row.
func maybeOfRow(err error) bool {
	var panicked *retry.PanicError
	return answered(err) || errors.Is(err, context.DeadlineExceeded) || errors.As(err, &panicked)
}

// conflict reports whether a transaction was rolled back because of another one.
func conflict(err error) bool {
	return sqlState(err) == "40" || sqlerr.Classify(err).Category == "mysql_1213"
}

// formFault reports whether PostgreSQL does not understand a statement, which it may in
// another form: a name that only this form uses may be that of a column, for example.
func formFault(err error) bool { return sqlState(err) == "42" }

// sqlState returns the class of an error of the database, or "".
func sqlState(err error) string {
	var e interface{ SQLState() string }
	if !errors.As(err, &e) || len(e.SQLState()) != 5 {
		return ""
	}
	return e.SQLState()[:2]
}

// What says nothing about a row: that there is no access, or something is missing or was
// stopped.
var (
	stateOutages = []string{"08", "0A", "25", "26", "28", "3D", "40", "42", "53", "54", "55", "57", "58", "XX"}
	mysqlOutages = []string{"1044", "1045", "1049", "1054", "1064", "1142", "1143", "1146", "1317", "1969", "3024"}
)

const (
	mysqlSignal      = "1644" // SIGNAL in a trigger
	sqliteConstraint = 19     // RAISE in a trigger too
)
