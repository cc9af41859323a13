// Package dberr reads from an error whether a database has refused a row, or there is an
// outage.
package dberr

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

// RefusesRow reports whether the database has answered that it does not write this row, as
// a constraint or a trigger says. All other errors may be those of an outage.
func RefusesRow(err error) bool {
	switch database, number := code(err); database {
	case "mysql":
		return number == mysqlSignal || sqlerr.Classify(err).Class == retry.Final && !slices.Contains(mysqlOutages, number)
	case "sqlite":
		return number&0xff == sqliteConstraint
	default:
		class := sqlState(err)[:2]
		return class != noState[:2] && !slices.Contains(stateOutages, class)
	}
}

// Answered reports whether err is an answer of the database, and so may be about a row: a
// trigger may use any code. If the database then writes another row, this row was refused.
// If it writes none, there is an outage.
func Answered(err error) bool {
	if sqlState(err) != noState {
		return true
	}
	database, number := code(err)
	if database == "sqlite" { // another connection may have the database, which says nothing about the row
		return number&0xff != known.SQLiteBusy && number&0xff != known.SQLiteLocked
	}
	return database == "mysql"
}

// code returns the number of an error in MySQL or SQLite, or no database.
func code(err error) (database string, number int) {
	database, digits, _ := strings.Cut(sqlerr.Classify(err).Category, "_")
	number, notNumber := strconv.Atoi(digits)
	if notNumber != nil || database != "mysql" && database != "sqlite" {
		return "", 0
	}
	return database, number
}

// MaybeOfRow reports whether err may be about a row. Either the database answered, or it did
// not answer in time, as where a trigger waits for a lock, or the program could not encode
// the row.
func MaybeOfRow(err error) bool {
	var panicked *retry.PanicError
	return (Answered(err) || errors.Is(err, context.DeadlineExceeded) || errors.As(err, &panicked)) && !errors.As(err, new(BesideRowsError))
}

// BesideRowsError is an error of something that the program does beside its rows.
type BesideRowsError struct{ Err error }

// Error returns the text of Err.
func (e BesideRowsError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e BesideRowsError) Unwrap() error { return e.Err }

// Conflict reports whether a transaction was rolled back because of another one.
func Conflict(err error) bool {
	return sqlState(err)[:2] == "40" || sqlerr.Classify(err).Category == "mysql_1213"
}

// RefusesForm reports whether PostgreSQL may have not understood a statement, where another
// one that does the same would do: one of them may use a name that a column has too. 42501 is
// about privileges, which row-level security takes for single rows.
func RefusesForm(err error) bool {
	state := sqlState(err)
	return state[:2] == "42" && state != insufficientPrivilege
}

// IsNewWord reports whether PostgreSQL does not take a word of an enum because the transaction that
// adds it has not been committed.
func IsNewWord(err error) bool { return sqlState(err) == newWord }

// sqlState returns the SQLSTATE of an error, or noState.
func sqlState(err error) string {
	var e interface{ SQLState() string }
	if !errors.As(err, &e) || len(e.SQLState()) != len(noState) {
		return noState
	}
	return e.SQLState()
}

const noState = "     "

// Codes that say nothing about a row: there is no access, or something is missing or was
// stopped.
var (
	stateOutages = []string{"08", "0A", "25", "26", "28", "3D", "40", "42", "53", "54", "55", "57", "58", "XX"}
	mysqlOutages = []int{1044, 1045, 1049, 1054, 1064, 1142, 1143, 1146, 1317, 1969, 3024}
)

const (
	insufficientPrivilege = "42501"
	newWord               = "55P04"

	mysqlSignal      = 1644 // SIGNAL in a trigger
	sqliteConstraint = 19   // RAISE in a trigger too
)
