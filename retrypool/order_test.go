//nolint:thelper // what bubble calls is the test itself
package retrypool_test

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrypool"
	"github.com/seed-5ff3c98e/retry/retryquota"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// Tasks that fail forever use up all workers, and still a new task starts as soon as a
// worker is free, and every retry of a task that fails now and then is made.
func TestStormDoesNotStarveOthers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		failing int
		delay   time.Duration
		late    time.Duration // a retry of others may be: all that fail may be before it
	}{
		{4, 0, 2 * time.Millisecond},
		{100, 10 * time.Millisecond, 26 * time.Millisecond},
		{1000, 10 * time.Millisecond, 251 * time.Millisecond},
	} {
		bubble(t, strconv.Itoa(tt.failing), func(t *testing.T) {
			policy := every(tt.delay)
			policy.MaxAttempts = retry.Unlimited
			pool := &retrypool.Pool{Workers: 4, Policy: policy}
			ctx, cancel := context.WithCancel(t.Context())
			defer func() {
				cancel()
				shut(t, pool)
			}()
			for range tt.failing {
				submit(ctx, t, pool, taking(time.Millisecond, fails))
			}
			time.Sleep(2 * time.Second)

			for range 10 {
				start := time.Now()
				var began []time.Duration
				op := retrytest.Script(errBoom, nil)
				patience, giveUp := context.WithTimeout(t.Context(), 5*time.Second)
				defer giveUp()
				task := submit(noDeadline{patience}, t, pool, func(ctx context.Context) error {
					began = append(began, time.Since(start))
					return op.Run(ctx)
				})
				require.NoError(t, task.Wait(patience))
				require.Len(t, began, 2)
				assert.LessOrEqual(t, began[0], time.Millisecond)
				assert.LessOrEqual(t, began[1]-began[0], tt.delay+tt.late)
			}
		})
	}
}

// While both are ready, one worker takes retries and new tasks in turn, each kind in
// its order. If retries are too many for the queue, they get more turns.
func TestTurns(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name           string
		retries, fresh int
		queue          int
		want           string
	}{
		{"one of each", 4, 4, 4, "R0 N0 R1 N1 R2 N2 R3 N3"},
		{"few retries", 2, 5, 5, "R0 N0 R1 N1 N2 N3 N4"},
		{"few new tasks", 5, 2, 4, "R0 N0 R1 N1 R2 R3 R4"},
		{"less than twice as many as places", 5, 3, 3, "R0 N0 R1 N1 R2 N2 R3 R4"},
		{"twice as many as places", 6, 3, 3, "R0 N0 R1 N1 R2 N2 R3 R4 R5"},
		{"four times", 8, 2, 2, "R0 R1 R2 N0 R3 R4 N1 R5 R6 R7"},
		{"many", 12, 1, 1, "R0 R1 R2 R3 R4 R5 N0 R6 R7 R8 R9 R10 R11"},
	} {
		bubble(t, tt.name, func(t *testing.T) {
			pool := &retrypool.Pool{Workers: 1, Queue: tt.queue}
			submit(t.Context(), t, pool, taking(time.Minute, succeeds))
			synctest.Wait()
			var j journal
			for i := range tt.retries { // the last one is due first
				at := time.Now().Add(time.Duration(tt.retries-i) * time.Second)
				testkit.Must(pool.Resume(t.Context(), retry.State{}, at, j.noted("R"+strconv.Itoa(tt.retries-1-i), succeeds)))(t)
			}
			for i := range tt.fresh {
				submit(t.Context(), t, pool, j.noted("N"+strconv.Itoa(i), succeeds))
			}
			require.NoError(t, pool.Wait(t.Context()))
			assert.Equal(t, tt.want, strings.Join(j.lines, " "))
		})
	}
}

// errand is a task of TestPropertyTurns.
type errand struct {
	name    string
	at      time.Duration // when it is submitted, or due
	resumed bool
	fails   int // so many times
	takes   time.Duration
}

// startsOf returns in which order one worker starts errands, from lists and the
// documented rules.
func startsOf(errands []errand, queue int, delay time.Duration) (starts []string) {
	var fresh, due []errand
	now, row := time.Duration(0), 0 // row is how many retries have started since the last new task
	for len(errands)+len(fresh)+len(due) > 0 {
		slices.SortFunc(errands, func(a, b errand) int { return cmp.Compare(a.at, b.at) })
		if len(fresh)+len(due) == 0 {
			now = max(now, errands[0].at)
		}
		for len(errands) > 0 && errands[0].at <= now {
			if e := errands[0]; e.resumed {
				due = append(due, e)
			} else {
				fresh = append(fresh, e)
			}
			errands = errands[1:]
		}
		from := &due
		if row++; len(due) == 0 || len(fresh) > 0 && row > max(1, len(due)/queue) {
			from, row = &fresh, 0
		}
		e := (*from)[0]
		*from = (*from)[1:]
		starts = append(starts, e.name)
		if now += e.takes; e.fails > 0 {
			e.fails--
			e.at, e.resumed = now+delay, true
			errands = append(errands, e)
		}
	}
	return starts
}

func TestPropertyTurns(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 7))
		upTo := func(d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) } // to the nanosecond
		queue, retries, delay := 1+r.IntN(10), r.IntN(50), upTo(10*time.Second)
		var errands []errand
		for i := range queue + retries {
			errands = append(errands, errand{
				name: strconv.Itoa(i), resumed: i >= queue, at: upTo(30 * time.Second), takes: upTo(2 * time.Second), fails: r.IntN(3),
			})
		}
		synctest.Test(t, func(t *testing.T) {
			policy := every(delay)
			pool := &retrypool.Pool{Workers: 1, Queue: queue, Policy: policy}
			var j journal
			start := time.Now()
			for _, e := range errands {
				script := append(slices.Repeat([]error{errBoom}, e.fails), nil)
				fn := j.noted(e.name, taking(e.takes, retrytest.Script(script...).Run))
				if e.resumed {
					testkit.Must(pool.Resume(t.Context(), retry.State{}, start.Add(e.at), fn))(t)
					continue
				}
				time.AfterFunc(e.at, func() {
					testkit.Must(pool.TrySubmit(t.Context(), fn))(t)
				})
			}
			time.Sleep(time.Minute)
			require.NoError(t, pool.Wait(t.Context()))
			require.Equal(t, startsOf(slices.Clone(errands), queue, delay), j.lines, "seed %d", seed)
		})
	}
}

// While everything fails and tasks are submitted all the time, the tasks that have not
// ended stay in proportion to the queue: Submit slows down. With turns that are always
// equal they would become more and more.
func TestRetriesDoNotPileUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const queue, attempts = 50, 6
		open, most := 0, 0
		policy := every(10 * time.Millisecond)
		policy.MaxAttempts = attempts
		var mu sync.Mutex
		pool := &retrypool.Pool{Workers: 1, Queue: queue, Policy: policy, OnEnd: func(context.Context, *retrypool.Task) {
			mu.Lock()
			defer mu.Unlock()
			open--
		}}
		for range 2000 {
			submit(t.Context(), t, pool, taking(time.Millisecond, fails))
			mu.Lock()
			open++
			most = max(most, open)
			mu.Unlock()
		}
		require.NoError(t, pool.Wait(t.Context()))
		assert.Less(t, most, (attempts+2)*queue)
	})
}

// Tasks that are due at the same instant run in order of submission, however they
// came to wait, and also if they are so many that workers come between.
func TestSimultaneousRetriesInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		policy := every(time.Second)
		policy.Clock = pausingClock{}
		pool := &retrypool.Pool{Workers: 1, Policy: policy}
		var j journal
		var want []string
		at := time.Now().Add(time.Second)
		for i := range 2500 {
			name := strconv.Itoa(i)
			want = append(want, name)
			testkit.Must(pool.Resume(t.Context(), retry.State{}, at, j.noted(name, succeeds)))(t)
		}
		time.Sleep(time.Minute)
		shut(t, pool)
		assert.True(t, slices.Equal(want, j.lines), "%v", j.lines)
	})
}

// pausingClock lets others run whenever it is asked for the time.
type pausingClock struct{ plainClock }

func (c pausingClock) Now() time.Time {
	time.Sleep(time.Nanosecond)
	return c.plainClock.Now()
}

// Behind a quota of 10 in 2 s, 100 tasks are refused a few times, and hold no worker meanwhile.
func TestQuota(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pool := &retrypool.Pool{Workers: 8, Policy: &retry.Policy{Quota: &retryquota.Quota{}, Jitter: retry.NoJitter}}
		start := time.Now()
		api := &testkit.Window{Limit: 10, Length: 2 * time.Second}
		var tasks []*retrypool.Task
		for range 100 {
			tasks = append(tasks, submit(t.Context(), t, pool, func(context.Context) error {
				time.Sleep(time.Second)
				return api.Ask()
			}))
		}
		for _, task := range tasks {
			require.NoError(t, task.Wait(t.Context()))
		}
		_, refused := api.Answers()
		assert.LessOrEqual(t, refused, 42)
		assert.LessOrEqual(t, time.Since(start), 31*time.Second, "18 s are needed")
		assert.Empty(t, shut(t, pool))
	})
}

// Close hands back what the hold keeps from its worker, and does not wait for the hold.
func TestQuotaClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		quota := &retryquota.Quota{}
		pool := &retrypool.Pool{Workers: 2, Policy: &retry.Policy{Quota: quota}}
		turn, _, _ := quota.Take(nil, 1)
		quota.Tell(nil, turn, errors.New("limited"), retry.Verdict{Class: retry.RateLimited, After: time.Minute})
		for range 10 {
			submit(t.Context(), t, pool, func(context.Context) error { return nil })
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		left, err := pool.Close(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Len(t, left, 10)
		assert.Equal(t, time.Second, time.Since(start))
		for _, task := range left {
			assert.Zero(t, task.Attempts())
		}
	})
}

type panickingPacer struct{}

func (panickingPacer) Wait(context.Context, *retry.Policy, retry.Waiting) (retry.Turn, time.Duration, error) {
	panic("wait")
}
func (panickingPacer) Take(*retry.Policy, int) (retry.Turn, int, time.Duration) { panic("pacer") }
func (panickingPacer) Return(*retry.Policy, retry.Turn, int)                    { panic("return") }
func (panickingPacer) Tell(*retry.Policy, retry.Turn, error, retry.Verdict) time.Duration {
	return 0
}

// A Pacer that panics ends the task.
func TestPacerPanics(t *testing.T) {
	t.Parallel()
	pool := &retrypool.Pool{Policy: &retry.Policy{Quota: panickingPacer{}}}
	task := submit(t.Context(), t, pool, func(context.Context) error { return nil })
	panicked := testkit.As[*retry.PanicError](t, task.Wait(t.Context()))
	assert.Equal(t, "pacer", panicked.Value)
}
