//nolint:thelper // what forEach calls is the test itself
package tabletest_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// crew is a Worker whose jobs end at the same moment, after meanwhile.
type crew struct {
	*retrytable.Worker[int64]

	*store
	meanwhile func()
	end       func(job *retrytable.Job[int64]) error

	mu       sync.Mutex
	outcomes map[int64]error // that were told; no outcome is told twice
}

func newCrew(t *testing.T, s *store, table *retrytable.Table[int64], n int) *crew {
	t.Helper()
	table.Statuses.Done = []string{"done", "sent"}
	s.create(t, table, n)
	c := &crew{store: s, outcomes: map[int64]error{}, meanwhile: func() {}, end: endOf}
	meet, once := meeting(n), sync.OnceFunc(func() { c.meanwhile() })
	c.Worker = &retrytable.Worker[int64]{
		Table: table, DB: s.db, Concurrency: n,
		Policy: &retry.Policy{Backoff: retry.Constant(time.Hour), Jitter: retry.NoJitter, FreeRateLimits: 5},
		Work: func(_ context.Context, job *retrytable.Job[int64]) error {
			meet()
			once()
			return c.end(job)
		},
		After: func(_ context.Context, o *retrytable.Outcome[int64]) {
			c.mu.Lock()
			defer c.mu.Unlock()
			assert.NotContains(t, c.outcomes, o.Job.ID)
			c.outcomes[o.Job.ID] = o.Err
		},
	}
	s.db.SetMaxIdleConns(n)
	return c
}

// meeting returns a function that returns when it has been called n times.
func meeting(n int) (meet func()) {
	var all sync.WaitGroup
	all.Add(n)
	return func() {
		all.Done()
		all.Wait()
	}
}

// endOf ends a job in one of the ways there are.
func endOf(job *retrytable.Job[int64]) error {
	switch job.ID % 6 {
	case 1:
		return errWork
	case 2:
		return retry.MarkFinal(errWork)
	case 3:
		job.SucceedAs("sent")
	case 4:
		return retry.MarkRateLimited(errWork, time.Minute)
	}
	return nil
}

// ended is what becomes of a row after endOf, without its instants.
func ended(id int64) record {
	r := record{status: "done", attempts: 1, fence: 1}
	switch id % 6 {
	case 1:
		r.status = "waiting"
	case 2:
		r.status = "dead"
	case 3:
		r.status = "sent"
	case 4:
		r.status, r.attempts, r.limited = "waiting", 0, 1
	}
	return r
}

// assertEnded checks a row.
func (c *crew) assertEnded(t *testing.T, id int64, note string) {
	t.Helper()
	want, got := ended(id), c.record(t, c.db, id)
	want.note, want.due = note, got.due
	assert.Equal(t, want, got, "job %d", id)
	if got.status == "done" || got.status == "sent" {
		assert.Nil(t, c.why(t, id), "job %d", id)
	} else {
		assert.Equal(t, errWork.Error(), c.why(t, id), "job %d", id)
	}
	if got.status == "waiting" {
		assert.False(t, got.due.IsZero())
	}
}

// assertAll checks the rows from 1 to n, but for one.
func (c *crew) assertAll(t *testing.T, n, but int64, note func(id int64) string) {
	t.Helper()
	for id := int64(1); id <= n; id++ {
		if id != but {
			c.assertEnded(t, id, note(id))
		}
	}
}

func noNote(int64) string { return "" }

// Outcomes that come at the same moment are stored together, each as if it were alone.
func TestGroups(t *testing.T) {
	t.Parallel()
	const n = 60
	for name, tt := range map[string]struct {
		set  retrytable.Set
		args func(*retrytable.Outcome[int64]) []any
		note func(id int64) string
	}{
		"alike": {note: noNote},
		"with columns of the user's": {
			set: retrytable.Set{Succeed: "note = 'yes'", Fail: "note = 'no'"},
			note: func(id int64) string {
				if id%6 == 0 || id%6 == 3 || id%6 == 5 {
					return "yes"
				}
				return "no"
			},
		},
		"with args of their own": {
			set:  retrytable.Set{Succeed: "note = $1", Fail: "note = $1"},
			args: func(o *retrytable.Outcome[int64]) []any { return []any{fmt.Sprint(o.Job.ID)} },
			note: func(id int64) string { return fmt.Sprint(id) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			forEach(t, kinds, func(t *testing.T, s *store) {
				table := jobs()
				table.Set = tt.set
				c := newCrew(t, s, table, n)
				c.FinishArgs = tt.args
				assert.Equal(t, n, testkit.Must(c.Once(t.Context()))(t))
				assert.Len(t, c.outcomes, n)
				c.assertAll(t, n, 0, tt.note)
				if s.dialect == retrytable.PostgreSQL && tt.args == nil {
					// Each statement is a transaction. Five kinds of them come from two committers.
					writers := query(t, s.db, "SELECT count(DISTINCT xmin::text) FROM jobs")
					assert.Less(t, writers[0][0], int64(n/2))
				}
			})
		})
	}
}

// Whatever has become of the rows meanwhile, a group leaves them as its outcomes would have
// left them one after the other, and tells the same jobs that they are over. So groups lead
// to no state that TestExplore, whose workers store one after the other, has not seen.
func TestGroupsAsOneByOne(t *testing.T) {
	t.Parallel()
	const n = 6 * 2 * 7 // the ways to end, twice, and what may have become of the row
	meanwhile := []string{
		"note = NULL", "fence = fence + 1", "status = 'done'", "status = 'ready', lease_until = NULL",
		"status = 'waiting', due_at = lease_until", "attempts = 5, limited = 3",
		"lease_until = NULL", // given back, and taken by a program that knows of no leases
	}
	forEach(t, kinds, func(t *testing.T, s *store) {
		left := func(alone bool) (rows []record, told map[int64]string) {
			c := newCrew(t, s, jobs(), n)
			c.Table.Lease = 5 * time.Minute // on a busy machine
			if alone {
				c.InTx = func(context.Context, *sql.Tx, *retrytable.Outcome[int64]) error { return nil }
			}
			c.meanwhile = func() {
				for i, change := range meanwhile {
					run(t, s.db, fmt.Sprintf("UPDATE jobs SET %s WHERE id %% 42 >= %d AND id %% 42 < %d", change, 6*i, 6*i+6))
				}
			}
			_, err := c.Once(t.Context())
			require.ErrorIs(t, err, retrytable.ErrLeaseLost)
			for id := range int64(n) {
				r := c.record(t, s.db, id+1)
				for _, at := range []*time.Time{&r.due, &r.lease} { // only whether there is an instant is the same
					if !at.IsZero() {
						*at = time.Unix(0, 0)
					}
				}
				rows = append(rows, r)
			}
			run(t, s.db, "DROP TABLE jobs")
			told = map[int64]string{}
			for id, err := range c.outcomes {
				told[id] = fmt.Sprint(err)
			}
			return rows, told
		}
		together, told := left(false)
		alone, toldAlone := left(true)
		assert.Equal(t, alone, together)
		assert.Equal(t, toldAlone, told)
		assert.Len(t, told, n/7*2)
	})
}

// A worker that stops stores what has gathered before Run returns: a success stays one, and a
// job that failed because of the stop, or was not begun, is given back.
func TestGroupsAtShutdown(t *testing.T) {
	t.Parallel()
	forEach(t, databases, func(t *testing.T, s *store) {
		const n = 24
		c := newCrew(t, s, jobs(), n)
		ctx, stop := context.WithCancel(t.Context())
		c.meanwhile = stop
		require.ErrorIs(t, c.Run(ctx), context.Canceled)
		assert.Len(t, c.outcomes, n)
		for id := range int64(n) {
			if r := ended(id + 1); r.status == "done" || r.status == "sent" {
				c.assertEnded(t, id+1, "")
			}
		}
		assert.Empty(t, query(t, s.db, "SELECT id FROM jobs WHERE status = 'running'"))
	})
}

// More outcomes than one statement stores are stored by several.
func TestLargeGroups(t *testing.T) {
	t.Parallel()
	forEach(t, databases, func(t *testing.T, s *store) {
		const n = 2500
		c := newCrew(t, s, jobs(), n)
		c.Table.Lease = 5 * time.Minute // on a busy machine
		assert.Equal(t, n, testkit.Must(c.Once(t.Context()))(t))
		for _, row := range query(t, s.db, "SELECT id, status FROM jobs") {
			id, ok := row[0].(int64)
			require.True(t, ok)
			assert.Equal(t, ended(id).status, fmt.Sprintf("%s", row[1]))
		}
	})
}

// However a driver sends arguments, there are groups.
func TestGroupsInOtherProtocols(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"simple_protocol", "cache_describe", "exec"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			const n = 24
			s := databases[0].open(t)
			s.db = openDB(t, s.driver, pgDSN(t, s.dsn, "default_query_exec_mode", mode))
			c := newCrew(t, s, jobs(), n)
			testkit.Must(c.Once(t.Context()))(t)
			c.assertAll(t, n, 0, noNote)
		})
	}
}

// A database that does not understand groups is told of each outcome alone, and that is
// said once: here a column has a name that groups use.
func TestGroupsThatAreNotUnderstood(t *testing.T) {
	t.Parallel()
	const n = 24
	c := newCrew(t, databases[0].open(t), jobs(), n)
	run(t, c.db, "ALTER TABLE jobs ADD given_place bigint, ADD given_id bigint")
	_, err := c.Once(t.Context())
	assert.Equal(t, 1, strings.Count(fmt.Sprint(err), "a statement of its own for now"))
	assert.NotContains(t, fmt.Sprint(err), "\n")
	c.assertAll(t, n, 0, noNote)
}

// What the database refuses to write in one row of a group is not the fault of the others, and
// the group is not given up, even if the error is of class 42.
func TestGroupWithARefusedRow(t *testing.T) {
	t.Parallel()
	forEach(t, databases, func(t *testing.T, s *store) {
		const n, refused = 24, 12 // which is done
		c := newCrew(t, s, jobs(), n)
		c.Table.Lease = 5 * time.Second // after that, it is given up
		s.refuse(t, "OLD.id = 12 AND NEW.status = 'done'", noBody[s.dialect])
		_, err := c.Once(t.Context())
		require.ErrorContains(t, err, fmt.Sprintf("job %d: its end was not stored", refused))
		assert.NotContains(t, err.Error(), "\n", "nobody else has an error")
		assert.NotContains(t, err.Error(), "a statement of its own")
		assert.Len(t, c.outcomes, n-1)
		c.assertAll(t, n, refused, noNote)
		assert.Equal(t, "running", s.record(t, s.db, refused).status)
	})
}

// A row that somebody else has locked holds up nobody but itself.
func TestGroupWithALockedRow(t *testing.T) {
	t.Parallel()
	for name, args := range map[string]func(*retrytable.Outcome[int64]) []any{
		"alike": nil, "with args": func(o *retrytable.Outcome[int64]) []any { return []any{fmt.Sprint(o.Job.ID)} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			forEach(t, of(databases, retrytable.PostgreSQL, retrytable.MySQL), func(t *testing.T, s *store) {
				groupWithALockedRow(t, s, args)
			})
		})
	}
}

func groupWithALockedRow(t *testing.T, s *store, args func(*retrytable.Outcome[int64]) []any) {
	t.Helper()
	const n, locked = 24, 12
	table, note := jobs(), "mine"
	if args != nil {
		table.Set, note = retrytable.Set{Succeed: "note = $1", Fail: "note = $1"}, fmt.Sprint(locked)
	}
	c := newCrew(t, s, table, n)
	c.FinishArgs = args
	tx := testkit.Must(s.db.BeginTx(t.Context(), nil))(t)
	c.meanwhile = func() { run(t, tx, "UPDATE jobs SET note = 'mine' WHERE id = $1", locked) }
	after := c.After
	var others sync.WaitGroup
	others.Add(n - 1)
	c.After = func(ctx context.Context, o *retrytable.Outcome[int64]) {
		after(ctx, o)
		if o.Job.ID != locked {
			others.Done()
		}
	}
	go func() {
		others.Wait()
		assert.NoError(t, tx.Commit())
	}()
	testkit.Must(c.Once(t.Context()))(t) // which waits for the commit, and that for the others
	c.assertEnded(t, locked, note)
}

// IDs are claimed, and their ends stored in groups and alone, whatever their type.
func TestGroupsOfIDs(t *testing.T) {
	t.Parallel()
	texts := []string{"", "NULL", `"`, `\`, `'`, "{a,b}", "a,b", " a ", "ü…", "\x01\n", "a$1?"}
	t.Run("text", func(t *testing.T) { t.Parallel(); groupsOf(t, "text", texts) })
	var uuids []string
	var bytes [][]byte
	for i := range 20 {
		uuids = append(uuids, fmt.Sprintf("00000000-0000-4000-8000-%012x", i))
		bytes = append(bytes, []byte{0, '\\', byte(i), 0xff})
	}
	t.Run("uuid", func(t *testing.T) { t.Parallel(); groupsOf(t, "uuid", uuids) })
	t.Run("bytes", func(t *testing.T) { t.Parallel(); groupsOf(t, "bytes", bytes) })
	t.Run("bigint", func(t *testing.T) { t.Parallel(); groupsOf(t, "bigint", []int64{1 << 62, -7}) })
	t.Run("integer", func(t *testing.T) { t.Parallel(); groupsOf(t, "integer", []int32{1 << 30, -7}) })
}

// groupsOf has jobs with these IDs succeed at the same moment.
func groupsOf[ID any](t *testing.T, sqlType string, ids []ID) {
	t.Helper()
	forEach(t, databases, func(t *testing.T, s *store) {
		table := &retrytable.Table[ID]{Name: "jobs", Dialect: s.dialect, Instants: s.instants}
		columns := map[retrytable.Dialect]map[string]string{
			retrytable.PostgreSQL: {"bytes": "bytea"},
			retrytable.MySQL:      {"bytes": "varbinary(64)", "uuid": "char(36)", "text": "varchar(64) COLLATE utf8mb4_bin"},
			retrytable.SQLite:     {"bytes": "blob", "uuid": "text"},
		}
		column := sqlType
		if c := columns[s.dialect][sqlType]; c != "" {
			column = c
		}
		run(t, s.db, "CREATE TABLE jobs (id "+column+" PRIMARY KEY)")
		run(t, s.db, table.Schema())
		for _, id := range ids {
			run(t, s.db, "INSERT INTO jobs (id, due_at) VALUES ($1, NULL)", id)
		}
		var meet func()
		w := &retrytable.Worker[ID]{Table: table, DB: s.db, Concurrency: len(ids), Work: func(context.Context, *retrytable.Job[ID]) error {
			meet()
			return nil
		}}
		alone := func(context.Context, *sql.Tx, *retrytable.Outcome[ID]) error { return nil }
		for _, w.InTx = range []func(context.Context, *sql.Tx, *retrytable.Outcome[ID]) error{nil, alone} {
			meet = meeting(len(ids))
			assert.Equal(t, len(ids), testkit.Must(w.Once(t.Context()))(t))
			assert.Equal(t, int64(len(ids)), query(t, s.db, "SELECT count(*) FROM jobs WHERE status = 'done'")[0][0])
			run(t, s.db, "UPDATE jobs SET status = 'ready'")
		}
	})
}

// fragile is an ID whose Value method panics for one of them. A claim asks for it in MySQL.
type fragile int64

// Value implements [driver.Valuer].
func (f fragile) Value() (driver.Value, error) {
	if f == 7 {
		panic("no value")
	}
	return int64(f), nil
}

// A panic of a Value method is no fault of the other jobs of its group.
func TestGroupWithAPanic(t *testing.T) {
	t.Parallel()
	forEach(t, of(databases, retrytable.PostgreSQL, retrytable.SQLite), func(t *testing.T, s *store) {
		const n = 24
		s.create(t, &retrytable.Table[int64]{Name: "jobs"}, n)
		meet := meeting(n)
		w := &retrytable.Worker[fragile]{
			Table: &retrytable.Table[fragile]{Name: "jobs", Dialect: s.dialect, Instants: s.instants, Lease: 2 * time.Second},
			DB:    s.db, Concurrency: n,
			Work: func(context.Context, *retrytable.Job[fragile]) error {
				meet()
				return nil
			},
		}
		_, err := w.Once(t.Context())
		require.ErrorContains(t, err, "job 7: its end was not stored")
		assert.Equal(t, int64(n-1), query(t, s.db, "SELECT count(*) FROM jobs WHERE status = 'done'")[0][0])
	})
}

// The leases of all jobs are extended together, and none of a job that is over.
func TestHeartbeatOfAll(t *testing.T) {
	t.Parallel()
	forEach(t, databases, func(t *testing.T, s *store) {
		const n = 24
		table := jobs()
		table.Lease = time.Minute
		c := newCrew(t, s, table, n)
		c.Heartbeat = 100 * time.Millisecond
		var before, after []any
		leases := func() (all []any) {
			for _, row := range query(t, s.db, "SELECT lease_until FROM jobs ORDER BY id") {
				all = append(all, row[0])
			}
			return all
		}
		c.meanwhile = func() {
			before = leases()
			assert.Eventually(t, func() bool {
				after = leases()
				for i := range after {
					if fmt.Sprint(after[i]) == fmt.Sprint(before[i]) {
						return false
					}
				}
				return true
			}, 30*time.Second, 10*time.Millisecond)
			if s.dialect == retrytable.PostgreSQL {
				assert.LessOrEqual(t, query(t, s.db, "SELECT count(DISTINCT xmin::text) FROM jobs")[0][0], int64(3))
			}
		}
		testkit.Must(c.Once(t.Context()))(t)
		assert.Len(t, c.outcomes, n)
	})
}
