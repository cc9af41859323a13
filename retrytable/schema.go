package retrytable

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-5ff3c98e/retry/retrytable/internal/sqltable"
)

// Schema returns the SQL that adds all of its columns and indexes to a table that has none
// of them, such as a new one. For a table that has some of them, see [Table.Missing]. In
// PostgreSQL, and for indexes in SQLite, what exists by its name stays as it is. In MySQL,
// Schema is one statement, which copies the table.
//
// The indexes keep the methods quick in a large table. Their conditions must stay word for
// word, so drop an index when the statuses or OrderBy have changed. A Where without parameters
// has indexes of its own, whose names have a digest of it. A table or view called "jobs_claim"
// keeps the index of that name from being made. If [Table.Validate] finds a fault, Schema
// returns "".
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
	lower := t.lower()
	if lower.Validate() != nil {
		return ""
	}
	return strings.Join(lower.Schema(), ";\n") + ";\n"
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
	c, err := t.compare(ctx, db)
	if err != nil {
		return nil, err
	}
	if err := misfits(c, true); err != nil {
		return nil, err
	}
	return slices.Concat(c.Mends()), nil
}

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
	c, err := t.compare(ctx, db)
	if err != nil {
		return err
	}
	return misfits(c, false)
}

// misfits is an [ErrTable] if the table does not fit, or with unmended only if the Mends do not mend that.
func misfits(c *sqltable.Comparison, unmended bool) error {
	if err := c.Misfits(unmended); err != nil {
		return fmt.Errorf("%w:\n%w", ErrTable, err)
	}
	return nil
}

// ErrTable is the error of a table in the database that does not fit its [Table].
var ErrTable = errors.New("retrytable: the table does not fit")

// compare compares t with the table in the database.
func (t *Table[ID]) compare(ctx context.Context, db DB) (*sqltable.Comparison, error) {
	s, err := t.sql()
	if err != nil {
		return nil, err
	}
	return s.Compare(ctx, db)
}
