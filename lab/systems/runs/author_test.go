//nolint:thelper // what Each calls is the test itself
package main

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"io"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/lab/systems/shared"
	"github.com/seed-5ff3c98e/retry/lab/systems/shared/dbtest"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// authorsRun is a run in the columns of the document.
type authorsRun struct { //nolint:recvcheck // Scan changes it
	id, category, status string
	submitted            retrytable.Instant
	retryCount           int
	next                 retrytable.Instant
	class                string
}

func authorsRuns(t *testing.T, db *shared.DB) (all []authorsRun) {
	t.Helper()
	all, err := shared.Query(t.Context(), db, func(rows *sql.Rows) (r authorsRun, err error) {
		err = rows.Scan(&r.id, &r.category, &r.status, &r.submitted, &r.retryCount, &r.next, &r.class)
		return r, err
	}, "SELECT id, category, status, submitted_date, retry_count, next_retry_at, coalesce(error_class, '') FROM runs ORDER BY id")
	require.NoError(t, err)
	require.Len(t, all, 1000)
	return all
}

// due is the rule of the document.
func (r *authorsRun) due(now time.Time) bool {
	return r.status == "discovered" || r.status == "error" && !r.next.IsZero() && !r.next.After(now)
}

// processed says what the document makes of a run with that result, processed at that time,
// with 8 attempts, 60 s, ×2, at most 3600 s.
func (r authorsRun) processed(result string, now time.Time) authorsRun {
	delay := min(time.Minute<<r.retryCount, time.Hour)
	r.next.Time = time.Time{}
	switch result {
	case "passed":
		r.status, r.retryCount, r.class = "passed", 0, ""
	case "final":
		r.status, r.class = "error", "final"
	case "hint":
		r.status, r.class, r.next.Time = "error", "rate_limited", now.Add(90*time.Second)
	default:
		r.status, r.class = "error", result
		if r.retryCount < 7 {
			r.retryCount++
			r.next.Time = now.Add(delay)
		}
	}
	return r
}

// result is what comes of a run.
func result(id string) string {
	return []string{"passed", "final", "hint", "retryable", "rate_limited"}[id[len(id)-2]%5]
}

// The author's table with 1,000 runs in every state is migrated, twice, and processed. With
// each run happens what the document says, in the order that it says. Old values are read
// in any form.
func TestAuthorsTable(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		dbtest.Author(t, db)
		before := authorsRuns(t, db)
		printed := dbtest.Run(t, program.Run, "migrate", "-dsn", db.DSN, "-print")
		assert.Equal(t, printed, dbtest.Run(t, program.Run, "migrate", "-dsn", db.DSN), "to print changes nothing")
		assert.NotContains(t, printed, "retry_count")
		assert.Equal(t, "-- nothing is missing\n", dbtest.Run(t, program.Run, "migrate", "-dsn", db.DSN))
		assert.Equal(t, before, authorsRuns(t, db))

		p, now := newTest(t, db), time.Now()
		p.store = newStore(db, time.Minute, "web")
		var order []string
		p.replay = func(_ context.Context, r *request) (outcome, error) {
			order = append(order, r.ID)
			return passed, map[string]error{"final": errBroken, "hint": limited(90 * time.Second), "retryable": errPassing, "rate_limited": limited(0)}[result(r.ID)]
		}
		for n := 1; n > 0; {
			var err error
			n, err = p.worker(1).Once(t.Context())
			require.NoError(t, err)
		}
		var want []authorsRun
		for i, r := range authorsRuns(t, db) {
			expected := before[i]
			if before[i].category == "web" && before[i].due(now) {
				want = append(want, before[i])
				expected = before[i].processed(result(r.id), now)
			}
			assert.WithinDuration(t, expected.next.Time, r.next.Time, 60*time.Second*time.Duration(min(len(order), 1)), r.id)
			r.next = expected.next
			assert.Equal(t, expected, r, "was %+v", before[i])
		}
		slices.SortFunc(want, func(a, b authorsRun) int {
			return cmp.Or(a.submitted.Compare(b.submitted.Time), cmp.Compare(a.id, b.id))
		})
		if db.Dialect == retrytable.MySQL { // two claims have the order of the first 100 and 200 retries
			slices.Sort(order)
			slices.SortFunc(want, func(a, b authorsRun) int { return cmp.Compare(a.id, b.id) })
		}
		require.Greater(t, len(want), 300)
		require.Len(t, order, len(want))
		for i := range want {
			assert.Equal(t, want[i].id, order[i])
		}
	}, retrytable.MySQL)
}

// Instants that are text in SQLite are written in the form of those that are there.
func TestFormOfInstants(t *testing.T) {
	t.Parallel()
	db := dbtest.New(t, retrytable.SQLite)
	p := newTest(t, db)
	submit(t, db, "web", "a")
	dbtest.Exec(t, db, "UPDATE runs SET submitted_date = '2024-05-06T07:08:09Z'")
	p.store = newStore(db, time.Minute, "")
	p.errs = []error{errPassing}
	p.one(true)
	assert.Regexp(t, `^[\d-]{10}T[\d:]{8}Z$`, dbtest.Get[string](t, db, "SELECT CAST(next_retry_at AS text) FROM runs"))
}

// A run that has failed for good is processed again when somebody says so.
func TestAgain(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		p := newTest(t, db)
		submit(t, db, "web", "a", "b")
		dbtest.Exec(t, db, "UPDATE runs SET status = 'error', retry_count = 7, error_class = 'final'")
		p.one(false)
		assert.Equal(t, "1 will be processed again\n", dbtest.Run(t, program.Run, "again", "-dsn", db.DSN, "-run", "b"))
		p.one(true)
		assert.Equal(t, []string{"error", "passed"}, []string{read(t, db, "a").status, read(t, db, "b").status})
		assert.Equal(t, "1 will be processed again\n", dbtest.Run(t, program.Run, "again", "-dsn", db.DSN))
	})
}

// Runs that an old processor left processing are none of ours, until they are adopted.
func TestAdopt(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		dbtest.Author(t, db)
		dbtest.Exec(t, db, "DELETE FROM runs WHERE status <> 'processing' OR retry_count > 6")
		dbtest.Run(t, program.Run, "migrate", "-dsn", db.DSN)
		p := newTest(t, db)
		p.store = newStore(db, time.Minute, "")
		p.one(false)
		assert.Regexp(t, "^[1-9][0-9]* adopted\n$", dbtest.Run(t, program.Run, "adopt", "-dsn", db.DSN))
		p.one(false)
		lost := dbtest.Get[int](t, db, "SELECT count(*) FROM runs WHERE status = 'error' AND next_retry_at IS NOT NULL "+
			"AND error_class = 'retryable' AND retry_count > 0")
		assert.Greater(t, lost, 90, "their attempt has failed")
		assert.Zero(t, p.count(t, "status = 'processing'"))
	}, retrytable.MySQL)
}

func (p *test) count(t *testing.T, which string) int {
	t.Helper()
	return dbtest.Get[int](t, p.db, "SELECT count(*) FROM runs WHERE "+which)
}

// What is wrong with a table is said at the start, with the column and the statement to
// run, and nothing is changed.
func TestRefuses(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		refused := func(want ...string) {
			t.Helper()
			err := program.Run(t.Context(), []string{"serve", "-dsn", db.DSN}, io.Discard)
			for _, want := range want {
				assert.ErrorContains(t, err, want)
			}
		}
		refused("runs migrate runs, and with -print prints:\nCREATE TABLE runs")
		dbtest.Author(t, db)
		dbtest.Exec(t, db, map[bool]string{false: "DROP INDEX idx_runs_retry", true: "DROP INDEX idx_runs_retry ON runs"}[db.Dialect == retrytable.MySQL])
		for _, column := range []string{"retry_count", "next_retry_at", "error_class"} {
			dbtest.Exec(t, db, "ALTER TABLE runs DROP COLUMN "+column)
		}
		for _, column := range []string{"retry_count", "next_retry_at", "lease_until", "fence", "error_class"} {
			refused("ADD COLUMN ", column)
		}
		dbtest.Run(t, program.Run, "migrate", "-dsn", db.DSN)
		require.NoError(t, db.Check(t.Context(), newTest(t, db).schema()))

		dbtest.Exec(t, db, "ALTER TABLE runs RENAME COLUMN url TO address")
		refused("url")
		dbtest.Exec(t, db, "ALTER TABLE runs RENAME COLUMN address TO url")
		switch db.Dialect {
		case retrytable.SQLite:
			dbtest.Exec(t, db, "UPDATE runs SET next_retry_at = 'tomorrow' WHERE id = 'run 007'")
			refused(`Columns.Due: "next_retry_at": has "tomorrow", which is no instant`, "UPDATE `runs` SET `next_retry_at` = NULL WHERE")
		case retrytable.MySQL:
			dbtest.Exec(t, db, "ALTER TABLE runs MODIFY COLUMN next_retry_at text")
			refused(`"next_retry_at": is text`, "ALTER TABLE `runs` MODIFY COLUMN `next_retry_at` datetime(6)")
			dbtest.Exec(t, db, "ALTER TABLE `runs` MODIFY COLUMN `next_retry_at` datetime(6)")
			require.NoError(t, db.Check(t.Context(), newTest(t, db).schema()))
		default:
			dbtest.Exec(t, db, "ALTER TABLE runs ALTER COLUMN next_retry_at TYPE text")
			refused(`"next_retry_at": is text`, `ALTER TABLE "runs" ALTER COLUMN "next_retry_at" TYPE timestamptz USING "next_retry_at"::timestamptz`)
		}
	}, retrytable.MySQL)
}

// A count below zero stands for none, and a retry of another century is due.
func TestOddRows(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		p := newTest(t, db)
		submit(t, db, "web", "a")
		retryIn(t, db, -200*365*24*time.Hour, "true")
		dbtest.Exec(t, db, "UPDATE runs SET retry_count = -3")
		p.errs = []error{errPassing}
		p.one(true)
		assert.Equal(t, record{"error", 1, "retryable", time.Minute, false}, read(t, db, "a"))
	})
}

// oldWorker is a processor of the author's: a loop over the statements of the document. It
// knows nothing of a lease. To select and to mark a run is one transaction, as it has to be
// where there are two.
func oldWorker(ctx context.Context, db *shared.DB, work func(id string, retryCount int) (failed bool, err error)) error {
	var forUpdate string
	if db.Dialect != retrytable.SQLite {
		forUpdate = " FOR UPDATE SKIP LOCKED"
	}
	instant := func(at time.Time) any {
		if db.Dialect != retrytable.SQLite {
			return at.UTC()
		}
		return at.UTC().Format("2006-01-02T15:04:05.999999999+00:00") // as chrono does
	}
	var options *sql.TxOptions
	if db.Dialect == retrytable.MySQL {
		options = &sql.TxOptions{Isolation: sql.LevelReadCommitted}
	}
	for ctx.Err() == nil {
		tx, err := db.BeginTx(context.WithoutCancel(ctx), options)
		if err != nil {
			return err
		}
		var id string
		var retryCount int
		err = tx.QueryRow(db.SQL(`SELECT id, retry_count FROM runs
			WHERE status = 'discovered' OR (status = 'error' AND next_retry_at <= $1)
			ORDER BY submitted_date ASC LIMIT 1`+forUpdate), instant(time.Now())).Scan(&id, &retryCount)
		if err == nil {
			_, err = tx.Exec(db.SQL("UPDATE runs SET status = 'processing', next_retry_at = NULL WHERE id = $1"), id)
		}
		if err != nil {
			_ = tx.Rollback()
			if err == sql.ErrNoRows {
				time.Sleep(5 * time.Millisecond)
				continue
			}
			return err
		}
		if err := tx.Commit(); err != nil {
			return err
		}
		failed, err := work(id, retryCount)
		if err != nil {
			return err
		}
		if failed {
			_, err = db.Exec(db.SQL("UPDATE runs SET status = 'error', retry_count = $1, error_class = 'retryable', next_retry_at = $2 WHERE id = $3"),
				retryCount+1, instant(time.Now().Add(20*time.Millisecond<<retryCount)), id)
		} else {
			_, err = db.Exec(db.SQL("UPDATE runs SET status = 'passed', retry_count = 0, next_retry_at = NULL, error_class = NULL WHERE id = $1"), id)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Two old workers and two new ones, one of which is migrating while the old ones work, share
// a table for as long as dbtest.Together says. No attempt is made twice, and every run comes
// to its end.
func TestBesideOldWorkers(t *testing.T) {
	t.Parallel()
	last := dbtest.Together(t)
	dbtest.Each(t, func(t *testing.T, db *shared.DB) {
		dbtest.Author(t, db)
		dbtest.Exec(t, db, "DELETE FROM runs")
		dbtest.Exec(t, db, "CREATE TABLE executions (run varchar(255), attempt integer, worker text, PRIMARY KEY (run, attempt))")
		work := func(ctx context.Context, db *shared.DB, id string, retryCount int, worker string) (bool, error) {
			_, err := db.ExecContext(ctx, db.SQL("INSERT INTO executions VALUES ($1, $2, $3)"), id, retryCount, worker)
			time.Sleep(time.Millisecond)
			return retryCount < int(id[len(id)-1]-'0')%4, err
		}
		ctx, stop := context.WithCancel(t.Context())
		var workers sync.WaitGroup
		for range 2 {
			old := dbtest.Reopen(t, db)
			workers.Go(func() {
				assert.NoError(t, oldWorker(ctx, old, func(id string, retryCount int) (bool, error) {
					return work(context.WithoutCancel(ctx), old, id, retryCount, "old")
				}))
			})
		}
		submitted := 0
		submitSome := func() {
			for range 5 {
				dbtest.Exec(t, db, "INSERT INTO runs (id, category, url, submitted_date, status) VALUES ($1, 'web', '', $2, 'discovered')",
					fmt.Sprintf("%06d", submitted), at(db, 0))
				submitted++
			}
		}
		for range 20 {
			submitSome()
		}
		dbtest.Run(t, program.Run, "migrate", "-dsn", db.DSN) // while they work
		for range 2 {
			mine := dbtest.Reopen(t, db)
			p := &test{t: t}
			p.processor = newProcessor(mine, &DaemonConfig{
				Retry: RetryConfig{8, 20 * time.Millisecond, time.Second, 2}, Lease: time.Minute, Poll: 5 * time.Millisecond,
			}, &p.logs)
			p.replay = func(ctx context.Context, r *request) (outcome, error) {
				fails, err := work(context.WithoutCancel(ctx), mine, r.ID, r.State.Failures, "new")
				if fails {
					err = errPassing
				}
				return passed, err
			}
			workers.Go(func() {
				assert.ErrorIs(t, p.worker(2).Run(ctx), context.Canceled)
				assert.Empty(t, regexp.MustCompile(".*level=ERROR.*").FindAllString(p.logs.String(), 5))
			})
		}
		left := func() int {
			return dbtest.Get[int](t, db, "SELECT count(*) FROM runs WHERE status <> 'passed'")
		}
		for end := time.Now().Add(last); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			if left() < 200 { // no more than the slowest of the databases can do
				submitSome()
			}
		}
		assert.Eventually(t, func() bool { return left() == 0 }, 30*time.Second+last, 20*time.Millisecond, "stuck")
		stop()
		workers.Wait()
		want := 0
		for i := range submitted {
			want += i%10%4 + 1
		}
		executions := dbtest.Get[int](t, db, "SELECT count(*) FROM executions")
		old := dbtest.Get[int](t, db, "SELECT count(*) FROM executions WHERE worker = 'old'")
		assert.Equal(t, want, executions, "each attempt once")
		assert.NotZero(t, old)
		assert.Less(t, old, executions, "both have worked")
		t.Logf("%d runs, %d attempts, %d of them by old workers", submitted, executions, old)
	}, retrytable.MySQL)
}
