package retrytable

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// identifier quotes a name. SQLite reads a name in double quotes that it does not
// know as a string, one in grave accents never.
func (d Dialect) identifier(name string) string {
	quote := `"`
	if d == SQLite {
		quote = "`"
	}
	return quote + strings.ReplaceAll(name, quote, quote+quote) + quote
}

// literal quotes a word that is part of a statement, so that the planner can
// match it with the condition of an index; as a parameter it could not.
func literal(word string) string {
	return "'" + strings.ReplaceAll(word, "'", "''") + "'"
}

// oneOf is the condition that column, quoted, is one of words.
func oneOf(column string, words ...string) string {
	var quoted []string
	for _, word := range words {
		if word := literal(word); !slices.Contains(quoted, word) {
			quoted = append(quoted, word)
		}
	}
	return column + " IN (" + strings.Join(quoted, ", ") + ")"
}

var parameter = regexp.MustCompile(`\$[0-9]+`)

// parameters returns how many parameters sql has, and the lowest that is missing
// among them, or 0. PostgreSQL cannot tell the type of one that is not used.
func parameters(sql string) (n, missing int) {
	used := map[int]bool{}
	for _, p := range parameter.FindAllString(sql, -1) {
		i, err := strconv.Atoi(p[1:])
		if err != nil || i < 1 || i > maxParameters {
			return 0, 1
		}
		used[i], n = true, max(n, i)
	}
	for i := 1; i <= n; i++ {
		if !used[i] {
			return n, i
		}
	}
	return n, 0
}

// maxParameters is what PostgreSQL allows.
const maxParameters = 65535

// translate turns the $1 of sql into what the dialect has.
func (d Dialect) translate(sql string) string {
	if d == SQLite {
		return parameter.ReplaceAllStringFunc(sql, func(p string) string { return "?" + p[1:] })
	}
	return sql
}

// parameter is the i-th parameter.
func (d Dialect) parameter(i int) string { return d.translate("$" + strconv.Itoa(i)) }

// clock is the instant of the statement in microseconds. In PostgreSQL it is not
// that of the transaction, which may have been open for long, and not that of
// the row either, which no index can be searched for. Any SQLite knows
// julianday, to the millisecond.
func (d Dialect) clock() string {
	if d == SQLite {
		return "CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000"
	}
	return "(extract(epoch FROM statement_timestamp()) * 1000000)::bigint"
}

// unit is the unit of an integer instant in microseconds.
func (i Instants) unit() int {
	switch i {
	case UnixMillis:
		return 1_000
	case UnixSeconds:
		return 1_000_000
	default:
		return 1
	}
}

// now is the instant of the statement as the columns have it, rounded down.
func (d *definition) now() string {
	switch unit := d.instants.unit(); {
	case d.instants == Timestamptz:
		return "statement_timestamp()"
	case unit == 1:
		return d.dialect.clock()
	default:
		return fmt.Sprintf("%s / %d", d.dialect.clock(), unit)
	}
}

// after is the instant that is micros later, rounded up.
func (d *definition) after(micros string) string {
	if d.dialect == PostgreSQL {
		micros += "::bigint"
	}
	switch unit := d.instants.unit(); {
	case d.instants == Timestamptz:
		return "statement_timestamp() + " + micros + " * interval '1 microsecond'"
	case unit == 1:
		return d.dialect.clock() + " + " + micros
	default:
		return fmt.Sprintf("(%s + %s + %d) / %d", d.dialect.clock(), micros, unit-1, unit)
	}
}

// always is an instant that has passed.
func (d *definition) always() string {
	if d.instants == Timestamptz {
		return "'-infinity'::timestamptz"
	}
	return "0"
}

// micros turns the instant in a column, quoted, into microseconds.
func (d *definition) micros(column string) string {
	switch unit := d.instants.unit(); {
	case d.instants == Timestamptz:
		return "(extract(epoch FROM " + column + ") * 1000000)::bigint"
	case unit == 1:
		return column
	default:
		return fmt.Sprintf("%s * %d", column, unit)
	}
}

// instant is the type of the columns.
func (d *definition) instant() string {
	switch {
	case d.instants == Timestamptz:
		return "timestamptz"
	case d.dialect == SQLite:
		return "INTEGER"
	default:
		return "bigint"
	}
}
