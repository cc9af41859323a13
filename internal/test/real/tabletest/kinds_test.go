//nolint:thelper // what forEach and inBubble call is the test itself
package tabletest_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retryjob"
	"github.com/seed-5ff3c98e/retry/retrypolicies"
	"github.com/seed-5ff3c98e/retry/retryquota"
	"github.com/seed-5ff3c98e/retry/retrytable"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// jobsOfKinds is jobs with kinds.
func jobsOfKinds() *retrytable.Table[int64] {
	table := jobs()
	table.Columns.Kind = "sort"
	return table
}

// ofKinds inserts a row for each kind, with the IDs 1 to n; "NULL" has none.
func ofKinds(t *testing.T, s *store, kinds ...string) {
	t.Helper()
	for i, kind := range kinds {
		run(t, s.db, "INSERT INTO jobs (id, sort) VALUES ($1, $2)", i+1, sql.NullString{String: kind, Valid: kind != "NULL"})
	}
}

// load loads policies for the kinds mail and report.
func load(t *testing.T, ps *retrypolicies.Policies, policies string) {
	t.Helper()
	require.NoError(t, ps.Load("policies.json",
		[]byte(`{"default": {"backoff": {"constant": "1h"}, "jitter": "none"}, "policies": {`+policies+`}}`)))
}

// The policy of a job is that for its kind, whatever it fails of, and its Observer is told.
func TestWorkerKinds(t *testing.T) {
	t.Parallel()
	forEach(t, databases, func(t *testing.T, s *store) {
		s.create(t, jobsOfKinds(), 0)
		ofKinds(t, s, "mail", "report", "report", "NULL", "mail", "report", "NULL")
		// What dead workers have left.
		run(t, s.db, "UPDATE jobs SET status = 'running', attempts = 1, fence = 1, due_at = NULL WHERE id > 4")
		for id := range int64(3) {
			s.ago(t, s.db, "lease_until", id+5, time.Hour)
		}
		told := map[string]*retrytest.Recorder{"mail": {}, "report": {}, "": {}}
		policy := func(kind string, attempts int) *retry.Policy {
			return &retry.Policy{Name: "for " + kind, MaxAttempts: attempts, Backoff: retry.Constant(0), Observer: told[kind].Observer()}
		}
		policies := map[string]*retry.Policy{"mail": policy("mail", 1), "report": policy("report", 3)}
		table := jobsOfKinds()
		table.Dialect, table.Instants = s.dialect, s.instants
		var mu sync.Mutex
		dead, outcomes := 0, 0
		var asked atomic.Int32
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		w := &retrytable.Worker[int64]{
			Table: table, DB: s.db, Concurrency: 4, Poll: 10 * time.Millisecond, Policy: policy("", 2),
			PolicyFor: func(kind string) (*retry.Policy, error) {
				asked.Add(1)
				return policies[kind], nil
			},
			Work: func(_ context.Context, job *retrytable.Job[int64]) error {
				if job.ID != 3 {
					return errWork
				}
				job.InTx(func(context.Context, *sql.Tx) error { return errors.New("no such account") })
				return nil
			},
			After: func(_ context.Context, o *retrytable.Outcome[int64]) {
				mu.Lock()
				defer mu.Unlock()
				assert.Equal(t, []string{"", "mail", "report", "report", "", "mail", "report", ""}[o.Job.ID], o.Job.Kind)
				outcomes++
				if !o.Decision.Retry {
					dead++
				}
				if dead == 7 {
					stop()
				}
			},
			OnError: func(_ context.Context, err error) { assert.NoError(t, err) },
		}
		assert.ErrorIs(t, w.Run(ctx), context.Canceled)
		assert.Equal(t, outcomes, int(asked.Load()), "once for each attempt, and each that was lost")
		assert.Equal(t, [][]any{
			{"dead", int64(1)}, {"dead", int64(3)}, {"dead", int64(3)}, {"dead", int64(2)}, // of ours
			{"dead", int64(1)}, {"dead", int64(3)}, {"dead", int64(2)}, // of others
		}, query(t, s.db, "SELECT status, attempts FROM jobs ORDER BY id"))
		for kind, events := range map[string]int{"mail": 1 + 1, "report": 3 + 3 + 3, "": 2 + 2} {
			assert.Len(t, told[kind].Events(), events, kind)
			for _, e := range told[kind].Events() {
				assert.Equal(t, "for "+kind, e.Policy)
			}
		}
	})
}

// A job whose kind has no policy is given back, as it was, until its kind has one. One
// that was lost stays so.
func TestWorkerKindWithoutPolicy(t *testing.T) {
	t.Parallel()
	forEach(t, databases, func(t *testing.T, s *store) {
		table, policies := jobsOfKinds(), &retrypolicies.Policies{}
		table.Lease, table.Set.Release = 10*time.Minute, "note = $1"
		s.create(t, table, 0)
		ofKinds(t, s, "mail", "mail", "report", "mail")
		run(t, s.db, "UPDATE jobs SET attempts = 2, limited = 1 WHERE id = 2")
		s.ago(t, s.db, "first_at", 2, time.Hour)
		run(t, s.db, "UPDATE jobs SET status = 'running', attempts = 1, fence = 1, due_at = NULL WHERE id = 4")
		s.ago(t, s.db, "lease_until", 4, time.Hour)
		var mu sync.Mutex
		var worked []int64
		w := &retrytable.Worker[int64]{
			Table: table, DB: s.db, Concurrency: 3, PolicyFor: policies.Get,
			Work: func(_ context.Context, job *retrytable.Job[int64]) error {
				mu.Lock()
				defer mu.Unlock()
				worked = append(worked, job.ID)
				return nil
			},
			FinishArgs: func(o *retrytable.Outcome[int64]) []any {
				if o.Released {
					return []any{fmt.Sprint(errors.Is(o.Err, retrypolicies.ErrUnknown), " ", o.Decision.Delay)}
				}
				return nil
			},
		}
		load(t, policies, `"report": {}`)
		n, err := w.Once(t.Context())
		assert.Equal(t, 3, n)
		for _, id := range []int64{1, 2, 4} {
			assert.ErrorContains(t, err,
				fmt.Sprintf("retrytable: job %d: retry: no policy for jobs of kind \"mail\": retrypolicies: unknown policy", id))
		}
		assert.Equal(t, []int64{3}, worked)
		first, second, lost := s.record(t, s.db, 1), s.record(t, s.db, 2), s.record(t, s.db, 4)
		assert.Equal(t, record{status: "waiting", fence: 1, due: first.due, note: "true 10m0s"}, first)
		assert.Equal(t, record{status: "waiting", attempts: 2, limited: 1, fence: 1, due: second.due, note: "true 10m0s"}, second)
		assert.Equal(t, record{status: "running", attempts: 1, fence: 2, lease: lost.lease}, lost)
		near(t, first.due, table.Lease)
		near(t, lost.lease, table.Lease)
		assert.Equal(t, [][]any{{int64(2)}}, query(t, s.db, "SELECT id FROM jobs WHERE first_at IS NOT NULL AND id < 3"))

		load(t, policies, `"mail": {"max_attempts": 3}`)
		for id := range int64(2) {
			s.ago(t, s.db, "due_at", id+1, time.Second)
		}
		s.ago(t, s.db, "lease_until", 4, time.Second)
		n = testkit.Must(w.Once(t.Context()))(t)
		assert.Equal(t, 2, n)
		assert.ElementsMatch(t, []int64{3, 1, 2}, worked)
		assert.Equal(t, "waiting", s.record(t, s.db, 4).status, "for its retry")
	})
}

// A kind without a policy, or for which PolicyFor panics, keeps no others from being done,
// and nobody busy.
func TestWorkerKindWithoutPolicyIsSeldom(t *testing.T) {
	t.Parallel()
	for _, orderBy := range []string{"", "id"} {
		for why, policyFor := range map[string]func() (*retry.Policy, error){
			"no policy":           func() (*retry.Policy, error) { return nil, errors.New("no policy here") },
			"panic in PolicyFor:": func() (*retry.Policy, error) { panic("boom") },
		} {
			eachInBubble(t, orderBy+"/"+why, 0, func(t *testing.T, s *shop) {
				s.Table, s.Policy = jobsOfKinds(), nil
				s.Table.OrderBy = orderBy
				s.createAnew(t, s.Table)
				ofKinds(t, s.store, "mail", "mail", "report")
				s.PolicyFor = func(kind string) (*retry.Policy, error) {
					if kind == "mail" {
						return policyFor()
					}
					return &retry.Policy{}, nil
				}
				s.Work = func(context.Context, *retrytable.Job[int64]) error { return nil }
				s.database.breaks.Store(1) // of the first that is given back
				s.runFor(t, time.Hour)
				assert.Equal(t, [][]any{{"waiting", int64(0)}, {"waiting", int64(0)}, {"done", int64(1)}},
					query(t, s.db, "SELECT status, attempts FROM jobs ORDER BY id"))
				assert.Contains(t, s.errs[0].Error(), why)
				assert.Greater(t, len(s.errs), 100)
				assert.LessOrEqual(t, len(s.errs), 120)
				assert.Len(t, s.outcomes, len(s.errs)+1)
			})
		}
	}
}

// A column of kinds is read, and not written.
func TestCheckKinds(t *testing.T) {
	t.Parallel()
	forEachTable(t, databases, jobsOfKinds, 1, func(t *testing.T, s *store, table *retrytable.Table[int64]) {
		require.NoError(t, table.Check(t.Context(), s.db))
		s.db.SetMaxIdleConns(0) // a connection of pgx has plans with the types
		run(t, s.db, "ALTER TABLE jobs DROP COLUMN sort")
		const says = "retrytable: the table does not fit:\nretrytable: Columns.Kind: \"sort\": "
		assert.ErrorContains(t, table.Check(t.Context(), s.db), says+"there is no such column; run: ALTER TABLE ")
		sorts := map[string]string{"varchar(9)": "", "integer": "is integer, and must be text or an enum"}
		switch s.dialect {
		case retrytable.SQLite: // in which a type is advice
			sorts["integer"] = ""
		case retrytable.MySQL:
			sorts["integer"] = "is int(11), and must be text or an enum"
			sorts["enum('mail', 'report')"], sorts["char(9)"] = "", ""
		default:
			sorts["char(9)"] = "is character, and must be text or an enum" // it is padded
			run(t, s.db, "CREATE TYPE sort AS ENUM ('mail', 'report')")
			sorts["sort"] = ""
		}
		for sqlType, fault := range sorts {
			run(t, s.db, "ALTER TABLE jobs ADD COLUMN sort "+sqlType)
			if fault == "" {
				assert.NoError(t, table.Check(t.Context(), s.db), sqlType)
				run(t, s.db, "UPDATE jobs SET status = 'ready', due_at = NULL, sort = 'mail'")
				assert.Equal(t, "mail", one(t, s.db, table).Kind, sqlType)
			} else {
				assert.EqualError(t, table.Check(t.Context(), s.db), says+fault, sqlType)
			}
			run(t, s.db, "ALTER TABLE jobs DROP COLUMN sort")
		}
	})
}

// A job whose attempts cannot start, or find nothing yet, ends by the time since the first of them,
// also in a table that does not count them.
func TestWorkerNeverStarts(t *testing.T) {
	t.Parallel()
	for _, mark := range []func(error) error{retryjob.MarkNotStarted, retry.MarkPending} {
		neverStarts(t, mark)
	}
}

func neverStarts(t *testing.T, mark func(error) error) {
	t.Helper()
	inBubble(t, 1, func(t *testing.T, s *shop) {
		table := s.jobs()
		table.Columns.Pending = ""
		s.Table = table
		s.Policy.MaxElapsed = 10 * time.Minute
		s.Work = func(context.Context, *retrytable.Job[int64]) error { return mark(errWork) }
		stop := s.start(t)
		time.Sleep(5 * time.Minute)
		assert.Equal(t, "waiting", s.of(t, 1).status)
		assert.Zero(t, s.of(t, 1).attempts)
		time.Sleep(6 * time.Minute)
		assert.Equal(t, "dead", s.of(t, 1).status)
		assert.ErrorIs(t, stop(), errStop)
	})
}

// With Turn, a limit in ClaimWhere holds for all workers together, and jobs are still
// claimed without a pause between them.
func TestWorkerTurn(t *testing.T) {
	t.Parallel()
	forEach(t, of(databases, retrytable.PostgreSQL, retrytable.SQLite), func(t *testing.T, s *store) {
		const jobsInAll, limit, workers = 30, 3, 4
		table := jobs()
		table.ClaimWhere = "(SELECT count(*) FROM jobs AS other WHERE other.status = 'running') < 3"
		s.create(t, table, jobsInAll)
		var atWork, most, done atomic.Int64
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		var all sync.WaitGroup
		for range workers {
			w := &retrytable.Worker[int64]{
				Table: table, DB: s.db, Concurrency: 8, Poll: 5 * time.Millisecond,
				Turn: func(ctx context.Context, db retrytable.DB) error {
					if s.dialect == retrytable.SQLite {
						return nil
					}
					_, err := db.ExecContext(ctx, "SELECT pg_advisory_xact_lock(hashtext(current_schema()))")
					return err
				},
				Work: func(context.Context, *retrytable.Job[int64]) error {
					n := atWork.Add(1)
					for before := most.Load(); n > before; before = most.Load() {
						most.CompareAndSwap(before, n)
					}
					time.Sleep(20 * time.Millisecond)
					atWork.Add(-1)
					return nil
				},
				After: func(context.Context, *retrytable.Outcome[int64]) {
					if done.Add(1) == jobsInAll {
						stop()
					}
				},
				OnError: func(_ context.Context, err error) { t.Error(err) },
			}
			all.Go(func() { assert.ErrorIs(t, w.Run(ctx), context.Canceled) })
		}
		all.Wait()
		assert.EqualValues(t, jobsInAll, done.Load())
		assert.LessOrEqual(t, most.Load(), int64(limit))
	})
}

// An error of Turn, or its panic, is told, and nothing is claimed.
func TestWorkerTurnFails(t *testing.T) {
	t.Parallel()
	forEachTable(t, databases, jobs, 2, func(t *testing.T, s *store, table *retrytable.Table[int64]) {
		turn := func(context.Context, retrytable.DB) error { return assert.AnError }
		w := &retrytable.Worker[int64]{
			Table: table, DB: s.db, Work: func(context.Context, *retrytable.Job[int64]) error { return nil }, Concurrency: 2,
			Turn: func(ctx context.Context, db retrytable.DB) error { return turn(ctx, db) },
		}
		n, err := w.Once(t.Context())
		assert.ErrorIs(t, err, assert.AnError)
		assert.Zero(t, n)
		turn = func(context.Context, retrytable.DB) error { panic("at the disco") }
		_, err = w.Once(t.Context())
		assert.Equal(t, "Turn", testkit.As[*retry.PanicError](t, err).In)
		turn = func(context.Context, retrytable.DB) error { return nil }
		n = testkit.Must(w.Once(t.Context()))(t)
		assert.Equal(t, 1, n, "one job has a turn")
	})
}

// A job may bring its policy, as JSON in its row.
func TestWorkerPolicyInRow(t *testing.T) {
	t.Parallel()
	forEach(t, databases, func(t *testing.T, s *store) {
		table := jobs()
		table.Columns.Kind = "policy"
		table.Dialect, table.Instants = s.dialect, s.instants
		column := map[retrytable.Dialect]string{retrytable.PostgreSQL: "jsonb", retrytable.SQLite: "text", retrytable.MySQL: "json"}
		run(t, s.db, "CREATE TABLE jobs (id bigint PRIMARY KEY, note text, policy "+column[s.dialect]+")")
		jobsTable := jobs()
		jobsTable.Dialect, jobsTable.Instants = s.dialect, s.instants
		run(t, s.db, jobsTable.Schema())
		require.NoError(t, table.Check(t.Context(), s.db))
		run(t, s.db, `INSERT INTO jobs (id, policy) VALUES (1, '{"max_attempts": 1}')`)
		run(t, s.db, `INSERT INTO jobs (id, policy) VALUES (2, '{"max_attempts": 7, "backoff": {"constant": "1h"}}')`)
		w := &retrytable.Worker[int64]{
			Table: table, DB: s.db, Concurrency: 2,
			PolicyFor: func(kind string) (*retry.Policy, error) {
				p := &retry.Policy{}
				return p, json.Unmarshal([]byte(kind), p)
			},
			Work: func(context.Context, *retrytable.Job[int64]) error { return retry.MarkRetryable(assert.AnError) },
		}
		testkit.Must(w.Once(t.Context()))(t)
		assert.Equal(t, "dead", s.record(t, s.db, 1).status)
		assert.Equal(t, "waiting", s.record(t, s.db, 2).status)
	})
}

// Jobs behind a quota are refused once in a window, and not each job in each window. It is the
// median of some runs, because the order of those that answer is left to chance.
func TestWorkerQuota(t *testing.T) {
	t.Parallel()
	const jobs = 200
	refusals := func(quota *retryquota.Quota) (refused int) {
		inBubble(t, jobs, func(t *testing.T, s *shop) {
			a := &testkit.Window{Limit: 20, Length: 2 * time.Second}
			s.Policy = &retry.Policy{MaxAttempts: 3, FreeRateLimits: 100, Jitter: retry.NoJitter}
			if quota != nil {
				s.Policy.FreeRateLimits, s.Policy.Quota = 0, quota
			}
			start := time.Now()
			s.Concurrency, s.Poll = 25, 20*time.Millisecond
			s.Work = func(context.Context, *retrytable.Job[int64]) error {
				time.Sleep(50 * time.Millisecond)
				return a.Ask()
			}
			stop := s.start(t)
			var served int
			for served, refused = a.Answers(); served < jobs; served, refused = a.Answers() {
				time.Sleep(10 * time.Millisecond)
			}
			require.ErrorIs(t, stop(), errStop)
			assert.Empty(t, s.errs)
			if quota != nil {
				assert.LessOrEqual(t, time.Since(start), 21*time.Second, "18 s are needed")
			}
		})
		return refused
	}
	var together [5]int
	for i := range together {
		together[i] = refusals(&retryquota.Quota{})
	}
	slices.Sort(together[:])
	median := together[len(together)/2]
	assert.LessOrEqual(t, median, jobs*15/100, "%v", together)
	assert.Greater(t, refusals(nil), 4*median, "each job alone")
}

// While the API of one kind holds, another kind goes on, and nothing is counted of what is held.
func TestWorkerQuotaOfAKind(t *testing.T) {
	t.Parallel()
	inBubble(t, 0, func(t *testing.T, s *shop) {
		s.Table = jobsOfKinds()
		s.createAnew(t, s.Table)
		kinds := make([]string, 100)
		for i := range kinds {
			kinds[i] = []string{"mail", "report"}[i%2]
		}
		ofKinds(t, s.store, kinds...)
		quota := heldQuota(30 * time.Second)
		s.PolicyFor = policyOf("mail", &retry.Policy{Quota: quota, Clock: s.Policy.Clock})
		s.Concurrency, s.Poll = 4, 20*time.Millisecond
		var mu sync.Mutex
		done := map[string]time.Time{}
		start := time.Now()
		s.Work = func(_ context.Context, job *retrytable.Job[int64]) error {
			mu.Lock()
			defer mu.Unlock()
			assert.Zero(t, job.State.Attempts())
			done[job.Kind] = time.Now()
			if job.Kind == "mail" {
				assert.GreaterOrEqual(t, time.Since(start), 30*time.Second)
			}
			return nil
		}
		stop := s.start(t)
		time.Sleep(29 * time.Second)
		assert.Equal(t, [][]any{{int64(50)}}, query(t, s.db, "SELECT count(*) FROM jobs WHERE status = 'done' AND sort = 'report'"))
		mu.Lock()
		assert.Less(t, done["report"].Sub(start), 5*time.Second)
		mu.Unlock()
		assert.Equal(t, [][]any{{int64(0)}}, query(t, s.db, "SELECT coalesce(max(attempts), 0) FROM jobs WHERE status <> 'done'"))
		time.Sleep(5 * time.Minute)
		assert.Equal(t, [][]any{{int64(100)}}, query(t, s.db, "SELECT count(*) FROM jobs WHERE status = 'done'"))
		require.ErrorIs(t, stop(), errStop)
		assert.Empty(t, s.errs)
	})
}
