package retrytable

import (
	"fmt"
	"strings"
)

// Schema returns the SQL that adds to an existing table the columns and indexes
// that it lacks. SQLite knows no ADD COLUMN IF NOT EXISTS: there, leave out the
// columns that the table has, and run it once. What is there by its name is left
// as it is, so drop an index when the words, Where or OrderBy have changed.
//
// The indexes are what keeps the methods quick in a large table, and their
// conditions must stay word for word; on a table in use, PostgreSQL wants CREATE
// INDEX CONCURRENTLY. A Table that [Table.Validate] finds fault with has the
// Schema "".
//
// In PostgreSQL, without an OrderBy, rows are due when they are made unless they
// say otherwise. SQLite cannot add a column with such a default, so insert them
// with a due time there.
func (t *Table[ID]) Schema() string {
	d := t.definition()
	if d.validate() != nil {
		return ""
	}
	b := d.builder()
	var sql strings.Builder
	add := "ADD COLUMN IF NOT EXISTS"
	if b.dialect == SQLite {
		add = "ADD COLUMN"
	}
	for _, column := range b.added() {
		fmt.Fprintf(&sql, "ALTER TABLE %s %s %s;\n", b.table, add, column)
	}
	for _, index := range b.indexes() {
		fmt.Fprintf(&sql, "CREATE INDEX IF NOT EXISTS %s;\n", index)
	}
	return sql.String()
}

// added are the columns. Optional ones may be NULL.
func (b *builder) added() []string {
	text, integer := "text", "bigint"
	if b.dialect == SQLite {
		text, integer = "TEXT", "INTEGER"
	}
	instant := b.instant()
	due := instant
	if b.orderBy == "" && b.dialect == PostgreSQL {
		due += " DEFAULT " + b.now()
	}
	added := []string{
		b.status + " " + text + " NOT NULL DEFAULT " + literal(b.statuses.Ready),
		b.attempts + " " + integer + " NOT NULL DEFAULT 0",
		b.due + " " + due,
		b.leaseUntil + " " + instant,
		b.fence + " " + integer + " NOT NULL DEFAULT 0",
	}
	if b.columns.RateLimited != "" {
		added = append(added, b.rateLimited+" "+integer+" NOT NULL DEFAULT 0")
	}
	if b.columns.First != "" {
		added = append(added, b.first+" "+instant)
	}
	return added
}

// indexes are those of Claim, Sweep and, with an order of the user's, Promote.
// A Where is part of them only as far as it is the same for every call.
func (b *builder) indexes() []string {
	where := ""
	if n, _ := parameters(b.where); b.where != "" && n == 0 {
		where = " AND (" + b.where + ")"
	}
	schema, name := "", b.name
	if dot := strings.LastIndexByte(name, '.'); dot >= 0 {
		schema, name = b.dialect.identifier(name[:dot])+".", name[dot+1:]
	}
	table := b.table
	if b.dialect == PostgreSQL {
		schema = "" // an index is in that of its table
	} else {
		table = b.dialect.identifier(name)
	}
	index := func(suffix, key, condition string) string {
		return fmt.Sprintf("%s%s ON %s (%s) WHERE %s", schema, b.dialect.identifier(name+suffix), table, key, condition)
	}
	if b.orderBy == "" {
		return []string{
			index("_claim", "("+b.queue()+")", b.live()+where),
			index("_sweep", b.leaseUntil, b.running()+where),
		}
	}
	return []string{
		// The status is the same for all entries. Without it, SQLite may take a
		// table that is full of ready rows for quicker to sort.
		index("_claim", b.status+", "+b.orderBy, b.promoted()+where),
		index("_promote", b.due, b.promotable()+where),
		index("_sweep", b.leaseUntil, b.running()+where),
	}
}
