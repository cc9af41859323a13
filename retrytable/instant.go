package retrytable

import (
	"database/sql/driver"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/show"
	"github.com/seed-5ff3c98e/retry/retrytable/internal/sqltable"
)

// Instants is how a table stores instants. PostgreSQL's timestamp without time zone is not
// offered, because it depends on the time zone of the program that wrote it. MySQL's
// timestamp ends in 2038.
type Instants uint8

// The types of instants. An instant in whole units of a second is rounded up, so
// that nothing is early.
const (
	DefaultInstants Instants = iota // Timestamptz in PostgreSQL, UnixMicros in SQLite, Datetime in MySQL
	Timestamptz                     // PostgreSQL only
	UnixMicros                      // an integer, in microseconds since 1970
	UnixMillis
	UnixSeconds
	Datetime // MySQL only: datetime(6), in UTC

	// RFC3339 is text, for SQLite only, where many programs keep instants like this. It is
	// written as "2006-01-02T15:04:05.000+00:00", in milliseconds, rounded up; [TextLike] has
	// other forms. It is read in any form that SQLite's date functions read: with another zone
	// or Z, with a space, with other fractions of a second. Without a zone it is UTC. Instants
	// are compared as what they mean. [Table.Check] reports a due time that is no instant; such
	// a row is never due.
	RFC3339
)

// TextLike is [RFC3339] that is written in the form of an example, for programs that read no other
// form: with T or a space, with milliseconds or in whole seconds, with Z, +00:00 or nothing for
// UTC, as in "2006-01-02 15:04:05". If the example has another form, TextLike is RFC3339.
func TextLike(example string) Instants {
	form := textForm.FindStringSubmatch(example)
	if form == nil {
		return RFC3339
	}
	as := sqltable.RFC3339
	if form[1] == " " {
		as |= sqltable.Spaced
	}
	if form[2] == "" {
		as |= sqltable.Whole
	}
	switch form[3] {
	case "Z":
		as |= sqltable.Zulu
	case "":
		as |= sqltable.Zoneless
	}
	return Instants(as)
}

var textForm = regexp.MustCompile(`^\d{4}-\d\d-\d\d([T ])\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?$`)

// Instant is an instant in a column, for the program's own statements about the table.
// It is a [database/sql.Scanner] and a [driver.Valuer]. NULL is the zero Time.
//
//nolint:recvcheck // to scan changes it, to be a value does not
type Instant struct {
	time.Time

	// As is the type of the column. To write, it must be set. To read, DefaultInstants is
	// enough for the types that it means, except for a Datetime if the driver is set to
	// another zone than UTC.
	As Instants
}

// Scan implements [database/sql.Scanner]. The Time is in UTC.
func (i *Instant) Scan(value any) error {
	switch v := value.(type) {
	case nil:
		i.Time = time.Time{}
	case time.Time:
		i.Time = v.UTC()
		if i.As == Datetime { // the zone is what the driver was told
			i.Time = time.Date(v.Year(), v.Month(), v.Day(), v.Hour(), v.Minute(), v.Second(), v.Nanosecond(), time.UTC)
		}
	case []byte:
		return i.Scan(string(v))
	case string:
		spaced := strings.Replace(v, "T", " ", 1)
		at, err := time.Parse(time.DateTime, spaced) // takes fractions of a second too
		if err != nil {
			at, err = time.Parse(time.DateTime+"Z07:00", spaced)
		}
		if err != nil {
			return fmt.Errorf("retrytable: Instant: %s: is no instant", show.Quote(v))
		}
		i.Time = at.UTC()
	case int64:
		switch i.As {
		case UnixMillis:
			i.Time = time.UnixMilli(v).UTC()
		case UnixSeconds:
			i.Time = time.Unix(v, 0).UTC()
		default:
			i.Time = time.UnixMicro(v).UTC()
		}
	default:
		return fmt.Errorf("retrytable: Instant: %T: is no instant", value)
	}
	return nil
}

// Value implements [driver.Valuer]. It rounds up to the unit of the column, so that
// nothing is early.
func (i Instant) Value() (driver.Value, error) {
	as := sqltable.Instants(i.As)
	switch {
	case i.As == DefaultInstants || i.As > RFC3339 && !as.IsText():
		return nil, fmt.Errorf("retrytable: Instant.As: %d: must be a type", i.As)
	case i.IsZero():
		return nil, nil
	case i.As == Timestamptz:
		return i.Time, nil
	case as.IsText():
		up := time.Duration(as.Unit())*time.Microsecond - 1
		return i.Add(up).UTC().Format(as.Layout(time.DateOnly, time.TimeOnly, ".000")), nil
	case i.As == Datetime: // as text, because a driver may put a time into another zone
		return i.Add(time.Microsecond - 1).UTC().Format("2006-01-02 15:04:05.999999"), nil
	}
	return sqltable.RoundedUp(i.Time, as.Unit()) / int64(as.Unit()), nil
}

// Now returns the SQL for the instant of the statement by the clock of the database, in
// the form of columns of the type, rounded down. It may be compared with such columns,
// and be assigned to them. DefaultInstants is the dialect's default.
func (i Instants) Now(d Dialect) string { return sqltable.Instants(i).Now(sqltable.Dialect(d)) }

// SQLType returns the type of the columns.
func (i Instants) SQLType(d Dialect) string { return sqltable.Instants(i).SQLType(sqltable.Dialect(d)) }
