package main

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/lab/systems/shared"
	"github.com/seed-5ff3c98e/retry/retrysql"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// concurrencyRule is the condition of tasks that may start. Those of a kind that run
// take its places 1, 2, …, and a task needs that of its max_concurrency to be free.
// What waits for its retry has none. A claim numbers the places once, and not for
// each task that it holds back.
const concurrencyRule = `max_concurrency = 0 OR (kind, max_concurrency) NOT IN (
	SELECT kind, row_number() OVER (PARTITION BY kind) FROM task WHERE status IN ('claimed', 'running'))`

// service is the HTTP API and the loops. Any number of them may share a database.
type service struct {
	config

	db       *shared.DB
	starts   *retrytable.Table[string] // tasks whose on_start is called
	runs     *retrytable.Table[string] // tasks that run, and end by a PATCH
	timeouts *retrytable.Table[string] // tasks that run, and have timed out
	hooks    *retrytable.Table[string] // calls of webhooks at the end of tasks
	client   *http.Client
	counts   *metrics
	log      *slog.Logger

	hears time.Time // no task times out before: the database was away, and words of tasks may be on their way
}

func newService(db *shared.DB, c config, log *slog.Logger) *service {
	s := &service{
		config: c, db: db, log: log, counts: newMetrics(),
		hooks: &retrytable.Table[string]{
			Dialect: db.Dialect, Name: "webhook_execution", Lease: c.lease,
			Columns:  retrytable.Columns{ID: "idempotency_key", Error: "error"},
			Statuses: retrytable.Statuses{Done: []string{"success"}, Dead: "failure"},
		},
		client: &http.Client{Timeout: c.hookTime},
	}
	s.starts = s.table(claimed, running, "")
	s.starts.Columns.Error = "failure_reason"
	s.starts.ClaimWhere = concurrencyRule
	s.starts.Set.Succeed = db.SQL("started_at = {now}, last_updated = {now}")
	s.runs = s.table(running, success, "failure_reason = $1, ") // the words of a PATCH, as they are
	s.timeouts = s.table(running, success, "failure_reason = 'timeout: no word for ' || timeout || ' s', ")
	s.timeouts.Lease = min(s.lease, timeoutLease)
	return s
}

// timeoutLease is within which it is stored that a task has timed out.
const timeoutLease = 10 * time.Second

// table is the table of tasks, for workers that have some of them in hand. The columns of the
// specification say what is due. Only a worker with a task in hand needs a lease and a fence.
func (s *service) table(held, done status, fail string) *retrytable.Table[string] {
	return &retrytable.Table[string]{
		Dialect: s.db.Dialect, Name: "task", Lease: s.lease, ClaimWhere: "false",
		OrderBy: "created_at, batch_id, position", NoPromote: true, // see retries
		Columns: retrytable.Columns{Due: "next_retry_at", Retries: "attempt", Kind: "retry_policy"},
		Statuses: retrytable.Statuses{
			Ready: string(pending), Waiting: string(retryPending), Running: []string{string(held)},
			Done: []string{string(done)}, Dead: string(failed),
		},
		Set: retrytable.Set{
			Claim:   s.db.SQL("last_updated = {now}"),
			Succeed: s.db.SQL("ended_at = {now}, last_updated = {now}"),
			Fail:    s.db.SQL(fail + "ended_at = {now}, last_updated = {now}"),
			Promote: s.db.SQL("started_at = NULL, ended_at = NULL, failure_reason = NULL, last_updated = {now}"),
		},
	}
}

// patience is how a request, or a step of a loop, waits for a database that is away.
var patience = &retry.Policy{
	Name: "database", MaxAttempts: retry.Unlimited, MaxElapsed: 90 * time.Second, AttemptTimeout: 5 * time.Second,
	Backoff: retry.Exponential{Initial: 50 * time.Millisecond}, MaxDelay: time.Second, Jitter: retry.EqualJitter,
}

// tell logs what became of a task, once the transaction is committed whose context this is.
func (s *service) tell(ctx context.Context, t task, more ...any) {
	retrysql.AfterCommit(ctx, func(context.Context) {
		s.log.Info(t.Name, append(append([]any{"status", t.Status.String(), "attempt", t.Attempt}, more...), "id", t.ID)...)
	})
}

// inTx runs fn in a transaction, and again if it met with another one, if the database was
// away, or if nobody knows whether it was committed: fn must see that it was.
func (s *service) inTx(ctx context.Context, fn func(ctx context.Context, tx *sql.Tx) error) error {
	return retrysql.InTx(ctx, s.db.DB, patience, &retrysql.TxOptions{Idempotent: true}, fn)
}

// change changes a task, which nobody else changes meanwhile, and returns it as it is then.
func (s *service) change(
	ctx context.Context, id string, do func(ctx context.Context, tx *sql.Tx, t task) error,
) (after task, err error) {
	err = s.inTx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		t, err := s.read(ctx, tx, id, "{lock}")
		if err != nil || after.ID != "" && t.Status == after.Status && t.LastUpdated == after.LastUpdated {
			return err // an earlier try was committed, unless err says otherwise
		}
		if err := do(ctx, tx, t); err != nil {
			return err
		}
		after, err = s.task(ctx, tx, id)
		return err
	})
	return after, err
}

// task reads a task.
func (s *service) task(ctx context.Context, db retrytable.DB, id string) (task, error) {
	return s.read(ctx, db, id, "")
}

func (s *service) read(ctx context.Context, db retrytable.DB, id, lock string) (task, error) {
	found, err := s.tasks(ctx, db, "SELECT "+taskColumns+" FROM task WHERE id = $1"+lock, id)
	if err == nil && len(found) == 0 {
		err = &problem{http.StatusNotFound, "task " + id + ": not found"}
	}
	return append(found, task{})[0], err
}

// returning ends a statement for [service.tasks].
const returning = " RETURNING " + taskColumns

// tasks executes a statement that returns taskColumns.
func (s *service) tasks(ctx context.Context, db retrytable.DB, statement string, args ...any) ([]task, error) {
	return shared.Query(ctx, db, scanTask, s.db.SQL(statement), args...)
}

// update executes a statement that returns IDs, or names.
func (s *service) update(ctx context.Context, tx retrytable.DB, statement string, args ...any) ([]string, error) {
	return shared.Query(ctx, tx, func(rows *sql.Rows) (id string, err error) {
		return id, rows.Scan(&id)
	}, s.db.SQL(statement), args...)
}

//go:embed schema.yaml
var schemaYAML string

// schema is what a service needs of the database, and writes to it.
func (s *service) schema() *shared.Schema {
	insert := func(ctx context.Context, tx *sql.Tx) error {
		return s.insert(ctx, tx, uuid.NewString(), 0, newTask{ID: "probe"}, map[string]string{"probe": uuid.NewString()})
	}
	record := func(ctx context.Context, tx *sql.Tx, o *retrytable.Outcome[string]) error {
		return s.record(ctx, tx, task{basicTask: basicTask{ID: o.Job.ID}, OnStart: &action{}}, 0, o.Err)
	}
	needs := shared.MustSchema(schemaYAML)
	needs.Jobs, needs.More = s.all(), map[string]*retrytable.Table[string]{s.hooks.Name: s.hooks}
	needs.Probe = retrytable.Probe[string]{Insert: insert, Worker: &retrytable.Worker[string]{InTx: record}}
	return needs
}

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
	if err := s.db.Check(ctx, s.schema()); err != nil {
		return err
	}
	return errors.Join(s.hooks.Probe(ctx, s.db.DB, retrytable.Probe[string]{}), s.uncalled(ctx))
}

// uncalled refuses a table of others with the actions of tasks that have not ended, and have no
// actions in their own columns: nobody would be called.
func (s *service) uncalled(ctx context.Context) error {
	having := `SELECT m.name FROM sqlite_master AS m, pragma_table_info(m.name) AS c
		WHERE m.type = 'table' AND c.name = 'task_id'`
	if s.db.Dialect == retrytable.PostgreSQL {
		having = `SELECT table_name AS name FROM information_schema.columns
			WHERE table_schema = current_schema() AND column_name = 'task_id'`
	}
	tables, err := s.update(ctx, s.db, "SELECT name FROM ("+having+`) AS t
		WHERE (name LIKE '%action%' OR name LIKE '%hook%') AND name <> 'webhook_execution'`)
	for _, table := range tables {
		ids, fault := s.update(ctx, s.db, `SELECT id FROM task WHERE status IN `+alive+`
			AND on_start IS NULL AND on_success IS NULL AND on_failure IS NULL
			AND CAST(id AS text) IN (SELECT CAST(task_id AS text) FROM "`+table+`")`)
		if len(ids) > 0 {
			fault = fmt.Errorf("%s: has actions of %d tasks that have not ended, such as %s, which nobody would call: "+
				"copy them to the columns on_start, on_success and on_failure of task", table, len(ids), ids[0])
		}
		err = errors.Join(err, fault)
	}
	return err
}

// cancellation ends tasks for good, whatever they were about to do; which ones is to
// be added.
const cancellation = `UPDATE task SET status = 'canceled', next_retry_at = NULL, lease_until = NULL,
	ended_at = {now}, last_updated = {now} WHERE status IN ` + alive + ` AND `

// commands are what users may want of a task with an ID, besides retry.
var commands = map[string]string{
	"cancel": cancellation + "id = $1" + returning,
	"pause": `UPDATE task SET status = 'paused', last_updated = {now}
		WHERE id = $1 AND status IN ('waiting', 'pending', 'retry_pending')` + returning, // its next_retry_at stays
	"unpause": `UPDATE task SET last_updated = {now}, status = CASE
			WHEN next_retry_at IS NOT NULL THEN 'retry_pending' WHEN ` + blocked + ` THEN 'waiting' ELSE 'pending' END
		WHERE id = $1 AND status = 'paused'` + returning, // to where it was
}

// retry has a task that has failed for good attempted once more, under a new key of its webhooks. What
// it depends on must have succeeded.
func (s *service) retry(ctx context.Context, id string) (task, error) {
	return s.change(ctx, id, func(ctx context.Context, tx *sql.Tx, t task) error {
		n, err := s.starts.TryAgain(ctx, tx, retrytable.Jobs[string]{IDs: []string{id}, Where: "NOT " + blocked}, retrytable.Again{
			KeepCounts: true, Set: s.db.SQL("attempt = attempt + 1, ended_at = NULL, last_updated = {now}"),
		})
		if err == nil && n == 0 {
			err = conflict(t, "must be Failure, and what it depends on must be Success")
		}
		return err
	})
}

// command executes one of [commands], if the status of the task allows that.
func (s *service) command(ctx context.Context, id, name string) (task, error) {
	return s.change(ctx, id, func(ctx context.Context, tx *sql.Tx, t task) error {
		done, err := s.tasks(ctx, tx, commands[name], id)
		switch {
		case err != nil:
			return err
		case len(done) == 0:
			return conflict(t, "does not allow that")
		}
		s.tell(ctx, done[0])
		if done[0].Status == canceled {
			return s.ended(ctx, tx, done[0])
		}
		return nil
	})
}

// stopBatch cancels what is not at its end, what waits for its retry included.
func (s *service) stopBatch(ctx context.Context, batch string) (stopped []task, err error) {
	err = s.inTx(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		stopped, err = s.tasks(ctx, tx, cancellation+"batch_id = $1"+returning, batch)
		for _, t := range stopped {
			s.tell(ctx, t)
		}
		if err != nil || len(stopped) > 0 {
			return err
		}
		exists, err := s.update(ctx, tx, "SELECT id FROM task WHERE batch_id = $1 LIMIT 1", batch)
		if err == nil && len(exists) == 0 {
			err = &problem{http.StatusNotFound, "batch " + batch + ": not found"}
		}
		return err
	})
	return stopped, err
}
