package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/seed-5ff3c98e/retry/examples/shared"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// relation is a table that the service needs. One that exists already gets the columns and
// indexes that it lacks. In its SQL, {id} is the type of the IDs of tasks, and {added} the
// instant of a row that is older than a column.
type relation struct {
	name, key string
	columns   []string // what follows ADD COLUMN
	indexes   []string // what follows CREATE INDEX
	jobs      *retrytable.Table[string]
}

func (s *service) relations() []relation {
	tasks := s.table(claimed, success, "failure_reason = $1")
	tasks.Columns.Kind = "" // is one of ours
	// An enum must have these words too.
	tasks.Statuses.Done = append(tasks.Statuses.Done, string(running), string(canceled), string(waiting), string(paused))
	return []relation{
		{
			name: "task", key: "id text PRIMARY KEY", jobs: tasks,
			columns: []string{
				"batch_id text NOT NULL DEFAULT ''",
				"position bigint NOT NULL DEFAULT 0", // in the batch
				"local_id text NOT NULL DEFAULT ''",
				"name text NOT NULL DEFAULT ''",
				"kind text NOT NULL DEFAULT ''",
				"timeout int NOT NULL DEFAULT 60",
				"max_concurrency int NOT NULL DEFAULT 0",
				"on_start jsonb",
				"on_success jsonb",
				"on_failure jsonb",
				"retry_policy jsonb",
				"attempt int NOT NULL DEFAULT 0", // what callers see: retries so far; attempts counts claims
				"success bigint NOT NULL DEFAULT 0",
				"failures bigint NOT NULL DEFAULT 0",
				"failure_reason text",
				"created_at {instant} NOT NULL DEFAULT {added}",
				"started_at {instant}",
				"ended_at {instant}",
				"last_updated {instant} NOT NULL DEFAULT {added}",
			},
			indexes: []string{
				"task_batch ON task (batch_id)",
				"task_created ON task (created_at)",
				"task_running ON task (kind) WHERE status IN ('claimed', 'running')",
				"task_timeouts ON task (lease_until) WHERE status IN ('running')",
				"task_by_hand ON task (id) WHERE status = 'pending' AND (attempts <> attempt OR next_retry_at IS NOT NULL)",
			},
		},
		{
			name: "task_link", key: "parent_id {id} NOT NULL, child_id {id} NOT NULL, PRIMARY KEY (parent_id, child_id)",
			indexes: []string{"task_link_child ON task_link (child_id)"},
		},
		{
			name: "webhook_execution", key: "idempotency_key text PRIMARY KEY", jobs: s.hooks,
			columns: []string{"task_id {id}", "attempt int NOT NULL DEFAULT 0", "action jsonb", "error text"},
			indexes: []string{"webhook_execution_task ON webhook_execution (task_id)"},
		},
	}
}

// missing returns the statements that add what the database lacks. What they do not mend is
// an error that has the statement to run. Nothing is changed.
func (s *service) missing(ctx context.Context) (all []string, err error) {
	words := []string{"{id}", "text", "{added}", "now()"}
	if s.db.Dialect == retrytable.SQLite {
		words[3] = "0"
	}
	for _, r := range s.relations() {
		found, err := s.columns(ctx, r.name)
		if err == nil && r.name == "task" && len(found) > 0 {
			words[1] = found["id"].sqlType
			err = s.misfits(ctx, found)
		}
		if err != nil {
			return nil, err
		}
		lacks, err := s.lacks(ctx, r, found)
		if err != nil {
			return nil, err
		}
		all = append(all, lacks...)
	}
	for i := range all {
		all[i] = s.db.SQL(strings.NewReplacer(words...).Replace(all[i]))
	}
	return all, nil
}

// lacks returns the statements for one table.
func (s *service) lacks(ctx context.Context, r relation, found map[string]existing) (all []string, err error) {
	if len(found) == 0 {
		all = append(all, "CREATE TABLE "+r.name+" ("+strings.Join(append([]string{r.key}, r.columns...), ", ")+")")
		if r.jobs != nil {
			all = append(all, strings.Split(strings.TrimSuffix(r.jobs.Schema(), ";\n"), ";\n")...)
		}
		for _, index := range r.indexes {
			all = append(all, "CREATE INDEX "+index)
		}
		return all, nil
	}
	for _, c := range r.columns {
		if name, _, _ := strings.Cut(c, " "); found[name] == (existing{}) {
			all = append(all, "ALTER TABLE "+r.name+" ADD COLUMN "+c)
		}
	}
	if r.jobs != nil {
		more, err := r.jobs.Missing(ctx, s.db)
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
	}
	return s.lacksIndexes(ctx, r, all)
}

// lacksIndexes adds to all what makes the indexes that there are not, beside those who write.
func (s *service) lacksIndexes(ctx context.Context, r relation, all []string) ([]string, error) {
	query, create := "SELECT name, true FROM pragma_index_list($1)", "CREATE INDEX "
	if s.db.Dialect == retrytable.PostgreSQL {
		query = `SELECT c.relname, indisvalid FROM pg_index JOIN pg_class c ON c.oid = indexrelid WHERE indrelid = to_regclass($1)`
		create = "CREATE INDEX CONCURRENTLY "
	}
	valid := map[string]bool{}
	_, err := shared.Query(ctx, s.db, func(rows *sql.Rows) (_ any, err error) {
		var name string
		var ok bool
		err = rows.Scan(&name, &ok)
		valid[name] = ok
		return nil, err
	}, query, r.name)
	for _, index := range r.indexes {
		name, _, _ := strings.Cut(index, " ")
		ok, there := valid[name]
		if there && !ok { // it was interrupted
			all = append(all, "DROP INDEX CONCURRENTLY "+name)
		}
		if !ok {
			all = append(all, create+index)
		}
	}
	return all, err
}

// existing is a column that there is.
type existing struct {
	sqlType string
	demands bool // a value of each new row
}

func (s *service) columns(ctx context.Context, table string) (map[string]existing, error) {
	query := `SELECT name, type, "notnull" AND dflt_value IS NULL AND NOT pk FROM pragma_table_info($1)`
	if s.db.Dialect == retrytable.PostgreSQL {
		query = `SELECT attname, format_type(atttypid, NULL), attnotnull AND NOT atthasdef AND attidentity = ''
			FROM pg_attribute WHERE attrelid = to_regclass($1) AND attnum > 0 AND NOT attisdropped`
	}
	found := map[string]existing{}
	_, err := shared.Query(ctx, s.db, func(rows *sql.Rows) (_ any, err error) {
		var name string
		var c existing
		err = rows.Scan(&name, &c.sqlType, &c.demands)
		found[name] = c
		return nil, err
	}, query, table)
	return found, err
}

// misfits reports what is wrong with the table task and its rows, and cannot be mended
// without knowing more.
func (s *service) misfits(ctx context.Context, found map[string]existing) error {
	var faults []error
	fault := func(column, problem, mend string) {
		faults = append(faults, fmt.Errorf("task: %s: %s; run: %s", column, problem, s.db.SQL(mend)))
	}
	if found["status"] == (existing{}) {
		fault("status", "there is no such column", "ALTER TABLE task ADD COLUMN status text NOT NULL DEFAULT 'paused'")
	}
	given := []string{"id", "status"}
	for _, c := range s.relations()[0].columns {
		name, _, _ := strings.Cut(c, " ")
		given = append(given, name)
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if found[name].demands && !slices.Contains(given, name) {
			fault(name, "is NOT NULL and has no default, so no task can be created", "ALTER TABLE task ALTER COLUMN "+name+" SET DEFAULT …")
		}
	}
	if s.db.Dialect == retrytable.PostgreSQL {
		for _, name := range instants {
			if c, ok := found[name]; ok && c.sqlType != "timestamp with time zone" {
				fault(name, "is "+c.sqlType+", and must be timestamptz",
					fmt.Sprintf("ALTER TABLE task ALTER COLUMN %s TYPE timestamptz USING %[1]s::timestamptz", name))
			}
		}
		for _, name := range counts {
			if c, ok := found[name]; ok && !slices.Contains([]string{"smallint", "integer", "bigint"}, c.sqlType) {
				fault(name, "is "+c.sqlType+", and must be an integer",
					fmt.Sprintf("ALTER TABLE task ALTER COLUMN %s TYPE int USING %[1]s::int", name))
			}
		}
	}
	if len(faults) > 0 {
		return errors.Join(faults...)
	}
	return s.badRows(ctx, found)
}

var (
	instants = []string{"next_retry_at", "created_at", "started_at", "ended_at", "last_updated"}
	counts   = []string{"attempt", "success", "failures", "timeout"}
)

// badRows reports values that no service has written.
func (s *service) badRows(ctx context.Context, found map[string]existing) error {
	var faults []error
	look := func(name, condition, problem, value string) error {
		if _, ok := found[name]; !ok {
			return nil
		}
		var n int
		err := s.db.QueryRowContext(ctx, s.db.SQL("SELECT count(*) FROM task WHERE "+condition)).Scan(&n)
		if n > 0 {
			faults = append(faults, fmt.Errorf("task: %s: %s in %d rows; run: %s", name, problem, n,
				s.db.SQL("UPDATE task SET "+name+" = "+value+" WHERE "+condition)))
		}
		return err
	}
	var errs []error
	for _, name := range counts {
		errs = append(errs, look(name, name+" < 0", "is negative", "0"))
	}
	long := "next_retry_at < '2000-01-01Z'"
	if s.db.Dialect == retrytable.SQLite {
		long = "next_retry_at < 946684800000000"
		for _, name := range slices.Concat(instants, counts) {
			errs = append(errs, look(name, "typeof("+name+") IN ('text', 'real', 'blob')",
				"is no integer (an instant is in microseconds since 1970)", "CAST(unixepoch("+name+") AS integer) * 1000000"))
		}
	}
	errs = append(errs, look("next_retry_at", long, "is in the past century", "{now}"))
	return errors.Join(append(errs, faults...)...)
}

// migrate prints and runs what is missing, or only prints it.
func (s *service) migrate(ctx context.Context, out io.Writer, onlyPrint bool) error {
	statements, err := s.missing(ctx)
	if err != nil {
		return err
	}
	return s.db.Migrate(ctx, out, statements, onlyPrint)
}

// ready returns an error that has the statements to run, if something is missing.
func (s *service) ready(ctx context.Context) error {
	statements, err := s.missing(ctx)
	if err == nil && len(statements) > 0 {
		err = fmt.Errorf("the database is not ready; tasks migrate runs, and with -print prints:\n%s;", strings.Join(statements, ";\n"))
	}
	return err
}
