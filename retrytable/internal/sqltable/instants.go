package sqltable

import "fmt"

// Instants is how a table stores instants. The constants have the order of those of
// retrytable.Instants, where they are described.
type Instants uint8

// The types of instants.
const (
	DefaultInstants Instants = iota
	Timestamptz
	UnixMicros
	UnixMillis
	UnixSeconds
	Datetime
	RFC3339
)

var instantsNames = [...]string{"DefaultInstants", "Timestamptz", "UnixMicros", "UnixMillis", "UnixSeconds", "Datetime", "RFC3339"}

// instantSQL is the SQL for instants of one type.
type instantSQL struct {
	column string                     // the type of the columns
	now    string                     // the instant of the statement, rounded down
	key    func(column string) string // what is compared, and has an index; nil if it is the column
	moment string                     // now as a key, if there are keys
	always string                     // an instant that has passed
	after  func(micros string) string // this moment and so many microseconds, rounded up
	of     func(micros string) string // the instant of so many microseconds since 1970, which may be NULL
	micros func(column string) string // the reverse; NULL if it is infinite
}

// Now is the SQL for the instant of the statement in this type, rounded down.
func (i Instants) Now(d Dialect) string { return "(" + i.sql(d).now + ")" }

// SQLType is the type of the columns.
func (i Instants) SQLType(d Dialect) string { return i.sql(d).column }

// sql is the SQL for instants of the type, or of the dialect's default if it has no such type.
func (i Instants) sql(d Dialect) *instantSQL {
	if s := d.sql().instants(i); s != nil {
		return s
	}
	return d.sql().instants(DefaultInstants)
}

// Unit is the unit of an integer instant in microseconds.
func (i Instants) Unit() int {
	switch i {
	case UnixMillis:
		return 1_000
	case UnixSeconds:
		return 1_000_000
	default:
		return 1
	}
}

// integers is the SQL for instants that are whole units since 1970, with the clocks in
// microseconds.
func integers(column, statement, moment, divide string, as Instants) *instantSQL {
	unit := as.Unit()
	if unit == 1 {
		same := func(micros string) string { return micros }
		return &instantSQL{
			column: column, now: statement, always: "0", of: same, micros: same,
			after: func(micros string) string { return moment + " + " + micros },
		}
	}
	in := func(micros string) string { return fmt.Sprintf("%s %s %d", micros, divide, unit) }
	return &instantSQL{
		column: column, now: in(statement), always: "0", of: in,
		after:  func(micros string) string { return in(fmt.Sprintf("(%s + %s + %d)", moment, micros, unit-1)) },
		micros: func(column string) string { return fmt.Sprintf("%s * %d", column, unit) },
	}
}
