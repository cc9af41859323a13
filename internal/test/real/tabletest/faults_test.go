//nolint:thelper // what inBubble calls is the test itself
package tabletest_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// Of 20 jobs that a dead worker has left, the end of the first cannot be stored. The 19
// are done within two leases, and the one comes back seldom.
func TestWorkerSweepsPastARow(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(t *testing.T, s *shop){
		"trigger": func(t *testing.T, s *shop) {
			run(t, s.db, "CREATE TRIGGER no BEFORE UPDATE ON jobs WHEN old.id = 1 AND new.status <> 'running' BEGIN "+
				"SELECT RAISE(ABORT, 'not this one'); END")
		},
		"trigger on all that is written": func(t *testing.T, s *shop) {
			run(t, s.db, "CREATE TRIGGER no BEFORE UPDATE ON jobs WHEN old.id = 1 BEGIN SELECT RAISE(ABORT, 'not this one'); END")
		},
		"InTx": func(_ *testing.T, s *shop) {
			s.InTx = refuseFirst(func() error { return errors.New("not this one") })
		},
		"InTx panics": func(_ *testing.T, s *shop) {
			s.InTx = refuseFirst(func() error { panic("not this one") })
		},
	} {
		eachInBubble(t, name, 20, func(t *testing.T, s *shop) {
			run(t, s.db, "UPDATE jobs SET status = 'running', attempts = 1, fence = 1, lease_until = id") // long ago
			spoil(t, s)
			s.Concurrency, s.Poll, s.Policy.Backoff = 4, 5*time.Second, retry.Constant(time.Second)
			s.Work = func(context.Context, *retrytable.Job[int64]) error { return nil }
			stop := s.start(t)
			time.Sleep(2 * time.Minute)
			left := query(t, s.db, "SELECT id FROM jobs WHERE status <> 'done'")
			assert.Equal(t, [][]any{{int64(1)}}, left)
			time.Sleep(2 * time.Hour)
			require.Equal(t, errStop, stop())
			assert.Contains(t, s.errs[0].Error(), "not this one")
			if name == "trigger on all that is written" { // its lease cannot be extended either
				assert.Less(t, len(s.errs), 400, "of 1440")
				return
			}
			assert.Greater(t, len(s.errs), 10)
			assert.Less(t, len(s.errs), 20, "of 120")
		})
	}
}

// refuseFirst is an InTx that fails for the first job.
func refuseFirst(fail func() error) func(context.Context, *sql.Tx, *retrytable.Outcome[int64]) error {
	return func(_ context.Context, _ *sql.Tx, o *retrytable.Outcome[int64]) error {
		if o.Job.ID == 1 {
			return fail()
		}
		return nil
	}
}

// A row that cannot be stored takes its place among those that are worked on for seconds,
// and not for the whole lease.
func TestWorkerGivesAPlaceBack(t *testing.T) {
	t.Parallel()
	inBubble(t, 2, func(t *testing.T, s *shop) {
		run(t, s.db, "CREATE TRIGGER no BEFORE UPDATE ON jobs WHEN old.id = 1 AND new.status = 'done' BEGIN "+
			"SELECT RAISE(ABORT, 'no'); END")
		began := time.Now()
		var second time.Duration
		s.Work = func(_ context.Context, job *retrytable.Job[int64]) error {
			if job.ID == 2 {
				second = time.Since(began)
			}
			return nil
		}
		run(t, s.db, "UPDATE jobs SET due_at = id")
		s.runFor(t, 30*time.Second)
		assert.Equal(t, "done", s.of(t, 2).status)
		assert.Less(t, second, 15*time.Second)
	})
}

// An end that met a failure may have been stored by it. What is told is what the row says.
func TestWorkerReadsBack(t *testing.T) {
	t.Parallel()
	ends := map[string]struct {
		work func(job *retrytable.Job[int64]) error
		told string
	}{
		"success":   {func(*retrytable.Job[int64]) error { return nil }, "1: <nil> false"},
		"in a tx":   {func(job *retrytable.Job[int64]) error { job.InTx(effect(job)); return nil }, "1: <nil> false"},
		"retry":     {func(*retrytable.Job[int64]) error { return errWork }, "1: work failed false"},
		"end":       {func(*retrytable.Job[int64]) error { return retry.MarkFinal(errWork) }, "1: work failed false"},
		"free":      {func(*retrytable.Job[int64]) error { return retry.MarkRateLimited(errWork, time.Minute) }, "1: work failed false"},
		"a poll":    {func(*retrytable.Job[int64]) error { return retry.MarkPending(errWork) }, "1: work failed false"},
		"as others": {func(job *retrytable.Job[int64]) error { job.SucceedAs("sent"); return nil }, "1: <nil> false"},
	}
	// What has become of the row meanwhile, and whether the end was stored before.
	meanwhile := map[string]struct {
		stored bool
		sql    string
		says   string // the error; nothing if the outcome is to be told
	}{
		"nothing":                 {true, "", ""},
		"canceled":                {false, "UPDATE jobs SET status = 'canceled', lease_until = NULL", `the status is "canceled" now`},
		"given to another worker": {false, "UPDATE jobs SET fence = fence + 1", "of claim 2, and this was claim 1"},
		"stored, then claimed":    {true, "UPDATE jobs SET status = 'running', fence = fence + 1", "of claim 2, and this was claim 1"},
		"deleted":                 {false, "DELETE FROM jobs", "the row is gone"},
	}
	for end, e := range ends {
		for name, m := range meanwhile {
			eachInBubble(t, end+"/"+name, 1, func(t *testing.T, s *shop) {
				s.Table.Statuses.Done = []string{"done", "sent"}
				s.Policy.FreeRateLimits = 3
				s.Work = func(_ context.Context, job *retrytable.Job[int64]) error {
					if m.stored {
						s.database.breaks.Store(1)
					} else {
						s.database.down.Store(true)
					}
					time.AfterFunc(20*time.Millisecond, func() {
						s.database.down.Store(false)
						if m.sql != "" {
							_, err := s.db.ExecContext(context.Background(), m.sql)
							assert.NoError(t, err)
						}
					})
					return e.work(job)
				}
				_, err := s.Once(t.Context())
				if m.says == "" {
					require.NoError(t, err)
					assert.Equal(t, []string{e.told}, s.outcomes)
					assert.Len(t, s.events.Events(), 1)
					return
				}
				require.ErrorIs(t, err, retrytable.ErrLeaseLost)
				assert.ErrorContains(t, err, m.says)
				assert.Empty(t, s.outcomes)
				assert.Empty(t, s.events.Events())
			})
		}
	}
}

// panicky has the functions of a policy, one of which panics.
type panicky struct{ hook atomic.Value }

func (p *panicky) at(hook string) {
	if p.hook.Load() == hook {
		panic("boom")
	}
}

func (p *panicky) event(context.Context, retry.Event) { p.at("Observer") }

func (p *panicky) attempt(ctx context.Context, _ int) (context.Context, func(error)) {
	p.at("Observer.Attempt")
	return ctx, func(error) { p.at("the end of Observer.Attempt") }
}

func (p *panicky) Delay(int) time.Duration { p.at("Backoff"); return time.Minute }

func (p *panicky) Apply(d, _ time.Duration, _ uint64) time.Duration { p.at("Jitter"); return d }

func (p *panicky) Uint64() uint64 { p.at("Rand"); return 0 }

// A hook that panics in a job is an error of that job, and the other jobs go on.
func TestWorkerHooksPanic(t *testing.T) {
	t.Parallel()
	const ended, left, done, again = "dead", "running", "done", "waiting" // what becomes of the job
	for hook, want := range map[string]string{
		"Work": ended, "Job.InTx": ended, "InTx": ended, "FinishArgs": left, "After": again, "OnError": ended,
		"Observer": again, "Observer.Attempt": ended, "the end of Observer.Attempt": ended,
		"Classifier": ended, "Backoff": ended, "Jitter": ended, "Rand": ended, "Turn": done,
	} {
		eachInBubble(t, hook, 4, func(t *testing.T, s *shop) {
			p := &panicky{} // of the job in hand: they follow one another
			s.Policy = &retry.Policy{
				Backoff: p, Jitter: p, Rand: p, Observer: &retry.Observer{Event: p.event, Attempt: p.attempt},
				Classifier: func(error) retry.Verdict { p.at("Classifier"); return retry.Verdict{} },
			}
			if first := true; hook == "Turn" {
				s.Turn = func(context.Context, retrytable.DB) error {
					if first {
						first = false
						panic("boom")
					}
					return nil
				}
			}
			s.Work = func(_ context.Context, job *retrytable.Job[int64]) error {
				p.hook.Store("")
				if job.ID != 1 {
					return nil
				}
				p.hook.Store(hook)
				p.at("Work")
				job.InTx(func(context.Context, *sql.Tx) error { p.at("Job.InTx"); return nil })
				switch hook {
				case "Job.InTx", "InTx", "Turn":
					return nil
				case "OnError":
					return retry.MarkFinal(errWork)
				}
				return errWork
			}
			s.InTx = func(_ context.Context, _ *sql.Tx, o *retrytable.Outcome[int64]) error {
				if o.Err == nil {
					p.at("InTx")
				}
				return nil
			}
			s.FinishArgs = func(*retrytable.Outcome[int64]) []any { p.at("FinishArgs"); return nil }
			after, onError := s.After, s.OnError
			s.After = func(ctx context.Context, o *retrytable.Outcome[int64]) {
				after(ctx, o)
				p.at("After")
				if p.hook.Load() == "OnError" && o.Job.ID == 1 {
					panic("for OnError")
				}
			}
			s.OnError = func(ctx context.Context, err error) {
				onError(ctx, err)
				p.at("OnError")
			}
			if hook == "Observer.Attempt" { // which is before the work
				p.hook.Store(hook)
				time.AfterFunc(500*time.Millisecond, func() { p.hook.Store("") })
			}
			run(t, s.db, "UPDATE jobs SET due_at = id")
			s.runFor(t, 30*time.Second)
			assert.Equal(t, want, s.of(t, 1).status)
			for id := range int64(3) {
				if hook != "Observer.Attempt" {
					assert.Equal(t, "done", s.of(t, id+2).status)
				}
			}
			s.mu.Lock()
			defer s.mu.Unlock()
			in := map[string]string{"Work": "panic", "Job.InTx": "panic in Job.InTx", "InTx": "panic in InTx"}[hook]
			if in != "" { // it is why the attempt has failed
				assert.Contains(t, s.outcomes[0], "1: "+in+": boom")
				assert.Empty(t, s.errs)
				return
			}
			if want == ended && hook != "OnError" {
				assert.Contains(t, s.outcomes[0], "1: panic in a function of the Policy: boom")
			}
			require.NotEmpty(t, s.errs)
			var panicked *retry.PanicError
			require.ErrorAs(t, s.errs[0], &panicked)
			assert.NotEmpty(t, panicked.Stack)
		})
	}
}

// A job whose lost attempt nobody can decide about has ended, and keeps no others from
// being swept.
func TestWorkerSweepsPastAPanic(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, s *shop) {
		run(t, s.db, "UPDATE jobs SET status = 'running', attempts = 1, fence = 1, lease_until = id")
		n := 0
		s.Work = func(context.Context, *retrytable.Job[int64]) error { return nil }
		s.Policy.Backoff = backoffFunc(func(int) time.Duration {
			if n++; n == 1 {
				panic("boom")
			}
			return time.Minute
		})
		_, err := s.Once(t.Context())
		require.ErrorContains(t, err, "retrytable: job 1: panic in a function of the Policy: boom")
		assert.Equal(t, []string{"dead", "waiting", "waiting"},
			[]string{s.of(t, 1).status, s.of(t, 2).status, s.of(t, 3).status})
	})
}

type backoffFunc func(int) time.Duration

func (f backoffFunc) Delay(n int) time.Duration { return f(n) }

// A pool that keeps too few idle connections is noticed, and said once, with the line to
// write. One that is large enough is not.
func TestWorkerIdleConnections(t *testing.T) {
	t.Parallel()
	for _, idle := range []int{-1, 1} {
		eachInBubble(t, fmt.Sprint(idle), 0, func(t *testing.T, s *shop) {
			s.db.SetMaxIdleConns(idle)
			s.Concurrency = 8
			s.Work = func(context.Context, *retrytable.Job[int64]) error { return nil }
			s.runFor(t, 5*time.Minute)
			if idle == 1 {
				assert.Empty(t, s.errs)
				return
			}
			require.Len(t, s.errs, 1)
			assert.Regexp(t, `^retrytable: Worker.DB: \d+ connections were closed in \d+s because too few may be idle: .*: `+
				`call db.SetMaxIdleConns\(1\)$`, s.errs[0].Error(), "as many as may be open")
		})
	}
}

// An effect has half of what is left of the lease. What it meets after that is no failure
// of the attempt: the transaction is repeated.
func TestWorkerEffectOutOfTime(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(t *testing.T, s *shop) {
		works, tries := 0, 0
		s.Work = func(_ context.Context, job *retrytable.Job[int64]) error {
			works++
			job.InTx(func(_ context.Context, tx *sql.Tx) error {
				if tries++; tries == 1 {
					time.Sleep(35 * time.Second)
				}
				return effect(job)(context.Background(), tx) // without the context
			})
			return nil
		}
		_, err := s.Once(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []int{1, 2}, []int{works, tries})
		assert.Equal(t, record{status: "done", attempts: 1, fence: 1, note: "effect"}, s.of(t, 1))
	})
}
