package main

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"net/http"

	"github.com/seed-5ff3c98e/retry/examples/shared"
	"github.com/seed-5ff3c98e/retry/retryhttp"
	"github.com/seed-5ff3c98e/retry/retrysql"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// schema is what retrytable does not add.
const schema = `
CREATE TABLE task (
	id              text PRIMARY KEY,
	batch_id        text NOT NULL,
	position        bigint NOT NULL, -- in the batch
	local_id        text NOT NULL,
	name            text NOT NULL,
	kind            text NOT NULL,
	timeout         bigint NOT NULL,
	max_concurrency bigint NOT NULL,
	waiting_for     bigint NOT NULL, -- so many dependencies
	on_start        jsonb,
	on_success      jsonb,
	on_failure      jsonb,
	retry_policy    jsonb,
	attempt         bigint NOT NULL DEFAULT 0, -- what callers see: retries so far; attempts counts claims
	success         bigint NOT NULL DEFAULT 0,
	failures        bigint NOT NULL DEFAULT 0,
	failure_reason  text,
	created_at      {instant} NOT NULL,
	started_at      {instant},
	ended_at        {instant},
	last_updated    {instant} NOT NULL
);
CREATE INDEX task_batch ON task (batch_id);
CREATE INDEX task_created ON task (created_at);
CREATE TABLE task_link (
	parent_id text NOT NULL,
	child_id  text NOT NULL,
	PRIMARY KEY (parent_id, child_id)
);
CREATE TABLE webhook_execution (
	idempotency_key text PRIMARY KEY,
	task_id         text NOT NULL,
	attempt         bigint NOT NULL,
	action          jsonb NOT NULL,
	error           text
);
CREATE INDEX webhook_execution_task ON webhook_execution (task_id);
`

// concurrencyRule is the condition of tasks that may start. Those of a kind that run
// take its places 1, 2, …, and a task needs that of its max_concurrency to be free.
// What waits for its retry has none. A claim numbers the places once, and not for
// each task that it holds back.
const concurrencyRule = `max_concurrency = 0 OR (kind, max_concurrency) NOT IN (
	SELECT kind, row_number() OVER (PARTITION BY kind) FROM task WHERE status IN ('claimed', 'running'))`

// service is the HTTP API and the loops. Any number of them may share a database.
type service struct {
	config

	db     *shared.DB
	tasks  *retrytable.Table[string]
	hooks  *retrytable.Table[string] // calls of webhooks at the end of tasks
	client *http.Client
	counts *metrics
	log    *slog.Logger
}

func newService(db *shared.DB, c config, log *slog.Logger) *service {
	return &service{
		config: c, db: db, log: log, counts: newMetrics(),
		tasks: &retrytable.Table[string]{
			Dialect: db.Dialect, Name: "task", Lease: c.lease,
			ClaimWhere: concurrencyRule, OrderBy: "created_at, batch_id, position", NoPromote: true, // see retries
			Columns: retrytable.Columns{Due: "next_retry_at"},
			Statuses: retrytable.Statuses{
				Ready: string(pending), Waiting: string(retryPending), Running: []string{string(claimed), string(running)},
				Done: []string{string(success)}, Dead: string(failed),
			},
			Set: retrytable.Set{
				Claim:   db.SQL("last_updated = {now}"),
				Succeed: db.SQL("ended_at = {now}, last_updated = {now}"),
				Fail:    db.SQL("failure_reason = $1, ended_at = {now}, last_updated = {now}"),
				Retry:   "attempt = attempt + 1",
				Promote: db.SQL("started_at = NULL, ended_at = NULL, failure_reason = NULL, last_updated = {now}"),
			},
		},
		hooks: &retrytable.Table[string]{
			Dialect: db.Dialect, Name: "webhook_execution", Lease: c.lease,
			Columns:  retrytable.Columns{ID: "idempotency_key"},
			Statuses: retrytable.Statuses{Done: []string{"success"}, Dead: "failure"},
			Set:      retrytable.Set{Fail: "error = $1", Succeed: "error = NULL"},
		},
		client: &http.Client{Transport: &retryhttp.Transport{Policy: once(c.lease), Budget: retryhttp.NoBudget}},
	}
}

// createTables makes the tables if they are not there.
func (s *service) createTables(ctx context.Context) error {
	return s.db.Create(ctx, "task", schema+s.tasks.Schema()+s.hooks.Schema()+
		"CREATE INDEX task_running ON task (kind) WHERE status IN ('claimed', 'running')")
}

// inTx runs fn in a transaction, and again if it met with another one. What is to be told
// is told once it is committed.
func (s *service) inTx(ctx context.Context, fn func(ctx context.Context, tx *sql.Tx) error) error {
	return retrysql.InTx(ctx, s.db.DB, nil, nil, fn)
}

// task reads a task.
func (s *service) task(ctx context.Context, tx *sql.Tx, id string) (task, error) {
	t, err := scanTask(tx.QueryRowContext(ctx, s.db.SQL("SELECT "+taskColumns+" FROM task WHERE id = $1"), id))
	if errors.Is(err, sql.ErrNoRows) {
		return t, &problem{http.StatusNotFound, "task " + id + ": not found"}
	}
	return t, err
}

// update executes a statement that ends with RETURNING and an ID.
func (s *service) update(ctx context.Context, tx *sql.Tx, statement string, args ...any) ([]string, error) {
	return shared.Query(ctx, tx, func(rows *sql.Rows) (id string, err error) {
		return id, rows.Scan(&id)
	}, s.db.SQL(statement), args...)
}
