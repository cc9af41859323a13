package retrytable

import (
	"database/sql/driver"
	"fmt"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/show"
)

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
		at, err := time.Parse(time.DateTime, v) // takes fractions of a second too
		if err != nil {
			at, err = time.Parse(time.RFC3339, v)
		}
		if err != nil {
			return fmt.Errorf("retrytable: Instant: %s: is no instant", show.Quote(v))
		}
		i.Time = at.UTC()
	case int64:
		switch i.As.unit() {
		case 1_000:
			i.Time = time.UnixMilli(v).UTC()
		case 1_000_000:
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
	switch {
	case i.As == DefaultInstants || int(i.As) >= len(instantsNames):
		return nil, fmt.Errorf("retrytable: Instant.As: %d: must be a type", i.As)
	case i.IsZero():
		return nil, nil
	case i.As == Timestamptz:
		return i.Time, nil
	case i.As == RFC3339:
		return i.Add(time.Millisecond - 1).UTC().Format("2006-01-02T15:04:05.000-07:00"), nil
	case i.As == Datetime: // as text, because a driver may put a time into another zone
		return i.Add(time.Microsecond - 1).UTC().Format("2006-01-02 15:04:05.999999"), nil
	}
	unit := int64(i.As.unit())
	micros := i.UnixMicro()
	if i.Nanosecond()%1000 > 0 {
		micros++
	}
	whole := micros / unit
	if micros%unit > 0 {
		whole++
	}
	return whole, nil
}

// Now returns the SQL for the instant of the statement by the clock of the database, in
// the form of columns of the type, rounded down. It may be compared with such columns,
// and be assigned to them. DefaultInstants is the dialect's default.
func (i Instants) Now(d Dialect) string { return "(" + i.sql(d).now + ")" }

// SQLType returns the type of the columns.
func (i Instants) SQLType(d Dialect) string { return i.sql(d).column }

// sql is the SQL for instants of the type, or of the dialect's default if it has no such
// type.
func (i Instants) sql(d Dialect) *instantSQL {
	if s := d.sql().instants(i); s != nil {
		return s
	}
	return d.sql().instants(DefaultInstants)
}
