package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/seed-5ff3c98e/retry/retrytable"
)

// schema is what retrytable does not add: {id} is the type of the IDs of tasks, {added} the
// instant of rows that are older than a column. A table that exists gets what it lacks.
//
//go:embed schema.sql
var schema string

// missing returns the statements that add what the database lacks. What they do not mend is
// an error with the statements to run. Nothing is changed.
func (s *service) missing(ctx context.Context) (all []string, err error) {
	tables, id, added := map[string]map[string]string{}, "text", "now()"
	if s.db.Dialect == retrytable.SQLite {
		added = "0" // must be constant there
	}
	for statement := range strings.SplitSeq(schema, ";\n") {
		words := strings.Fields(statement)
		name := words[2]
		var lacks []string
		if words[1] == "INDEX" {
			lacks, err = s.lacksIndex(ctx, statement, name, len(tables[words[4]]) == 0)
		} else {
			if tables[name], err = s.db.ColumnTypes(ctx, name); err == nil {
				lacks, err = s.lacks(ctx, name, statement, tables[name])
			}
		}
		if err != nil {
			return nil, err
		}
		all = append(all, lacks...)
	}
	if found, ok := tables["task"]["id"]; ok {
		id = found
	}
	for i := range all {
		all[i] = s.db.SQL(strings.NewReplacer("{id}", id, "{added}", added).Replace(all[i]))
	}
	return all, nil
}

// lacks returns the statements for a table that create would make.
func (s *service) lacks(ctx context.Context, name, create string, found map[string]string) (all []string, err error) {
	var more []string
	if jobs := map[string]*retrytable.Table[string]{"task": s.all(), "webhook_execution": s.hooks}[name]; jobs != nil {
		more, err = strings.Split(strings.TrimSuffix(jobs.Schema(), ";\n"), ";\n"), nil
		if len(found) > 0 {
			more, err = jobs.Missing(ctx, s.db)
		}
		more = slices.DeleteFunc(more, func(statement string) bool { // it is in create
			_, column, ok := strings.Cut(statement, " ADD COLUMN ")
			column, _, _ = strings.Cut(strings.TrimPrefix(column, "IF NOT EXISTS "), " ")
			return ok && strings.Contains(create, "\t"+strings.Trim(column, "\"`")+" ")
		})
	}
	if len(found) == 0 {
		return append([]string{create}, more...), err
	}
	wanted := strings.Split(strings.TrimSuffix(create, "\n)"), "\n\t")[1:]
	if misfits := s.misfits(ctx, name, wanted, found); misfits != nil {
		return nil, misfits // which say more than err
	}
	for _, definition := range wanted {
		column, _, _ := strings.Cut(definition, " ")
		if _, ok := found[column]; !ok && column != "PRIMARY" {
			all = append(all, "ALTER TABLE "+name+" ADD COLUMN "+strings.TrimSuffix(definition, ","))
		}
	}
	return append(all, more...), err
}

// all is the table of tasks with the words of all statuses, which an enum must have.
func (s *service) all() *retrytable.Table[string] {
	t := s.table(claimed, success, "")
	t.Columns.Error = "failure_reason"
	t.Statuses.Done = append(t.Statuses.Done, string(running), string(canceled), string(waiting), string(paused))
	return t
}

// lacksIndex makes an index that is missing, or was not built to its end, while others write.
func (s *service) lacksIndex(ctx context.Context, create, name string, fresh bool) ([]string, error) {
	if fresh {
		return []string{create}, nil
	}
	if exists, err := s.db.Exists(ctx, name); err != nil || exists {
		return nil, err
	}
	beside := "INDEX"
	if s.db.Dialect == retrytable.PostgreSQL {
		beside = "INDEX CONCURRENTLY"
	}
	return []string{"DROP " + beside + " IF EXISTS " + name, strings.Replace(create, "INDEX", beside, 1)}, nil
}

// misfits reports columns and values of a table with which the service would fail, or do
// what nobody wants.
func (s *service) misfits(ctx context.Context, table string, wanted []string, found map[string]string) error {
	var faults []error
	fault := func(column, problem, mend string) {
		faults = append(faults, fmt.Errorf("%s.%s: %s; run: %s", table, column, problem, s.db.SQL(mend)))
	}
	look := func(column, condition, problem, value string) {
		var n int
		where := " WHERE " + condition
		if err := s.db.QueryRowContext(ctx, s.db.SQL("SELECT count(*) FROM "+table+where)).Scan(&n); err != nil {
			faults = append(faults, err)
		} else if n > 0 {
			fault(column, fmt.Sprintf("%s in %d rows", problem, n), "UPDATE "+table+" SET "+column+" = "+value+where)
		}
	}
	sqlite, century := s.db.Dialect == retrytable.SQLite, "'2000-01-01Z'"
	if sqlite {
		century = "946684800000000"
	}
	for _, definition := range wanted {
		words := strings.Fields(strings.TrimSuffix(definition, ","))
		name, types, instant := words[0], numbers[words[1]], words[1] == "{instant}"
		c, ok := found[name]
		switch {
		case !ok || types == nil:
		case !sqlite && !slices.Contains(types, precision.ReplaceAllString(c, "")):
			fault(name, "is "+c, fmt.Sprintf("ALTER TABLE %s ALTER COLUMN %s TYPE %s USING %[2]s::%[3]s", table, name, words[1]))
		case sqlite:
			value := "CAST(" + name + " AS integer)"
			if instant {
				value = "unixepoch(" + name + ") * 1000000"
			}
			look(name, "typeof("+name+") NOT IN ('integer', 'null')", "is no integer", value)
		}
		switch {
		case len(faults) > 0 || !ok || types == nil:
		case name == "next_retry_at":
			look(name, name+" < "+century, "is in a past century", "{now}")
		case !instant:
			look(name, "coalesce("+name+", -1) < 0", "is negative or NULL", "0")
		}
	}
	if _, ok := found["status"]; !ok && table == "task" {
		fault("status", "is not there", "ALTER TABLE task ADD COLUMN status text NOT NULL DEFAULT 'paused'")
	}
	return errors.Join(faults...)
}

// numbers are the types that columns of numbers and instants may have in PostgreSQL.
var numbers = map[string][]string{
	"int": {"smallint", "integer", "bigint"}, "bigint": {"smallint", "integer", "bigint"},
	"{instant}": {"timestamp with time zone"},
}

// precision is what a type may have that makes no difference: timestamp(3) with time zone.
var precision = regexp.MustCompile(`\(\d+\)`)

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
