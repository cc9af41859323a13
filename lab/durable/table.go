package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// bed is a database with a table of jobs.
type bed struct {
	db    *sql.DB
	table *retrytable.Table[int64]
	dsn   string // with the schema, if it is PostgreSQL
}

// measured does the jobs of a bed.
type measured func(context.Context, *bed, task) (time.Duration, error)

func postgresDSN() string {
	return cmp.Or(os.Getenv("RETRY_TEST_POSTGRES"), "postgres://postgres@127.0.0.1:5432/test?sslmode=disable")
}

func onPostgres(do measured) func(context.Context, task) (time.Duration, error) {
	return func(ctx context.Context, t task) (took time.Duration, err error) {
		schema := "durable_" + strings.ToLower(rand.Text()[:10])
		b := &bed{table: &retrytable.Table[int64]{Name: "jobs"}, dsn: postgresDSN() + "&search_path=" + schema}
		if b.db, err = sql.Open("pgx", b.dsn); err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, b.db.Close()) }()
		defer func() {
			_, dropped := b.db.ExecContext(context.WithoutCancel(ctx), "DROP SCHEMA IF EXISTS "+schema+" CASCADE")
			err = errors.Join(err, dropped)
		}()
		err = b.exec(ctx, "CREATE SCHEMA "+schema, "CREATE TABLE jobs (id bigserial PRIMARY KEY)", b.table.Schema(),
			fmt.Sprintf("INSERT INTO jobs (id) SELECT generate_series(1, %d)", t.jobs), "VACUUM ANALYZE jobs", "CHECKPOINT")
		if err != nil {
			return 0, err
		}
		return do(ctx, b, t)
	}
}

func onMariaDB(do measured) func(context.Context, task) (time.Duration, error) {
	return func(ctx context.Context, t task) (took time.Duration, err error) {
		dsn := cmp.Or(os.Getenv("RETRY_TEST_MARIADB"), "root@tcp(127.0.0.1:3306)/test")
		b := &bed{table: &retrytable.Table[int64]{Name: "durable_" + strings.ToLower(rand.Text()[:10]), Dialect: retrytable.MySQL}}
		if b.db, err = sql.Open("mysql", dsn); err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, b.db.Close()) }()
		defer func() { _, _ = b.db.ExecContext(context.WithoutCancel(ctx), "DROP TABLE IF EXISTS "+b.table.Name) }()
		err = b.exec(ctx, "CREATE TABLE "+b.table.Name+" (id bigint PRIMARY KEY)", b.table.Schema(),
			fmt.Sprintf("INSERT INTO %s (id) SELECT seq FROM seq_1_to_%d", b.table.Name, t.jobs))
		if err != nil {
			return 0, err
		}
		return do(ctx, b, t)
	}
}

func onSQLite(do measured) func(context.Context, task) (time.Duration, error) {
	return func(ctx context.Context, t task) (took time.Duration, err error) {
		dir, err := os.MkdirTemp("", "durable")
		if err != nil {
			return 0, err
		}
		defer os.RemoveAll(dir)
		b := &bed{table: &retrytable.Table[int64]{Name: "jobs", Dialect: retrytable.SQLite}}
		dsn := "file:" + filepath.Join(dir, "jobs.db") + "?_pragma=journal_mode(wal)&_pragma=busy_timeout(10000)&_txlock=immediate"
		if b.db, err = sql.Open("sqlite", dsn); err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, b.db.Close()) }()
		b.db.SetMaxOpenConns(1)
		err = b.exec(ctx, "CREATE TABLE jobs (id INTEGER PRIMARY KEY)", b.table.Schema(), fmt.Sprintf(
			"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) INSERT INTO jobs (id, due_at) SELECT i, 0 FROM n", t.jobs))
		if err != nil {
			return 0, err
		}
		return do(ctx, b, t)
	}
}

func (b *bed) exec(ctx context.Context, statements ...string) error {
	for _, s := range statements {
		if _, err := b.db.ExecContext(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s, err)
		}
	}
	return nil
}

// policy is that of all: a failed job is due again at once.
var policy = &retry.Policy{MaxAttempts: 5, Backoff: retry.Constant(0)}

// workTuned is work with as many idle connections as there could be use for.
func workTuned(ctx context.Context, b *bed, t task) (time.Duration, error) {
	b.db.SetMaxIdleConns(t.places + 2)
	return work(ctx, b, t)
}

// work is a Worker as it comes.
func work(ctx context.Context, b *bed, t task) (time.Duration, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var left atomic.Int64
	left.Store(int64(t.jobs))
	failures := make(chan error, 1)
	w := &retrytable.Worker[int64]{
		Table: b.table, DB: b.db, Policy: policy, Concurrency: t.places,
		Work: func(_ context.Context, job *retrytable.Job[int64]) error {
			if t.fails(job.ID, job.Attempt()) {
				return errJob
			}
			return nil
		},
		After: func(_ context.Context, o *retrytable.Outcome[int64]) {
			if o.Err == nil && left.Add(-1) == 0 {
				stop()
			}
		},
		OnError: func(_ context.Context, err error) {
			select {
			case failures <- err:
			default:
			}
		},
	}
	start := time.Now()
	if err := w.Run(ctx); !errors.Is(err, context.Canceled) {
		return 0, err
	}
	took := time.Since(start)
	var undone int
	err := b.db.QueryRowContext(context.WithoutCancel(ctx), "SELECT count(*) FROM "+b.table.Name+" WHERE status <> 'done'").Scan(&undone)
	if err == nil && undone > 0 {
		err = fmt.Errorf("%d jobs are not done", undone)
	}
	select {
	case failed := <-failures:
		err = errors.Join(err, failed)
	default:
	}
	return took, err
}

// pause is how long a job that is alone comes after the last one: until a worker has found
// that there is nothing more.
const pause = 5 * time.Millisecond

// oneByOne inserts jobs, each when the one before is done, and returns how long each took.
func oneByOne(ctx context.Context, jobs int) (all []time.Duration, err error) {
	_, err = onPostgres(func(ctx context.Context, b *bed, _ task) (time.Duration, error) {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		wake, done, ended := make(chan struct{}, 1), make(chan struct{}), make(chan error, 1)
		w := &retrytable.Worker[int64]{
			Table: b.table, DB: b.db, Policy: policy, Concurrency: 16, Wake: wake,
			Work:  func(context.Context, *retrytable.Job[int64]) error { return nil },
			After: func(context.Context, *retrytable.Outcome[int64]) { done <- struct{}{} },
		}
		go func() { ended <- w.Run(ctx) }()
		for range jobs {
			start := time.Now()
			if err := b.exec(ctx, "INSERT INTO jobs DEFAULT VALUES"); err != nil {
				return 0, err
			}
			wake <- struct{}{}
			<-done
			all = append(all, time.Since(start))
			time.Sleep(pause)
		}
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			return 0, err
		}
		return 0, nil
	})(ctx, task{})
	return all, err
}
