package retrypool_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrypool"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// The pool is one more driver of the decider: whatever a policy makes of an
// operation in Execute, it makes of it here.

// scenario is a random policy and what happens under it, all from one seed.
type scenario struct {
	seed    uint64
	policy  retry.Policy
	reserve int // of the budget; 0 means no budget
	script  []outcome
	timeout time.Duration // of the context; 0 means none
	cancel  time.Duration // when it is canceled; 0 means never
}

// outcome is what an attempt does: it takes its time, less if it heeds its
// context, and then fails with err, or succeeds.
type outcome struct {
	took  time.Duration
	heeds bool
	err   error
}

// someOf returns a random one.
func someOf[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// Odd nanoseconds keep instants apart whose order is left to chance.
func newScenario(seed uint64) *scenario {
	r := rand.New(rand.NewPCG(seed, seed))
	sc := &scenario{
		seed: seed,
		policy: retry.Policy{
			Name:           someOf(r, "", "task"),
			MaxAttempts:    someOf(r, 0, 1, 2, 5, retry.Unlimited),
			MaxElapsed:     someOf(r, 0, 0, 0, 10*time.Second, 2*time.Minute),
			AttemptTimeout: someOf(r, 0, 0, 3*time.Second+1),
			Backoff: someOf[retry.Backoff](
				r, nil, retry.Constant(0), retry.Constant(7*time.Second), retry.Schedule{time.Second, 0, time.Minute},
				retry.Exponential{Initial: time.Second, Multiplier: 3},
			),
			Jitter:         someOf[retry.Jitter](r, nil, retry.NoJitter, retry.Proportional(0.3)),
			MaxRetryAfter:  someOf(r, 0, 20*time.Second),
			FreeRateLimits: someOf(r, 0, 1, 3),
			NonIdempotent:  r.IntN(6) == 0,
			Classifier: someOf(r, nil, func(err error) retry.Verdict {
				if errors.Is(err, syscall.ECONNRESET) {
					return retry.Verdict{After: 3 * time.Second, Category: "busy"}
				}
				return retry.Verdict{}
			}),
		},
		reserve: someOf(r, 0, 0, 1, 2),
		timeout: someOf(r, 0, 0, 0, 2*time.Second+3, 40*time.Second+3),
		cancel:  someOf(r, 0, 0, 0, 1500*time.Millisecond+5, 20*time.Second+5),
	}
	if r.IntN(3) == 0 {
		sc.policy.Overrides = map[string]retry.Override{
			someOf(r, "unknown", "retryable", "rate_limited", "busy", "timeout"): {
				MaxAttempts: someOf(r, 0, 1, 6), Backoff: someOf[retry.Backoff](r, nil, retry.Constant(time.Second)),
			},
		}
	}
	for i := range 1 + r.IntN(8) {
		sc.script = append(sc.script, outcome{
			took:  someOf(r, 0, 0, 1, time.Second, 10*time.Second),
			heeds: r.IntN(2) == 0,
			err:   scenarioError(r, i),
		})
	}
	return sc
}

func scenarioError(r *rand.Rand, i int) error {
	err := fmt.Errorf("attempt %d failed", i+1)
	hint := someOf(r, 0, time.Second, 3*time.Second, 50*time.Second, time.Hour)
	switch r.IntN(14) {
	case 0:
		return nil
	case 1:
		return retry.MarkFinal(err)
	case 2:
		return fmt.Errorf("%w: %w", err, syscall.ECONNRESET)
	case 3:
		return fmt.Errorf("%w: %w", err, context.Canceled)
	case 4, 5:
		return retry.MarkRetryable(err)
	case 6, 7:
		return retry.MarkRateLimited(err, hint)
	case 8:
		return retry.Mark(err, retry.Verdict{After: hint, Category: "busy"})
	case 9:
		return &retry.Error{Attempts: 2, Err: err, Stop: someOf(r, retry.StopAttempts, retry.StopRetryAfter), RetryAfter: hint}
	default:
		return err
	}
}

// course is how an operation went.
type course struct {
	attempts []time.Duration // when they began
	events   []retry.Event
	err      error
}

type driver func(ctx context.Context, p *retry.Policy, fn func(context.Context) error) error

func (sc *scenario) run(t *testing.T, drive driver) (c course) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := sc.policy
		var recorder retrytest.Recorder
		p.Observer = &recorder
		p.Rand = retrytest.NewRand(sc.seed)
		if sc.reserve > 0 {
			p.Budget = &retry.Budget{Reserve: sc.reserve}
		}
		ctx, cancel := context.WithCancelCause(context.Background())
		defer cancel(nil)
		if sc.cancel > 0 {
			defer time.AfterFunc(sc.cancel, func() { cancel(errBoom) }).Stop()
		}
		if sc.timeout > 0 {
			var stop context.CancelFunc
			ctx, stop = context.WithTimeout(ctx, sc.timeout)
			defer stop()
		}
		start := time.Now()
		c.err = drive(ctx, &p, func(ctx context.Context) error {
			var o outcome // all goes well when the script is over
			if i := len(c.attempts); i < len(sc.script) {
				o = sc.script[i]
			}
			c.attempts = append(c.attempts, time.Since(start))
			if !o.heeds {
				time.Sleep(o.took)
				return o.err
			}
			select {
			case <-time.After(o.took):
				return o.err
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		c.events = recorder.Events()
	})
	return c
}

func execute(ctx context.Context, p *retry.Policy, fn func(context.Context) error) error {
	return p.Execute(ctx, fn)
}

func inPool(ctx context.Context, p *retry.Policy, fn func(context.Context) error) error {
	pool := &retrypool.Pool{Workers: 1, Policy: p}
	task, err := pool.Submit(ctx, fn)
	if err != nil {
		return err
	}
	return task.Wait(context.Background())
}

// inPools goes from pool to pool whenever the task waits.
func inPools(ctx context.Context, p *retry.Policy, fn func(context.Context) error) error {
	pool := &retrypool.Pool{Workers: 1, Policy: p}
	task, err := pool.Submit(ctx, fn)
	for err == nil {
		select {
		case <-task.Done():
			return task.Err()
		case <-time.After(1700*time.Millisecond + 9):
		}
		left, _ := pool.Close(context.Background())
		if len(left) == 0 {
			return task.Err()
		}
		state, at := left[0].State()
		data, _ := json.Marshal(state)
		state = retry.State{}
		_ = json.Unmarshal(data, &state)
		pool = &retrypool.Pool{Workers: 1, Policy: p}
		task, err = pool.Resume(ctx, state, at, fn)
	}
	return err
}

func TestPropertyPoolAndExecuteAgree(t *testing.T) {
	t.Parallel()
	const cases = 2500
	seen := map[retry.StopReason]int{}
	for seed := range uint64(cases) {
		sc := newScenario(seed)
		want, got := sc.run(t, execute), sc.run(t, inPool)
		require.Equal(t, want, got, "seed %d: %+v", seed, sc)
		if want.err != nil {
			require.EqualError(t, got.err, want.err.Error(), "seed %d", seed)
		}
		last := want.events[len(want.events)-1]
		if last.Stop == retry.StopFinal {
			same := want.err == got.err || errors.Is(got.err, context.Canceled)
			require.True(t, same, "seed %d: a Final error is returned as it is", seed)
		}
		seen[last.Stop]++
	}
	// The property says nothing about what does not happen.
	for stop := retry.StopNone; stop <= retry.StopMaybeApplied; stop++ {
		assert.Greater(t, seen[stop], cases/100, "%v is rare: %v", stop, seen)
	}
}

// A task that goes from pool to pool by way of JSON loses its last error and its
// Waited, and nothing else.
func TestPropertyResumedTasksAgree(t *testing.T) {
	t.Parallel()
	const cases = 1500
	handed := 0
	for seed := range uint64(cases) {
		sc := newScenario(seed)
		sc.timeout, sc.cancel = 0, 0
		want, got := sc.run(t, execute), sc.run(t, inPools)
		require.Equal(t, want.attempts, got.attempts, "seed %d", seed)
		require.Len(t, got.events, len(want.events), "seed %d", seed)
		for i := range want.events {
			want.events[i].Err, got.events[i].Err = nil, nil
		}
		require.Equal(t, want.events, got.events, "seed %d", seed)
		var wantErr, gotErr *retry.Error
		if errors.As(want.err, &wantErr) && errors.As(got.err, &gotErr) {
			require.Equal(t, wantErr.Attempts, gotErr.Attempts, "seed %d", seed)
			require.Equal(t, wantErr.RetryAfter, gotErr.RetryAfter, "seed %d", seed)
			if wantErr.Waited != gotErr.Waited {
				handed++
			}
		}
	}
	assert.Greater(t, handed, cases/50)
}

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
			want: "task failed after 3 attempts: boom", is: retry.ErrAttemptsExhausted, stop: retry.StopAttempts,
			waited: 2 * time.Hour,
		},
		{
			name: "elapsed", policy: retry.Policy{MaxElapsed: time.Minute}, fn: fails,
			want: "failed after 1 attempt (time limit reached): boom", is: retry.ErrElapsed, stop: retry.StopElapsed,
		},
		{
			name: "budget", policy: retry.Policy{Budget: &retry.Budget{Reserve: retry.NoReserve}}, fn: fails,
			want: "failed after 1 attempt (local retry budget exhausted): boom", is: retry.ErrBudgetExhausted,
			stop: retry.StopBudget, after: time.Hour,
		},
		{
			name: "hint", fn: func(context.Context) error { return retry.MarkRateLimited(errBoom, 2*time.Hour) },
			want: "failed after 1 attempt (server asks to wait 2h0m0s): boom", is: retry.ErrRetryAfterTooLong,
			stop: retry.StopRetryAfter, after: 2 * time.Hour,
		},
		{
			name: "maybe applied", policy: retry.Policy{NonIdempotent: true}, fn: fails,
			want: "failed after 1 attempt (it may have taken effect): boom", is: retry.ErrMaybeApplied, stop: retry.StopMaybeApplied,
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
			require.ErrorIs(t, err, retry.ErrBudgetExhausted)
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
