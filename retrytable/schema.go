package retrytable

import (
	"cmp"
	"context"
	"slices"
	"strings"
)

// Schema returns the SQL that adds all of its columns and indexes to a table that has none
// of them, such as a new one. For a table that has some of them, see [Table.Missing]. In
// PostgreSQL, and for indexes in SQLite, what exists by its name stays as it is. In MySQL,
// Schema is one statement, which copies the table.
//
// The indexes keep the methods quick in a large table. Their conditions must stay word
// for word, so drop an index when the statuses, Where or OrderBy have changed. A table or
// view called "jobs_claim" keeps the index of that name from being made. If
// [Table.Validate] finds a fault, Schema returns "".
//
// In PostgreSQL and MySQL, without an OrderBy, the default due time of a new row is the
// time of its insertion, unless Waiting is the same word as Dead: then rows that exist
// would be retried. SQLite cannot add a column with such a default: insert rows with a due
// time there.
//
// In PostgreSQL, Schema has the table vacuumed when 1 % of its rows are dead, and not 20 %:
// an attempt leaves two or three dead rows, and claims become slower the more there are of
// them. In a table with many jobs that are done, 20 % are too many. Missing leaves this
// setting of a table alone, and so does Schema with KeepAutovacuum.
func (t *Table[ID]) Schema() string {
	d := t.definition()
	if d.validate() != nil {
		return ""
	}
	b := d.builder()
	var all []string
	for _, p := range d.dialect.parts(b) {
		all = append(all, p.sql)
	}
	all = d.dialect.altering(b, all)
	if t.Dialect == PostgreSQL && !t.KeepAutovacuum {
		all = append(all, "ALTER TABLE "+b.table+" SET (autovacuum_vacuum_scale_factor = 0.01)")
	}
	return strings.Join(all, ";\n") + ";\n"
}

// Missing returns the statements that add what a table in the database lacks: columns,
// words of an enum, and indexes. It changes nothing. It returns none if nothing is
// missing, so a program may run what it returns at each of its starts. Run the statements
// one by one, in their order, and not in a transaction: PostgreSQL refuses that.
//
// The statements are for a table in use. In PostgreSQL, indexes are made CONCURRENTLY, and
// an index that an earlier attempt has left invalid is dropped first; a timestamp without
// time zone becomes one with it, which rewrites the table unless the time zone of the session
// is UTC. PostgreSQL makes no index of a partitioned table CONCURRENTLY, so this locks out
// writers. The last statement is ANALYZE: without statistics, claims may read the whole
// table. In SQLite, making an index locks out writers meanwhile, and in MySQL, adding
// generated columns does.
//
// What these statements do not mend, such as a column of another type, is an error, which
// has [ErrTable] in it. Indexes are looked for by their names, as [Table.Schema] says.
func (t *Table[ID]) Missing(ctx context.Context, db DB) ([]string, error) {
	c, err := t.inspect(ctx, db)
	if err != nil {
		return nil, err
	}
	if err := c.refusal(func(f fault) bool { return f.mend == "" }); err != nil {
		return nil, err
	}
	all := c.dialect.altering(c.builder, c.missing)
	if t.Dialect == PostgreSQL && len(all) > 0 {
		all = append(all, "ANALYZE "+c.table)
	}
	return all, nil
}

// part is a column or an index that Schema adds.
type part struct {
	column, index string // the name of one of them, without quotes
	sql           string // a statement, or a clause of one; see altering
	online        string // the statement for a table in use, if it is another one
	dispensable   bool   // the statements work without it, but take long in a large table
}

// added are the columns, of these types and with this default of a due time. Optional
// ones may be NULL. The SQL of each is what follows ADD COLUMN.
func (b *builder) added(word, text, integer, dueDefault string) []part {
	due := b.instants.column
	if b.orderBy == "" && b.statuses.Waiting != b.statuses.Dead {
		due += dueDefault
	}
	count := integer + " NOT NULL DEFAULT 0"
	return slices.DeleteFunc([]part{
		{column: b.columns.Status, sql: b.status + " " + word + " NOT NULL DEFAULT " + literal(b.statuses.Ready)},
		{column: cmp.Or(b.columns.Retries, b.columns.Attempts), sql: b.attempts + " " + count},
		{column: b.columns.Due, sql: b.due + " " + due},
		{column: b.columns.Lease, sql: b.leaseUntil + " " + b.instants.column},
		{column: b.columns.Fence, sql: b.fence + " " + count},
		{column: b.columns.RateLimited, sql: b.rateLimited + " " + count},
		{column: b.columns.Pending, sql: b.pending + " " + count},
		{column: b.columns.First, sql: b.first + " " + b.instants.column},
		{column: b.columns.Kind, sql: b.kind + " " + word},
		{column: b.columns.Error, sql: b.text + " " + text},
	}, func(p part) bool { return p.column == "" })
}

// index is what a statement finds its rows by, in their order.
type index struct {
	suffix    string // of its name
	condition string // of the rows that are in it
	due       string // an instant, which must have come; "" if the order is the user's
}

// indexes are those of Claim, Sweep and, with an order of the user's, the retries.
func (b *builder) indexes() []index {
	if b.orderBy == "" {
		return []index{b.claimIndex(), b.sweepIndex()}
	}
	return []index{b.claimIndex(), b.promoteIndex(), b.sweepIndex()}
}

func (b *builder) claimIndex() index {
	switch ready := oneOf(b.status, b.statuses.Ready); {
	case b.merge:
		return index{"_claim", ready, ""}
	case b.orderBy != "":
		return index{"_claim", ready + " AND " + b.due + " IS NULL", ""}
	default:
		return index{"_claim", b.live(), b.queue()}
	}
}

// promoteIndex has the retries. If a claim merges them, ready rows are none, whatever due
// time they have.
func (b *builder) promoteIndex() index {
	suffix, rows := "_promote", b.live()
	if b.merge {
		suffix, rows = "_retry", oneOf(b.status, b.statuses.Waiting)
	}
	return index{suffix, rows + " AND " + b.due + " IS NOT NULL", b.key(b.due)}
}

func (b *builder) sweepIndex() index { return index{"_sweep", b.running(), b.key(b.leaseUntil)} }

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
		return b.status + ", " + b.orderBy
	case b.due, b.leaseUntil:
		return i.due
	default: // an expression
		return "(" + i.due + ")"
	}
}

// rows is the condition of the rows in the index. A Where is part of it only as far as it
// is the same for every call.
func (i *index) rows(b *builder) string {
	if n, _ := b.parameters(b.where); b.where == "" || n > 0 {
		return i.condition
	}
	return i.condition + " AND (" + b.where + ")"
}

// live is the condition of rows that are or will be due, if they have a due time.
func (b *builder) live() string {
	return oneOf(b.status, b.statuses.Ready, b.statuses.Waiting)
}

// queue is when a row is due. It is what the index is made of, because an index
// cannot be searched for "NULL or past" in order.
func (b *builder) queue() string {
	due := "coalesce(" + b.key(b.due) + ", " + b.instants.always + ")"
	if b.statuses.Ready == b.statuses.Waiting {
		return due
	}
	return "CASE WHEN " + b.status + " = " + literal(b.statuses.Ready) + " THEN " + due + " ELSE " + b.key(b.due) + " END"
}

func (b *builder) running() string { return oneOf(b.status, b.statuses.Running...) }
