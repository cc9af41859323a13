package tabletest_test

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// The variables that make this program a worker: the number of its kind, the address of
// its database, and how it works.
const (
	workerKind = "RETRY_TABLETEST_KIND"
	workerDSN  = "RETRY_TABLETEST_DSN"
	workerLoop = "RETRY_TABLETEST_LOOP" // one of loops
)

// loops are the ways in which a worker works. In groups, a Worker has many places, and most outcomes are
// stored with others.
var loops = map[string]func(context.Context, kind, string) error{
	"Worker": readyMade, "Worker, in groups": inGroups, "Migrate": migrates,
}

// RETRY_TEST_CRASH says how many jobs, workers and kills there are: 2000,8,200, for example.
var crashJobs, crashWorkers, crashKills = func() (jobs, workers, kills int) {
	_, err := fmt.Sscanf(cmp.Or(os.Getenv("RETRY_TEST_CRASH"), "200,2,50"), "%d,%d,%d", &jobs, &workers, &kills)
	if err != nil {
		panic("RETRY_TEST_CRASH: " + err.Error())
	}
	return jobs, workers, kills
}()

// poison says whether a job kills its worker, and flaky how often it fails.
func poison(id int64) bool { return id%40 == 7 }

func flaky(id int64) int {
	if slow(id) {
		return 0
	}
	return int(id % 3)
}

// slow says whether the first run of a job takes longer than its lease, which is extended.
// It is due when the kills are over.
func slow(id int64) bool { return id == int64(crashJobs)-1 }

var crashPolicy = &retry.Policy{MaxAttempts: 8, Backoff: retry.Constant(20 * time.Millisecond)}

func crashTable(k kind) *retrytable.Table[int64] {
	return &retrytable.Table[int64]{
		Dialect: k.dialect, Name: "jobs", Instants: k.instants, Lease: 600 * time.Millisecond,
		Columns: retrytable.Columns{Error: "error"},
	}
}

func TestMain(m *testing.M) {
	sql.Register("mariadb", dollars{})
	n, err := strconv.Atoi(os.Getenv(workerKind))
	if err != nil {
		testkit.AtOnce(m, 5)
	}
	go func() { // not longer than the test
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	fmt.Fprintln(os.Stderr, "worker:", loops[os.Getenv(workerLoop)](context.Background(), kinds[n], os.Getenv(workerDSN)))
	os.Exit(1)
}

// readyMade works until it is killed.
func readyMade(ctx context.Context, k kind, dsn string) error {
	w, err := newReadyMade(k, dsn)
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

// inGroups is readyMade with many places, and jobs most of which have no effect in their
// transaction. A worker that dies has lost an attempt at each of them.
func inGroups(ctx context.Context, k kind, dsn string) error {
	w, err := newReadyMade(k, dsn)
	if err != nil {
		return err
	}
	w.Concurrency = 16
	w.Policy = &retry.Policy{MaxAttempts: retry.Unlimited, Backoff: crashPolicy.Backoff}
	alone := w.Work
	w.Work = func(ctx context.Context, job *retrytable.Job[int64]) error {
		if !grouped(job.ID) {
			return alone(ctx, job)
		}
		if _, err := w.DB.ExecContext(ctx, "INSERT INTO runs (job) VALUES ($1)", job.ID); err != nil {
			return err
		}
		time.Sleep(5 * time.Millisecond) // they end together
		if job.State.Failures < flaky(job.ID) {
			return errWork
		}
		return nil
	}
	return w.Run(ctx)
}

// grouped says whether a job has no effect in the loop in groups. No job kills its worker
// there.
func grouped(id int64) bool { return id%4 != 0 && !slow(id) || poison(id) }

// connect opens the database in a process that will be killed. At once it has opened all of the
// connections, so they are few.
func connect(k kind, dsn string) (*sql.DB, error) {
	db, err := sql.Open(k.driver, dsn)
	if err != nil {
		return nil, err
	}
	keepIdle(db)
	db.SetMaxOpenConns(4)
	if k.dialect == retrytable.SQLite {
		db.SetMaxOpenConns(1)
	}
	return db, nil
}

func newReadyMade(k kind, dsn string) (*retrytable.Worker[int64], error) {
	db, err := connect(k, dsn)
	if err != nil {
		return nil, err
	}
	return &retrytable.Worker[int64]{
		Table: crashTable(k), DB: db, Policy: crashPolicy, Poll: 5 * time.Millisecond,
		OnError: func(context.Context, error) {}, // connections are cut
		Work: func(ctx context.Context, job *retrytable.Job[int64]) error {
			if _, err := db.ExecContext(ctx, "INSERT INTO runs (job) VALUES ($1)", job.ID); err != nil {
				return err
			}
			time.Sleep(5*time.Millisecond + rand.N(20*time.Millisecond))
			switch {
			case slow(job.ID) && job.State.Failures == 0:
				time.Sleep(time.Second) // its lease is extended
			case poison(job.ID):
				self, err := os.FindProcess(os.Getpid())
				if err != nil {
					return err
				}
				return errors.Join(self.Kill(), errors.New("still alive"))
			case job.State.Failures < flaky(job.ID):
				return errWork
			}
			job.InTx(func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "INSERT INTO effects (job) VALUES ($1)", job.ID)
				return err
			})
			return nil
		},
	}, nil
}

// crashRefusal is when a trigger refuses a row, and how: one in twenty times that one of a
// tenth of the rows is written, whoever does that, with errors of several classes.
var crashRefusal = map[retrytable.Dialect][2]string{
	retrytable.PostgreSQL: {
		"OLD.id % 10 = 3 AND random() < 0.05",
		"RAISE EXCEPTION 'no' USING ERRCODE = (ARRAY['42501', '53100', '40001', 'XX000', 'P0001', '57014'])[1 + floor(random() * 6)::int]",
	},
	retrytable.MySQL:  {"OLD.id % 10 = 3 AND rand() < 0.05", "SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1114, MESSAGE_TEXT = 'no'"},
	retrytable.SQLite: {"OLD.id % 10 = 3 AND abs(random()) % 20 = 0", "SELECT RAISE(ABORT, 'no')"},
}

// Two workers are killed every 30 to 130 ms while they work, and by some of the jobs, connections are cut,
// and rows are refused now and then. No job is lost, none has its effect twice, none runs
// more often than it may, and those that kill their worker end.
//
//	RETRY_TEST_CRASH=2000,8,200 go test -run 'TestCrash$' -timeout 1h
func TestCrash(t *testing.T) { //nolint:tparallel // one after the other: to start processes and connections is work
	t.Parallel()
	for _, k := range threeDatabases { //nolint:paralleltest // see above
		for _, loop := range []string{"Worker", "Worker, in groups"} {
			t.Run(k.name+"/"+loop, func(t *testing.T) {
				s := k.open(t)
				run(t, s.db, "CREATE TABLE jobs (id bigint PRIMARY KEY)")
				run(t, s.db, crashTable(k).Schema())
				run(t, s.db, "CREATE TABLE runs (job bigint)")
				run(t, s.db, "CREATE TABLE effects (job bigint)")
				for id := range crashJobs {
					run(t, s.db, "INSERT INTO jobs (id) VALUES ($1)", id)
					if slow(int64(id)) {
						s.ago(t, s.db, "due_at", int64(id), -4*time.Second)
					}
				}
				s.refuse(t, crashRefusal[s.dialect][0], crashRefusal[s.dialect][1])
				deaths := killWorkers(t, s, loop)
				t.Logf("%d workers died", deaths)
				assertCrash(t, s.db, loop)
			})
		}
	}
}

// worker starts this program as a worker.
func (s *store) worker(ctx context.Context, t *testing.T, loop string) (cmd *exec.Cmd, stdin io.Closer, err error) {
	t.Helper()
	cmd = exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), workerKind+"="+strconv.Itoa(slices.Index(kinds, s.kind)), workerDSN+"="+s.dsn, workerLoop+"="+loop)
	cmd.Stderr = t.Output()
	if stdin, err = cmd.StdinPipe(); err == nil {
		err = cmd.Start()
	}
	return cmd, stdin, err
}

// killWorkers keeps workers running until there were enough kills and there is
// no more work, and returns how many died.
func killWorkers(t *testing.T, s *store, loop string) int {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute*time.Duration(max(crashJobs/200, 1)))
	defer stop()
	var (
		wg     sync.WaitGroup
		deaths atomic.Int32
		alive  = make([]atomic.Pointer[os.Process], crashWorkers)
	)
	for i := range alive {
		wg.Go(func() {
			for ctx.Err() == nil {
				cmd, stdin, err := s.worker(ctx, t, loop)
				if ctx.Err() != nil && cmd.Process == nil || !assert.NoError(t, err) {
					return
				}
				alive[i].Store(cmd.Process)
				err = cmd.Wait()
				assert.ErrorContains(t, err, "killed", "a worker ends in no other way")
				_ = stdin.Close()
				deaths.Add(1)
			}
		})
	}
	cut, cuts := int64(0), s.dialect != retrytable.SQLite
	for kills, begun := 0, 0; ctx.Err() == nil && (kills < crashKills || cuts && cut == 0 || left(t, s.db) > 0); {
		time.Sleep(30*time.Millisecond + rand.N(100*time.Millisecond))
		// On a busy machine a worker needs longer than that to begin its work. Before, it has
		// nothing to lose.
		now := count(t, s.db, "SELECT count(*) FROM runs")
		if now == begun && left(t, s.db) > 0 || kills == crashKills && (cut > 0 || !cuts) {
			continue
		}
		if p := alive[rand.N(crashWorkers)].Load(); kills < crashKills && p != nil && p.Kill() == nil {
			kills++
			begun = now
		}
		if cuts && rand.N(2) == 0 {
			cut += s.cutConnections(t)
			begun = now
		}
	}
	t.Logf("%d connections cut", cut)
	assert.NoError(t, ctx.Err(), "there is still work")
	stop()
	wg.Wait()
	return int(deaths.Load())
}

// cutConnections ends those of the workers to our schema, whatever they are doing, and
// returns how many there were.
func (s *store) cutConnections(t *testing.T) (n int64) {
	t.Helper()
	if s.dialect == retrytable.MySQL {
		for _, row := range query(t, s.db, "SELECT id FROM information_schema.processlist WHERE db = database() AND id <> connection_id()") {
			if _, err := s.db.ExecContext(t.Context(), fmt.Sprint("KILL ", row[0])); err == nil { // it may be gone
				n++
			}
		}
		return n
	}
	require.NoError(t, s.db.QueryRowContext(t.Context(), "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "+
		"WHERE pid <> pg_backend_pid() AND application_name = current_schema()").Scan(&n))
	return n
}

// left returns how many jobs have not ended.
func left(t *testing.T, db *sql.DB) int {
	t.Helper()
	return count(t, db, "SELECT count(*) FROM jobs WHERE status NOT IN ('done', 'dead')")
}

func count(t *testing.T, db *sql.DB, question string) (n int) {
	t.Helper()
	require.NoError(t, db.QueryRowContext(t.Context(), question).Scan(&n))
	return n
}

func assertCrash(t *testing.T, db *sql.DB, loop string) {
	t.Helper()
	jobs, again, limit, inGroups := 0, 0, crashPolicy.MaxAttempts, loop == "Worker, in groups"
	if inGroups {
		limit = retry.Unlimited
	}
	for _, row := range query(t, db, "SELECT id, status, attempts, "+
		"(SELECT count(*) FROM runs WHERE job = id), (SELECT count(*) FROM effects WHERE job = id), error FROM jobs ORDER BY id") {
		id, status, attempts, ran, effects := row[0].(int64), row[1], int(row[2].(int64)), int(row[3].(int64)), row[4]
		jobs++
		assert.LessOrEqual(t, ran, attempts, "job %d: every run was counted", id)
		assert.LessOrEqual(t, attempts, limit, "job %d", id)
		if poison(id) && !inGroups {
			assert.Equal(t, "dead", status, "job %d", id)
			assert.Equal(t, crashPolicy.MaxAttempts, attempts, "job %d", id)
			assert.Equal(t, int64(0), effects, "job %d", id)
			assert.Equal(t, retry.ErrLost.Error(), row[5], "job %d", id)
			continue
		}
		assert.Equal(t, "done", status, "job %d", id)
		assert.Nil(t, row[5], "job %d", id)
		if !inGroups || !grouped(id) {
			assert.Equal(t, int64(1), effects, "job %d", id)
		}
		assert.Greater(t, attempts, flaky(id), "job %d", id)
		if attempts > flaky(id)+1 {
			again++
		}
	}
	assert.Equal(t, crashJobs, jobs)
	assert.NotZero(t, again, "the kills hit no work")
	t.Logf("%d jobs lost a worker that they had not killed", again)
}

// oldJobs is the Table that works while a migration makes it the Table of migrated.
func oldJobs(k kind) *retrytable.Table[int64] {
	return &retrytable.Table[int64]{Dialect: k.dialect, Name: "jobs", Instants: k.instants}
}

func migrated(k kind) *retrytable.Table[int64] {
	table := jobs()
	table.Dialect, table.Instants, table.OrderBy = k.dialect, k.instants, "id"
	return table
}

// migrates makes migrations until it is killed.
func migrates(ctx context.Context, k kind, dsn string) error {
	db, err := connect(k, dsn)
	for err == nil {
		err = migrated(k).Migrate(ctx, db, retrytable.Migration[int64]{})
	}
	return err
}

// A migration is killed at random while the rows are worked on. The next one goes on, and no job is lost
// or done twice. RETRY_TEST_MIGRATIONS says how many are killed on each database.
func TestMigrateKilled(t *testing.T) {
	t.Parallel()
	kills := testkit.Must(strconv.Atoi(cmp.Or(os.Getenv("RETRY_TEST_MIGRATIONS"), "3")))(t)
	for _, k := range threeDatabases {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			s := k.open(t)
			early, complete := 0, 0
			for range kills {
				if s.killMigration(t) {
					complete++
				} else {
					early++
				}
			}
			t.Logf("%d killed before the end of their migration, %d after it", early, complete)
		})
	}
}

// killMigration kills one, and reports whether it had done its work.
func (s *store) killMigration(t *testing.T) (complete bool) {
	t.Helper()
	const rows = 150
	s.live(t, "", 0)
	run(t, s.db, oldJobs(s.kind).Schema())
	for id := range rows {
		run(t, s.db, "INSERT INTO jobs (id) VALUES ($1)", id)
	}
	var mu sync.Mutex
	ran := map[int64]int{}
	stop := attended(t, &retrytable.Worker[int64]{
		Table: oldJobs(s.kind), DB: s.again(t), Concurrency: 2, Poll: 5 * time.Millisecond,
		Work: func(_ context.Context, job *retrytable.Job[int64]) error {
			mu.Lock()
			defer mu.Unlock()
			ran[job.ID]++
			return nil
		},
		OnError: func(_ context.Context, err error) { t.Log(err) },
	})
	cmd, stdin, err := s.worker(t.Context(), t, "Migrate")
	require.NoError(t, err)
	time.Sleep(rand.N(300 * time.Millisecond))
	require.NoError(t, cmd.Process.Kill())
	assert.ErrorContains(t, cmd.Wait(), "killed")
	_ = stdin.Close()
	var all told
	require.NoError(t, migrated(s.kind).Migrate(t.Context(), s.db, retrytable.Migration[int64]{Tell: all.tell}))
	assert.Empty(t, testkit.Must(migrated(s.kind).Missing(t.Context(), s.db))(t))
	assert.Eventually(t, func() bool { return count(t, s.db, "SELECT count(*) FROM jobs WHERE status <> 'done'") == 0 }, time.Minute, 20*time.Millisecond)
	stop()
	assert.Len(t, ran, rows)
	for id, times := range ran {
		assert.Equal(t, 1, times, fmt.Sprint("job ", id))
	}
	run(t, s.db, "DROP TABLE jobs")
	return len(all.statements) == 0
}
