package tabletest_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytable"
	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

// newDatabase makes a database of its own, and returns its address and what makes it
// refuse connections for a while.
func newDatabase(t *testing.T) (dsn string, refuse func(time.Duration)) {
	t.Helper()
	testkit.Needs(t, "PostgreSQL")
	outer := cmp.Or(os.Getenv("RETRY_TEST_POSTGRES"), "postgres://postgres@127.0.0.1:5432/test?sslmode=disable")
	name := "retry_" + strings.ToLower(rand.Text()[:16])
	db := openDB(t, "pgx", outer)
	exec := func(statement string) {
		_, err := db.ExecContext(context.WithoutCancel(t.Context()), statement)
		assert.NoError(t, err, statement)
	}
	exec("CREATE DATABASE " + name)
	t.Cleanup(func() { exec("DROP DATABASE " + name + " WITH (FORCE)") })
	u := testkit.Must(url.Parse(outer))(t)
	u.Path = "/" + name
	return u.String(), func(d time.Duration) {
		exec("ALTER DATABASE " + name + " ALLOW_CONNECTIONS false")
		exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '" + name + "'")
		time.AfterFunc(d, func() { exec("ALTER DATABASE " + name + " ALLOW_CONNECTIONS true") })
	}
}

// refusing returns a place of its own in a database of the kind, and what makes it cut
// all connections and refuse others for a while.
func refusing(t *testing.T, k kind) (s *store, refuse func(time.Duration)) {
	t.Helper()
	if k.dialect == retrytable.PostgreSQL {
		dsn, refuse := newDatabase(t)
		return &store{k, openDB(t, k.driver, dsn), dsn}, refuse
	}
	var cable atomic.Pointer[enginetest.Cable] // nil while the server is away
	cable.Store(new(enginetest.Cable))
	dsn := newMariaDB(t, k.settings)
	db := sql.OpenDB(dollarConnector{dsn: dsn, dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		if c := cable.Load(); c != nil {
			return c.DialContext(ctx, network, address)
		}
		return new(net.Dialer).DialContext(ctx, network, "127.0.0.1:1")
	}})
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	return &store{k, db, dsn}, func(d time.Duration) {
		cable.Swap(nil).Cut()
		time.AfterFunc(d, func() { cable.Store(new(enginetest.Cable)) })
	}
}

// A server that is away for two seconds when the work is done, or in the middle of what
// the work has to write, does not have it done again.
func TestWorkerServerAway(t *testing.T) {
	t.Parallel()
	for _, k := range []kind{databases[0], databases[1], databases[3]} {
		for _, when := range []string{"at the end", "in the transaction", "after a failure"} {
			t.Run(k.name+" "+when, func(t *testing.T) {
				t.Parallel()
				s, refuse := refusing(t, k)
				table := jobs()
				s.create(t, table, 1)
				runs, effects := 0, 0
				w := &retrytable.Worker[int64]{
					Table: table, DB: s.db, Policy: hourly,
					Work: func(_ context.Context, job *retrytable.Job[int64]) error {
						runs++
						job.InTx(func(ctx context.Context, tx *sql.Tx) error {
							if effects++; effects == 1 && when == "in the transaction" {
								refuse(2 * time.Second)
							}
							return effect(job)(ctx, tx)
						})
						if when != "in the transaction" {
							refuse(2 * time.Second)
						}
						if when == "after a failure" {
							return retry.MarkRetryable(errWork)
						}
						return nil
					},
				}
				began := time.Now()
				assert.Equal(t, 1, testkit.Must(w.Once(t.Context()))(t))
				assert.Greater(t, time.Since(began), 1500*time.Millisecond, "the server was away")
				assert.Equal(t, 1, runs)
				got := s.record(t, s.db, 1)
				if when == "after a failure" {
					assert.Equal(t, record{status: "waiting", attempts: 1, fence: 1, due: got.due}, got)
				} else {
					assert.Equal(t, record{status: "done", attempts: 1, fence: 1, note: "effect"}, got)
				}
			})
		}
	}
}

// A Worker behind a pooler that knows no prepared statements, as the recipe says.
func TestPgBouncer(t *testing.T) {
	t.Parallel()
	s := databases[0].open(t)
	table := &retrytable.Table[int64]{Name: "jobs"}
	s.create(t, table, 100)
	u := testkit.Must(url.Parse(s.dsn))(t)
	db := openDB(t, "pgx", pgDSN(t, testkit.PgBouncer(t, u).String(), "default_query_exec_mode", "exec"))
	attended(t, &retrytable.Worker[int64]{
		Table: table, DB: db, Concurrency: 5, Poll: 10 * time.Millisecond, Policy: &retry.Policy{MaxAttempts: 1},
		Work: func(ctx context.Context, _ *retrytable.Job[int64]) error {
			_, err := db.ExecContext(ctx, "SELECT $1::int", 1)
			return err
		},
		OnError: func(_ context.Context, err error) { assert.NoError(t, err) },
	})
	s.awaitDone(t, 100)
}

// refusal is what a trigger does to a row, in the SQL of a database.
type refusal struct {
	name string
	kind kind
	body string
}

// refusals are of every class that a trigger can raise while the connection lives, and of the
// ways in which a row is refused by mistake.
func refusals() (all []refusal) {
	for _, state := range []string{
		"P0001", "08006", "0A000", "22012", "23514", "25006", "2F002", "38000", "40001", "42501", "42703", "42P01", "53100", "53300",
		"54000", "55000", "55P03", "57014", "57P01", "58030", "H0001", "XX000",
	} {
		k := databases[len(all)%2]
		all = append(all, refusal{k.name + "/" + state, k, "RAISE EXCEPTION 'no' USING ERRCODE = '" + state + "'"})
	}
	for name, body := range map[string]string{
		"no such table": "INSERT INTO gone VALUES (NEW.id)", "no such column": "PERFORM NEW.gone", "cast": "PERFORM ('x' || NEW.id)::int",
		"too slow": "PERFORM pg_sleep(60)",
	} {
		all = append(all, refusal{"pgx/" + name, databases[0], body})
	}
	for _, errno := range []string{"1644", "1020", "1040", "1053", "1114", "1142", "1146", "1205", "1213", "1290", "1969", "3024"} {
		all = append(all, refusal{
			"mariadb/" + errno, databases[3],
			"SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = " + errno + ", MESSAGE_TEXT = 'no'",
		})
	}
	all = append(all, refusal{"mariadb/no such table", databases[3], "INSERT INTO gone VALUES (1)"})
	for _, how := range []string{"ABORT", "FAIL", "ROLLBACK"} {
		all = append(all, refusal{"sqlite/" + how, databases[2], "SELECT RAISE(" + how + ", 'no')"})
	}
	return all
}

// noBody refuses a row with an error that others mean by a statement that is wrong.
var noBody = map[retrytable.Dialect]string{
	retrytable.PostgreSQL: "RAISE EXCEPTION 'no' USING ERRCODE = '42501'", retrytable.SQLite: "SELECT RAISE(ABORT, 'no')",
	retrytable.MySQL: "SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1142, MESSAGE_TEXT = 'no'",
}

// refuse has a trigger refuse to write some rows, until mend is called.
func (s *store) refuse(t testing.TB, condition, body string) (mend func()) {
	t.Helper()
	switch s.dialect {
	case retrytable.PostgreSQL:
		run(t, s.db, "CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF "+condition+" THEN "+body+"; END IF; RETURN NEW; END $$")
		run(t, s.db, "CREATE TRIGGER no BEFORE UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION no()")
	case retrytable.MySQL:
		run(t, s.db, "CREATE TRIGGER no BEFORE UPDATE ON jobs FOR EACH ROW BEGIN IF "+condition+" THEN "+body+"; END IF; END")
	default:
		run(t, s.db, "CREATE TRIGGER no BEFORE UPDATE ON jobs WHEN "+condition+" BEGIN "+body+"; END")
	}
	return func() {
		t.Helper()
		on := ""
		if s.dialect == retrytable.PostgreSQL {
			on = " ON jobs"
		}
		run(t, s.db, "DROP TRIGGER no"+on)
	}
}

// patient is a Worker that does nothing, and keeps what it reports.
func patient(s *store, table *retrytable.Table[int64], places int) (w *retrytable.Worker[int64], told func() []string) {
	var mu sync.Mutex
	var all []string
	w = &retrytable.Worker[int64]{
		Table: table, DB: s.db, Concurrency: places, Poll: 50 * time.Millisecond,
		Policy: &retry.Policy{MaxAttempts: 20, Backoff: retry.Constant(50 * time.Millisecond)},
		Work:   func(context.Context, *retrytable.Job[int64]) error { return nil },
		OnError: func(_ context.Context, err error) {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, err.Error())
		},
	}
	return w, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), all...)
	}
}

// attended runs a Worker for as long as the test takes.
func attended(t *testing.T, w *retrytable.Worker[int64]) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var over sync.WaitGroup
	over.Go(func() { assert.ErrorIs(t, w.Run(ctx), context.Canceled) })
	stop = func() { cancel(); over.Wait() }
	t.Cleanup(stop)
	return stop
}

// awaitDone waits until so many rows are done.
func (s *store) awaitDone(t *testing.T, n int) {
	t.Helper()
	require.Eventually(t, func() bool {
		var got int
		err := s.db.QueryRowContext(t.Context(), "SELECT count(*) FROM jobs WHERE status = 'done'").Scan(&got)
		return err == nil && got == n
	}, 5*time.Minute, 20*time.Millisecond)
}

// What the database answers about some rows, whatever it is, holds up no others: neither
// where a row is taken, nor where its end is stored. When that is mended, all rows end.
func TestWorkerPastRefusals(t *testing.T) {
	t.Parallel()
	for _, r := range refusals() {
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			s := r.kind.open(t)
			table := jobs()
			table.Lease = 12 * time.Second
			s.create(t, table, 30)
			// 7 and 8 cannot be claimed, 9 cannot end, and 10 was lost and cannot be swept.
			run(t, s.db, "UPDATE jobs SET status = 'running', due_at = NULL WHERE id IN (10, 11)")
			s.ago(t, s.db, "lease_until", 10, time.Hour)
			s.ago(t, s.db, "lease_until", 11, time.Minute)
			mend := s.refuse(t, "OLD.id IN (7, 8, 10) OR OLD.id = 9 AND NEW.status = 'done'", r.body)
			w, told := patient(s, table, 5)
			attended(t, w)
			s.awaitDone(t, 26)
			assert.Empty(t, query(t, s.db, "SELECT id FROM jobs WHERE status = 'done' AND id IN (7, 8, 9, 10)"))
			mend()
			s.awaitDone(t, 30)
			assert.Less(t, len(told()), 12, "%q", told())
			assert.Contains(t, strings.Join(told(), "\n"), "went past ")
		})
	}
}

// Fifty rows that are refused at the head of a table, where they are claimed, promoted and
// swept, cost a statement each, and are told once.
func TestWorkerPastManyRefused(t *testing.T) {
	t.Parallel()
	for _, orderBy := range []string{"", "id"} {
		t.Run("by "+orderBy, func(t *testing.T) {
			t.Parallel()
			forEach(t, databases, func(t *testing.T, s *store) { //nolint:thelper // the test itself
				table := jobs()
				table.OrderBy = orderBy
				s.create(t, table, 100)
				if orderBy != "" { // half of them are promoted
					run(t, s.db, "UPDATE jobs SET due_at = NULL WHERE id % 2 = 0")
				}
				for _, id := range []int64{3, 53} { // of a dead worker
					run(t, s.db, "UPDATE jobs SET status = 'running', due_at = NULL WHERE id = $1", id)
					s.ago(t, s.db, "lease_until", id, time.Hour)
				}
				mend := s.refuse(t, "OLD.id <= 50", noBody[s.dialect])
				w, told := patient(s, table, 3)
				attended(t, w)
				s.awaitDone(t, 50)
				time.Sleep(time.Second) // of polls
				before := len(told())
				assert.Less(t, before, 12, "%q", told())
				time.Sleep(time.Second)
				assert.Len(t, told(), before)
				mend()
				s.awaitDone(t, 100)
			})
		})
	}
}

// A table whose rows are all refused is looked at seldom, and goes on soon after it is mended.
func TestWorkerAllRefused(t *testing.T) {
	t.Parallel()
	s := databases[0].open(t)
	s.create(t, jobs(), 2000)
	run(t, s.db, "CREATE SEQUENCE tries")
	mend := s.refuse(t, "true", "PERFORM nextval('tries'); RAISE EXCEPTION 'no' USING ERRCODE = '42P01'")
	w, told := patient(s, jobs(), 200)
	w.Table.Dialect, w.Table.Instants = s.dialect, s.instants
	attended(t, w)
	time.Sleep(10 * time.Second)
	tries := query(t, s.db, "SELECT last_value FROM tries")[0][0].(int64)
	assert.Less(t, tries, int64(400))
	assert.Less(t, len(told()), 5, "%q", told())
	mended := time.Now()
	mend()
	s.awaitDone(t, 2000)
	t.Logf("%d tries in 10 s; all done %v after it was mended", tries, time.Since(mended))
}

// An attempt whose end is refused gives back its place, so that a Worker with one place goes
// on, whatever the class of the refusal.
func TestWorkerWithOnePlace(t *testing.T) {
	t.Parallel()
	s := databases[0].open(t)
	s.create(t, jobs(), 3)
	run(t, s.db, "UPDATE jobs SET due_at = due_at + id * interval '1 ms'")
	s.refuse(t, "OLD.id = 1 AND NEW.status = 'done'", "RAISE EXCEPTION 'no' USING ERRCODE = '53100'")
	w, _ := patient(s, jobs(), 1)
	w.Table.Dialect = s.dialect
	stop := attended(t, w)
	s.awaitDone(t, 2)
	assert.Equal(t, "running", s.record(t, s.db, 1).status, "it is still tried")
	run(t, s.db, "DROP TRIGGER no ON jobs")
	stop()
	assert.Equal(t, "done", s.record(t, s.db, 1).status)
}

// Claims of transactions that are serializable by default conflict, which is no outage.
func TestWorkerSerializable(t *testing.T) {
	t.Parallel()
	s := databases[0].open(t)
	s.create(t, jobs(), 300)
	db := openDB(t, s.driver, pgDSN(t, s.dsn, "default_transaction_isolation", "serializable"))
	var claims atomic.Int32
	for range 3 {
		w, _ := patient(s, jobs(), 4)
		w.Table.Dialect, w.DB = s.dialect, db
		w.OnError = func(_ context.Context, err error) {
			if strings.Contains(fmt.Sprint(err), "claim") {
				claims.Add(1)
			}
		}
		attended(t, w)
	}
	s.awaitDone(t, 300)
	assert.Zero(t, claims.Load())
}

// An argument of a type that the driver does not take is an error of the program, which is
// told once for each end, with the argument's number, and not tried again.
func TestWorkerUnfitArgs(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		arg  any
		told string
	}{
		"an error": {errWork, `args: \$1 is an error, a \*errors.errorString: pass its text, which Error returns$`},
		"a struct": {struct{ A int }{1}, `args: \$1 is a struct { A int }, which the driver does not take: `},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			forEach(t, databases, func(t *testing.T, s *store) { //nolint:thelper // the test itself
				table := jobs()
				table.Set.Fail = "note = $1"
				s.create(t, table, 1)
				w, _ := patient(s, table, 1)
				w.Work = func(context.Context, *retrytable.Job[int64]) error { return errWork }
				w.FinishArgs = func(*retrytable.Outcome[int64]) []any { return []any{tt.arg} }
				began := time.Now()
				_, err := w.Once(t.Context())
				require.Error(t, err)
				assert.Regexp(t, "^retrytable: job 1: its end was not stored: retrytable: fail: "+tt.told, err.Error())
				assert.Less(t, time.Since(began), table.Lease+30*time.Second)
			})
		})
	}
}
