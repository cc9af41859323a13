package sqltable

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
)

// Schema are the statements that add all columns and indexes to a table that has none of them.
func (t *Table) Schema() []string {
	b := t.builder()
	var all []string
	for _, p := range b.dialect.parts(b) {
		all = append(all, p.sql)
	}
	all = b.altering(all)
	if t.Dialect == PostgreSQL && !t.KeepAutovacuum {
		all = append(all, "ALTER TABLE "+b.table+" SET (autovacuum_vacuum_scale_factor = 0.01)")
	}
	return all
}

// part is a column or an index that Schema adds.
type part struct {
	column, index string // the name of one of them, without quotes
	sql           string // a statement, or a clause of one; see altering
	dispensable   bool   // the statements work without it, but take long in a large table
}

// types are the types that a dialect has for columns, besides those of instants.
type types struct{ word, text, integer string }

// columnParts are the columns, with what begins the SQL of each, and with this default of the
// due time. Optional ones may be NULL.
func (b *builder) columnParts(add, dueDefault string) []part {
	types, due := b.dialect.types(), b.instants.column
	if b.OrderBy == "" && b.Statuses.Waiting != b.Statuses.Dead {
		due += dueDefault
	}
	count := types.integer + " NOT NULL DEFAULT 0"
	key := b.Columns.Key
	if key == b.Columns.Kind {
		key = ""
	}
	return slices.DeleteFunc([]part{
		{column: b.Columns.Status, sql: add + b.status + " " + types.word + " NOT NULL DEFAULT " + literal(b.Statuses.Ready)},
		{column: cmp.Or(b.Columns.Retries, b.Columns.Attempts), sql: add + b.attempts + " " + count},
		{column: b.Columns.Due, sql: add + b.due + " " + due},
		{column: b.Columns.Lease, sql: add + b.leaseUntil + " " + b.instants.column},
		{column: b.Columns.Fence, sql: add + b.fence + " " + count},
		{column: b.Columns.RateLimited, sql: add + b.rateLimited + " " + count},
		{column: b.Columns.Pending, sql: add + b.pending + " " + count},
		{column: b.Columns.First, sql: add + b.first + " " + b.instants.column},
		{column: b.Columns.Ended, sql: add + b.ended + " " + b.instants.column},
		{column: b.Columns.Kind, sql: add + b.kind + " " + types.word},
		{column: b.Columns.Category, sql: add + b.category + " " + types.word},
		{column: key, sql: add + b.owner + " " + types.word},
		{column: b.Columns.Error, sql: add + b.text + " " + types.text},
	}, func(p part) bool { return p.column == "" })
}

// index is what a statement finds its rows by, in their order.
type index struct {
	suffix    string // of its name
	condition string // of the rows that are in it
	due       string // an instant, which must have come; "" if the order is another one
	by        string // the order, if it is not that of due
}

// indexes are those of Claim, Sweep, the dead rows and, with an order of the user's, the retries.
func (b *builder) indexes() []index {
	if b.OrderBy == "" {
		return []index{b.claimIndex(), b.sweepIndex(), b.deadIndex()}
	}
	return []index{b.claimIndex(), b.promoteIndex(), b.sweepIndex(), b.deadIndex()}
}

func (b *builder) claimIndex() index {
	switch ready := oneOf(b.status, b.Statuses.Ready); {
	case b.Merge:
		return index{"_claim", ready, "", b.OrderBy}
	case b.OrderBy != "":
		return index{"_claim", ready + " AND " + b.due + " IS NULL", "", b.OrderBy}
	default:
		return index{"_claim", b.live(), b.queue(), ""}
	}
}

// promoteIndex has the retries. If a claim merges them, ready rows are none, whatever due
// time they have.
func (b *builder) promoteIndex() index {
	suffix, rows := "_promote", b.live()
	if b.Merge {
		suffix, rows = "_retry", oneOf(b.status, b.Statuses.Waiting)
	}
	return index{suffix, rows + " AND " + b.due + " IS NOT NULL", b.key(b.due), ""}
}

func (b *builder) sweepIndex() index { return index{"_sweep", b.running(), b.key(b.leaseUntil), ""} }

// deadIndex is for people: no Worker looks for dead rows.
func (b *builder) deadIndex() index { return index{deadSuffix, b.dead(), "", b.id} }

const deadSuffix = "_dead"

// dead is the condition of rows that were given up.
func (b *builder) dead() string {
	dead := oneOf(b.status, b.Statuses.Dead)
	if b.Statuses.Dead == b.Statuses.Waiting {
		dead += " AND " + b.due + " IS NULL"
	}
	return dead
}

// key is what is compared of an instant in a column.
func (b *builder) key(column string) string {
	if b.instants.key == nil {
		return column
	}
	return b.instants.key(column)
}

// columns are what the index consists of.
func (i *index) columns(b *builder) string {
	switch i.due {
	case "":
		// The status is the same for all entries. Without it, SQLite may take a
		// table that is full of ready rows for quicker to sort.
		return b.status + ", " + i.by
	case b.due, b.leaseUntil:
		return i.due
	default: // an expression
		return "(" + i.due + ")"
	}
}

// rows is the condition of the rows in the index. A Where is part of it only as far as it
// is the same for every call.
func (i *index) rows(b *builder) string {
	where := b.fixedWhere()
	if where == "" {
		return i.condition
	}
	return i.condition + " AND (" + where + ")"
}

// fixedWhere is the Where, if it has no parameters.
func (b *builder) fixedWhere() string {
	if n, _ := b.parameters(b.Where); n > 0 {
		return ""
	}
	return b.Where
}

// ending is the end of the index's name. Tables that differ in their Where have an index each.
func (i *index) ending(b *builder) string {
	if i.rows(b) == i.condition {
		return i.suffix
	}
	digest := fnv.New32a()
	_, _ = digest.Write([]byte(b.Where))
	return fmt.Sprintf("%s_%08x", i.suffix, digest.Sum32())
}

// passed is the condition of the rows of an index whose instant has come.
func (i *index) passed(b *builder) string {
	if i.due == "" {
		return i.condition
	}
	return i.condition + " AND " + i.due + " <= " + cmp.Or(b.instants.moment, b.instants.now)
}

// live is the condition of rows that are or will be due, if they have a due time.
func (b *builder) live() string { return oneOf(b.status, b.Statuses.Ready, b.Statuses.Waiting) }

// queue is when a row is due. It is what the index is made of, because an index
// cannot be searched for "NULL or past" in order.
func (b *builder) queue() string {
	due := "coalesce(" + b.key(b.due) + ", " + b.instants.always + ")"
	if b.Statuses.Ready == b.Statuses.Waiting {
		return due
	}
	return "CASE WHEN " + b.status + " = " + literal(b.Statuses.Ready) + " THEN " + due + " ELSE " + b.key(b.due) + " END"
}

func (b *builder) running() string { return oneOf(b.status, b.Statuses.Running...) }

// through is what a query of the rows of an index has after FROM, WHERE and ORDER BY. An index without
// a suffix is none. Only the planner of MySQL does not know itself which index that is.
func (b *builder) through(i index) (from, rows, order string) {
	if i.suffix == "" || b.Dialect != MySQL {
		return b.table, i.rows(b), cmp.Or(i.due, i.by)
	}
	column, _, _ := mysql{}.generated(b, i)
	from = fmt.Sprintf("%s FORCE INDEX (%s)", b.table, column)
	if i.due == "" {
		return from, column + " = 1", i.by
	}
	return from, column + " IS NOT NULL", column
}

// altering makes statements of the SQL of parts.
func (b *builder) altering(sql []string) []string {
	switch {
	case len(sql) == 0 || b.Dialect != MySQL:
		return sql
	case len(sql) == 1:
		return []string{"ALTER TABLE " + b.table + " " + sql[0]}
	default:
		return []string{"ALTER TABLE " + b.table + "\n\t" + strings.Join(sql, ",\n\t")}
	}
}
