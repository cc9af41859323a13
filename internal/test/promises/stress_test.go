package promises_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

var (
	errBoom  = errors.New("boom")
	errFinal = errors.New("bad request")
)

// Not parallel, because it counts the goroutines and the objects of the process.
func TestSleepersCanceledAtOnce(t *testing.T) { //nolint:paralleltest // see above
	const n = 20_000
	const limit = 10 * time.Second // an hour is what they wait
	failures := make([]error, n)
	for i := range failures {
		failures[i] = fmt.Errorf("failure %d", i)
	}
	tests := []struct {
		name string
		p    retry.Policy
	}{
		{"plain", retry.Policy{}},
		{"with everything", retry.Policy{
			MaxElapsed:     24 * time.Hour,
			AttemptTimeout: time.Hour,
			Budget:         &retry.Budget{Reserve: 1_000_000},
			Observer:       &retry.Observer{Event: func(context.Context, retry.Event) {}},
		}},
	}
	for _, tt := range tests { //nolint:paralleltest // see above
		t.Run(tt.name, func(t *testing.T) {
			tt.p.MaxAttempts, tt.p.Backoff = retry.Unlimited, retry.Constant(time.Hour)
			errs := make([]error, n)
			wave := func() {
				goroutines := runtime.NumGoroutine()
				cause := errors.New("shut down")
				elapsed := cancelSleepers(t, &tt.p, cause, failures, errs)
				assert.Less(t, elapsed, limit)
				for i, err := range errs {
					var e *retry.Error
					// Compared without testify, because 20,000 assertions are
					// slow.
					if !errors.As(err, &e) || e.Stop != retry.StopCanceled || e.Err != failures[i] || e.Cause != cause ||
						e.Attempts != 1 || e.Waited != 0 || !errors.Is(err, context.Canceled) ||
						!errors.Is(err, cause) || !errors.Is(err, failures[i]) {
						require.Failf(t, "wrong error", "%d: %#v", i, err)
					}
				}
				clear(errs)
				// The last of them have returned but may not have exited.
				for end := time.Now().Add(limit); runtime.NumGoroutine() > goroutines && time.Now().Before(end); {
					runtime.Gosched()
				}
				assert.LessOrEqual(t, runtime.NumGoroutine(), goroutines)
			}
			// A timer that is still pending is an object that the runtime can
			// reach, and so is all else that a call could leave behind. The
			// first wave makes what the runtime itself keeps for goroutines.
			wave()
			before := liveObjects()
			wave()
			assert.Less(t, liveObjects()-before, int64(n/20), "objects that are left")
		})
	}
}

// cancelSleepers has a goroutine for each of failures sleep after it, cancels
// all of them at once, and returns how long it takes until they have returned.
func cancelSleepers(t *testing.T, p *retry.Policy, cause error, failures, errs []error) time.Duration {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var failed atomic.Int64
	var wg sync.WaitGroup
	for i, err := range failures {
		wg.Go(func() {
			errs[i] = p.Execute(ctx, func(context.Context) error {
				failed.Add(1)
				return err
			})
		})
	}
	asleep := func() bool {
		return failed.Load() == int64(len(failures)) && inSelect() >= len(failures)
	}
	for end := time.Now().Add(time.Minute); !asleep(); {
		require.True(t, time.Now().Before(end), "they do not fall asleep")
		runtime.Gosched()
	}
	start := time.Now()
	cancel(cause)
	wg.Wait()
	return time.Since(start)
}

// inSelect returns how many goroutines are blocked in a select statement.
func inSelect() int {
	all := make([]byte, 64<<20)
	return bytes.Count(all[:runtime.Stack(all, true)], []byte(" [select"))
}

func liveObjects() int64 {
	runtime.GC()
	runtime.GC() // what the first one only took out of pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapObjects)
}

// tally is the record of one goroutine. It travels in the context, so that
// goroutines share nothing here that would synchronize them.
type tally struct {
	calls, attempts, successes, failures int
	retries, succeeded, gaveUp           int
	stops                                [retry.StopBackoff + 1]int
	wrong                                []string
}

func (n *tally) observe(e retry.Event) {
	switch e.Kind {
	case retry.Retrying:
		n.retries++
	case retry.Succeeded:
		n.succeeded++
	case retry.GaveUp:
		n.gaveUp++
		n.stops[e.Stop]++
	}
	if e.Policy != "shared" || e.Elapsed < 0 || e.Attempt < 1 || e.Attempt > 4 {
		n.wrong = append(n.wrong, fmt.Sprintf("%+v", e))
	}
}

// One policy for a hundred goroutines: every event arrives, and the Budget is
// settled to the unit.
func TestSharedPolicyAddsUp(t *testing.T) {
	t.Parallel()
	const goroutines, calls = 100, 200
	budget := &retry.Budget{Ratio: 0.25, Reserve: 500, TTL: math.MaxInt64}
	p := &retry.Policy{
		Name:        "shared",
		MaxAttempts: 4,
		MaxElapsed:  time.Hour,
		Backoff:     retry.Constant(0),
		Classifier:  retry.On(retry.Final, errFinal),
		Overrides:   map[string]retry.Override{"unknown": {Jitter: retry.FullJitter}},
		Budget:      budget,
		Observer: &retry.Observer{Event: func(ctx context.Context, e retry.Event) {
			ctx.Value(testkit.Key{}).(*tally).observe(e)
		}},
	}
	tallies := make([]tally, goroutines)
	var wg sync.WaitGroup
	begin := make(chan struct{})
	for i := range tallies {
		wg.Go(func() {
			<-begin
			tallies[i].run(t.Context(), p, rand.New(rand.NewPCG(uint64(i), 5)), calls)
		})
	}
	close(begin)
	wg.Wait()

	var sum tally
	for i := range tallies {
		n := &tallies[i]
		require.Empty(t, n.wrong)
		require.Equal(t, calls, n.calls)
		require.Equal(t, n.successes, n.succeeded)
		require.Equal(t, n.failures, n.gaveUp)
		require.Equal(t, n.calls, n.successes+n.failures)
		require.Equal(t, n.attempts, n.calls+n.retries, "every attempt but the first is a retry")
		sum.successes += n.successes
		sum.retries += n.retries
		for stop, count := range n.stops {
			sum.stops[stop] += count
		}
	}
	for _, stop := range []retry.StopReason{retry.StopFinal, retry.StopAttempts, retry.StopBudget, retry.StopCanceled} {
		assert.Positive(t, sum.stops[stop], stop)
	}
	assert.InDelta(t, 500+float64(sum.successes)/4-float64(sum.retries), budget.Balance(time.Now()), 1e-9)
}

// run makes calls with random outcomes.
func (n *tally) run(ctx context.Context, p *retry.Policy, r *rand.Rand, calls int) {
	ctx = context.WithValue(ctx, testkit.Key{}, n)
	for range calls {
		n.calls++
		ctx, cancel := context.WithCancel(ctx)
		v, err := retry.Do(ctx, p, func(context.Context) (int, error) {
			n.attempts++
			if r.IntN(8) == 0 {
				runtime.Gosched()
			}
			switch r.IntN(16) {
			case 0:
				return 0, errFinal
			case 1:
				cancel()
				return 0, errBoom
			case 2:
				return 0, retry.MarkRetryable(errBoom)
			case 3, 4, 5, 6, 7, 8:
				return 0, errBoom
			default:
				return n.attempts, nil
			}
		})
		cancel()
		switch {
		case err == nil && v == n.attempts:
			n.successes++
		case err != nil && v == 0 && (errors.Is(err, errBoom) || errors.Is(err, errFinal)):
			n.failures++
		default:
			n.wrong = append(n.wrong, fmt.Sprint(v, err))
		}
	}
}

// endOf runs fn on a goroutine of its own and returns how it ended: the value
// of a panic, exited for a runtime.Goexit, or else nil.
func endOf(fn func()) (end any) {
	over := make(chan struct{})
	go func() {
		defer close(over)
		end = exited
		defer func() {
			if v := recover(); v != nil {
				end = v
			}
		}()
		fn()
		end = nil
	}()
	<-over
	return end
}

const exited = "runtime.Goexit"

// trap acts once, at the given call.
type trap struct {
	set    int
	spring func()
}

func (t *trap) pass() {
	if t.set--; t.set == 0 {
		t.spring()
	}
}

type (
	trappedBackoff struct{ *trap }
	trappedJitter  struct{ *trap }
	trappedRand    struct{ *trap }
	// trappedNow and trappedAfter are clocks with the two methods of a Clock;
	// trappedSleep and trappedAttempt have one more each.
	trappedNow     struct{ *trap }
	trappedAfter   struct{ *trap }
	trappedSleep   struct{ trappedAfter }
	trappedAttempt struct{ trappedAfter }
)

func (b trappedBackoff) Delay(int) time.Duration {
	b.pass()
	return time.Second
}

func (j trappedJitter) Apply(delay, _ time.Duration, _ uint64) time.Duration {
	j.pass()
	return delay
}

func (r trappedRand) Uint64() uint64 {
	r.pass()
	return 0
}

func (c trappedNow) Now() time.Time {
	c.pass()
	return time.Now()
}

func (c trappedNow) After(d time.Duration) <-chan time.Time { return time.After(d) }

func (c trappedAfter) Now() time.Time { return time.Now() }

func (c trappedAfter) After(d time.Duration) <-chan time.Time {
	c.pass()
	return time.After(d)
}

func (c trappedSleep) SleepContext(context.Context, time.Duration) error {
	c.pass()
	return nil
}

func (c trappedAttempt) AttemptContext(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	c.pass()
	return context.WithTimeout(ctx, d)
}

// If a callback panics or exits, on any attempt, the caller sees that end, and
// the policy still works.
func TestCallbacksThatDoNotReturn(t *testing.T) {
	t.Parallel()
	callbacks := map[string]func(p *retry.Policy, trap *trap){
		"fn": nil, // in all of them
		"observer": func(p *retry.Policy, trap *trap) {
			p.Observer = &retry.Observer{Event: func(context.Context, retry.Event) { trap.pass() }}
		},
		"second observer": func(p *retry.Policy, trap *trap) {
			p.Observer = retry.Observers(p.Observer, &retry.Observer{Event: func(context.Context, retry.Event) { trap.pass() }})
		},
		"classifier": func(p *retry.Policy, trap *trap) {
			p.Classifier = func(error) retry.Verdict { trap.pass(); return retry.Verdict{} }
		},
		"backoff":        func(p *retry.Policy, trap *trap) { p.Backoff, p.MaxDelay = trappedBackoff{trap}, time.Minute },
		"jitter":         func(p *retry.Policy, trap *trap) { p.Jitter = trappedJitter{trap} },
		"rand":           func(p *retry.Policy, trap *trap) { p.Rand = trappedRand{trap} },
		"Now":            func(p *retry.Policy, trap *trap) { p.Clock = trappedNow{trap} },
		"After":          func(p *retry.Policy, trap *trap) { p.Clock = trappedAfter{trap} },
		"SleepContext":   func(p *retry.Policy, trap *trap) { p.Clock = trappedSleep{trappedAfter{trap}} },
		"AttemptContext": func(p *retry.Policy, trap *trap) { p.Clock = trappedAttempt{trappedAfter{trap}} },
	}
	errTrap := errors.New("trap")
	ends := map[string]struct {
		spring func()
		want   any
	}{
		"panic":  {func() { panic(errTrap) }, errTrap},
		"goexit": {runtime.Goexit, exited},
	}
	for callback, install := range callbacks {
		for end, tt := range ends {
			t.Run(callback+", "+end, func(t *testing.T) {
				t.Parallel()
				// A bubble fails if a goroutine is left in it.
				synctest.Test(t, func(t *testing.T) {
					for passes := 1; passes <= 2; passes++ {
						assertPassesThrough(t, install, &trap{passes, tt.spring}, tt.want)
					}
				})
			})
		}
	}
}

func assertPassesThrough(t *testing.T, install func(*retry.Policy, *trap), trap *trap, want any) {
	t.Helper()
	budget := &retry.Budget{Reserve: 100, TTL: math.MaxInt64}
	p := &retry.Policy{
		AttemptTimeout: time.Hour,
		MaxElapsed:     24 * time.Hour,
		Budget:         budget,
		Observer:       retry.Observers(),
	}
	inFn := install == nil
	if !inFn {
		install(p, trap)
	}
	var attempts []context.Context
	fn := func(ctx context.Context) error {
		attempts = append(attempts, ctx)
		if inFn {
			trap.pass()
		}
		return errBoom
	}
	// Only the call cancels the contexts of the attempts.
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	returned := false
	got := endOf(func() {
		_ = p.Execute(ctx, fn)
		returned = true
	})
	assert.Equal(t, want, got)
	assert.False(t, returned)
	for _, attempt := range attempts {
		assert.ErrorIs(t, attempt.Err(), context.Canceled, "the context of an attempt lives on, and its timer")
	}
	assert.NoError(t, ctx.Err())
	made := len(attempts)
	assert.LessOrEqual(t, made, 3)

	// At most the retry that was to follow is paid for and not made.
	charged := 100 - testkit.Drain(budget, time.Now())
	assert.GreaterOrEqual(t, charged, max(made-1, 0))
	assert.LessOrEqual(t, charged, made)
	for range 1000 { // each success earns a tenth
		budget.Deposit(time.Now())
	}

	// The next call of the same policy is like any other.
	attempts = nil
	assert.Nil(t, endOf(func() {
		err := p.Execute(ctx, fn)
		assert.ErrorIs(t, err, retry.StopAttempts)
		assert.ErrorIs(t, err, errBoom)
	}))
	assert.Len(t, attempts, 3)
	assert.Equal(t, 100-2, testkit.Drain(budget, time.Now()))
}

// Bad input of callers: each has a documented outcome, and none hangs or spins.

// patience is the number of calls after which an operation counts as spinning.
const patience = 1000

// bounded returns an operation that always fails with err, and its number of
// calls. It ends the test when there are too many.
func bounded(t *testing.T, err error) (fn func(context.Context) error, calls *int) {
	t.Helper()
	calls = new(int)
	return func(context.Context) error {
		*calls++
		require.Less(t, *calls, patience, "the call spins")
		return err
	}, calls
}

// TestBadInputJumpingClock checks clocks that are set while a call is under way:
// it neither ends early nor goes on forever.
func TestBadInputJumpingClock(t *testing.T) {
	t.Parallel()
	const hour = time.Hour
	tests := []struct {
		name  string
		p     retry.Policy
		jumps []time.Duration // in the attempts; 0 in further ones
		calls int
		stop  retry.StopReason
	}{
		{"back", retry.Policy{MaxElapsed: hour}, []time.Duration{-24 * hour}, 5, retry.StopAttempts},
		{"back, and back again", retry.Policy{MaxElapsed: hour}, []time.Duration{0, -24 * hour, 0, -24 * hour}, 5, retry.StopAttempts},
		{"forward", retry.Policy{MaxElapsed: hour}, []time.Duration{0, 24 * hour}, 2, retry.StopElapsed},
		{"back, and forward again", retry.Policy{MaxElapsed: hour}, []time.Duration{-24 * hour, 24 * hour}, 5, retry.StopAttempts},
		{"forward, and back again", retry.Policy{MaxElapsed: 48 * hour}, []time.Duration{24 * hour, -24 * hour}, 5, retry.StopAttempts},
		{"to the end of time", retry.Policy{MaxElapsed: hour}, []time.Duration{math.MaxInt64}, 1, retry.StopElapsed},
		{"to the beginning of time", retry.Policy{MaxElapsed: hour}, []time.Duration{math.MinInt64}, 5, retry.StopAttempts},
		{"without a limit", retry.Policy{}, []time.Duration{math.MaxInt64, math.MinInt64}, 5, retry.StopAttempts},
		{"with a budget", retry.Policy{Budget: &retry.Budget{Reserve: 3}}, []time.Duration{-hour, hour, math.MinInt64, math.MaxInt64}, 4, retry.StopBudget},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := newCountingClock()
			p := tt.p
			p.MaxAttempts, p.Backoff, p.Jitter, p.Clock = 5, retry.Constant(time.Second), retry.NoJitter, c
			fn, calls := bounded(t, errBoom)
			err := p.Execute(t.Context(), func(ctx context.Context) error {
				if *calls < len(tt.jumps) {
					c.now = c.now.Add(tt.jumps[*calls])
				}
				return fn(ctx)
			})
			e := testkit.As[*retry.Error](t, err)
			assert.Equal(t, tt.calls, *calls)
			assert.Equal(t, tt.stop, e.Stop)
			assert.Equal(t, time.Duration(tt.calls-1)*time.Second, e.Waited, "the waits are what they were to be")
		})
	}
}

// countingClock is a Clock on which a wait is over at once, and advances it.
type countingClock struct{ now time.Time }

func newCountingClock() *countingClock { return &countingClock{now: epoch} }

func (c *countingClock) Now() time.Time { return c.now }

func (c *countingClock) After(d time.Duration) <-chan time.Time {
	c.now = c.now.Add(d)
	over := make(chan time.Time, 1)
	over <- c.now
	return over
}

// deafClock has a channel that never fires.
type deafClock struct{ countingClock }

func (*deafClock) After(time.Duration) <-chan time.Time { return nil }

// hastyClock has a channel that is always ready.
type hastyClock struct{ countingClock }

func (*hastyClock) After(time.Duration) <-chan time.Time {
	over := make(chan time.Time)
	close(over)
	return over
}

func TestBadInputBrokenClocks(t *testing.T) {
	t.Parallel()
	t.Run("a wait without end ends with the context", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Hour, cancel)
			fn, calls := bounded(t, errBoom)
			err := (&retry.Policy{Clock: &deafClock{}}).Execute(ctx, fn)
			assert.Equal(t, &retry.Error{
				Attempts: 1, Stop: retry.StopCanceled, Err: errBoom, Cause: context.Canceled, State: retry.State{Failures: 1},
			}, err)
			assert.Equal(t, 1, *calls)
		})
	})
	t.Run("waits that are over at once end with the attempts", func(t *testing.T) {
		t.Parallel()
		fn, calls := bounded(t, errBoom)
		err := (&retry.Policy{MaxAttempts: 7, Clock: &hastyClock{}}).Execute(t.Context(), fn)
		assert.ErrorIs(t, err, retry.StopAttempts)
		assert.Equal(t, 7, *calls)
	})
	t.Run("a clock that starts at the zero time", func(t *testing.T) {
		t.Parallel()
		c := &countingClock{}
		p := &retry.Policy{MaxAttempts: 5, MaxElapsed: time.Hour, Backoff: retry.Constant(time.Minute), Jitter: retry.NoJitter, Clock: c}
		fn, calls := bounded(t, errBoom)
		assert.ErrorIs(t, p.Execute(t.Context(), fn), retry.StopAttempts)
		assert.Equal(t, 5, *calls)
	})
}
