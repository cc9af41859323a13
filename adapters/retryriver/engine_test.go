package retryriver_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retryriver"
	"github.com/seed-5ff3c98e/retry/internal/test/enginekit"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytest"
	"github.com/seed-5ff3c98e/retry/retrytest/enginetest"
)

// Metadata that no attempt has written, because it is of another job or made up, neither ends a
// job nor keeps it.
func TestForgedMetadata(t *testing.T) {
	t.Parallel()
	q := open(t)
	client := testkit.Must(q.client(q.pool, enginetest.Policies{}, &river.Config{}))(t)
	var all []int64
	for _, metadata := range []string{
		`{"retry_0": {"state": {}, "attempt": 30000, "rescues": 1000000}}`,
		`{"retry_0": {"state": {}, "attempt": -8}}`,
		`{"retry_5": {"state": {"failures": 2}, "attempt": 5, "ended": "discarded"}}`,
		`{"retry_7": {"state": {}, "attempt": 2}}`,
	} {
		inserted := testkit.Must(client.Insert(t.Context(), args{"a", "kind-1"}, &river.InsertOpts{Metadata: []byte(metadata)}))(t)
		all = append(all, inserted.Job.ID)
	}
	w, err := q.Start(enginetest.Policies{Policy: &retry.Policy{MaxAttempts: 3, Backoff: retry.Constant(0)}},
		func(context.Context, string) error { return assert.AnError })
	require.NoError(t, err)
	for _, id := range all {
		row := until(t, q, id, func(row *rivertype.JobRow) bool { return row.FinalizedAt != nil })
		assert.Equal(t, 3, row.Attempt)
	}
	require.NoError(t, w.Stop(t.Context()))
}

// River finishes a job by its ID and the state "running", and does not look at the attempt.
// So an attempt that goes on after its job was rescued ends the job, although a newer attempt
// runs; and what becomes of the newer one does not matter any more.
func TestRescuedAttemptEndsNewer(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name       string
		old, newer error
		want       rivertype.JobState
		attempts   int
	}{
		{"success", nil, retry.MarkFinal(assert.AnError), rivertype.JobStateCompleted, 2},
		{"final failure", retry.MarkFinal(assert.AnError), nil, rivertype.JobStateCancelled, 2},
		{"failure", assert.AnError, nil, rivertype.JobStateCompleted, 3}, // the third runs beside the second
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			q := open(t)
			q.worker = river.Config{ // TestOnly has the leader rescue as soon as it is elected
				TestOnly: true, JobTimeout: 100 * time.Millisecond, RescueStuckJobsAfter: 300 * time.Millisecond,
			}
			p := enginetest.Policies{Policy: &retry.Policy{MaxAttempts: 5, Backoff: retry.Constant(0)}}
			var attempts atomic.Int32
			ended := []chan error{make(chan error), make(chan error)}
			work := func(context.Context, string) error { // which does not heed its context
				n := attempts.Add(1)
				if int(n) > len(ended) {
					return nil
				}
				return <-ended[n-1]
			}
			first := testkit.Must(q.Start(p, work))(t)
			require.NoError(t, q.Submit(t.Context(), "kind-1", "a"))
			id := q.ids["a"]
			until(t, q, id, func(*rivertype.JobRow) bool { return attempts.Load() == 1 })
			time.Sleep(q.worker.RescueStuckJobsAfter)
			testkit.Must(q.pool.Exec(t.Context(), "DELETE FROM river_leader"))(t)
			second := testkit.Must(q.Start(p, work))(t)
			until(t, q, id, func(row *rivertype.JobRow) bool {
				return attempts.Load() == 2 && row.State == rivertype.JobStateRunning
			})

			ended[0] <- test.old
			row := until(t, q, id, func(row *rivertype.JobRow) bool { return row.State == test.want })
			assert.Equal(t, test.attempts, row.Attempt, "while the second attempt runs")
			ended[1] <- test.newer
			require.NoError(t, first.Stop(t.Context()))
			require.NoError(t, second.Stop(t.Context()))
			row = until(t, q, id, func(*rivertype.JobRow) bool { return true })
			assert.Equal(t, test.want, row.State, "in spite of the newer attempt")
		})
	}
}

// until waits until a job is as it should be.
func until(t *testing.T, q *queue, id int64, want func(*rivertype.JobRow) bool) (row *rivertype.JobRow) {
	t.Helper()
	client, err := q.client(q.pool, enginetest.Policies{}, &river.Config{})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		row, err = client.JobGet(t.Context(), id)
		return assert.NoError(t, err) && want(row)
	}, 30*time.Second, 10*time.Millisecond)
	return row
}

// A job that somebody has River retry has all its attempts again.
func TestRetryByHand(t *testing.T) {
	t.Parallel()
	q := open(t)
	p := enginetest.Policies{Policy: &retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(0)}}
	attempts := make(chan int, 20)
	w := testkit.Must(q.Start(p, func(context.Context, string) error {
		attempts <- 1
		return assert.AnError
	}))(t)
	require.NoError(t, q.Submit(t.Context(), "kind-1", "a"))
	for i := range 3 {
		until(t, q, q.ids["a"], func(row *rivertype.JobRow) bool {
			return row.State == rivertype.JobStateDiscarded && row.Attempt == 2*(i+1)
		})
		assert.Len(t, attempts, 2*(i+1))
		testkit.Must(w.(*workers).client.JobRetry(t.Context(), q.ids["a"]))(t)
	}
	require.NoError(t, w.Stop(t.Context()))
}

type newer struct{}

func (newer) Kind() string { return "newer" }

// In a deployment the first to know a new kind of job may be who inserts it.
func TestKindThatIsNotKnownYet(t *testing.T) {
	t.Parallel()
	q := open(t)
	p := enginetest.Policies{Policy: &retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(0)}}
	client := testkit.Must(q.client(q.pool, p, &river.Config{}))(t)
	inserted := testkit.Must(client.Insert(t.Context(), newer{}, nil))(t)
	old := testkit.Must(q.Start(p, func(context.Context, string) error { return nil }))(t)
	until(t, q, inserted.Job.ID, func(row *rivertype.JobRow) bool { return row.Attempt >= 3 })
	require.NoError(t, old.Stop(t.Context()))

	all := river.NewWorkers()
	attempts := 0
	river.AddWorker(all, river.WorkFunc(func(context.Context, *river.Job[newer]) error {
		if attempts++; attempts < 2 {
			return assert.AnError
		}
		return nil
	}))
	client = testkit.Must(q.client(q.pool, p, &river.Config{
		Workers: all, Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 1}},
	}))(t)
	require.NoError(t, client.Start(t.Context()))
	until(t, q, inserted.Job.ID, func(row *rivertype.JobRow) bool {
		require.NotEqual(t, rivertype.JobStateDiscarded, row.State)
		return row.State == rivertype.JobStateCompleted
	})
	require.NoError(t, client.StopAndCancel(context.WithoutCancel(t.Context())))
}

// River takes an error that is a canceled context for no failure when it stops.
func TestStopOfWhatIsNotIdempotent(t *testing.T) {
	t.Parallel()
	inner := &retry.Policy{Backoff: retry.Constant(time.Hour), MaxDelay: time.Hour}
	for _, test := range []struct {
		name string
		work func(ctx context.Context) error
		want rivertype.JobState
		text string
	}{
		{"maybe applied", func(ctx context.Context) error {
			return inner.Execute(ctx, func(context.Context) error { return assert.AnError })
		}, rivertype.JobStateDiscarded, assert.AnError.Error()},
		{"retryable", func(ctx context.Context) error {
			<-ctx.Done()
			return retry.MarkRetryable(ctx.Err())
		}, rivertype.JobStateAvailable, "context canceled"},
		{"final", func(ctx context.Context) error {
			<-ctx.Done()
			return retry.MarkFinal(ctx.Err())
		}, rivertype.JobStateCancelled, "context canceled"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			q := open(t)
			p := enginetest.Policies{Policy: &retry.Policy{NonIdempotent: true, Backoff: retry.Constant(0)}}
			begun := make(chan struct{})
			w := testkit.Must(q.Start(p, func(ctx context.Context, _ string) error {
				close(begun)
				return test.work(ctx)
			}))(t)
			require.NoError(t, q.Submit(t.Context(), "kind-1", "a"))
			<-begun
			require.NoError(t, w.Stop(t.Context()))
			row := until(t, q, q.ids["a"], func(row *rivertype.JobRow) bool { return row.State != rivertype.JobStateRunning })
			assert.Equal(t, test.want, row.State)
			assert.Equal(t, 1, row.Attempt)
			if assert.Len(t, row.Errors, 1) {
				assert.Contains(t, row.Errors[0].Error, test.text)
			}
		})
	}
}

// River stores an outcome again if it has not heard that it was stored, whatever has
// happened to the job since: the metadata of the first attempt while the job waits after
// the second one, and the first failure while the third runs.
func TestOutcomeStoredAgain(t *testing.T) {
	t.Parallel()
	q := open(t)
	p := enginetest.Policies{Policy: &retry.Policy{
		MaxAttempts: 5, Backoff: retry.Constant(2 * time.Second), Jitter: retry.NoJitter,
	}}
	first := ""
	var attempts atomic.Int32
	exec := func(statement string, args ...any) {
		_, err := q.pool.Exec(t.Context(), statement, args...)
		assert.NoError(t, err)
	}
	w := testkit.Must(q.Start(p, func(ctx context.Context, _ string) error {
		switch attempts.Add(1) {
		case 2:
			assert.NoError(t, q.pool.QueryRow(ctx, "SELECT metadata FROM river_job").Scan(&first))
		case 3:
			exec("UPDATE river_job SET state = 'available', scheduled_at = now(), errors = array_append(errors, errors[1])")
			for attempts.Load() == 3 {
				time.Sleep(time.Millisecond)
			}
		}
		return assert.AnError
	}))(t)
	require.NoError(t, q.Submit(t.Context(), "kind-1", "a"))
	until(t, q, q.ids["a"], func(row *rivertype.JobRow) bool {
		return row.Attempt == 2 && row.State != rivertype.JobStateRunning
	})
	exec("UPDATE river_job SET metadata = metadata || $1::jsonb", first)
	until(t, q, q.ids["a"], func(row *rivertype.JobRow) bool { return row.State == rivertype.JobStateDiscarded })
	assert.EqualValues(t, 5, attempts.Load())
	require.NoError(t, w.Stop(t.Context()))
}

// A job whose end could not be stored, because it was put back or rescued before, ends
// without being run again.
func TestEndNotStored(t *testing.T) {
	t.Parallel()
	const back = "UPDATE river_job SET state = 'retryable', scheduled_at = now() + INTERVAL '1 hour'"
	const rescued = back + `, metadata = metadata || '{"river:rescue_count": 1}', ` +
		`errors = array_append(errors, '{"attempt": 2, "at": "2026-01-01T00:00:00Z", "error": "", "trace": ""}')`
	for _, test := range []struct {
		name      string
		err       error
		meanwhile string
		want      rivertype.JobState
	}{
		{"exhausted, put back", assert.AnError, back, rivertype.JobStateDiscarded},
		{"exhausted, rescued", assert.AnError, rescued, rivertype.JobStateDiscarded},
		{"final, put back", retry.MarkFinal(assert.AnError), back, rivertype.JobStateCancelled},
		{"final, rescued", retry.MarkFinal(assert.AnError), rescued, rivertype.JobStateCancelled},
		{"success, rescued", nil, rescued, rivertype.JobStateCompleted},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			q := open(t)
			p := enginetest.Policies{Policy: &retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(0)}}
			var attempts atomic.Int32
			exec := func(statement string) {
				_, err := q.pool.Exec(t.Context(), statement)
				assert.NoError(t, err)
			}
			w := testkit.Must(q.Start(p, func(context.Context, string) error {
				if attempts.Add(1) == 1 {
					return assert.AnError
				}
				exec(test.meanwhile)
				return test.err
			}))(t)
			require.NoError(t, q.Submit(t.Context(), "kind-1", "a"))
			until(t, q, q.ids["a"], func(row *rivertype.JobRow) bool { return strings.Contains(string(row.Metadata), "ended") })
			exec("UPDATE river_job SET state = 'available', scheduled_at = now()")
			until(t, q, q.ids["a"], func(row *rivertype.JobRow) bool { return row.State == test.want })
			assert.EqualValues(t, 2, attempts.Load())
			require.NoError(t, w.Stop(t.Context()))
		})
	}
}

// A job fails before its function while no policy is known for its kind.
func TestNoPolicy(t *testing.T) {
	t.Parallel()
	q := open(t)
	client := testkit.Must(q.client(q.pool, enginetest.Policies{}, &river.Config{}))(t)
	enginekit.NoPolicy(t, q, false, func() string {
		row := testkit.Must(client.JobGet(t.Context(), q.ids["job"]))(t)
		if len(row.Errors) == 0 {
			return ""
		}
		return row.Errors[len(row.Errors)-1].Error
	})
}

// A snooze costs no attempt, and who cancels a job ends it.
func TestSnoozeAndCancel(t *testing.T) {
	t.Parallel()
	remotely := func(ctx context.Context) error {
		_, _ = river.ClientFromContext[pgxTx](ctx).JobCancel(ctx, 1) // may fail because it has canceled ctx
		<-ctx.Done()
		return ctx.Err()
	}
	returns := func(err error) func(context.Context) error { return func(context.Context) error { return err } }
	for _, test := range []struct {
		name     string
		then     func(context.Context) error // after the snooze
		want     rivertype.JobState
		text     string
		timeline []string
	}{
		{"success", returns(nil), rivertype.JobStateCompleted, "", []string{"1: succeeded"}},
		{
			"cancel", returns(river.JobCancel(assert.AnError)), rivertype.JobStateCancelled, "JobCancelError: " + assert.AnError.Error(),
			[]string{"1: gave up (final): JobCancelError: " + assert.AnError.Error()},
		},
		{
			"cancel remotely", remotely, rivertype.JobStateCancelled, "JobCancelError: job cancelled remotely",
			[]string{"1: gave up (final): context canceled"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			q := open(t)
			var rec retrytest.Recorder
			var attempts atomic.Int32
			p := enginetest.Policies{Policy: &retry.Policy{MaxAttempts: 1, Observer: rec.Observer()}}
			w := testkit.Must(q.Start(p, func(ctx context.Context, _ string) error {
				if attempts.Add(1) == 1 {
					return river.JobSnooze(0)
				}
				return test.then(ctx)
			}))(t)
			require.NoError(t, q.Submit(t.Context(), "kind-1", "a"))
			row := until(t, q, q.ids["a"], func(row *rivertype.JobRow) bool { return row.State == test.want })
			assert.Equal(t, 1, row.Attempt)
			if test.text != "" && assert.Len(t, row.Errors, 1) {
				assert.Equal(t, test.text, row.Errors[0].Error)
			}
			assert.Equal(t, test.timeline, rec.Timeline())
			require.NoError(t, w.Stop(t.Context()))
		})
	}
}

func TestConfigureRefuses(t *testing.T) {
	t.Parallel()
	var retries retryriver.Retries
	require.EqualError(t, retries.Configure(nil), "retryriver: config is nil")
	require.EqualError(t, retries.Configure(&river.Config{RetryPolicy: &river.DefaultClientRetryPolicy{}}),
		"retryriver: Config.RetryPolicy is *river.DefaultClientRetryPolicy: must not be set")
	retries.Policy = &retry.Policy{MaxDelay: -time.Second}
	err := retries.Configure(&river.Config{})
	require.ErrorContains(t, err, "retryriver: ")
	require.ErrorContains(t, err, "-1s")
}

// River asks for a wait where a panic would end the process.
func TestWaitOfPolicyThatPanics(t *testing.T) {
	t.Parallel()
	for _, p := range enginekit.Panicking() {
		retries := retryriver.Retries{Policy: p.Policy, PolicyFor: p.PolicyFor}
		config := &river.Config{}
		require.NoError(t, retries.Configure(config))
		require.WithinDuration(t, time.Now(), config.RetryPolicy.NextRetry(&rivertype.JobRow{Attempt: 1}), 3*time.Second)
	}
}
