package retrytable

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Check compares the table with what t says of it, and reports everything that does not
// fit: the table, its columns and their types, an ID that is not unique, the words of an
// enum, and privileges that the user of the connection does not have. Each fault names
// the field of t, and the statement to run if something is missing, see [Table.Missing].
// [Worker.Run] begins with Check, so that a missing column is an error at the start, and
// not with every claim. Check changes nothing.
//
// Indexes are not checked, except in MySQL, where statements fail without them. The error
// for faults has [ErrTable] in it; a failure of the database is returned alone.
func (t *Table[ID]) Check(ctx context.Context, db DB) error {
	c, err := t.inspect(ctx, db)
	if err != nil {
		return err
	}
	return c.refusal(func(fault) bool { return true })
}

// ErrTable is the error of a table in the database that does not fit its [Table].
var ErrTable = errors.New("retrytable: the table does not fit")

// checker compares a table with what is in the database.
type checker struct {
	*builder

	found map[string]found  // the columns, by their folded names
	built map[string]string // the indexes, and the statement that drops one that is of no use

	partitioned bool // so that PostgreSQL makes and drops no index of it CONCURRENTLY

	faults  []fault
	missing []string // the SQL of parts
}

// fault is something that does not fit.
type fault struct {
	error

	mend string // the statement that adds what is missing; "" if there is none
}

// Error returns the error, and what to do about it.
func (f fault) Error() string {
	if f.mend == "" {
		return f.error.Error()
	}
	return f.error.Error() + "; run: " + f.mend
}

// Unwrap returns the error.
func (f fault) Unwrap() error { return f.error }

// refusal is the error for the faults that count, or nil if none does.
func (c *checker) refusal(counts func(fault) bool) error {
	var all []error
	for _, f := range c.faults {
		if counts(f) {
			all = append(all, f)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return fmt.Errorf("%w:\n%w", ErrTable, errors.Join(all...))
}

func (c *checker) fault(field, name, problem string) { c.lack(field, name, problem, nil) }

// lack is a fault that the SQL of parts mends.
func (c *checker) lack(field, name, problem string, sql []string) {
	mend := strings.Join(c.dialect.altering(c.builder, sql), "; ")
	c.faults = append(c.faults, fault{fmt.Errorf("retrytable: %s: %q: %s", field, name, problem), mend})
	c.missing = append(c.missing, sql...)
}

// found is a column that the table has.
type found struct {
	sqlType string
	notNull bool
	unique  bool     // by itself
	lacks   []string // privileges
	words   []string // of an enum
	more    string   // the rest of the definition of an enum, where it must be repeated
	length  int64    // of a text, in characters; less than 1 if there is no limit
	charset string   // of a text, where each column has one
}

// inspect compares t with the table in the database.
func (t *Table[ID]) inspect(ctx context.Context, db DB) (*checker, error) {
	if _, err := t.prepared(); err != nil {
		return nil, err
	}
	c := &checker{builder: t.definition().builder(), found: map[string]found{}, built: map[string]string{}}
	if err := c.dialect.inspect(ctx, db, c); err != nil {
		return nil, fmt.Errorf("retrytable: check: %w", err)
	}
	if len(c.found) == 0 {
		c.fault("Name", c.name, "there is no such table")
		return c, nil
	}
	parts := c.dialect.parts(c.builder)
	for _, column := range c.columns.all() {
		if column.name != "" {
			c.compare("Columns."+column.field, column, parts)
		}
	}
	c.rest(parts)
	return c, nil
}

// compare compares a column.
func (c *checker) compare(field string, column column, parts []part) {
	name := column.name
	got, ok := c.found[c.dialect.fold(name)]
	if !ok {
		var sql []string
		if i := slices.IndexFunc(parts, func(p part) bool { return p.column == name }); i >= 0 {
			sql = []string{parts[i].sql}
		}
		c.lack(field, name, "there is no such column", sql)
		return
	}
	for _, privilege := range got.lacks {
		if privilege == "UPDATE" && (column.field == "ID" || column.field == "Kind") {
			continue
		}
		c.fault(field, name, "no privilege to "+privilege+" it")
	}
	misfit := c.dialect.misfit(c.builder, column, got)
	if misfit == "" && column.field == "Error" && got.length > 0 && got.length < longestText {
		misfit = fmt.Sprintf("has room for %d characters, and texts have up to %d", got.length, longestText)
	}
	if misfit != "" {
		c.lack(field, name, misfit, c.dialect.convert(c.builder, column, got))
	}
	switch column.field {
	case "ID":
		if !got.unique {
			c.fault(field, name, "must be unique, by a primary key or an index of its own")
		}
	case "Status":
		c.words(field, name, got)
	case "Due", "Lease", "First", "Error":
		if got.notNull {
			c.fault(field, name, "must allow NULL")
		}
	}
}

// words checks that an enum has all words.
func (c *checker) words(field, name string, got found) {
	if got.words == nil {
		return
	}
	var lacks []string
	for _, word := range c.statuses.all() {
		if !slices.Contains(got.words, word) && !slices.Contains(lacks, word) {
			lacks = append(lacks, word)
		}
	}
	if len(lacks) > 0 {
		c.lack(field, name, fmt.Sprintf("the type %s has no %q", got.sqlType, lacks), c.dialect.words(c.builder, got, lacks))
	}
}

// rest looks for the parts that are no columns of [Columns].
func (c *checker) rest(parts []part) {
	named := map[string]bool{}
	for _, column := range c.columns.all() {
		named[column.name] = true
	}
	for _, p := range parts {
		_, found := c.found[c.dialect.fold(p.column)]
		drop, built := c.built[p.index]
		switch {
		case p.column != "" && (found || named[p.column]), p.index != "" && built && drop == "":
		case p.dispensable:
			sql := cmp.Or(p.online, p.sql)
			if c.partitioned {
				sql = p.sql
			}
			c.missing = append(c.missing, present(drop, sql)...)
		default:
			c.lack("Name", c.name, "has no "+cmp.Or(optional(p.column, "column "+p.column), "index "+p.index), []string{p.sql})
		}
	}
}

// each calls scan for every row of a query.
func each(ctx context.Context, db DB, scan func(*sql.Rows) error, query string, args ...any) error {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
