package retrytable

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Dialect is the SQL of a database.
type Dialect uint8

// The dialects.
const (
	PostgreSQL Dialect = iota // 12 or later
	SQLite                    // 3.35 or later; its clock has milliseconds, so a retry may be early by less than 1 ms
	MySQL                     // 8.0.23 or later, or MariaDB 10.6 or later; with InnoDB
)

// dialects has what differs between databases: each in a file that is named for it.
var dialects = []dialect{PostgreSQL: postgres{}, SQLite: sqlite{}, MySQL: mysql{}}

// dialect is what differs between databases.
type dialect interface {
	// name is what its makers call it.
	name() string

	// quote quotes the name of a table, a column or an index.
	quote(name string) string

	// fold returns what the database makes of a quoted name of a column: two names mean the
	// same column if their folds are equal.
	fold(name string) string

	// parameter matches the $1, $2, … of SQL. It also matches strings, quoted names and
	// comments, because a dollar in them is no parameter.
	parameter() *regexp.Regexp

	// bind turns the $1, $2, … into the parameters that the database knows.
	bind(sql string) query

	// clock is the SQL for this moment, in microseconds since 1970.
	clock() string

	// instants is the SQL for instants of a type, or none if it has no such type.
	instants(as Instants) *instantSQL

	// parts are what [Table.Schema] adds.
	parts(b *builder) []part

	// altering makes statements of the SQL of parts.
	altering(b *builder, sql []string) []string

	// words is the SQL that adds words to the enum of the status column, for altering.
	words(b *builder, f found, words []string) []string

	// pick is the statement that updates some rows and returns them.
	pick(b *builder, p *picking) statement

	// group adds the forms of a finish for many rows that the database has; see storeAll.
	group(b *builder, s *statement, assignments func(parameter func() string) string)

	// lock follows a query that is to lock its rows, without those that somebody else has
	// locked.
	lock() string

	// extend is the statement that extends a lease, counted from when it has the row.
	extend(b *builder) statement

	// inspect reads which columns and indexes the table has, and reports faults of other
	// things that the table needs. Without columns, there is no table.
	inspect(ctx context.Context, db DB, c *checker) error

	// misfit says what is wrong with the type of a column, if anything.
	misfit(b *builder, column column, f found) string

	// convert is the SQL that gives a column its type, where programs that write the other
	// type can go on, for altering.
	convert(b *builder, column column, f found) []string
}

// sql returns the dialect; one that is unknown, which Validate reports, is the first.
func (d Dialect) sql() dialect {
	if int(d) < len(dialects) {
		return dialects[d]
	}
	return dialects[0]
}

// quoted quotes a name with such quotes, which are doubled within it.
func quoted(quote, name string) string {
	return quote + strings.ReplaceAll(name, quote, quote+quote) + quote
}

// literal quotes a word that is part of a statement, so that the planner can
// match it with the condition of an index; as a parameter it could not.
func literal(word string) string { return quoted("'", word) }

// oneOf is the condition that column, quoted, is one of words.
func oneOf(column string, words ...string) string {
	var all []string
	for _, word := range words {
		if word := literal(word); !slices.Contains(all, word) {
			all = append(all, word)
		}
	}
	return column + " IN (" + strings.Join(all, ", ") + ")"
}

// standardParameter is for SQL whose strings have no escapes but doubled quotes.
var standardParameter = regexp.MustCompile("\\$[0-9]+|'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|`(?:[^`]|``)*`|--[^\\n]*|(?s:/\\*.*?\\*/)")

// parameters returns how many parameters sql has, and the lowest that is missing
// among them, or 0. PostgreSQL cannot tell the type of one that is not used.
func (d *definition) parameters(sql string) (n, missing int) {
	used := map[int]bool{}
	for _, p := range d.dialect.parameter().FindAllString(sql, -1) {
		if p[0] != '$' {
			continue
		}
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

// query is SQL that is ready to be run.
type query struct {
	sql string

	// order has the argument number of each parameter, if parameters have no numbers; nil
	// means that they have.
	order []int
}

// ordered returns the arguments of q out of all arguments.
func (q query) ordered(all []any) []any {
	if q.order == nil {
		return all
	}
	args := make([]any, len(q.order))
	for i, n := range q.order {
		args[i] = all[n-1]
	}
	return args
}

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

// integers is the SQL for instants that are whole units since 1970, with the clocks in
// microseconds.
func integers(column, statement, moment, divide string, as Instants) *instantSQL {
	unit := as.unit()
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
