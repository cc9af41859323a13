package retrytable

// Schema returns the SQL that adds to an existing table the columns and indexes
// that it lacks. SQLite and MySQL have no ADD COLUMN IF NOT EXISTS: there, leave out the
// columns that the table has, and run it once. In MySQL it is one statement, which copies
// the table. Elsewhere, columns and indexes that exist by their names stay as they are.
// So drop an index when the statuses, Where or OrderBy have changed. A table or view
// called "jobs_claim" keeps the index of that name from being made.
//
// The indexes keep the methods quick in a large table. Their conditions must stay word
// for word. On a table in use, PostgreSQL needs CREATE INDEX CONCURRENTLY. If
// [Table.Validate] finds a fault, Schema returns "".
//
// In PostgreSQL and MySQL, without an OrderBy, the default due time of a new row is the
// time of its insertion. SQLite cannot add a column with such a default: insert rows
// with a due time there.
func (t *Table[ID]) Schema() string {
	d := t.definition()
	if d.validate() != nil {
		return ""
	}
	return d.dialect.schema(d.builder())
}

// added are the columns, of these types and with this default of a due time. Optional
// ones may be NULL.
func (b *builder) added(text, integer, dueDefault string) []string {
	due := b.instants.column
	if b.orderBy == "" {
		due += dueDefault
	}
	return present(
		b.status+" "+text+" NOT NULL DEFAULT "+literal(b.statuses.Ready),
		b.attempts+" "+integer+" NOT NULL DEFAULT 0",
		b.due+" "+due,
		b.leaseUntil+" "+b.instants.column,
		b.fence+" "+integer+" NOT NULL DEFAULT 0",
		optional(b.columns.RateLimited, b.rateLimited+" "+integer+" NOT NULL DEFAULT 0"),
		optional(b.columns.Pending, b.pending+" "+integer+" NOT NULL DEFAULT 0"),
		optional(b.columns.First, b.first+" "+b.instants.column),
		optional(b.columns.Kind, b.kind+" "+text),
	)
}

// index is what a statement finds its rows by, in their order.
type index struct {
	suffix    string // of its name
	condition string // of the rows that are in it
	due       string // an instant, which must have come; "" if the order is the user's
}

// indexes are those of Claim, Sweep and, with an order of the user's, Promote.
func (b *builder) indexes() []index {
	if b.orderBy == "" {
		return []index{b.claimIndex(), b.sweepIndex()}
	}
	return []index{b.claimIndex(), b.promoteIndex(), b.sweepIndex()}
}

func (b *builder) claimIndex() index {
	if b.orderBy != "" {
		return index{"_claim", oneOf(b.status, b.statuses.Ready) + " AND " + b.due + " IS NULL", ""}
	}
	return index{"_claim", b.live(), b.queue()}
}

func (b *builder) promoteIndex() index {
	return index{"_promote", b.live() + " AND " + b.due + " IS NOT NULL", b.due}
}

func (b *builder) sweepIndex() index { return index{"_sweep", b.running(), b.leaseUntil} }

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
	due := "coalesce(" + b.due + ", " + b.instants.always + ")"
	if b.statuses.Ready == b.statuses.Waiting {
		return due
	}
	return "CASE WHEN " + b.status + " = " + literal(b.statuses.Ready) + " THEN " + due + " ELSE " + b.due + " END"
}

func (b *builder) running() string { return oneOf(b.status, b.statuses.Running...) }
