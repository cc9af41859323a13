//nolint:thelper // what inBubble calls is the test itself
package tabletest_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytable"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// shop is a worker in a bubble, with all that it reports.
type shop struct {
	*retrytable.Worker[int64]

	*store
	database *bubbled
	events   *retrytest.Recorder

	mu       sync.Mutex
	outcomes []string
	errs     []error
}

// inBubble runs a test of a worker on SQLite, in virtual time. There are n jobs.
func inBubble(t *testing.T, n int, test func(t *testing.T, s *shop)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		db, b := openBubbled(t)
		defer func() { assert.NoError(t, db.db.Close()) }()
		s := &shop{store: db, database: b, events: &retrytest.Recorder{}}
		s.Worker = &retrytable.Worker[int64]{
			Table: jobs(), DB: db.db,
			Policy: &retry.Policy{Name: "job", Backoff: retry.Constant(time.Minute), Jitter: retry.NoJitter, Observer: s.events.Observer()},
			After: func(_ context.Context, o *retrytable.Outcome[int64]) {
				s.mu.Lock()
				defer s.mu.Unlock()
				line, _, _ := strings.Cut(fmt.Sprint(o.Err), "\n") // without the stack of a panic
				s.outcomes = append(s.outcomes, fmt.Sprintf("%d: %s %v", o.Job.ID, line, o.Released))
			},
			OnError: func(_ context.Context, err error) {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.errs = append(s.errs, err)
			},
		}
		s.create(t, s.Table, n)
		test(t, s)
	})
}

// eachInBubble is inBubble for one of several tests.
func eachInBubble(t *testing.T, name string, n int, test func(t *testing.T, s *shop)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		inBubble(t, n, test)
	})
}

// start runs the worker until stop, which returns what Run does.
func (s *shop) start(t *testing.T) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	return func() error {
		cancel(errStop)
		return <-done
	}
}

// runFor runs the worker for a while.
func (s *shop) runFor(t *testing.T, d time.Duration) {
	t.Helper()
	stop := s.start(t)
	time.Sleep(d)
	require.Equal(t, errStop, stop())
}

var errStop = errors.New("told to stop")

func (s *shop) of(t *testing.T, id int64) record {
	t.Helper()
	return s.record(t, s.db, id)
}

// Work whose lease was lost is canceled, and says nothing about the job.
func TestWorkerLosesLease(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(s *shop) error{
		"by hand": func(s *shop) error {
			_, err := s.db.ExecContext(context.Background(), "UPDATE jobs SET status = 'canceled'")
			return err
		},
		"in an outage": func(s *shop) error {
			s.database.down.Store(true)
			return nil
		},
	} {
		eachInBubble(t, name, 1, func(t *testing.T, s *shop) {
			var cause error
			var lasted time.Duration
			s.Work = func(ctx context.Context, _ *retrytable.Job[int64]) error {
				assert.NoError(t, lose(s))
				began := time.Now()
				<-ctx.Done()
				cause, lasted = context.Cause(ctx), time.Since(began)
				return ctx.Err()
			}
			stop := s.start(t)
			time.Sleep(62 * time.Second)
			s.database.down.Store(false)
			require.Equal(t, errStop, stop())
			assert.ErrorIs(t, cause, retrytable.ErrLeaseLost)
			if name == "by hand" {
				assert.Equal(t, 20*time.Second, lasted.Round(time.Second), "the first extension")
				assert.Equal(t, "canceled", s.of(t, 1).status)
			} else {
				assert.Equal(t, time.Minute, lasted.Round(time.Second), "the end of the lease")
				assert.ErrorIs(t, cause, errDown)
				assert.Equal(t, "running", s.of(t, 1).status)
			}
			assert.Empty(t, s.outcomes)
			assert.Empty(t, s.events.Events())
			assert.NotEmpty(t, s.errs)
		})
	}
}

// What is done is stored when the database is back, and not done again.
func TestWorkerStoresUntilTheLeaseEnds(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]time.Duration{"short": 30 * time.Second, "long": 2 * time.Minute} {
		eachInBubble(t, name, 1, func(t *testing.T, s *shop) {
			calls := 0
			s.Work = func(_ context.Context, job *retrytable.Job[int64]) error {
				job.InTx(effect(job))
				if calls++; calls == 1 {
					time.Sleep(5 * time.Minute)
					s.database.down.Store(true)
					time.AfterFunc(broken, func() { s.database.down.Store(false) })
				}
				return nil
			}
			s.runFor(t, 12*time.Minute)
			assert.Equal(t, "done", s.of(t, 1).status)
			assert.Equal(t, "effect", s.of(t, 1).note)
			if name == "short" {
				assert.Equal(t, 1, calls)
			} else {
				assert.Equal(t, 2, calls, "the lease was over")
			}
		})
	}
}

// effect writes a note. It fails if that is there.
func effect(job *retrytable.Job[int64]) func(context.Context, *sql.Tx) error {
	return func(ctx context.Context, tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, "UPDATE jobs SET note = 'effect' WHERE id = $1 AND note IS NULL", job.ID)
		if err != nil {
			return err
		}
		if n, err := result.RowsAffected(); err != nil || n != 1 {
			return errors.Join(errors.New("the effect is there"), err)
		}
		return nil
	}
}

// An error of an effect is a failure of the attempt, and takes the end of the job back.
func TestWorkerEffectFails(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(t *testing.T, s *shop) {
		errEffect := errors.New("no such account")
		s.Work = func(_ context.Context, job *retrytable.Job[int64]) error {
			job.InTx(effect(job))
			job.InTx(func(context.Context, *sql.Tx) error { return errEffect })
			return nil
		}
		testkit.Must(s.Once(t.Context()))(t)
		got := s.of(t, 1)
		assert.Equal(t, record{status: "waiting", attempts: 1, fence: 1, due: got.due}, got)
		assert.Equal(t, []string{"1: no such account false"}, s.outcomes)
		require.Len(t, s.events.Events(), 1)
		assert.Equal(t, retry.Retrying, s.events.Events()[0].Kind)
	})
}

// An effect that met with trouble that passes is tried again with its transaction.
func TestWorkerEffectRepeats(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(t *testing.T, s *shop) {
		tries, works := 0, 0
		s.Work = func(_ context.Context, job *retrytable.Job[int64]) error {
			works++
			job.InTx(effect(job))
			job.InTx(func(context.Context, *sql.Tx) error {
				switch tries++; tries {
				case 1, 2:
					return fmt.Errorf("insert: %w", retry.MarkRetryable(errWork))
				case 3:
					return deadlock{}
				}
				return nil
			})
			return nil
		}
		testkit.Must(s.Once(t.Context()))(t)
		assert.Equal(t, []int{4, 1}, []int{tries, works})
		assert.Equal(t, record{status: "done", attempts: 1, fence: 1, note: "effect"}, s.of(t, 1))
	})
}

// deadlock is what a database says that has chosen one of two transactions.
type deadlock struct{}

func (deadlock) Error() string    { return "deadlock detected" }
func (deadlock) SQLState() string { return "40P01" }

// The jobs of dead workers fail with ErrLost, and come back.
func TestWorkerSweeps(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(t *testing.T, s *shop) {
		one(t, s.db, s.Table) // by a worker that dies of it
		s.Lost = retry.Mark(retry.ErrLost, retry.Verdict{Class: retry.Retryable, Category: "dead"})
		s.Work = func(_ context.Context, job *retrytable.Job[int64]) error {
			assert.Equal(t, 2, job.Attempt())
			return nil
		}
		s.runFor(t, 3*time.Minute)
		assert.Equal(t, record{status: "done", attempts: 2, fence: 3}, s.of(t, 1))
		events := s.events.Events()
		require.Len(t, events, 2)
		assert.Equal(t, "dead", events[0].Verdict.Category)
		assert.ErrorIs(t, events[0].Err, retry.ErrLost)
		assert.Equal(t, retry.Succeeded, events[1].Kind)
	})
}

// Stopping has two stages: no new jobs, and then the end of the work.
func TestWorkerStops(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		takes  time.Duration
		policy retry.Policy
		fails  error // what work returns when it is canceled
		want   record
		lasted time.Duration
	}{
		{name: "within grace", takes: 9 * time.Second, want: record{status: "done", attempts: 1, fence: 1}, lasted: 9 * time.Second},
		{
			name: "given back", takes: time.Hour, fails: errWork,
			want: record{status: "ready", fence: 1}, lasted: 10 * time.Second,
		},
		{
			name: "done all the same", takes: time.Hour,
			want: record{status: "done", attempts: 1, fence: 1}, lasted: 10 * time.Second,
		},
		{
			name: "final", takes: time.Hour, fails: retry.MarkFinal(errWork),
			want: record{status: "dead", attempts: 1, fence: 1}, lasted: 10 * time.Second,
		},
		{
			name: "not idempotent", takes: time.Hour, fails: errWork, policy: retry.Policy{NonIdempotent: true},
			want: record{status: "dead", attempts: 1, fence: 1}, lasted: 10 * time.Second,
		},
	} {
		eachInBubble(t, test.name, 2, func(t *testing.T, s *shop) {
			s.Grace, s.Policy = 10*time.Second, &test.policy
			begun := make(chan bool)
			s.Work = func(ctx context.Context, _ *retrytable.Job[int64]) error {
				begun <- true
				select {
				case <-time.After(test.takes):
					return nil
				case <-ctx.Done():
					assert.Equal(t, errStop, context.Cause(ctx))
					return test.fails
				}
			}
			stop := s.start(t)
			<-begun
			at := time.Now()
			require.Equal(t, errStop, stop())
			assert.Equal(t, test.lasted, time.Since(at).Round(time.Second))
			assert.Equal(t, test.want, s.of(t, 1))
			assert.Equal(t, "ready", s.of(t, 2).status)
			assert.Empty(t, s.errs)
		})
	}
}

// A deadline has the worker stop like anything else. It is none of the work.
func TestWorkerStopsByADeadline(t *testing.T) {
	t.Parallel()
	for _, grace := range []time.Duration{0, time.Second} {
		eachInBubble(t, grace.String(), 1, func(t *testing.T, s *shop) {
			s.Grace = grace
			s.Work = func(ctx context.Context, _ *retrytable.Job[int64]) error {
				_, limited := ctx.Deadline()
				assert.False(t, limited)
				<-ctx.Done()
				assert.Equal(t, context.DeadlineExceeded, context.Cause(ctx))
				return ctx.Err()
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			assert.Equal(t, context.DeadlineExceeded, s.Run(ctx))
			assert.Equal(t, record{status: "ready", fence: 1}, s.of(t, 1))
			assert.Equal(t, []string{"1: context canceled true"}, s.outcomes)
		})
	}
}

// A worker that has nothing to do looks from time to time, or when somebody says so.
func TestWorkerPolls(t *testing.T) {
	t.Parallel()
	inBubble(t, 0, func(t *testing.T, s *shop) {
		wake := make(chan struct{}, 1)
		s.Poll, s.Wake = 20*time.Second, wake
		done := make(chan time.Time, 1)
		s.Work = func(context.Context, *retrytable.Job[int64]) error {
			done <- time.Now()
			return nil
		}
		stop := s.start(t)
		var waits []time.Duration
		for id := range 5 {
			time.Sleep(time.Minute)
			run(t, s.db, "INSERT INTO jobs (id) VALUES ($1)", id)
			inserted := time.Now()
			waits = append(waits, (<-done).Sub(inserted))
		}
		assert.NotEqual(t, waits[0], waits[1], "jitter")
		for _, wait := range waits {
			assert.LessOrEqual(t, wait, 25*time.Second)
		}
		for id := range 5 {
			time.Sleep(time.Minute)
			run(t, s.db, "INSERT INTO jobs (id) VALUES ($1)", 10+id)
			inserted := time.Now()
			wake <- struct{}{}
			assert.Zero(t, (<-done).Sub(inserted))
		}
		close(wake) // is no reason to spin
		time.Sleep(time.Minute)
		require.Equal(t, errStop, stop())
	})
}

// Jobs that are due again before the next look do not wait for that, alone or with others.
func TestWorkerComesBack(t *testing.T) {
	t.Parallel()
	inBubble(t, 3, func(t *testing.T, s *shop) {
		s.Poll, s.Concurrency = time.Minute, 4
		s.Policy.Backoff, s.Policy.MaxAttempts = retry.Schedule{0, 2 * time.Second, 4 * time.Second}, 4
		s.Work = func(_ context.Context, job *retrytable.Job[int64]) error {
			if job.State.Failures < int(job.ID) {
				return errWork
			}
			return nil
		}
		stop := s.start(t)
		time.Sleep(time.Second)
		assert.Equal(t, "done", s.of(t, 1).status, "it waits for nothing")
		time.Sleep(30 * time.Second) // the shortest Poll is 45 s
		assert.Equal(t, [][]any{{int64(3)}}, query(t, s.db, "SELECT count(*) FROM jobs WHERE status = 'done'"))
		require.Equal(t, errStop, stop())
	})
}

// So many jobs run at a time, and the next begins when one has ended.
func TestWorkerConcurrency(t *testing.T) {
	t.Parallel()
	inBubble(t, 10, func(t *testing.T, s *shop) {
		s.Concurrency = 4
		var mu sync.Mutex
		running, most := 0, 0
		s.Work = func(context.Context, *retrytable.Job[int64]) error {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			time.Sleep(10 * time.Second)
			mu.Lock()
			defer mu.Unlock()
			running--
			return nil
		}
		s.runFor(t, 31*time.Second)
		assert.Equal(t, 4, most)
		assert.Equal(t, [][]any{{int64(10)}}, query(t, s.db, "SELECT count(*) FROM jobs WHERE status = 'done'"))
	})
}

// An outage is reported seldom, and over when it is over.
func TestWorkerOutage(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(t *testing.T, s *shop) {
		s.Work = func(context.Context, *retrytable.Job[int64]) error { return nil }
		s.database.down.Store(true)
		stop := s.start(t)
		time.Sleep(10 * time.Minute)
		s.mu.Lock()
		assert.Less(t, len(s.errs), 60, "of 1200 that there might be")
		assert.Greater(t, len(s.errs), 20)
		assert.ErrorIs(t, s.errs[0], errDown)
		s.mu.Unlock()
		s.database.down.Store(false)
		time.Sleep(time.Minute)
		require.Equal(t, errStop, stop())
		assert.Equal(t, "done", s.of(t, 1).status)
	})
}

// An attempt is limited by the policy, and seen by its observer.
func TestWorkerAttempts(t *testing.T) {
	t.Parallel()
	inBubble(t, 1, func(t *testing.T, s *shop) {
		var seen []string
		s.Policy.AttemptTimeout = 5 * time.Second
		s.Policy.Observer = &retry.Observer{
			Event: func(_ context.Context, e retry.Event) { seen = append(seen, e.Kind.String()+" "+e.Verdict.Category) },
			Attempt: func(ctx context.Context, n int) (context.Context, func(error)) {
				seen = append(seen, fmt.Sprint(n, " begins"))
				ended := func(err error) { seen = append(seen, fmt.Sprint(n, " ends: ", err)) }
				return context.WithValue(ctx, testkit.Key{}, "span"), ended
			},
		}
		s.Work = func(ctx context.Context, _ *retrytable.Job[int64]) error {
			assert.Equal(t, "span", ctx.Value(testkit.Key{}))
			<-ctx.Done()
			return ctx.Err()
		}
		testkit.Must(s.Once(t.Context()))(t)
		assert.Equal(t, []string{"1 begins", "1 ends: context deadline exceeded", "retrying timeout"}, seen)
		assert.Equal(t, "waiting", s.of(t, 1).status)
	})
}
