package tabletest_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// exploredTables are the tables that are explored.
var exploredTables = map[string]func() *retrytable.Table[int64]{
	"due":     func() *retrytable.Table[int64] { return &retrytable.Table[int64]{} },
	"ordered": func() *retrytable.Table[int64] { return &retrytable.Table[int64]{OrderBy: "id"} },
}

// Whatever two workers do with two rows, in whatever order, and whatever is lost on the
// way, the four properties hold. All states are looked at, and not only those up to some
// number of steps.
func TestExplore(t *testing.T) {
	t.Parallel()
	for name, table := range exploredTables {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newExplorer(t, table(), nil)
			found := e.explore(0)
			assert.Empty(t, found)
			for _, want := range []string{"late", "swept", "answer lost", "both done", "dead", "at its limit"} {
				assert.True(t, e.seen[want], "no state was reached that is: %s", want)
			}
			t.Logf("%d states, at most %d steps from the first; %d statements", len(e.states), e.depth, len(e.known))
		})
	}
}

// mutant is a fault in a statement, and the property that it must break.
type mutant struct {
	name   string
	table  string // of exploredTables
	breaks property
	which  string // is found in the statement, and in no other
	from   string // a regular expression
	to     string
}

var (
	now       = `CAST\(round\(\(julianday\('[^']*'\) - 2440587.5\) \* 86400000.0\) AS INTEGER\) \* 1000`
	claiming  = "^UPDATE `jobs` SET `status` = 'running'"
	sweeping  = "^UPDATE `jobs` SET `lease_until` = .* WHERE `id` IN "
	extending = "^UPDATE `jobs` SET `lease_until` = .* WHERE `id` = "
	succeeded = "^UPDATE `jobs` SET `status` = \\?"
	retrying  = "^UPDATE `jobs` SET `status` = 'waiting'"
	releasing = "^UPDATE `jobs` SET `status` = 'ready'.* WHERE `id` = "
	promoting = "^UPDATE `jobs` SET `status` = 'ready'.* WHERE `id` IN "
)

var mutants = []mutant{
	{"a sweep does not ask for the lease", "due", workedOnTwice, sweeping, "`lease_until` <= ", "`lease_until` <= 9000000000000000000 - "},
	{"a failure does not compare the fence", "due", workedOnTwice, retrying, "`fence` = ", "`fence` > 0 * "},
	{"a claim does not raise the fence", "due", workedOnTwice, claiming + "|" + sweeping, "`fence` = coalesce\\(`fence`, 0\\) \\+ 1", "`fence` = `fence`"},
	{"an extension is not written", "due", workedOnTwice, extending, "(`lease_until` = )(.*) WHERE", "$1 min(`lease_until`, $2) WHERE"},
	{"a claim has too short a lease", "due", workedOnTwice, claiming, `\+ 2000000`, "+ 1000000"},
	{"a release does not compare the fence", "due", workedOnTwice, releasing, "`fence` = ", "`fence` > 0 * "},

	{"a retry has no due time", "due", isLost, retrying, "`due_at` = " + now, "`due_at` = NULL AND 1"},
	{"a claim has no lease", "due", isLost, claiming, "`lease_until` = " + now, "`lease_until` = NULL AND 1"},
	{"a sweep has no lease", "due", isLost, sweeping, "SET `lease_until` = " + now, "SET `lease_until` = NULL AND 1"},
	{"a promoted row keeps its due time", "ordered", isLost, promoting, "`due_at` = NULL", "`due_at` = `due_at`"},
	{"a released row is waiting", "due", isLost, releasing, "'ready'", "'waiting'"},

	{
		"a success asks for neither status nor lease", "due", succeedsTwice, succeeded,
		"AND `status` IN \\('running'\\) AND `lease_until` IS NOT NULL", "",
	},
	{
		"a success keeps status and lease", "due", succeedsTwice, succeeded,
		"`status` = (\\?[0-9]+), `lease_until` = NULL", "`status` = coalesce(`status`, $1)",
	},

	{"a claim counts nothing", "due", overItsLimit, claiming, "(`attempts`, 0\\)) \\+ 1", "$1 + 0"},
	{"a release gives two attempts back", "due", overItsLimit, releasing, "`attempts` - 1", "`attempts` - 2"},
	{"a failure counts nothing", "ordered", overItsLimit, retrying, "`attempts` = (\\?[0-9]+)", "`attempts` = $1 - 1"},
}

// Each property can be broken, and is seen to be.
func TestExploreMutants(t *testing.T) {
	t.Parallel()
	broken := map[property]bool{}
	for _, m := range mutants {
		broken[m.breaks] = true
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			which, from := regexp.MustCompile(m.which), regexp.MustCompile(m.from)
			altered := 0
			e := newExplorer(t, exploredTables[m.table](), func(query string) string {
				if !which.MatchString(query) {
					return query
				}
				mutated := from.ReplaceAllString(query, m.to)
				require.NotEqual(t, query, mutated)
				altered++
				return mutated
			})
			found := e.explore(m.breaks)
			assert.NotZero(t, altered, "no statement is %q", m.which)
			require.NotEmpty(t, found, "the mutant lives; %d states", len(e.states))
			t.Logf("%s:\n%s", m.breaks, found)
		})
	}
	assert.Len(t, broken, len(properties), "every property has a mutant")
}

// trace returns the steps that lead to a state.
func (e *explorer) trace(at int, last string) string {
	steps := []string{last}
	for ; at > 0; at = e.nodes[at].parent {
		steps = append(steps, e.nodes[at].step+"\n         "+e.nodes[at].world.String())
	}
	slices.Reverse(steps)
	for i := range steps {
		steps[i] = fmt.Sprintf("%3d. %s", i+1, steps[i])
	}
	return strings.Join(steps, "\n")
}

// op is a statement of a [retrytable.Table].
type op uint8

const (
	claim op = iota
	sweep
	extend
	release
	finish
)

// String returns what a worker does.
func (o op) String() string {
	return [...]string{"claims", "sweeps", "extends", "releases", "stores"}[o]
}

// exploredDB executes the statements, in SQLite. What one does depends on the rows, the
// clock and its arguments alone, so each is executed once.
type exploredDB struct {
	t     *testing.T
	db    *sql.DB
	table *retrytable.Table[int64]
	known map[question]answer
	now   exploredTable // what is in the table
}

type question struct {
	rows  exploredTable
	op    op
	doing doing
	row   int8
	fence int8
	fails int8
}

type answer struct {
	rows     exploredTable
	ok       bool // a row was taken, or the lease was the worker's
	fence    int8
	failures int8
}

// exploredNow is when all statements are executed: the rows are moved instead.
var exploredNow = time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC)

func newExploredDB(t *testing.T, table *retrytable.Table[int64], rewrite func(string) string) *exploredDB {
	t.Helper()
	db := sql.OpenDB(&wrapping{sqliteDriver(t), ":memory:", func(conn fullConn) driver.Conn { return &rewritten{conn, rewrite} }, nil})
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	table.Dialect, table.Name, table.Lease = retrytable.SQLite, "jobs", exploredLease*tick
	table.Where = "id = $1" // so that every order in which rows could be claimed is explored
	run(t, db, "CREATE TABLE jobs (id INTEGER PRIMARY KEY)")
	run(t, db, table.Schema())
	for i := range exploredRows {
		run(t, db, "INSERT INTO jobs (id) VALUES ($1)", i)
	}
	return &exploredDB{t: t, db: db, table: table, known: map[question]answer{}}
}

// apply executes a statement of a worker on the rows of w.
func (e *exploredDB) apply(w *world, a actor, o op, d doing) (answer, bool) {
	q := question{rows: w.rows, op: o, doing: d, row: a.row, fence: a.fence}
	if o == finish && d != success {
		q.fails = a.failures
	}
	got, known := e.known[q]
	if !known {
		e.write(q.rows)
		got = e.execute(q)
		if got.ok || o == claim { // which may have promoted a row, and taken none
			e.now = e.read()
		}
		got.rows = e.now
		e.known[q] = got
	}
	w.rows = got.rows
	return got, got.ok
}

func (e *exploredDB) execute(q question) answer {
	e.t.Helper()
	ctx, lease := e.t.Context(), retrytable.Lease[int64]{ID: int64(q.row), Fence: int64(q.fence)}
	switch q.op {
	case claim, sweep:
		take := e.table.Claim
		if q.op == sweep {
			take = e.table.Sweep
		}
		rows := testkit.Must(take(ctx, e.db, 1, int64(q.row)))(e.t)
		if len(rows) == 0 {
			return answer{}
		}
		return answer{ok: true, fence: int8(rows[0].Fence), failures: int8(rows[0].State.Failures)}
	case extend:
		return e.finished(e.table.Extend(ctx, e.db, lease, 0))
	case release:
		return e.finished(e.table.Release(ctx, e.db, lease))
	}
	if q.doing == success {
		return e.finished(e.table.Succeed(ctx, e.db, lease))
	}
	errs := map[doing]error{failure: errWork, finalFailure: retry.MarkFinal(errWork), lostAttempt: retry.ErrLost}
	d := exploredPolicy.Next(retry.State{Failures: int(q.fails)}, errs[q.doing], exploredNow)
	return e.finished(e.table.Fail(ctx, e.db, lease, d))
}

func (e *exploredDB) finished(err error) answer {
	e.t.Helper()
	if !errors.Is(err, retrytable.ErrLeaseLost) {
		require.NoError(e.t, err)
	}
	return answer{ok: err == nil}
}

func (e *exploredDB) write(rows exploredTable) {
	e.t.Helper()
	for i, r := range rows {
		if r == e.now[i] {
			continue
		}
		run(e.t, e.db, "UPDATE jobs SET status = $1, attempts = $2, due_at = $3, lease_until = $4, fence = $5 WHERE id = $6",
			statuses[r.status], r.attempts, toMicros(r.due), toMicros(r.lease), r.fence, i)
	}
	e.now = rows
}

func (e *exploredDB) read() (rows exploredTable) {
	e.t.Helper()
	for i, r := range query(e.t, e.db, "SELECT status, attempts, due_at, lease_until, fence FROM jobs ORDER BY id") {
		word := status(slices.Index(statuses, r[0].(string)))
		rows[i] = exploredRow{word, int8(r[1].(int64)), toTicks(e.t, r[2]), toTicks(e.t, r[3]), int8(r[4].(int64))}
	}
	return rows
}

func toMicros(ticks int8) any {
	if ticks == null {
		return nil
	}
	return exploredNow.Add(time.Duration(ticks) * tick).UnixMicro()
}

func toTicks(t *testing.T, micros any) int8 {
	t.Helper()
	if micros == nil {
		return null
	}
	d := time.UnixMicro(micros.(int64)).Sub(exploredNow)
	require.Zero(t, d%tick)
	return int8(d / tick)
}

// rewritten is a connection whose statements have another text: a clock that stands still, and the
// fault of a mutant.
type rewritten struct {
	fullConn

	rewrite func(query string) string // nil changes nothing
}

func (c *rewritten) text(query string) string {
	const instant = "2006-01-02 15:04:05.000"
	query = strings.ReplaceAll(query, "julianday('now')", fmt.Sprintf("julianday('%s')", exploredNow.Format(instant)))
	if c.rewrite != nil {
		query = c.rewrite(query)
	}
	return query
}

func (c *rewritten) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	return c.fullConn.ExecContext(ctx, c.text(query), args)
}

func (c *rewritten) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return c.fullConn.QueryContext(ctx, c.text(query), args)
}
