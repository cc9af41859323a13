//nolint:thelper // what forEach and inBubble call is the test itself
package tabletest_test

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// spy explains the statements that are run, before it runs them.
type spy struct {
	retrytable.DB

	t       *testing.T
	dialect retrytable.Dialect
	plans   []string
}

func (s *spy) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	s.explain(query, args)
	return s.DB.ExecContext(ctx, query, args...)
}

func (s *spy) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	s.explain(query, args)
	return s.DB.QueryContext(ctx, query, args...)
}

func (s *spy) explain(statement string, args []any) {
	s.t.Helper()
	how := "EXPLAIN (COSTS OFF) "
	switch s.dialect {
	case retrytable.SQLite:
		how = "EXPLAIN QUERY PLAN "
	case retrytable.MySQL:
		how = "EXPLAIN "
	}
	for _, line := range query(s.t, s.DB, how+statement, args...) {
		if s.dialect != retrytable.MySQL { // the last column says it all
			line = line[len(line)-1:]
		}
		s.plans = append(s.plans, fmt.Sprintln(line...))
	}
}

// plan returns that of what was run since the last call.
func (s *spy) plan() string {
	plan := strings.Join(s.plans, "")
	s.plans = nil
	return plan
}

// fill makes a large table: total rows, of which waiting percent wait for a later
// time and are older than all others, and the rest is due.
func (s *store) fill(t testing.TB, table *retrytable.Table[int64], total, waiting int) {
	t.Helper()
	table.Dialect, table.Instants = s.dialect, s.instants
	run(t, s.db, "CREATE TABLE jobs (id integer PRIMARY KEY, priority integer, payload text)")
	run(t, s.db, table.Schema())
	if s.dialect == retrytable.MySQL { // for what is counted
		run(t, s.db, "CREATE INDEX jobs_status ON jobs (status)")
	}
	later, due := "$1 + i", "$2 - i"
	switch {
	case s.instants == retrytable.RFC3339 || s.instants == ofOthers:
		later, due = "strftime('%FT%TZ', julianday($1) + i / 1e9)", "strftime('%FT%TZ', julianday($2) - i / 1e9)"
	case s.instants == retrytable.Datetime:
		later, due = "$1 + INTERVAL i MICROSECOND", "$2 - INTERVAL i MICROSECOND"
	case s.instants == retrytable.Timestamptz:
		later, due = "$1::timestamptz + i * interval '1 microsecond'", "$2::timestamptz - i * interval '1 microsecond'"
	case s.dialect == retrytable.PostgreSQL:
		later, due = "$1::bigint + i", "$2::bigint - i"
	}
	if table.OrderBy != "" {
		due = "CASE WHEN i < 0 THEN " + due + " END" // NULL
	}
	waits := fmt.Sprintf("CASE WHEN i <= %d THEN ", total*waiting/100)
	run(t, s.db, "INSERT INTO jobs (id, priority, payload, status, due_at) SELECT i, i % 10, '"+strings.Repeat("x", 200)+"', "+
		waits+"'waiting' ELSE 'ready' END, "+waits+later+" ELSE "+due+" END FROM "+s.series(1, total),
		s.instant(time.Now().Add(time.Hour)), s.instant(time.Now().Add(-time.Hour)))
}

// analyze has the planner know what is in the table.
func (s *store) analyze(t testing.TB) {
	t.Helper()
	statement := "ANALYZE jobs"
	if s.dialect == retrytable.MySQL {
		statement = "ANALYZE TABLE jobs"
	}
	run(t, s.db, statement)
}

// Every statement finds its rows in an index, in the order of the index, whatever
// the table is full of. SQLite and MySQL need not know what that is.
func TestPlans(t *testing.T) {
	t.Parallel()
	forEach(t, kinds, func(t *testing.T, s *store) {
		for _, orderBy := range []string{"", "priority DESC, id"} {
			for _, waiting := range []int{0, 90} {
				testPlans(t, s, orderBy, waiting, true)
				if s.dialect != retrytable.PostgreSQL {
					testPlans(t, s, orderBy, waiting, false)
				}
			}
		}
	})
}

// concurrencyLimit is a condition that only Claim has. It counts in jobs_sweep, whose
// condition SQLite wants word for word.
const concurrencyLimit = "(SELECT count(*) FROM jobs AS other WHERE other.status IN ('running')) < 100"

func testPlans(t *testing.T, s *store, orderBy string, waiting int, analyze bool) {
	t.Helper()
	ctx, table := t.Context(), &retrytable.Table[int64]{Name: "jobs", OrderBy: orderBy, ClaimWhere: concurrencyLimit}
	s.fill(t, table, 5000, waiting)
	if analyze {
		s.analyze(t)
	}
	spied := &spy{DB: s.db, t: t, dialect: s.dialect}
	for _, n := range []int{1, 10} { // SQLite sorts more readily for one row
		rows := testkit.Must(table.Claim(ctx, spied, n))(t)
		require.Len(t, rows, n)
		assertPlan(t, spied, "claim")

		_, err := table.Sweep(ctx, spied, n)
		require.NoError(t, err)
		assertPlan(t, spied, "sweep")
		if orderBy != "" {
			testkit.Must(table.Promote(ctx, spied, n))(t)
			assertPlan(t, spied, "promote")
		}

		require.NoError(t, table.Succeed(ctx, spied, rows[0].Lease))
		assertPlan(t, spied, "")
	}
	run(t, s.db, "DROP TABLE jobs")
}

// MariaDB counts what it reads: for a claim that is no more in a larger table.
func TestReads(t *testing.T) {
	t.Parallel()
	forEach(t, of(databases, retrytable.MySQL), func(t *testing.T, s *store) {
		for _, orderBy := range []string{"", "priority DESC, id"} {
			var reads []int
			for _, total := range []int{500, 20_000} {
				table := &retrytable.Table[int64]{Name: "jobs", OrderBy: orderBy}
				s.fill(t, table, total, 90)
				conn := testkit.Must(s.db.Conn(t.Context()))(t)
				before := handlerReads(t, conn)
				require.Len(t, testkit.Must(table.Claim(t.Context(), conn, 10))(t), 10)
				reads = append(reads, handlerReads(t, conn)-before)
				require.NoError(t, conn.Close())
				run(t, s.db, "DROP TABLE jobs")
			}
			assert.Equal(t, reads[0], reads[1])
			assert.Less(t, reads[0], 100)
		}
	})
}

// handlerReads returns how many rows and entries of indexes a session has read.
func handlerReads(t *testing.T, conn *sql.Conn) (sum int) {
	t.Helper()
	for _, row := range query(t, conn, "SHOW SESSION STATUS LIKE 'Handler_read%'") {
		n := testkit.Must(strconv.Atoi(row[1].(string)))(t)
		sum += n
	}
	return sum
}

// A plan that PostgreSQL has made for all parameters is no worse.
func TestGenericPlan(t *testing.T) {
	t.Parallel()
	forEach(t, kinds[:1], func(t *testing.T, s *store) {
		for _, orderBy := range []string{"", "priority DESC, id"} {
			table := &retrytable.Table[int64]{Name: "jobs", OrderBy: orderBy, Where: "id <> $1"}
			s.fill(t, table, 20_000, 0)
			s.analyze(t)
			generic := &genericPlans{t: t, DB: openDB(t, s.driver, pgDSN(t, s.dsn, "plan_cache_mode", "force_generic_plan"))}
			require.Len(t, testkit.Must(table.Claim(t.Context(), generic, 1, 7))(t), 1)
			assert.Contains(t, generic.plan, "jobs_claim")
			assert.NotContains(t, generic.plan, "Sort")
			assert.NotContains(t, generic.plan, "Seq Scan")
			run(t, s.db, "DROP TABLE jobs")
		}
	})
}

// genericPlans keeps the plan that is made before the parameters are known.
type genericPlans struct {
	*sql.DB

	t    *testing.T
	plan string
}

func (g *genericPlans) QueryContext(ctx context.Context, statement string, args ...any) (*sql.Rows, error) {
	conn := testkit.Must(g.Conn(ctx))(g.t)
	defer func() { assert.NoError(g.t, conn.Close()) }()
	run(g.t, conn, "PREPARE p(bigint, bigint) AS "+statement)
	g.plan = fmt.Sprint(query(g.t, conn, "EXPLAIN (COSTS OFF) EXECUTE p(7, 1)"))
	run(g.t, conn, "DEALLOCATE p")
	return g.DB.QueryContext(ctx, statement, args...) //nolint:sqlclosecheck // the caller closes them
}

// assertPlan asserts that a method has looked for its rows in an index.
func assertPlan(t *testing.T, s *spy, index string) {
	t.Helper()
	plan := s.plan()
	if index != "" {
		name := "jobs_" + index
		if s.dialect == retrytable.MySQL {
			name = " " + index + "_"
		}
		assert.Contains(t, plan, name)
	}
	for _, bad := range []string{
		"Seq Scan", "Sort", "SCAN jobs\n", "SCAN other\n", "TEMP B-TREE", " ALL ", "filesort", "temporary",
	} {
		assert.NotContains(t, plan, bad)
	}
}

// There is more work than the worker can do: 20 urgent jobs that fail and are due again
// soon. What an order costs, and which one lets nobody starve, is as the comment of OrderBy
// says.
func TestOrderUnderOverload(t *testing.T) {
	t.Parallel()
	const old, urgent, ordinary = 20, 101, 102
	for name, test := range map[string]struct {
		orderBy, promote string
		begun            []int64 // of the new ones
	}{
		"by due time":  {"", "", []int64{urgent, ordinary}},
		"by priority":  {"priority DESC, created_at", "", nil},
		"by age":       {"created_at", "", nil},
		"by turn":      {"turn", "turn = due_at - priority * 60000000", []int64{urgent, ordinary}},
		"turn for now": {"turn", "", nil}, // the promotion has to give a new one
	} {
		eachInBubble(t, name, 0, func(t *testing.T, s *shop) {
			run(t, s.db, "DROP TABLE jobs")
			run(t, s.db, "CREATE TABLE jobs (id bigint PRIMARY KEY, priority integer NOT NULL, created_at bigint NOT NULL, turn bigint)")
			s.Table = &retrytable.Table[int64]{
				Dialect: s.dialect, Instants: s.instants, Name: "jobs",
				OrderBy: test.orderBy, Set: retrytable.Set{Promote: test.promote},
			}
			run(t, s.db, s.Table.Schema())
			insert := func(id int64, priority int) {
				now := time.Now().UnixMicro()
				run(t, s.db, "INSERT INTO jobs (id, priority, created_at, turn) VALUES ($1, $2, $3, $4)",
					id, priority, now, now-int64(priority)*60_000_000)
				if test.orderBy == "" {
					run(t, s.db, "UPDATE jobs SET due_at = $1 WHERE id = $2", now, id)
				}
			}
			for id := range int64(old) {
				insert(id, 5)
			}
			s.Policy = &retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Constant(time.Second), Jitter: retry.NoJitter}
			var begun []int64
			s.Work = func(_ context.Context, job *retrytable.Job[int64]) error {
				time.Sleep(10 * time.Second)
				if job.ID < old {
					return errWork
				}
				begun = append(begun, job.ID)
				return nil
			}
			stop := s.start(t)
			time.Sleep(10*time.Minute + 5*time.Second) // in the middle of a job, not while the next one is claimed
			insert(urgent, 5)
			insert(ordinary, 0)
			time.Sleep(20 * time.Minute)
			require.Equal(t, errStop, stop())
			assert.Equal(t, test.begun, begun)
		})
	}
}

// claimed claims up to n rows one by one, and returns their IDs in that order.
func claimed(t *testing.T, s *store, table *retrytable.Table[int64], n int) (ids []int64) {
	t.Helper()
	for range n {
		rows := testkit.Must(table.Claim(t.Context(), s.db, 1))(t)
		for _, row := range rows {
			ids = append(ids, row.ID)
		}
	}
	return ids
}

// Without an order, what has been due for longest goes first, new or not.
func TestOrderOfDueTimes(t *testing.T) {
	t.Parallel()
	forEachTable(t, databases, jobs, 6, func(t *testing.T, s *store, table *retrytable.Table[int64]) {
		for id, since := range map[int64]time.Duration{
			1: 10 * time.Minute, 2: 30 * time.Minute, 3: 20 * time.Minute, 4: 40 * time.Minute, 5: -time.Minute,
		} {
			s.ago(t, s.db, "due_at", id, since)
		}
		run(t, s.db, "UPDATE jobs SET status = 'waiting' WHERE id IN (2, 3)")
		run(t, s.db, "UPDATE jobs SET due_at = NULL WHERE id = 6")
		assert.Equal(t, []int64{6, 4, 2, 3, 1}, claimed(t, s, table, 10))
	})
}
