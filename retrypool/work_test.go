package retrypool_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrypool"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// The pool is one more driver of the decider. internal/test/contract checks that it
// does the same as Execute.

func TestErrorsAreThoseOfExecute(t *testing.T) {
	t.Parallel()
	errFinal := retry.MarkFinal(errors.New("final"))
	tests := []struct {
		name   string
		policy retry.Policy
		fn     func(context.Context) error
		want   string
		is     error
		stop   retry.StopReason
		after  time.Duration
		waited time.Duration
	}{
		{
			name: "attempts", policy: retry.Policy{Name: "task"}, fn: fails,
			want: "task failed after 3 attempts: boom", is: retry.StopAttempts, stop: retry.StopAttempts,
			waited: 2 * time.Hour,
		},
		{
			name: "elapsed", policy: retry.Policy{MaxElapsed: time.Minute}, fn: fails,
			want: "failed after 1 attempt (time limit reached): boom", is: retry.StopElapsed, stop: retry.StopElapsed,
		},
		{
			name: "budget", policy: retry.Policy{Budget: &retry.Budget{Reserve: retry.NoReserve}}, fn: fails,
			want: "failed after 1 attempt (local retry budget exhausted): boom", is: retry.StopBudget,
			stop: retry.StopBudget, after: time.Hour,
		},
		{
			name: "hint", fn: func(context.Context) error { return retry.MarkRateLimited(errBoom, 2*time.Hour) },
			want: "failed after 1 attempt (server asks to wait 2h0m0s): boom", is: retry.StopRetryAfter,
			stop: retry.StopRetryAfter, after: 2 * time.Hour,
		},
		{
			name: "maybe applied", policy: retry.Policy{NonIdempotent: true}, fn: fails,
			want: "failed after 1 attempt (it may have taken effect): boom", is: retry.StopMaybeApplied, stop: retry.StopMaybeApplied,
		},
		{name: "final", fn: func(context.Context) error { return errFinal }, want: "final", is: errFinal},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := tt.policy
				p.Backoff, p.Jitter = retry.Constant(time.Hour), retry.NoJitter
				err := inPool(t.Context(), &p, tt.fn)
				require.EqualError(t, err, tt.want)
				require.ErrorIs(t, err, tt.is)
				if tt.stop == retry.StopNone {
					assert.Equal(t, tt.is, err)
					return
				}
				require.ErrorIs(t, err, errBoom)
				var e *retry.Error
				require.ErrorAs(t, err, &e)
				assert.Equal(t, []any{tt.stop, tt.after, tt.waited}, []any{e.Stop, e.RetryAfter, e.Waited})
				require.EqualError(t, p.Execute(t.Context(), tt.fn), tt.want)
			})
		})
	}
}

func TestAttemptTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := every(time.Hour)
		p.AttemptTimeout = time.Second
		p.Classifier = func(err error) retry.Verdict {
			if errors.Is(err, errBoom) {
				return retry.Verdict{Class: retry.Final}
			}
			return retry.Verdict{}
		}
		var recorder retrytest.Recorder
		p.Observer = &recorder
		calls := 0
		err := inPool(t.Context(), p, func(ctx context.Context) error {
			if calls++; calls == 3 {
				return nil
			}
			<-ctx.Done()
			return errors.New("killed") // need not tell why
		})
		require.NoError(t, err)
		recorder.Expect(t, "1: killed: retry in 1h0m0s", "2: killed: retry in 1h0m0s", "3: succeeded")
		assert.Equal(t, "timeout", recorder.Events()[0].Verdict.Category)
		err = inPool(t.Context(), p, func(ctx context.Context) error {
			<-ctx.Done()
			return errBoom // the Classifier knows better
		})
		assert.Equal(t, errBoom, err)
	})
}

// A budget is shared by all tasks: successes earn what failures spend.
func TestBudgetOfAllTasks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := every(time.Second)
		p.Budget = &retry.Budget{Ratio: 1, Reserve: retry.NoReserve, TTL: time.Hour}
		pool := &retrypool.Pool{Workers: 1, Policy: p}
		var tasks []*retrypool.Task
		for range 2 {
			submit(t.Context(), t, pool, succeeds)
		}
		for range 3 {
			tasks = append(tasks, submit(t.Context(), t, pool, fails))
		}
		attempts := 0
		for _, task := range tasks {
			err := task.Wait(t.Context())
			require.ErrorIs(t, err, retry.StopBudget)
			var e *retry.Error
			require.ErrorAs(t, err, &e)
			attempts += e.Attempts
		}
		assert.Equal(t, 3+2, attempts)
	})
}

func TestFreeRateLimits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := every(time.Hour)
		p.MaxAttempts, p.FreeRateLimits = 2, 2
		var recorder retrytest.Recorder
		p.Observer = &recorder
		limited := retry.MarkRateLimited(errBoom, 10*time.Second)
		pool := &retrypool.Pool{Policy: p}
		task := submit(t.Context(), t, pool, retrytest.Script(limited, limited, limited, errBoom).Run)
		require.EqualError(t, task.Wait(t.Context()), "failed after 4 attempts: boom")
		s, _ := task.State()
		assert.Equal(t, []int{2, 2}, []int{s.Failures, s.RateLimited})
		for _, wait := range recorder.Waits() {
			assert.GreaterOrEqual(t, wait, 10*time.Second)
			assert.LessOrEqual(t, wait, 11*time.Second)
		}
	})
}

// A failure after progress starts a new count of the waits too, as in Execute.
func TestWaitedAfterProgress(t *testing.T) {
	t.Parallel()
	script := func() func(context.Context) error {
		return retrytest.Script(errBoom, retry.MarkProgress(errBoom), errBoom, errBoom).Run
	}
	synctest.Test(t, func(t *testing.T) {
		var want, got *retry.Error
		require.ErrorAs(t, every(time.Hour).Execute(t.Context(), script()), &want)
		require.ErrorAs(t, inPool(t.Context(), every(time.Hour), script()), &got)
		assert.Equal(t, 2*time.Hour, want.Waited)
		assert.Equal(t, want.Waited, got.Waited)
	})
}
