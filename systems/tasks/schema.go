package main

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/seed-5ff3c98e/retry/retrytable"
	"github.com/seed-5ff3c98e/retry/systems/shared"
)

// schema is what a service needs of the database, and writes to it.
func (s *service) schema() *shared.Schema {
	db, since := s.db, "{instant} NOT NULL DEFAULT now()" // of rows that are older than the column
	if db.Dialect == retrytable.SQLite {
		since = "{instant} NOT NULL DEFAULT 0" // must be constant there
	}
	var checks []shared.Check
	sqlite, century := db.Dialect == retrytable.SQLite, "'2000-01-01Z'"
	for _, c := range []string{"created_at", "started_at", "ended_at", "last_updated"} {
		wrong, value := "extract(timezone FROM "+c+") IS NULL AND "+c+" IS NOT NULL", c
		if sqlite {
			wrong, value, century = noInteger(c), "unixepoch("+c+") * 1000000", "946684800000000"
		}
		checks = append(checks, shared.Never(c, "{instant}", wrong, "is no instant", value))
	}
	for _, c := range []string{"position", "timeout", "max_concurrency", "attempt", "success", "failures"} {
		checks = append(checks, shared.Never(c, "bigint", "coalesce("+c+", -1) < 0", "is negative or NULL", "0"))
		if sqlite {
			checks = append(checks, shared.Never(c, "", noInteger(c), "is no integer", "CAST("+c+" AS integer)"))
		}
	}
	return &shared.Schema{Program: "tasks", Jobs: s.all(), Probe: retrytable.Probe[string]{Insert: s.probed, Worker: &retrytable.Worker[string]{InTx: s.called}}, Tables: []shared.Table{
		{
			Name: "task", New: "id text PRIMARY KEY", ID: "text", Columns: shared.Columns(
				"batch_id", "text NOT NULL DEFAULT ''", "position", "bigint NOT NULL DEFAULT 0", "local_id", "text NOT NULL DEFAULT ''",
				"name", "text NOT NULL DEFAULT ''", "kind", "text NOT NULL DEFAULT ''", "timeout", "int NOT NULL DEFAULT 60",
				"max_concurrency", "int NOT NULL DEFAULT 0", "on_start", "jsonb", "on_success", "jsonb", "on_failure", "jsonb",
				"retry_policy", "jsonb", "success", "bigint NOT NULL DEFAULT 0", "failures", "bigint NOT NULL DEFAULT 0",
				"created_at", since, "started_at", "{instant}", "ended_at", "{instant}", "last_updated", since),
			ByHand: shared.Columns("status", "text NOT NULL DEFAULT 'paused'"), InJobs: true, // a new table gets retrytable's
			Indexes: shared.Columns("task_batch", "(batch_id)", "task_created", "(created_at)",
				"task_running", "(kind) WHERE status IN ('claimed', 'running')", "task_timeouts", "(lease_until) WHERE status IN ('running')"),
			Checks: append(checks, shared.Never("next_retry_at", "{instant}", "next_retry_at < "+century, "is in a past century", "{now}")),
		},
		{
			Name: "task_link", New: "parent_id {task} NOT NULL, child_id {task} NOT NULL, PRIMARY KEY (parent_id, child_id)",
			Indexes: shared.Columns("task_link_child", "(child_id)"),
		},
		{
			Name: "webhook_execution", New: "idempotency_key text PRIMARY KEY", Jobs: s.hooks,
			Columns: shared.Columns("task_id", "{task}", "attempt", "int NOT NULL DEFAULT 0", "action", "jsonb"),
			Indexes: shared.Columns("webhook_execution_task", "(task_id)"),
		},
	}}
}

// probed inserts a task.
func (s *service) probed(ctx context.Context, tx *sql.Tx) error {
	return s.insert(ctx, tx, uuid.NewString(), 0, newTask{ID: "probe"}, map[string]string{"probe": uuid.NewString()})
}

// called records a call.
func (s *service) called(ctx context.Context, tx *sql.Tx, o *retrytable.Outcome[string]) error {
	return s.record(ctx, tx, task{basicTask: basicTask{ID: o.Job.ID}, OnStart: &action{}}, 0, o.Err)
}

func noInteger(column string) string { return "typeof(" + column + ") NOT IN ('integer', 'null')" }

// all is the table of tasks with the words of all statuses, which an enum must have. The
// policies are not retrytable's: it would have them in a column of text.
func (s *service) all() *retrytable.Table[string] {
	t := s.table(claimed, success, "")
	t.Columns.Error, t.Columns.Kind = "failure_reason", ""
	t.Statuses.Done = append(t.Statuses.Done, string(running), string(canceled), string(waiting), string(paused))
	return t
}

// ready returns an error if something is missing, or if nobody would call the actions of tasks.
func (s *service) ready(ctx context.Context) error {
	err := s.db.Check(ctx, s.schema())
	if err == nil {
		err = s.hooks.Probe(ctx, s.db.DB, retrytable.Probe[string]{})
	}
	if err != nil {
		return err
	}
	return s.uncalled(ctx)
}

// uncalled refuses a table of others with the actions of tasks that have not ended, and have no
// actions in their own columns: nobody would be called.
func (s *service) uncalled(ctx context.Context) error {
	tables, err := s.db.TablesWith(ctx, "task_id")
	if err != nil {
		return err
	}
	for _, table := range tables {
		if !strings.Contains(table, "action") && !strings.Contains(table, "hook") || table == "webhook_execution" {
			continue
		}
		var n int
		var id sql.NullString
		err := s.db.QueryRowContext(ctx, `SELECT count(*), min(CAST(id AS text)) FROM task WHERE status IN `+alive+`
			AND on_start IS NULL AND on_success IS NULL AND on_failure IS NULL
			AND CAST(id AS text) IN (SELECT CAST(task_id AS text) FROM "`+table+`")`).Scan(&n, &id)
		if err == nil && n > 0 {
			err = fmt.Errorf("%s: has actions of %d tasks that have not ended, such as %s, which nobody would call: "+
				"copy them to the columns on_start, on_success and on_failure of task", table, n, id.String)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
