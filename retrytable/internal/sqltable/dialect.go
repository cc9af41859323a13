package sqltable

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Dialect is the SQL of a database. The constants have the order of those of
// retrytable.Dialect, where they are described.
type Dialect uint8

// The dialects.
const (
	PostgreSQL Dialect = iota
	SQLite
	MySQL
)

// dialects has what differs between databases: each in a file that is named for it.
var dialects = []dialect{PostgreSQL: postgres{}, SQLite: sqlite{}, MySQL: mysql{}}

var dialectNames = []string{PostgreSQL: "PostgreSQL", SQLite: "SQLite", MySQL: "MySQL"}

// sql returns the dialect; one that is unknown, which Validate reports, is the first.
func (d Dialect) sql() dialect {
	if int(d) < len(dialects) {
		return dialects[d]
	}
	return dialects[0]
}

// dialect is what differs between databases.
type dialect interface {
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

	// exactText is the SQL for a column as a text, which is compared byte by byte; NULL is "".
	exactText(column string) string

	// clock is the SQL for this moment, in microseconds since 1970.
	clock() string

	// instants is the SQL for instants of a type, or nil if it has no such type.
	instants(as Instants) *instantSQL

	// picker updates some rows and returns them. look is the query of their IDs, which
	// changes nothing.
	picker(p *picking) (run picker, look string)

	// share is a random share of so many microseconds, another one for each row.
	share(micros string) string

	// asText is a column as text.
	asText(column string) string

	// lock follows a query that locks its rows, without the rows that somebody else has locked.
	lock() string

	// grouper runs an update for many rows. The assignments may be made again, with other parameters.
	grouper(b *builder, u *Update, assignments assignments) grouper

	// extender extends the lease of one row, counted from when it has the lock of the row.
	extender(b *builder, longer assignments) updater

	// types are the types of the columns.
	types() types

	// parts are what Schema adds.
	parts(b *builder) []part

	// inspection are queries of what the table has.
	inspection(b *builder) inspection

	// takes says what a column of such a type can have, besides instants.
	takes(f found) content

	// instantMisfit says why a column of such a type cannot have the instants of the table,
	// or nothing if it can.
	instantMisfit(b *builder, name string, f found) string

	// mend is the SQL that gives a column its type, and its enum these words too, for altering.
	// It is none where programs that write the other type could not go on.
	mend(b *builder, column column, f found, words []string) []string
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
func (t *Table) parameters(sql string) (n, missing int) {
	used := map[int]bool{}
	for _, p := range t.Dialect.sql().parameter().FindAllString(sql, -1) {
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

// numbered returns a function that returns $1, $2, … without the first few.
func numbered(skip int) func() string {
	return func() string {
		skip++
		return "$" + strconv.Itoa(skip)
	}
}
