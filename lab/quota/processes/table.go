package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryhttp"
	"github.com/seed-5ff3c98e/retry/retryjob"
	"github.com/seed-5ff3c98e/retry/retryquota"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// place is where jobs are.
type place interface {
	prepare(ctx context.Context, t *task) (remove func(context.Context) error, err error)
	transactions(ctx context.Context, t *task) (n int, err error) // since the beginning
}

// table is a table in PostgreSQL.
type table struct{}

// jobs is the table, or a part of it.
func jobs(where string) *retrytable.Table[int64] {
	return &retrytable.Table[int64]{Name: "jobs", Columns: retrytable.Columns{Kind: "kind"}, ClaimWhere: where}
}

func (table) prepare(ctx context.Context, t *task) (func(context.Context) error, error) {
	remove, err := newDatabase(ctx, t)
	if err != nil {
		return nil, err
	}
	db, err := sql.Open("pgx", t.DSN)
	if err != nil {
		return remove, err
	}
	defer func() { _ = db.Close() }()
	due := "NULL"
	if t.Before > 0 {
		due = t.Begins.UTC().Format("TIMESTAMPTZ '2006-01-02 15:04:05.000000Z'")
	}
	for _, s := range []string{
		"CREATE TABLE jobs (id bigserial PRIMARY KEY, kind text NOT NULL)", jobs("").Schema(),
		fmt.Sprintf("INSERT INTO jobs (kind, due_at) SELECT '%s', %s FROM generate_series(1, %d)", prompt, due, t.Prompts),
		fmt.Sprintf("INSERT INTO jobs (kind, due_at) SELECT '%s', now() + i * interval '%f seconds' FROM generate_series(1, %d) i",
			prompt, t.Lasts.Seconds()/float64(max(t.Before, 1)), t.Before),
		fmt.Sprintf("INSERT INTO jobs (kind) SELECT '%s' FROM generate_series(1, %d)", other, t.Others),
		"VACUUM ANALYZE jobs",
	} {
		if _, err := db.ExecContext(ctx, s); err != nil {
			return remove, fmt.Errorf("%s: %w", s, err)
		}
	}
	return remove, nil
}

// newDatabase makes a database, and sets its DSN.
func newDatabase(ctx context.Context, t *task) (remove func(context.Context) error, err error) {
	name := "quota_" + strings.ToLower(rand.Text()[:10])
	config, err := pgx.ParseConfig(serverDSN())
	if err != nil {
		return nil, err
	}
	t.DSN = strings.Replace(serverDSN(), "/"+config.Database, "/"+name, 1)
	if err := execute(ctx, "CREATE DATABASE "+name); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { return execute(ctx, "DROP DATABASE "+name+" WITH (FORCE)") }, nil
}

func serverDSN() string {
	return cmp.Or(os.Getenv("RETRY_TEST_POSTGRES"), "postgres://postgres@127.0.0.1:5432/test?sslmode=disable")
}

// execute executes a statement in the database that is there already.
func execute(ctx context.Context, statement string) error {
	db, err := pgx.Connect(ctx, serverDSN())
	if err != nil {
		return err
	}
	_, err = db.Exec(ctx, statement)
	return errors.Join(err, db.Close(ctx))
}

func (table) transactions(ctx context.Context, t *task) (n int, err error) {
	own, err := pgx.ParseConfig(t.DSN)
	if err != nil {
		return 0, err
	}
	db, err := pgx.Connect(ctx, serverDSN())
	if err != nil {
		return 0, err
	}
	time.Sleep(100 * time.Millisecond) // those that have left tell it when they end
	err = db.QueryRow(ctx, "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = $1", own.Database).Scan(&n)
	return n, errors.Join(err, db.Close(ctx))
}

// newPolicy is that of all: a refusal costs nothing, whatever is done about it.
func newPolicy() *retry.Policy { return &retry.Policy{MaxAttempts: 1 << 20, FreeRateLimits: 1 << 20} }

func worker(ctx context.Context, t *task, done *tally) error {
	return workAt(ctx, t, done, &retrytable.Worker[int64]{Policy: newPolicy()}, http.DefaultClient, nil)
}

func workerCooldown(ctx context.Context, t *task, done *tally) error {
	client := &http.Client{Transport: &retryhttp.Transport{Cooldown: time.Minute}}
	return workAt(ctx, t, done, &retrytable.Worker[int64]{Policy: newPolicy()}, client, nil)
}

func workerLimiter(ctx context.Context, t *task, done *tally) error {
	share := float64(t.Limit) / t.Window.Seconds() / float64(t.Processes)
	limiter := rate.NewLimiter(rate.Limit(share), 1)
	return workAt(ctx, t, done, &retrytable.Worker[int64]{Policy: newPolicy()}, http.DefaultClient, limiter.Wait)
}

// workerQuota has a Worker for each kind.
func workerQuota(ctx context.Context, t *task, done *tally) error {
	policy := newPolicy()
	policy.Quota = &retryquota.Quota{}
	workers := []*retrytable.Worker[int64]{{Table: jobs("kind = '" + prompt + "'"), Policy: policy}}
	if t.Others > 0 {
		workers = append(workers, &retrytable.Worker[int64]{Table: jobs("kind <> '" + prompt + "'"), Policy: newPolicy()})
	}
	var all errgroup.Group
	for _, w := range workers {
		all.Go(func() error { return workAt(ctx, t, done, w, http.DefaultClient, nil) })
	}
	return all.Wait()
}

// workerQuotaOfAKind has one Worker for both kinds.
func workerQuotaOfAKind(ctx context.Context, t *task, done *tally) error {
	policy := newPolicy()
	policy.Quota = &retryquota.Quota{}
	w := &retrytable.Worker[int64]{Poll: 100 * time.Millisecond, Policy: newPolicy(), PolicyFor: func(kind string) (*retry.Policy, error) {
		if kind == prompt {
			return policy, nil
		}
		return nil, nil
	}}
	return workAt(ctx, t, done, w, http.DefaultClient, nil)
}

// workAt works until ctx ends. before, if not nil, is called before each request.
func workAt(
	ctx context.Context, t *task, done *tally, w *retrytable.Worker[int64], client *http.Client, before func(context.Context) error,
) error {
	db, err := sql.Open("pgx", t.DSN)
	if err != nil {
		return err
	}
	defer func() { _ = db.Close() }()
	db.SetMaxIdleConns(t.Places + 2)
	w.DB, w.Table, w.Concurrency = db, cmp.Or(w.Table, jobs("")), t.Places
	var spent func(time.Duration)
	if q, ok := w.Policy.Quota.(*retryquota.Quota); ok {
		spent = func(after time.Duration) { q.Spent(w.Policy, after) }
	}
	w.Work = func(ctx context.Context, job *retrytable.Job[int64]) error {
		if job.Kind != prompt {
			return nil
		}
		if before != nil {
			if err := before(ctx); err != nil {
				return retryjob.MarkNotStarted(err)
			}
		}
		return call(ctx, client, t.API, spent)
	}
	w.After = func(_ context.Context, o *retrytable.Outcome[int64]) {
		if o.Err == nil {
			done.note(o.Job.Kind)
		}
	}
	if err := w.Run(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
