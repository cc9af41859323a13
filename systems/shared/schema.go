package shared

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed-5ff3c98e/retry/retrytable"
)

// Table is what a program needs of a table that its user may have already. Everything in SQL
// may have the words of [DB.SQL], and {tickets} for the type of the IDs of the table tickets, if
// that comes before.
type Table struct {
	Name    string
	New     string // the columns with which a new one begins; none is made if this is empty
	ID      string // the type of the ID of a new one
	Columns []Column
	ByHand  []Column    // only the user knows what rows should have in them: an error, with the statement to run, if there are rows
	InJobs  bool        // the columns of ByHand are of a table of jobs, which adds them
	Jobs    interface { // adds and checks the columns that it knows; nil: there are none
		Schema() string
		Missing(ctx context.Context, db retrytable.DB) ([]string, error)
	}
	Indexes []Column // with "(name)" in the place of a type
	Checks  []Check
}

// errZone is what is wrong with an instant without a time zone.
var errZone = errors.New("has no time zone")

// Column is a column, or an index, that is added if it is missing.
type Column struct{ Name, Type string }

// Columns are names and types in turn.
func Columns(namesAndTypes ...string) (all []Column) {
	for pair := range slices.Chunk(namesAndTypes, 2) {
		all = append(all, Column{Name: pair[0], Type: pair[1]})
	}
	return all
}

// Check is a condition that no row may meet, with the value that such a row is to have.
type Check struct{ Column, Type, Wrong, Problem, Instead string }

// Never returns a Check.
func Never(column, sqlType, wrong, problem, instead string) Check {
	return Check{column, sqlType, wrong, problem, instead}
}

// Lacks returns the statements that add what the tables lack, and changes nothing. They can be
// run while others use the tables. What they do not mend is an error with the statement that
// does.
func (db *DB) Lacks(ctx context.Context, q retrytable.DB, tables []Table) (statements []string, faults error) {
	var words []string
	for _, t := range tables {
		have, err := db.ColumnTypes(ctx, q, t.Name)
		if err != nil {
			return nil, err
		}
		if id, ok := have["id"]; ok {
			t.ID = id
		}
		words = append(words, "{"+t.Name+"}", t.ID)
		lacks, err := db.lacks(ctx, q, &t, have)
		faults = errors.Join(faults, err)
		for _, statement := range lacks {
			statements = append(statements, db.SQL(strings.NewReplacer(words...).Replace(statement)))
		}
	}
	return statements, faults
}

func (db *DB) lacks(ctx context.Context, q retrytable.DB, t *Table, have map[string]string) (all []string, err error) {
	found := len(have) > 0
	var rows bool
	if found {
		if rows, err = One[bool](ctx, q, "SELECT EXISTS (SELECT 1 FROM "+t.Name+")"); err != nil {
			return nil, err
		}
	}
	if columns := t.ByHand; found && !rows && t.New != "" {
		if t.ByHand = nil; !t.InJobs {
			t.Columns = slices.Concat(t.Columns, columns)
		}
	}
	switch {
	case found:
		if err := db.misfits(ctx, q, t, have); err != nil {
			return nil, err
		}
	case t.New == "":
		return nil, fmt.Errorf("%s: there is no such table", t.Name)
	default:
		all = []string{"CREATE TABLE " + t.Name + " (" + t.New + ")"}
	}
	for _, c := range t.Columns {
		if have[c.Name] == "" {
			all = append(all, "ALTER TABLE "+t.Name+" ADD COLUMN "+c.Name+" "+c.Type)
		}
	}
	switch {
	case t.Jobs != nil && found:
		missing, err := t.Jobs.Missing(ctx, q)
		if err != nil {
			return nil, err
		}
		all = append(all, missing...)
	case t.Jobs != nil:
		all = append(all, strings.TrimSuffix(t.Jobs.Schema(), ";\n"))
	}
	for _, i := range t.Indexes {
		exists, err := db.Exists(ctx, q, i.Name)
		if err != nil {
			return nil, err
		}
		kind := "INDEX"
		if db.Dialect == retrytable.PostgreSQL { // while others write
			kind = "INDEX CONCURRENTLY"
			if found && !exists { // or was not built to its end
				all = append(all, "DROP "+kind+" IF EXISTS "+i.Name)
			}
		}
		if !exists {
			all = append(all, "CREATE "+kind+" "+i.Name+" ON "+t.Name+" "+i.Type)
		}
	}
	return all, nil
}

// misfits are columns and values with which the program would fail, or do what nobody wants.
func (db *DB) misfits(ctx context.Context, q retrytable.DB, t *Table, have map[string]string) error {
	var faults []error
	fault := func(column string, problem any, mend string) {
		faults = append(faults, fmt.Errorf("%s.%s: %v; run: %s", t.Name, column, problem, db.SQL(mend)))
	}
	for _, c := range t.ByHand {
		if have[c.Name] == "" {
			fault(c.Name, "there is no such column", "ALTER TABLE "+t.Name+" ADD COLUMN "+c.Name+" "+c.Type)
		}
	}
	if len(faults) > 0 {
		return errors.Join(faults...)
	}
	for _, c := range t.Checks {
		if have[c.Column] == "" {
			continue
		}
		n, err := One[int](ctx, q, db.SQL("SELECT count(*) FROM "+t.Name+" WHERE "+c.Wrong))
		var server interface{ SQLState() string }
		if zoneless := "timestamp without time zone"; c.Type == "{instant}" && have[c.Column] == zoneless {
			err = errZone
		}
		switch {
		case errors.Is(err, errZone), errors.As(err, &server) && slices.Contains([]string{"22", "42"}, server.SQLState()[:2]): // the type is wrong
			fault(c.Column, fmt.Sprintf("is %s: %v", have[c.Column], err), fmt.Sprintf(
				"ALTER TABLE %s ALTER COLUMN %s TYPE %s USING CAST(%[2]s AS %[3]s)", t.Name, c.Column, c.Type))
			return errors.Join(faults...) // other conditions would fail of it too
		case err != nil:
			return err
		case n > 0:
			fault(c.Column, fmt.Sprintf("%s in %d rows", c.Problem, n), "UPDATE "+t.Name+" SET "+c.Column+" = "+c.Instead+" WHERE "+c.Wrong)
		}
	}
	return errors.Join(faults...)
}

// Exists reports whether there is a table or an index of that name. An index that was not
// built to its end is none.
func (db *DB) Exists(ctx context.Context, q retrytable.DB, name string) (exists bool, err error) {
	look := "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE name = $1)"
	switch db.Dialect {
	case retrytable.PostgreSQL:
		look = "SELECT to_regclass($1) IS NOT NULL AND NOT EXISTS (SELECT 1 FROM pg_index WHERE indexrelid = to_regclass($1) AND NOT indisvalid)"
	case retrytable.MySQL:
		look = "SELECT EXISTS (SELECT 1 FROM information_schema.statistics WHERE table_schema = database() AND index_name = ?)"
	default: // SQLite
	}
	return One[bool](ctx, q, look, name)
}

// ColumnTypes returns the columns of a table, and their types. There are none if there is no
// such table.
func (db *DB) ColumnTypes(ctx context.Context, q retrytable.DB, table string) (map[string]string, error) {
	look := "SELECT name, type FROM pragma_table_info($1)"
	switch db.Dialect {
	case retrytable.PostgreSQL:
		look = `SELECT attname, CAST(CAST(atttypid AS regtype) AS text) FROM pg_attribute
			WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped`
	case retrytable.MySQL:
		look = "SELECT column_name, column_type FROM information_schema.columns WHERE table_schema = database() AND table_name = ?"
	default: // SQLite
	}
	types := map[string]string{}
	_, err := Query(ctx, q, func(rows *sql.Rows) (_ any, err error) {
		var name, sqlType string
		err = rows.Scan(&name, &sqlType)
		types[name] = sqlType
		return nil, err
	}, look, table)
	return types, err
}

// TablesWith returns the tables that have a column of that name.
func (db *DB) TablesWith(ctx context.Context, column string) ([]string, error) {
	look := "SELECT m.name FROM sqlite_master AS m, pragma_table_info(m.name) AS c WHERE m.type = 'table' AND c.name = $1"
	if db.Dialect != retrytable.SQLite {
		look = "SELECT table_name FROM information_schema.columns WHERE table_schema = current_schema() AND column_name = $1"
	}
	return Query(ctx, db, func(rows *sql.Rows) (table string, err error) { return table, rows.Scan(&table) }, look, column)
}
