//nolint:thelper // what forEach and inBubble call is the test itself
package tabletest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retryquota"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// jobsOfTenants is jobs with kinds and keys.
func jobsOfTenants() *retrytable.Table[int64] {
	table := jobsOfKinds()
	table.Columns.Key = "tenant"
	return table
}

// insertMany inserts rows of a kind and a tenant, with IDs from a number on, that have been due for a while.
func (s *store) insertMany(t testing.TB, from, n int, kind, tenant string) {
	t.Helper()
	run(t, s.db, "INSERT INTO jobs (id, sort, tenant) SELECT i, '"+kind+"', '"+tenant+"' FROM "+s.series(from, from+n-1))
}

// heldQuota is a Quota that holds for a while.
func heldQuota(d time.Duration) *retryquota.Quota {
	q := &retryquota.Quota{MaxHold: d}
	turn, _, _ := q.Take(nil, 1)
	q.Tell(nil, turn, errors.New("too many"), retry.Verdict{Class: retry.RateLimited, After: d})
	return q
}

// tenantsInBubble is inBubble with an empty table of jobsOfTenants.
func tenantsInBubble(t *testing.T, test func(t *testing.T, s *shop)) {
	t.Helper()
	inBubble(t, 0, func(t *testing.T, s *shop) {
		s.Table = jobsOfTenants()
		s.createAnew(t, s.Table)
		test(t, s)
	})
}

// quotaOf is a QuotaFor that knows one key.
func quotaOf(known string, quota retry.Pacer) func(string) retry.Pacer {
	return func(key string) retry.Pacer {
		if key == known {
			return quota
		}
		return nil
	}
}

// policyOf is a PolicyFor that knows one kind.
func policyOf(known string, policy *retry.Policy) func(string) (*retry.Policy, error) {
	return func(kind string) (*retry.Policy, error) {
		if kind == known {
			return policy, nil
		}
		return nil, nil
	}
}

// behind is a Worker with jobs of a kind or of a tenant, all of them older than the others, whose Quota
// holds all the time.
func behind(t *testing.T, s *store, byKind bool, held, others int) *retrytable.Worker[int64] {
	t.Helper()
	table := jobsOfTenants()
	s.createAnew(t, table)
	s.insertMany(t, 1, held, "mail", "acme")
	s.insertMany(t, held+1, others, "report", "other")
	s.analyze(t)
	quota := heldQuota(time.Hour)
	w := &retrytable.Worker[int64]{
		Table: table, DB: s.db, Concurrency: 25, Policy: &retry.Policy{},
		Work:    func(context.Context, *retrytable.Job[int64]) error { return nil },
		OnError: func(_ context.Context, err error) { assert.NoError(t, err) },
	}
	if byKind {
		w.PolicyFor = policyOf("mail", &retry.Policy{Quota: quota, MaxRetryAfter: 24 * time.Hour})
	} else {
		w.QuotaFor = quotaOf("acme", quota)
	}
	return w
}

// createAnew makes the table jobs, without rows.
func (s *store) createAnew(t testing.TB, table *retrytable.Table[int64]) {
	t.Helper()
	table.Dialect, table.Instants = s.dialect, s.instants
	run(t, s.db, "DROP TABLE IF EXISTS jobs")
	run(t, s.db, "CREATE TABLE jobs (id bigint PRIMARY KEY, kind text, priority integer NOT NULL DEFAULT 0, note text)")
	run(t, s.db, table.Schema())
}

// doneOf runs w until so many jobs are done, or a minute has passed, and returns how many are.
func doneOf(t *testing.T, w *retrytable.Worker[int64], n int) int {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var all atomic.Int64
	w.After = func(_ context.Context, o *retrytable.Outcome[int64]) {
		if o.Err == nil && all.Add(1) == int64(n) {
			stop()
		}
	}
	_ = w.Run(ctx)
	return int(all.Load())
}

// The jobs of others are done, though all that are due before them have to wait. None of those is
// counted or tried, and few are claimed.
func TestWorkerGoesPast(t *testing.T) {
	t.Parallel()
	forEach(t, databases, func(t *testing.T, s *store) {
		for _, byKind := range []bool{true, false} {
			w := behind(t, s, byKind, 500, 120)
			w.Concurrency, w.Poll = 5, 10*time.Millisecond
			assert.Equal(t, 120, doneOf(t, w, 120))
			assert.Equal(t, [][]any{{int64(120)}}, query(t, s.db, "SELECT count(*) FROM jobs WHERE status = 'done' AND id > 500"))
			assert.Equal(t, [][]any{{int64(500)}}, query(t, s.db,
				"SELECT count(*) FROM jobs WHERE status = 'ready' AND attempts = 0 AND lease_until IS NULL AND id <= 500"))
			claimed := query(t, s.db, "SELECT count(*) FROM jobs WHERE fence > 0 AND id <= 500")[0][0].(int64)
			assert.LessOrEqual(t, claimed, int64(w.Concurrency))
		}
	})
}

// Each tenant has a Quota. The jobs of one that is limited are claimed as they have turns, in their
// order, and the others do not wait for them.
func TestWorkerQuotaOfATenant(t *testing.T) {
	t.Parallel()
	tenantsInBubble(t, func(t *testing.T, s *shop) {
		const each = 150
		for i, tenant := range []string{"acme", "free", "other"} {
			s.insertMany(t, 1+i*each, each, "mail", tenant)
		}
		a := &testkit.Window{Limit: 10, Length: 2 * time.Second}
		var quotas retryquota.Keys[string]
		s.QuotaFor = quotas.Of
		s.Concurrency, s.Poll = 10, 100*time.Millisecond
		var mu sync.Mutex
		var order []int64
		last := map[string]time.Duration{}
		start := time.Now()
		s.Work = func(_ context.Context, job *retrytable.Job[int64]) error {
			time.Sleep(20 * time.Millisecond)
			mu.Lock()
			defer mu.Unlock()
			last[job.Key] = time.Since(start)
			if job.Key != "acme" {
				return nil
			}
			err := a.Ask()
			if err == nil {
				order = append(order, job.ID)
			}
			return err
		}
		stop := s.start(t)
		for served, _ := a.Answers(); served < each; served, _ = a.Answers() {
			time.Sleep(100 * time.Millisecond)
		}
		require.ErrorIs(t, stop(), errStop)
		assert.Empty(t, s.errs)
		_, refused := a.Answers()
		assert.LessOrEqual(t, refused, each*2/10)
		assert.Less(t, last["free"], 5*time.Second)
		assert.Less(t, last["other"], 5*time.Second)
		assert.Less(t, last["acme"], 34*time.Second, "28 s are needed")
		late := 0
		for i, id := range order {
			if abs := id - int64(i+1); abs > 20 || abs < -20 {
				late++
			}
		}
		assert.LessOrEqual(t, late, refused)
		claims := query(t, s.db, "SELECT sum(fence) FROM jobs WHERE tenant = 'acme'")[0][0].(int64)
		assert.LessOrEqual(t, claims, int64(each+refused+4*s.Concurrency))
	})
}

// A key may be of any type that has a text.
func TestKeysOfTypes(t *testing.T) {
	t.Parallel()
	forEach(t, databases, func(t *testing.T, s *store) {
		for sqlType, value := range map[string]string{"bigint": "42", "varchar(20)": "Ä 'b'", "uuid": "0d5c6bf0-1e64-4a4b-9c8e-0a1b2c3d4e5f"} {
			w := behind(t, s, false, 3, 3)
			run(t, s.db, "ALTER TABLE jobs DROP COLUMN tenant")
			run(t, s.db, "ALTER TABLE jobs ADD COLUMN tenant "+sqlType)
			require.NoError(t, w.Table.Check(t.Context(), s.db), sqlType)
			run(t, s.db, "UPDATE jobs SET tenant = '"+strings.ReplaceAll(value, "'", "''")+"' WHERE id <= 3")
			held := heldQuota(time.Hour)
			var mu sync.Mutex
			keys := map[string]int{}
			w.QuotaFor = func(key string) retry.Pacer {
				mu.Lock()
				defer mu.Unlock()
				keys[key]++
				if key == value {
					return held
				}
				return nil
			}
			w.Poll = 10 * time.Millisecond
			assert.Equal(t, 3, doneOf(t, w, 3), sqlType)
			assert.Len(t, keys, 2)
			assert.Positive(t, keys[value])
			assert.Positive(t, keys[""])
			assert.Equal(t, [][]any{{int64(3)}}, query(t, s.db, "SELECT count(*) FROM jobs WHERE status = 'ready' AND id <= 3"))
		}
	})
}

// A QuotaFor that panics keeps no others from being done, and ends no job.
func TestWorkerQuotaForPanics(t *testing.T) {
	t.Parallel()
	tenantsInBubble(t, func(t *testing.T, s *shop) {
		s.insertMany(t, 1, 2, "mail", "acme")
		s.insertMany(t, 3, 2, "mail", "other")
		s.QuotaFor = func(key string) retry.Pacer {
			if key == "acme" {
				panic("boom")
			}
			return nil
		}
		s.Work = func(context.Context, *retrytable.Job[int64]) error { return nil }
		s.runFor(t, 30*time.Second)
		require.Len(t, s.errs, 2)
		require.ErrorContains(t, s.errs[0], "panic in QuotaFor: boom")
		assert.Equal(t, [][]any{{"waiting"}, {"waiting"}, {"done"}, {"done"}}, query(t, s.db, "SELECT status FROM jobs ORDER BY id"))
	})
}

// ledger is a Quota that counts turns which have neither been told nor returned.
type ledger struct {
	retryquota.Quota

	open atomic.Int64
}

func (l *ledger) Take(p *retry.Policy, n int) (retry.Turn, int, time.Duration) {
	turn, granted, wait := l.Quota.Take(p, n)
	l.open.Add(int64(granted))
	return turn, granted, wait
}

func (l *ledger) Return(p *retry.Policy, turn retry.Turn, n int) {
	l.open.Add(int64(-n))
	l.Quota.Return(p, turn, n)
}

func (l *ledger) Tell(p *retry.Policy, turn retry.Turn, err error, v retry.Verdict) time.Duration {
	l.open.Add(-1)
	return l.Quota.Tell(p, turn, err, v)
}

// Every turn that a Worker takes is told or given back: of jobs that succeed, fail, panic, find the
// limit, have no policy or no attempt left, and of those that are claimed when the Worker stops.
func TestWorkerTurnsEnd(t *testing.T) {
	t.Parallel()
	for _, byKey := range []bool{false, true} {
		tenantsInBubble(t, func(t *testing.T, s *shop) {
			s.insertMany(t, 1, 200, "mail", "acme")
			run(t, s.db, "UPDATE jobs SET sort = 'unknown' WHERE id BETWEEN 80 AND 120")
			run(t, s.db, "UPDATE jobs SET attempts = 9 WHERE id BETWEEN 50 AND 60")
			quota, a := &ledger{}, &testkit.Window{Limit: 10, Length: time.Second}
			policy := &retry.Policy{Clock: s.Policy.Clock, Backoff: retry.Constant(time.Second)}
			if s.Policy = policy; byKey {
				s.Policy = nil
				s.QuotaFor = func(string) retry.Pacer { return quota }
				s.PolicyFor = func(kind string) (*retry.Policy, error) {
					if kind == "unknown" {
						return nil, errors.New("no policy")
					}
					return policy, nil
				}
			} else {
				policy.Quota = quota
			}
			s.Concurrency, s.Poll = 8, 100*time.Millisecond
			s.Work = func(ctx context.Context, job *retrytable.Job[int64]) error {
				select {
				case <-time.After(300 * time.Millisecond):
				case <-ctx.Done():
					return context.Cause(ctx)
				}
				switch job.ID % 4 {
				case 1:
					return errWork
				case 2:
					panic("boom")
				}
				return a.Ask()
			}
			for range 3 {
				s.runFor(t, 20*time.Second)
				assert.Zero(t, quota.open.Load(), byKey)
			}
			served, _ := a.Answers()
			assert.Positive(t, served)
			assert.Equal(t, byKey, len(s.errs) > 0, "of the kind without a policy")
		})
	}
}

// Held rows are read by looks, which find many jobs, and not by each of 80 claims.
func TestClaimsReadNoHeldRows(t *testing.T) {
	t.Parallel()
	const held, others = 20_000, 2000
	s := kinds[0].open(t)
	require.Equal(t, others, doneOf(t, behind(t, s, false, held, others), others))
	s.db.SetMaxIdleConns(0) // PostgreSQL counts what a connection has read at its end
	var read int64
	assert.Eventually(t, func() bool {
		before := read
		read = query(t, s.db, "SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'jobs_claim' AND schemaname = current_schema()")[0][0].(int64)
		return read > 0 && read == before
	}, time.Minute, 2*time.Second)
	assert.Less(t, read, int64(15*held), "rows: a busy machine looks more often")
}

// The turns of a tenant are not for its jobs of a kind that has to wait itself.
func TestWorkerQuotasOfKindAndTenant(t *testing.T) {
	t.Parallel()
	tenantsInBubble(t, func(t *testing.T, s *shop) {
		s.insertMany(t, 1, 5, "mail", "acme")
		s.insertMany(t, 6, 5, "report", "acme")
		mail, acme := heldQuota(time.Hour), heldQuota(10*time.Second)
		s.PolicyFor = policyOf("mail", &retry.Policy{Quota: mail, MaxRetryAfter: 24 * time.Hour})
		s.QuotaFor = func(string) retry.Pacer { return acme }
		s.Concurrency, s.Poll = 2, 100*time.Millisecond
		var released atomic.Int64
		s.After = func(_ context.Context, o *retrytable.Outcome[int64]) {
			if o.Released && released.Add(1) > 100 {
				time.Sleep(time.Second) // otherwise virtual time would stand still
			}
		}
		s.Work = succeeds
		s.runFor(t, time.Minute)
		assert.LessOrEqual(t, released.Load(), int64(20))
		assert.Equal(t, [][]any{{int64(5)}}, query(t, s.db, "SELECT count(*) FROM jobs WHERE status = 'done' AND sort = 'report'"))
	})
}

// Wake, and the end of a wait, count while others have to wait for their turns too.
func TestWorkerWokenBesideHeldJobs(t *testing.T) {
	t.Parallel()
	tenantsInBubble(t, func(t *testing.T, s *shop) {
		s.insertMany(t, 1, 5, "mail", "acme")
		s.insertMany(t, 6, 1, "mail", "other")
		acme := heldQuota(time.Hour)
		s.QuotaFor = quotaOf("acme", acme)
		wake := make(chan struct{}, 1)
		s.Wake, s.Poll, s.Concurrency = wake, 20*time.Second, 5
		s.Work = succeeds
		stop := s.start(t)
		time.Sleep(30 * time.Second)
		for id := 7; id < 10; id++ {
			s.insertMany(t, id, 1, "mail", "other")
			wake <- struct{}{}
			time.Sleep(2 * time.Second)
			assert.Equal(t, [][]any{{"done"}}, query(t, s.db, fmt.Sprintf("SELECT status FROM jobs WHERE id = %d", id)))
		}
		require.ErrorIs(t, stop(), errStop)
		assert.Empty(t, s.errs)
	})
}

// A row that is refused is told once, and tried again, while others have to wait for their turns.
func TestWorkerRefusedBesideHeldJobs(t *testing.T) {
	t.Parallel()
	for _, hold := range []time.Duration{time.Hour, time.Second} {
		tenantsInBubble(t, func(t *testing.T, s *shop) {
			s.insertMany(t, 1, 5, "mail", "acme")
			s.insertMany(t, 6, 5, "mail", "other")
			run(t, s.db, "CREATE TRIGGER stop BEFORE UPDATE ON jobs WHEN new.id = 7 BEGIN SELECT RAISE(ABORT, 'no'); END")
			acme := heldQuota(time.Hour)
			s.QuotaFor = quotaOf("acme", heldFor{acme, hold})
			s.Poll, s.Concurrency = time.Second, 5
			s.Work = succeeds
			stop := s.start(t)
			time.Sleep(2 * time.Minute)
			s.mu.Lock()
			assert.Len(t, s.errs, 1)
			s.mu.Unlock()
			run(t, s.db, "DROP TRIGGER stop")
			time.Sleep(10 * time.Second)
			require.ErrorIs(t, stop(), errStop)
			assert.Equal(t, [][]any{{int64(5)}}, query(t, s.db, "SELECT count(*) FROM jobs WHERE status = 'done'"))
		})
	}
}

// heldFor is a Pacer that has a turn now and then, for which there is no job.
type heldFor struct {
	retry.Pacer

	d time.Duration
}

func (h heldFor) Take(p *retry.Policy, n int) (retry.Turn, int, time.Duration) {
	turn, granted, wait := h.Pacer.Take(p, n)
	return turn, granted, min(wait, h.d)
}

// A policy that is exchanged counts for jobs that have to wait for long.
func TestWorkerPolicyExchangedInAHold(t *testing.T) {
	t.Parallel()
	tenantsInBubble(t, func(t *testing.T, s *shop) {
		s.insertMany(t, 1, 5, "mail", "acme")
		policy := atomic.Pointer[retry.Policy]{}
		policy.Store(&retry.Policy{Quota: heldQuota(time.Hour), MaxRetryAfter: 24 * time.Hour})
		s.PolicyFor = func(string) (*retry.Policy, error) { return policy.Load(), nil }
		s.Concurrency = 2
		s.Work = succeeds
		stop := s.start(t)
		time.Sleep(time.Minute)
		assert.Equal(t, [][]any{{int64(0)}}, query(t, s.db, "SELECT count(*) FROM jobs WHERE status = 'done'"))
		policy.Store(&retry.Policy{Quota: &retryquota.Quota{}})
		time.Sleep(15 * time.Second)
		require.ErrorIs(t, stop(), errStop)
		assert.Equal(t, [][]any{{int64(5)}}, query(t, s.db, "SELECT count(*) FROM jobs WHERE status = 'done'"))
	})
}

func succeeds(context.Context, *retrytable.Job[int64]) error { return nil }

// The first jobs of a claim begin while their leases last, however many keys have turns.
func TestWorkerManyLimitsAtOnce(t *testing.T) {
	t.Parallel()
	tenantsInBubble(t, func(t *testing.T, s *shop) {
		const keys = 100
		quotas := map[string]*retryquota.Quota{}
		for i := range keys {
			key := fmt.Sprint("tenant ", i)
			s.insertMany(t, i+1, 1, "mail", key)
			quotas[key] = heldQuota(10 * time.Second)
		}
		start := time.Now()
		s.QuotaFor = func(key string) retry.Pacer {
			if time.Since(start) > 5*time.Second {
				time.Sleep(time.Second)
			}
			return quotas[key]
		}
		s.Concurrency, s.Work = keys, succeeds
		s.runFor(t, 5*time.Minute)
		assert.Empty(t, s.errs)
		assert.Equal(t, [][]any{{int64(keys), int64(keys)}}, query(t, s.db, "SELECT count(*), sum(attempts) FROM jobs WHERE status = 'done'"))
	})
}
