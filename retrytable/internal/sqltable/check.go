package sqltable

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/seed-5ff3c98e/retry/internal/show"
)

// Comparison compares a table with what is in the database.
type Comparison struct {
	*builder

	found map[string]found  // the columns, by their folded names
	built map[string]string // the indexes, and the qualified name of one that is of no use

	partitioned bool // so that PostgreSQL makes and drops no index of it CONCURRENTLY, and MySQL has no Copy

	unknown bool // PostgreSQL has no statistics of it

	engine string // of a table of MySQL

	misfits []misfit
	missing []string // the SQL of parts
	slow    []string // statements that make indexes, each of them
}

// misfit is the error of something that does not fit, with the statement that mends it.
type misfit struct {
	error

	mended bool // there is such a statement
}

// Misfits is the error of everything that does not fit, or with unmended only of what Mends do
// not mend.
func (c *Comparison) Misfits(unmended bool) error {
	var all []error
	for _, m := range c.misfits {
		if !unmended || !m.mended {
			all = append(all, m.error)
		}
	}
	return errors.Join(all...)
}

// IsThere reports whether there is a table.
func (c *Comparison) IsThere() bool { return len(c.found) > 0 }

// Copies reports whether MySQL can make a Copy.
func (c *Comparison) Copies() bool { return c.IsThere() && !c.partitioned }

// Mends are the statements that add what is missing: those that are quick, in a transaction too, and
// those after them that take long, each by itself. If there is no table, they are for one of the user's
// columns.
func (c *Comparison) Mends() (quick, slow []string) {
	quick, slow = c.Lacks()
	if c.IsThere() && c.Dialect == PostgreSQL && (c.unknown || len(quick)+len(slow) > 0) {
		slow = append(slow, "ANALYZE "+c.table)
	}
	return quick, slow
}

// Lacks are the Mends but for statistics.
func (c *Comparison) Lacks() (quick, slow []string) {
	switch {
	case !c.IsThere():
		return c.Schema(), nil
	case c.Dialect == MySQL: // clauses of one statement, which copies the table once
		return c.altering(slices.Concat(c.missing, c.slow)), nil
	default:
		return c.altering(c.missing), c.slow
	}
}

func (c *Comparison) misfit(field, name, problem string) { c.lack(field, name, problem, nil) }

// lack is a misfit that the SQL of parts mends.
func (c *Comparison) lack(field, name, problem string, sql []string) {
	mend := strings.Join(c.altering(sql), "; ")
	if mend != "" {
		problem += "; run: " + mend
	}
	c.misfits = append(c.misfits, misfit{fmt.Errorf("retrytable: %s: %q: %s", field, name, problem), mend != ""})
	c.missing = append(c.missing, sql...)
}

// found is a column that the table has.
type found struct {
	sqlType string
	notNull bool
	unique  bool     // by itself
	lacks   []string // privileges
	words   []string // of an enum
	length  int64    // of a text, in characters; less than 1 if there is no limit
	charset string   // of a text, where each column has one
	folds   bool     // texts that differ in nothing but capitals are equal
	more    string   // the rest of the definition of an enum, where it must be repeated
}

// inspection are queries of what a table has.
type inspection struct {
	args    []any  // of each
	columns string // the name, and what a found has; the privileges are two columns, and the words of an enum have quotes
	table   string // whether it has partitions and lacks statistics, and its engine; "" where no table has any of these
	indexes string // the name, the qualified name of one that is of no use, and the column that is unique because of it
}

// inspect reads what the table has, and reports misfits that are not about its columns. Without
// columns, there is no table.
func (c *Comparison) inspect(ctx context.Context, db DB) error {
	i := c.dialect.inspection(c.builder)
	err := each(ctx, db, func(rows *sql.Rows) error {
		var f found
		var name, words string
		var read, write bool
		err := rows.Scan(&name, &f.sqlType, &f.notNull, &f.unique, &read, &write, &words, &f.length, &f.charset, &f.folds, &f.more)
		if !read {
			f.lacks = append(f.lacks, "SELECT")
		}
		if !write {
			f.lacks = append(f.lacks, "UPDATE")
		}
		for _, word := range quotedWord.FindAllString(words, -1) {
			f.words = append(f.words, strings.ReplaceAll(word[1:len(word)-1], "''", "'"))
		}
		c.found[c.dialect.fold(name)] = f
		return err
	}, i.columns, i.args...)
	if err != nil || !c.IsThere() {
		return err
	}
	if i.table != "" {
		err = each(ctx, db, func(rows *sql.Rows) error { return rows.Scan(&c.partitioned, &c.unknown, &c.engine) }, i.table, i.args...)
		if err != nil {
			return err
		}
	}
	err = each(ctx, db, func(rows *sql.Rows) error {
		var name, useless string
		var unique sql.NullString
		err := rows.Scan(&name, &useless, &unique)
		c.built[name] = useless
		if f, ok := c.found[c.dialect.fold(unique.String)]; ok {
			f.unique = true
			c.found[c.dialect.fold(unique.String)] = f
		}
		return err
	}, i.indexes, i.args...)
	if _, exists := c.found[c.dialect.fold(c.Columns.Due)]; err != nil || !exists || c.instants.key == nil {
		return err
	}
	return c.unreadable(ctx, db)
}

// quotedWord matches a word of an enum.
var quotedWord = regexp.MustCompile("'(?:[^']|'')*'")

// unreadable reports a due time that is a text, and no instant.
func (c *Comparison) unreadable(ctx context.Context, db DB) error {
	unreadable := c.due + " IS NOT NULL AND " + c.key(c.due) + " IS NULL"
	return each(ctx, db, func(rows *sql.Rows) error {
		var text string
		err := rows.Scan(&text)
		c.misfit("Columns.Due", c.Columns.Due, fmt.Sprintf("has %s, which is no instant; to have such rows never run: "+
			"UPDATE %s SET %s = NULL WHERE %s", show.Quote(text), c.table, c.due, unreadable))
		return err
	}, "SELECT "+c.due+" FROM "+c.table+" WHERE "+unreadable+" LIMIT 1")
}

// content is what a column can have because of its type.
type content uint8

const (
	anInteger content = 1 << iota
	aStatus           // a word of Statuses
	aKind             // a word or a policy
	aText             // a text of any length, with any characters
)

// Compare compares t with the table in the database.
func (t *Table) Compare(ctx context.Context, db DB) (*Comparison, error) {
	c := &Comparison{builder: t.builder(), found: map[string]found{}, built: map[string]string{}}
	if err := c.inspect(ctx, db); err != nil {
		return nil, fmt.Errorf("retrytable: check: %w", err)
	}
	if len(c.found) == 0 {
		c.misfit("Name", c.Name, "there is no such table")
		return c, nil
	}
	parts := c.dialect.parts(c.builder)
	for _, column := range c.Columns.all() {
		if column.name != "" {
			c.compare("Columns."+column.field, column, parts)
		}
	}
	if c.engine != "" && c.engine != "InnoDB" {
		c.misfit("Name", c.Name, "is of the engine "+c.engine+", and must be InnoDB: others do not lock rows")
	}
	c.rest(parts)
	return c, nil
}

// compare compares a column.
func (c *Comparison) compare(field string, column column, parts []part) {
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
		if privilege == "UPDATE" && slices.Contains([]string{"ID", "Kind", "Key"}, column.field) {
			continue
		}
		c.misfit(field, name, "no privilege to "+privilege+" it")
	}
	if misfit := c.typeMisfit(column, got); misfit != "" {
		c.lack(field, name, misfit, c.dialect.mend(c.builder, column, got, nil))
	}
	switch column.field {
	case "ID":
		if !got.unique {
			c.misfit(field, name, "must be unique, by a primary key or an index of its own")
		}
	case "Status":
		c.words(field, column, got)
	case "Due", "Lease", "First", "Ended", "Category", "Error":
		if got.notNull {
			c.misfit(field, name, "must allow NULL")
		}
	}
}

// typeMisfit says why a column does not fit because of its type, or nothing if it fits.
func (c *Comparison) typeMisfit(column column, got found) string {
	takes := c.dialect.takes(got)
	switch column.field {
	case "ID", "Key":
	case "Status", "Kind", "Category":
		if column.field == "Kind" && takes&aKind == 0 || column.field != "Kind" && takes&aStatus == 0 {
			return "is " + got.sqlType + ", and must be text or an enum"
		}
	case "Error":
		switch {
		case takes&aText == 0:
			return "is " + strings.TrimSpace(got.sqlType+" "+got.charset) + ", and must be " + c.dialect.types().text
		case got.length > 0 && got.length < longestText:
			return fmt.Sprintf("has room for %d characters, and texts have up to %d", got.length, longestText)
		}
	case "Due", "Lease", "First", "Ended":
		return c.dialect.instantMisfit(c.builder, column.name, got)
	default:
		if takes&anInteger == 0 {
			return "is " + got.sqlType + ", and must be an integer"
		}
	}
	return ""
}

// words checks that a column tells all words apart, and that an enum has them.
func (c *Comparison) words(field string, column column, got found) {
	seen := map[string]string{}
	for _, word := range c.Statuses.all() {
		folded := strings.ToLower(word)
		if other, ok := seen[folded]; ok && other != word && got.folds {
			c.misfit(field, column.name, fmt.Sprintf("has a collation to which %q is %q", word, other))
		}
		seen[folded] = word
	}
	if got.words == nil {
		return
	}
	var lacks []string
	for _, word := range c.Statuses.all() {
		if !slices.Contains(got.words, word) && !slices.Contains(lacks, word) {
			lacks = append(lacks, word)
		}
	}
	if len(lacks) > 0 {
		c.lack(field, column.name, fmt.Sprintf("the type %s has no %q", got.sqlType, lacks), c.dialect.mend(c.builder, column, got, lacks))
	}
}

// rest looks for the parts that are no columns of [Columns].
func (c *Comparison) rest(parts []part) {
	named := map[string]bool{}
	for _, column := range c.Columns.all() {
		named[column.name] = true
	}
	for _, p := range parts {
		_, found := c.found[c.dialect.fold(p.column)]
		useless, built := c.built[p.index]
		switch {
		case p.column != "" && (found || named[p.column]), p.index != "" && built && useless == "":
		case p.dispensable:
			if useless != "" {
				c.slow = append(c.slow, c.online("DROP INDEX IF EXISTS "+useless))
			}
			c.slow = append(c.slow, c.online(p.sql))
		default:
			c.lack("Name", c.Name, "has no "+cmp.Or(optional(p.column, "column "+p.column), "index "+p.index), []string{p.sql})
		}
	}
}

// online is the statement about an index for a table in use.
func (c *Comparison) online(sql string) string {
	verb, index, ok := strings.Cut(sql, " INDEX ")
	if !ok || c.Dialect != PostgreSQL || c.partitioned || verb != "CREATE" && verb != "DROP" {
		return sql
	}
	return verb + " INDEX CONCURRENTLY " + index
}
