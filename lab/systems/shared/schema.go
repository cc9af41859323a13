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

	"github.com/goccy/go-yaml"

	"github.com/seed-5ff3c98e/retry/retrytable"
)

// Schema is what a program needs of its database. Everything in SQL may have the words of [DB.SQL], and
// {tickets} for the type of the IDs of the table tickets, if that comes before. Columns and indexes have a
// line each: the name, and the type or the "(name)" of what is indexed.
type Schema struct {
	Program string              // its command migrate adds what is missing
	Words   map[string][]string // more {words}: what they stand for in PostgreSQL, SQLite and MariaDB
	Tables  []Table             // which the user may have already, with what there is besides the columns of jobs

	Jobs  *retrytable.Table[string]            `yaml:"-"`
	More  map[string]*retrytable.Table[string] `yaml:"-"` // jobs in other tables, by their names
	Probe retrytable.Probe[string]             `yaml:"-"` // of the writes of its worker
}

// MustSchema reads a schema from YAML.
func MustSchema(file string) *Schema {
	s := &Schema{}
	if err := yaml.UnmarshalWithOptions([]byte(file), s, yaml.Strict()); err != nil {
		panic(err)
	}
	return s
}

// For has the schema prepare the table of a worker, and probe its writes.
func (s *Schema) For(worker *retrytable.Worker[string]) *Schema {
	s.Jobs, s.Probe.Worker = worker.Table, worker
	return s
}

// Table is one of them.
type Table struct {
	Name    string
	New     string // the columns with which a new one begins; none is made if this is empty
	ID      string // the type of the ID of a new one
	Columns string
	ByHand  string `yaml:"by_hand"` // only the user knows what rows should have in them: an error, with the statement to run, if there are rows
	InJobs  bool   `yaml:"in_jobs"` // the columns of ByHand are of a table of jobs, which adds them if there are no rows
	Filled  bool   // rows are inserted with the Columns and no others: an error if one needs more
	Indexes string
	Checks  []Check
}

// Check is a condition that no row may meet, with the value that such a row is to have. {column} is each
// of the Columns, which are names with spaces between.
type Check struct{ Columns, Type, Wrong, Problem, Instead string }

// column is a column or an index.
type column struct{ name, sqlType string }

func columns(lines string) (all []column) {
	for line := range strings.Lines(lines) {
		name, sqlType, _ := strings.Cut(strings.TrimSpace(line), " ")
		all = append(all, column{name, sqlType})
	}
	return all
}

// Lacks returns the statements that add what the tables lack, and changes nothing. They can be
// run while others use the tables. What they do not mend is an error with the statement that
// does.
func (db *DB) Lacks(ctx context.Context, q retrytable.DB, s *Schema) (statements []string, faults error) {
	var words []string
	for word, meanings := range s.Words {
		words = append(words, "{"+word+"}", meanings[db.Dialect])
	}
	sql := func(text string) string { return db.SQL(strings.NewReplacer(words...).Replace(text)) }
	for _, t := range s.Tables {
		have, err := db.Existing(ctx, q, t.Name)
		if err != nil {
			return nil, err
		}
		words = append(words, "{"+t.Name+"}", cmp.Or(have["id"].Type, sql(t.ID)))
		l := lack{db, q, &t, s.More[t.Name], have, sql}
		all, err := l.statements(ctx)
		faults = errors.Join(faults, err)
		for _, statement := range all {
			statements = append(statements, sql(statement))
		}
	}
	return statements, faults
}

// lack is what a table lacks.
type lack struct {
	db    *DB
	q     retrytable.DB
	table *Table
	jobs  *retrytable.Table[string] // nil: the Schema has it, or there are none
	have  map[string]Existing
	sql   func(string) string
}

func (l *lack) statements(ctx context.Context) (all []string, err error) {
	t, q := l.table, l.q
	found, rows := len(l.have) > 0, t.New == ""
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
	own := columns(t.ByHand)
	for i, c := range slices.Concat(own, columns(t.Columns)) {
		_, there := l.have[c.name]
		byHand, add := i < len(own), "ALTER TABLE "+t.Name+" ADD COLUMN "+c.name+" "+c.sqlType
		switch {
		case there, byHand && !found: // or New has it
		case byHand && rows:
			faults = append(faults, l.fault(c.name, "there is no such column", add))
		case byHand && t.InJobs:
		default:
			all = append(all, add)
		}
	}
	if faults == nil {
		faults = l.wrong(ctx)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	switch {
	case l.jobs != nil && found:
		missing, err := l.jobs.Missing(ctx, q)
		if err != nil {
			return nil, err
		}
		all = append(all, missing...)
	case l.jobs != nil:
		all = append(all, strings.TrimSuffix(l.jobs.Schema(), ";\n"))
	}
	for _, i := range columns(t.Indexes) {
		_, exists := l.have[i.name]
		if found && !exists && l.db.Dialect == retrytable.PostgreSQL { // or was not built to its end
			all = append(all, "DROP INDEX{concurrently} IF EXISTS "+i.name)
		}
		if !exists {
			all = append(all, "CREATE INDEX{concurrently} "+i.name+" ON "+t.Name+" "+i.sqlType)
		}
	}
	return all, nil
}

// fault is an error with the statement that mends it.
func (l *lack) fault(column, problem, mend string) error {
	return fmt.Errorf("%s.%s: %s; run: %s", l.table.Name, column, problem, l.sql(mend))
}

// wrong are columns and values with which the program would fail, or do what nobody wants.
func (l *lack) wrong(ctx context.Context) (faults []error) {
	for _, name := range slices.Sorted(maps.Keys(l.have)) {
		known := func(c column) bool { return c.name == name }
		if l.table.Filled && l.have[name].Required && name != "id" && !slices.ContainsFunc(columns(l.table.Columns), known) {
			faults = append(faults, l.fault(name, "must have a value in each row, and would have none",
				"ALTER TABLE "+l.table.Name+" ALTER COLUMN "+name+" DROP NOT NULL"))
		}
	}
	for _, c := range l.table.Checks {
		for name := range strings.FieldsSeq(c.Columns) {
			if is, there := l.have[name]; there {
				faults = append(faults, l.check(ctx, name, is, c))
			}
		}
	}
	return faults
}

// check returns what is wrong with a column, if anything is.
func (l *lack) check(ctx context.Context, name string, is Existing, c Check) error {
	in := strings.NewReplacer("{column}", name)
	wrong := in.Replace(l.sql(c.Wrong))
	n, err := One[int](ctx, l.q, "SELECT count(*) FROM "+l.table.Name+" WHERE "+wrong)
	var server interface{ SQLState() string }
	switch {
	// The type is wrong.
	case errors.As(err, &server) && slices.Contains([]string{"0A", "22", "42"}, server.SQLState()[:2]):
		return l.fault(name, fmt.Sprintf("is %s: %v", is.Type, err), fmt.Sprintf(
			"ALTER TABLE %s ALTER COLUMN %s TYPE %s USING CAST(%[2]s AS %[3]s)", l.table.Name, name, c.Type))
	case err != nil || n == 0:
		return err
	default:
		return l.fault(name, fmt.Sprintf("%s in %d rows", c.Problem, n),
			"UPDATE "+l.table.Name+" SET "+name+" = "+in.Replace(l.sql(c.Instead))+" WHERE "+wrong)
	}
}

// Existing is a column or an index that there is. An index that was not built to its end is none.
type Existing struct {
	Type     string
	Required bool // it needs a value and has no default; MariaDB is not asked
}

// Existing returns the columns and indexes of a table, by their names. There are none if there is no
// such table.
func (db *DB) Existing(ctx context.Context, q retrytable.DB, table string) (map[string]Existing, error) {
	all := map[string]Existing{}
	query := map[retrytable.Dialect]string{
		retrytable.PostgreSQL: `SELECT attname, CAST(CAST(atttypid AS regtype) AS text), attnotnull AND NOT atthasdef AND attidentity = ''
				FROM pg_attribute WHERE attrelid = to_regclass({table}) AND attnum > 0 AND NOT attisdropped
			UNION ALL SELECT relname, 'index', false FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
				WHERE indrelid = to_regclass({table}) AND indisvalid`,
		retrytable.SQLite: `SELECT name, type, "notnull" AND dflt_value IS NULL AND pk = 0 FROM pragma_table_info({table})
			UNION ALL SELECT name, 'index', false FROM pragma_index_list({table})`,
		retrytable.MySQL: `SELECT column_name, column_type, false FROM information_schema.columns
				WHERE table_schema = database() AND table_name = {table}
			UNION ALL SELECT index_name, 'index', false FROM information_schema.statistics
				WHERE table_schema = database() AND table_name = {table}`,
	}[db.Dialect]
	_, err := Query(ctx, q, func(rows *sql.Rows) (name string, err error) {
		var e Existing
		err = rows.Scan(&name, &e.Type, &e.Required)
		all[name] = e
		return name, err
	}, strings.ReplaceAll(query, "{table}", "'"+table+"'"))
	return all, err
}

// Migration is the command migrate: it prints what is missing, and adds it unless there is -print.
func Migration(schema func(db *DB) *Schema) Command {
	return Command{"migrate", "adds what the tables lack; it may be run again, and while others use them", func(flags *flag.FlagSet) Action {
		onlyPrint := flags.Bool("print", false, "print the statements, and change nothing")
		return On(flags, If(onlyPrint, OpenExisting, Open), func(ctx context.Context, db *DB, out io.Writer) error {
			return db.Migrate(ctx, out, schema(db), *onlyPrint)
		})
	}}
}

// Adoption is the command adopt: what another program has left running without a lease gets one that has
// run out, so that a worker takes it over.
func Adoption(schema func(db *DB) *Schema) Command {
	return Command{"adopt", "takes over what is in progress without a lease; only when no program without leases runs any more", func(flags *flag.FlagSet) Action {
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
		Also: func(ctx context.Context, q retrytable.DB) ([]string, error) { return db.Lacks(ctx, q, s) },
	})
}
