package shared

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
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
	InJobs  bool        // the columns of ByHand are of a table of jobs, which adds them if there are no rows
	Filled  bool        // rows are inserted with the Columns and no others: an error if one needs more
	Jobs    interface { // adds and checks the columns that it knows; nil: there are none
		Schema() string
		Missing(ctx context.Context, db retrytable.DB) ([]string, error)
	}
	Indexes []Column // with "(name)" in the place of a type
	Checks  []Check
}

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
		have, err := db.ColumnsOf(ctx, q, t.Name)
		if err != nil {
			return nil, err
		}
		words = append(words, "{"+t.Name+"}", cmp.Or(have["id"].Type, t.ID))
		lacks, err := db.lacks(ctx, q, &t, have)
		faults = errors.Join(faults, err)
		for _, statement := range lacks {
			statements = append(statements, db.SQL(strings.NewReplacer(words...).Replace(statement)))
		}
	}
	return statements, faults
}

func (db *DB) lacks(
	ctx context.Context, q retrytable.DB, t *Table, have map[string]Existing,
) (all []string, err error) {
	found, rows := len(have) > 0, t.New == ""
	switch {
	case found && !rows:
		rows, err = One[bool](ctx, q, "SELECT EXISTS (SELECT 1 FROM "+t.Name+")")
	case !found && rows:
		err = fmt.Errorf("%s: there is no such table", t.Name)
	case !found:
		all = []string{"CREATE TABLE " + t.Name + " (" + t.New + ")"}
	}
	if err != nil {
		return nil, err
	}
	var faults []error
	for i, c := range slices.Concat(t.ByHand, t.Columns) {
		_, there := have[c.Name]
		byHand, add := i < len(t.ByHand), "ALTER TABLE "+t.Name+" ADD COLUMN "+c.Name+" "+c.Type
		switch {
		case there, byHand && !found: // or New has it
		case byHand && rows:
			faults = append(faults, db.fault(t, c.Name, "there is no such column", add))
		case byHand && t.InJobs:
		default:
			all = append(all, add)
		}
	}
	if faults == nil {
		faults = db.wrong(ctx, q, t, have)
	}
	if faults != nil {
		return nil, errors.Join(faults...)
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
		if found && !exists && db.Dialect == retrytable.PostgreSQL { // or was not built to its end
			all = append(all, "DROP INDEX{concurrently} IF EXISTS "+i.Name)
		}
		if !exists {
			all = append(all, "CREATE INDEX{concurrently} "+i.Name+" ON "+t.Name+" "+i.Type)
		}
	}
	return all, nil
}

// fault is an error with the statement that mends it.
func (db *DB) fault(t *Table, column, problem, mend string) error {
	return fmt.Errorf("%s.%s: %s; run: %s", t.Name, column, problem, db.SQL(mend))
}

// wrong are columns and values with which the program would fail, or do what nobody wants.
func (db *DB) wrong(ctx context.Context, q retrytable.DB, t *Table, have map[string]Existing) (faults []error) {
	for _, name := range slices.Sorted(maps.Keys(have)) {
		known := func(c Column) bool { return c.Name == name }
		if t.Filled && have[name].Required && name != "id" && !slices.ContainsFunc(t.Columns, known) {
			faults = append(faults, db.fault(t, name, "must have a value in each row, and would have none",
				"ALTER TABLE "+t.Name+" ALTER COLUMN "+name+" DROP NOT NULL"))
		}
	}
	for _, c := range t.Checks {
		is, there := have[c.Column]
		if !there {
			continue
		}
		n, err := One[int](ctx, q, db.SQL("SELECT count(*) FROM "+t.Name+" WHERE "+c.Wrong))
		var server interface{ SQLState() string }
		switch {
		// The type is wrong.
		case errors.As(err, &server) && slices.Contains([]string{"0A", "22", "42"}, server.SQLState()[:2]):
			return append(faults, db.fault(t, c.Column, fmt.Sprintf("is %s: %v", is.Type, err), fmt.Sprintf(
				"ALTER TABLE %s ALTER COLUMN %s TYPE %s USING CAST(%[2]s AS %[3]s)", t.Name, c.Column, c.Type)))
		case err != nil:
			return []error{err}
		case n > 0:
			faults = append(faults, db.fault(t, c.Column, fmt.Sprintf("%s in %d rows", c.Problem, n),
				"UPDATE "+t.Name+" SET "+c.Column+" = "+c.Instead+" WHERE "+c.Wrong))
		}
	}
	return faults
}

// Exists reports whether there is a table or an index of that name. An index that was not
// built to its end is none.
func (db *DB) Exists(ctx context.Context, q retrytable.DB, name string) (exists bool, err error) {
	return One[bool](ctx, q, map[retrytable.Dialect]string{
		retrytable.PostgreSQL: `SELECT to_regclass($1) IS NOT NULL AND NOT EXISTS (
			SELECT 1 FROM pg_index WHERE indexrelid = to_regclass($1) AND NOT indisvalid)`,
		retrytable.SQLite: "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE name = $1)",
		retrytable.MySQL: `SELECT EXISTS (
			SELECT 1 FROM information_schema.statistics WHERE table_schema = database() AND index_name = ?)`,
	}[db.Dialect], name)
}

// Existing is a column that there is.
type Existing struct {
	Type     string
	Required bool // it needs a value and has no default; MariaDB is not asked
}

// ColumnsOf returns the columns of a table. There are none if there is no such table.
func (db *DB) ColumnsOf(ctx context.Context, q retrytable.DB, table string) (map[string]Existing, error) {
	columns := map[string]Existing{}
	_, err := Query(ctx, q, func(rows *sql.Rows) (name string, err error) {
		var c Existing
		err = rows.Scan(&name, &c.Type, &c.Required)
		columns[name] = c
		return name, err
	}, map[retrytable.Dialect]string{
		retrytable.PostgreSQL: `SELECT attname, CAST(CAST(atttypid AS regtype) AS text), attnotnull AND NOT atthasdef AND attidentity = ''
			FROM pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped`,
		retrytable.SQLite: `SELECT name, type, "notnull" AND dflt_value IS NULL AND pk = 0 FROM pragma_table_info($1)`,
		retrytable.MySQL: `SELECT column_name, column_type, false FROM information_schema.columns
			WHERE table_schema = database() AND table_name = ?`,
	}[db.Dialect], table)
	return columns, err
}

// Schema is what a program needs of its database.
type Schema struct {
	Program string // its command migrate adds what is missing
	Jobs    *retrytable.Table[string]
	Tables  []Table                  // with what there is besides the columns of Jobs
	Probe   retrytable.Probe[string] // of the writes of its worker
}

// Migration is the command migrate: it prints what is missing, and adds it unless there is -print.
func Migration(schema func(db *DB) *Schema) Command {
	const about = "adds what the tables lack; it may be run again, and while others use them"
	return Command{"migrate", about, func(flags *flag.FlagSet) Action {
		onlyPrint := flags.Bool("print", false, "print the statements, and change nothing")
		return On(flags, If(onlyPrint, OpenExisting, Open), func(ctx context.Context, db *DB, out io.Writer) error {
			return db.Migrate(ctx, out, schema(db), *onlyPrint)
		})
	}}
}

// Adoption is the command adopt: what another program has left running without a lease gets one that has
// run out, so that a worker takes it over.
func Adoption(schema func(db *DB) *Schema) Command {
	const about = "takes over what is in progress without a lease; only when no program without leases runs any more"
	return Command{"adopt", about, func(flags *flag.FlagSet) Action {
		return On(flags, OpenExisting, func(ctx context.Context, db *DB, out io.Writer) error {
			n, err := schema(db).Jobs.TakeOver(ctx, db, retrytable.Jobs[string]{All: true})
			if err == nil {
				fmt.Fprintln(out, n, "adopted")
			}
			return err
		})
	}}
}

var errPrinted = errors.New("only printed")

// Migrate prints the statements for what is missing and runs them, unless they are only to be printed. It
// says so if there are none.
func (db *DB) Migrate(ctx context.Context, out io.Writer, s *Schema, onlyPrint bool) error {
	missing := false
	err := db.migrate(ctx, s, func(statements []string) error {
		missing = true
		fmt.Fprintf(out, "%s;\n", strings.Join(statements, ";\n"))
		if onlyPrint {
			return errPrinted
		}
		return nil
	})
	switch {
	case errors.Is(err, errPrinted):
		return nil
	case err == nil && !missing:
		fmt.Fprintln(out, "-- nothing is missing")
	}
	return err
}

// Check returns an error with the statements for what is missing, or with what a worker cannot write.
func (db *DB) Check(ctx context.Context, s *Schema) error {
	return db.migrate(ctx, s, func(statements []string) error {
		return fmt.Errorf("the tables lack something; %s migrate runs, and with -print prints:\n%s;", s.Program, strings.Join(statements, ";\n"))
	})
}

func (db *DB) migrate(ctx context.Context, s *Schema, tell func(statements []string) error) error {
	return s.Jobs.Migrate(ctx, db.DB, retrytable.Migration[string]{
		Tell: tell, Probe: s.Probe,
		Also: func(ctx context.Context, q retrytable.DB) ([]string, error) { return db.Lacks(ctx, q, s.Tables) },
	})
}
