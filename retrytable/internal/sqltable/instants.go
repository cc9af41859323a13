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

// RFC3339 with some of these is text in another form.
const (
	Spaced   Instants = 0x10 << iota // a space in the place of the T
	Whole                            // no fraction of a second
	Zulu                             // Z in the place of +00:00
	Zoneless                         // no zone, which is UTC

	form = Spaced | Whole | Zulu | Zoneless
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

// IsText reports whether instants of the type are text.
func (i Instants) IsText() bool { return i&^form == RFC3339 }

// kind is the type without the form of its text.
func (i Instants) kind() Instants {
	if i.IsText() {
		return RFC3339
	}
	return i
}

// Layout is how an instant is written as text, with the words for its date, its time and the
// fraction of its second.
func (i Instants) Layout(date, time, fraction string) string {
	between, zone := "T", "+00:00"
	if i&Spaced != 0 {
		between = " "
	}
	switch {
	case i&Zulu != 0:
		zone = "Z"
	case i&Zoneless != 0:
		zone = ""
	}
	if i&Whole != 0 {
		fraction = ""
	}
	return date + between + time + fraction + zone
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

// Unit is the unit of an instant that is an integer or text, in microseconds.
func (i Instants) Unit() int {
	switch {
	case i == UnixSeconds, i.IsText() && i&Whole != 0:
		return 1_000_000
	case i == UnixMillis, i.IsText():
		return 1_000
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
