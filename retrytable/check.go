package retrytable

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
)

// Check compares the table with what t says of it, and reports everything that does not
// fit: the table, its columns and their types, an ID that is not unique, the words of an
// enum, and privileges that the user of the connection does not have. Each fault names
// the field of t. [Worker.Run] begins with Check, so that a missing column is an error at
// the start, and not with every claim.
//
// Indexes are not checked. The error for faults has [ErrTable] in it; a failure of the
// database is returned alone.
func (t *Table[ID]) Check(ctx context.Context, db DB) error {
	if _, err := t.prepared(); err != nil {
		return err
	}
	c := &checker{builder: t.definition().builder()}
	columns, err := c.dialect.columns(ctx, db, c)
	if err != nil {
		return fmt.Errorf("retrytable: check: %w", err)
	}
	if len(columns) == 0 {
		c.fault("Name", c.name, "there is no such table")
	} else {
		c.compare(columns)
	}
	if len(c.faults) > 0 {
		return fmt.Errorf("%w:\n%w", ErrTable, errors.Join(c.faults...))
	}
	return nil
}

// ErrTable is the error of a table in the database that does not fit its [Table].
var ErrTable = errors.New("retrytable: the table does not fit")

type checker struct {
	*builder

	faults []error
}

func (c *checker) fault(field, name, problem string) {
	c.faults = append(c.faults, fmt.Errorf("retrytable: %s: %q: %s", field, name, problem))
}

// found is a column that the table has.
type found struct {
	sqlType string
	notNull bool
	unique  bool     // by itself
	lacks   []string // privileges
	words   []string // of an enum
}

// compare compares the columns.
func (c *checker) compare(columns map[string]found) {
	for _, column := range c.columns.all() {
		if column.name == "" {
			continue
		}
		field, name := "Columns."+column.field, column.name
		got, ok := columns[c.dialect.fold(name)]
		if !ok {
			c.fault(field, name, "there is no such column")
			continue
		}
		for _, privilege := range got.lacks {
			if privilege == "UPDATE" && (column.field == "ID" || column.field == "Kind") {
				continue
			}
			c.fault(field, name, "no privilege to "+privilege+" it")
		}
		if misfit := c.dialect.misfit(c.definition, column.field, got); misfit != "" {
			c.fault(field, name, misfit)
		}
		switch column.field {
		case "ID":
			if !got.unique {
				c.fault(field, name, "must be unique, by a primary key or an index of its own")
			}
		case "Status":
			c.words(field, name, got)
		case "Due", "Lease", "First":
			if got.notNull {
				c.fault(field, name, "must allow NULL")
			}
		}
	}
}

// words checks that an enum has all words.
func (c *checker) words(field, name string, got found) {
	if got.words == nil {
		return
	}
	for _, word := range c.statuses.all() {
		if !slices.Contains(got.words, word) {
			c.fault(field, name, fmt.Sprintf("the type %s has no %q", got.sqlType, word))
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
