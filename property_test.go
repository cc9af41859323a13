package retry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// The property that the library is built for: whoever drives the decider, a
// loop that blocks or a job whose state went through a database, an operation
// is run as often, after the same waits, and ends the same way.

// scenario is a random policy and what happens under it, all from one seed.
type scenario struct {
	seed   uint64
	policy retry.Policy // without what belongs to a driver
	start  time.Time
	script []outcome
}

// outcome is what an attempt does: it takes its time and then fails with err,
// or succeeds.
type outcome struct {
	took time.Duration
	err  error
}

var errHopeless = errors.New("hopeless")

// someOf returns a random one.
func someOf[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

func newScenario(seed uint64) *scenario {
	r := rand.New(rand.NewPCG(seed, seed))
	zone := time.FixedZone("", someOf(r, 0, 3600, -12600))
	sc := &scenario{
		seed:   seed,
		start:  time.Unix(r.Int64N(1<<32), someOf[int64](r, 0, 1, 999_999_999)).In(zone),
		policy: scenarioPolicy(r),
	}
	for i := range 1 + r.IntN(15) {
		sc.script = append(sc.script, outcome{
			took: someOf(r, 0, 0, 0, 1, 300*ms, time.Second, 7*time.Second, 2*time.Minute),
			err:  scenarioError(r, i),
		})
	}
	return sc
}

func scenarioPolicy(r *rand.Rand) retry.Policy {
	p := retry.Policy{
		Name:           someOf(r, "", "task"),
		MaxAttempts:    someOf(r, 0, 1, 2, 4, 8, 8, retry.Unlimited, retry.Unlimited),
		MaxElapsed:     someOf(r, 0, 0, 0, time.Second, 10*time.Second, 2*time.Minute, time.Hour),
		Backoff:        scenarioBackoff(r),
		MaxDelay:       someOf(r, 0, 0, 500*ms, 5*time.Second, time.Hour),
		Jitter:         scenarioJitter(r),
		MaxRetryAfter:  someOf(r, 0, 0, time.Second, 20*time.Second, time.Hour),
		FreeRateLimits: someOf(r, 0, 0, 1, 2, 5),
		NonIdempotent:  r.IntN(5) == 0,
		Classifier: someOf(
			r, nil,
			retry.On(retry.Final, errHopeless),
			retry.Chain(nil, retry.ThroughGiveUp),
			func(err error) retry.Verdict {
				if errors.Is(err, syscall.ECONNRESET) {
					return retry.Verdict{After: 3 * time.Second, Category: "busy"}
				}
				return retry.Verdict{}
			},
		),
	}
	for _, kind := range []string{"unknown", "retryable", "rate_limited", "busy", "locked", "timeout"} {
		if r.IntN(6) > 0 {
			continue
		}
		if p.Overrides == nil {
			p.Overrides = map[string]retry.Override{}
		}
		p.Overrides[kind] = retry.Override{
			MaxAttempts: someOf(r, 0, 1, 2, 6),
			Backoff:     scenarioBackoff(r),
			Jitter:      scenarioJitter(r),
			MaxDelay:    someOf(r, 0, 0, 2*time.Second, time.Minute),
		}
	}
	return p
}

func scenarioBackoff(r *rand.Rand) retry.Backoff {
	d := someOf(r, 1, 10*ms, 999*ms, time.Second, 40*time.Second)
	return someOf[retry.Backoff](
		r, nil, nil,
		retry.Exponential{Initial: d, Multiplier: someOf(r, 0, 1, 1.5, 3)},
		retry.Linear{Initial: d, Step: someOf(r, 0, time.Second)},
		retry.Fibonacci{Initial: d},
		retry.Constant(0),
		retry.Constant(d),
		retry.Schedule{d, 0, 3 * d},
		retry.Schedule{},
		backoffFunc(func(n int) time.Duration { return time.Duration(n-2) * d }),
	)
}

func scenarioJitter(r *rand.Rand) retry.Jitter {
	return someOf[retry.Jitter](
		r, nil, nil,
		retry.FullJitter, retry.EqualJitter, retry.NoJitter,
		retry.Proportional(0.3), retry.Proportional(1), retry.PlusMinus(2*time.Second),
	)
}

// scenarioError returns the error of attempt i, which may be nil. No two
// attempts have the same error.
func scenarioError(r *rand.Rand, i int) error {
	err := fmt.Errorf("attempt %d failed", i+1)
	hint := someOf(r, -time.Second, 0, 1, 400*ms, time.Second, 3*time.Second, 25*time.Second, time.Minute, 2*time.Hour)
	switch r.IntN(20) {
	case 0:
		return nil
	case 1:
		return retry.MarkFinal(err)
	case 2:
		return fmt.Errorf("%w: %w", err, errHopeless)
	case 3:
		return someOf(r, fmt.Errorf("%w: %w", err, fs.ErrNotExist), err)
	case 4:
		return fmt.Errorf("%w: %w", err, syscall.ECONNREFUSED)
	case 5:
		return fmt.Errorf("%w: %w", err, syscall.ECONNRESET)
	case 6:
		return fmt.Errorf("%w: %w", err, context.DeadlineExceeded)
	case 7, 8:
		return retry.MarkRetryable(err)
	case 9:
		return fmt.Errorf("wrapped: %w", retry.MarkRetryable(err))
	case 10, 11:
		return retry.MarkRateLimited(err, hint)
	case 12:
		return errors.Join(err, peerHint(hint))
	case 13:
		return retry.Mark(err, retry.Verdict{Class: retry.Retryable, Category: "locked", NotApplied: r.IntN(2) == 0})
	case 14:
		return retry.Mark(err, retry.Verdict{After: hint, Category: "busy"})
	case 15:
		return retry.Mark(err, retry.Verdict{Class: retry.Retryable, After: hint})
	case 16:
		return &retry.Error{Attempts: 2, Err: err, Stop: someOf(r, retry.StopAttempts, retry.StopDeadline, retry.StopRetryAfter), RetryAfter: hint}
	default:
		return err
	}
}

// next returns the outcome of attempt i; all goes well when the script is over.
func (sc *scenario) next(i int) outcome {
	if i < len(sc.script) {
		return sc.script[i]
	}
	return outcome{}
}

// course is how a call went.
type course struct {
	attempts []time.Duration // when they began, from the start on
	waits    []time.Duration // that were announced
	verdicts []retry.Verdict
	stop     retry.StopReason
	err      error
}

// execute runs a scenario in the loop that blocks.
func (sc *scenario) execute(ctx context.Context, observed bool) (c course) {
	clock := retrytest.NewClock(sc.start)
	p := sc.policy
	p.Clock, p.Rand = clock, retrytest.NewRand(sc.seed)
	if observed {
		p.Observer = retry.ObserverFunc(func(_ context.Context, e retry.Event) { c.add(e) })
	}
	i := 0
	c.err = p.Execute(ctx, func(context.Context) error {
		c.attempts = append(c.attempts, clock.Now().Sub(sc.start))
		o := sc.next(i)
		i++
		clock.Advance(o.took)
		return o.err
	})
	return c
}

func (c *course) add(e retry.Event) {
	switch e.Kind {
	case retry.Retrying:
		c.waits = append(c.waits, e.Delay)
	case retry.GaveUp:
		c.stop = e.Stop
	default:
		return
	}
	c.verdicts = append(c.verdicts, e.Verdict)
}

// store runs a scenario as a job whose state is written down, and read again,
// between any two attempts. Nothing else is left of it there.
func (sc *scenario) store(t *testing.T, through func(*testing.T, retry.State) retry.State) (c course) {
	t.Helper()
	p := sc.policy
	p.Rand = retrytest.NewRand(sc.seed)
	now := sc.start
	s := through(t, retry.State{First: now})
	for i := 0; ; i++ {
		_, exhausted := p.Exhausted(s, now)
		require.False(t, exhausted, "seed %d: the decider has just allowed this attempt", sc.seed)
		c.attempts = append(c.attempts, now.Sub(sc.start))
		o := sc.next(i)
		now = now.Add(o.took)
		d := p.Next(s, o.err, now)
		if o.err == nil {
			require.Equal(t, retry.Decision{State: s}, d, "seed %d", sc.seed)
			return c
		}
		require.Equal(t, i+1, d.State.Failures+d.State.RateLimited, "seed %d: attempts are lost", sc.seed)
		c.verdicts = append(c.verdicts, d.Verdict)
		if !d.Retry {
			c.stop, c.err = d.Stop, d.Err
			return c
		}
		require.NoError(t, d.Err, "seed %d", sc.seed)
		require.Equal(t, d.Delay, d.At.Sub(now), "seed %d", sc.seed)
		c.waits = append(c.waits, d.Delay)
		s, now = through(t, d.State), d.At
	}
}

func throughJSON(t *testing.T, s retry.State) (back retry.State) {
	t.Helper()
	data, err := json.Marshal(s)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &back))
	return back
}

func throughText(t *testing.T, s retry.State) (back retry.State) {
	t.Helper()
	text, err := s.MarshalText()
	require.NoError(t, err)
	require.NoError(t, back.UnmarshalText(text))
	return back
}

// assertSameError checks that an error is this very one, and not only equal to
// it.
func assertSameError(t *testing.T, want, got error, about string, args ...any) {
	t.Helper()
	same := want == got
	assert.True(t, same, "%v is not %v: %s", got, want, fmt.Sprintf(about, args...))
}

// assertSameEnd compares the errors of two calls: a Final one must be the very
// same, and of the others all but Waited, which a stored job does not know.
func assertSameEnd(t *testing.T, seed uint64, want, got course) {
	t.Helper()
	if want.stop == retry.StopFinal || want.err == nil || got.err == nil {
		assertSameError(t, want.err, got.err, "seed %d", seed)
		return
	}
	wantErr, gotErr := *peerError(t, want.err), *peerError(t, got.err)
	var sum time.Duration
	for _, d := range want.waits {
		sum += d
	}
	assert.Equal(t, wantErr.Waited, sum, "seed %d: Waited", seed)
	assert.Len(t, want.attempts, wantErr.Attempts, "seed %d: Attempts", seed)
	wantErr.Waited, gotErr.Waited = 0, 0
	assertSameError(t, wantErr.Err, gotErr.Err, "seed %d", seed)
	wantErr.Err, gotErr.Err = nil, nil
	assert.Equal(t, wantErr, gotErr, "seed %d", seed)
}

func TestPropertyExecuteAndNextAgree(t *testing.T) {
	t.Parallel()
	forms := map[string]func(*testing.T, retry.State) retry.State{"JSON": throughJSON, "text": throughText}
	for name, through := range forms {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const cases = 4000
			seen := map[retry.StopReason]int{}
			retries := 0
			for seed := range uint64(cases) {
				sc := newScenario(seed)
				want, stored := sc.execute(t.Context(), true), sc.store(t, through)
				assert.Equal(t, want.attempts, stored.attempts, "seed %d: attempts", seed)
				assert.Equal(t, want.waits, stored.waits, "seed %d: waits", seed)
				assert.Equal(t, want.verdicts, stored.verdicts, "seed %d: verdicts", seed)
				assert.Equal(t, want.stop, stored.stop, "seed %d", seed)
				assertSameEnd(t, seed, want, stored)

				unseen := sc.execute(t.Context(), false)
				assert.Equal(t, want.attempts, unseen.attempts, "seed %d: an Observer changes nothing", seed)
				if want.stop == retry.StopFinal {
					assertSameError(t, want.err, unseen.err, "seed %d: an Observer changes nothing", seed)
				}
				if t.Failed() {
					t.Fatalf("seed %d: %+v\n%+v", seed, sc.policy, sc.script)
				}
				seen[want.stop]++
				retries += len(want.waits)
			}
			// The property says nothing about what does not happen.
			for _, stop := range []retry.StopReason{
				retry.StopNone, retry.StopFinal, retry.StopAttempts, retry.StopElapsed, retry.StopRetryAfter, retry.StopMaybeApplied,
			} {
				assert.Greater(t, seen[stop], cases/50, "%v is rare: %v", stop, seen)
			}
			assert.Greater(t, retries, cases)
		})
	}
}

// surroundings are what only a call in progress has.
type surroundings struct {
	timeout time.Duration // of the context; 0 means none
	cancel  time.Duration // when it is canceled; 0 means never
	budget  *retry.Budget // nil means none
}

func newSurroundings(seed uint64) *surroundings {
	r := rand.New(rand.NewPCG(seed, 1))
	su := &surroundings{
		timeout: someOf(r, 0, 0, 1, time.Second, 5*time.Second, 30*time.Second, 5*time.Minute),
		cancel:  someOf(r, 0, 0, 0, 500*ms, 4*time.Second, time.Minute),
	}
	if r.IntN(2) == 0 {
		su.budget = &retry.Budget{Reserve: someOf(r, 0, 1, 2, retry.NoReserve), Ratio: 1, TTL: time.Minute}
	}
	return su
}

// begin returns the policy, the clock and the context of a call.
func (su *surroundings) begin(t *testing.T, sc *scenario) (retry.Policy, *retrytest.Clock, context.Context) {
	t.Helper()
	clock := retrytest.NewClock(sc.start)
	p := sc.policy
	p.Clock, p.Rand, p.Budget = clock, retrytest.NewRand(sc.seed), su.budget
	ctx, cancel := context.WithCancelCause(t.Context())
	t.Cleanup(func() { cancel(nil) })
	if su.cancel > 0 {
		clock.At(su.cancel, func() { cancel(errHopeless) })
	}
	if su.timeout > 0 {
		var stop context.CancelFunc
		ctx, stop = clock.WithTimeout(ctx, su.timeout)
		t.Cleanup(stop)
	}
	return p, clock, ctx
}

// run returns the operation of a scenario, which notes its attempts.
func (sc *scenario) run(clock *retrytest.Clock, c *course) func(context.Context) error {
	return func(ctx context.Context) error {
		o := sc.next(len(c.attempts))
		c.attempts = append(c.attempts, clock.Now().Sub(sc.start))
		_ = clock.AdvanceContext(ctx, o.took)
		return o.err
	}
}

// byHand is the loop that a driver of one's own is.
func (c *course) byHand(ctx context.Context, p *retry.Policy, clock *retrytest.Clock, op func(context.Context) error) {
	s := retry.State{First: clock.Now()}
	e := &retry.Error{Policy: p.Name}
	for ctx.Err() == nil {
		err := op(ctx)
		if err == nil {
			if p.Budget != nil {
				p.Budget.Deposit(clock.Now())
			}
			return
		}
		e.Attempts++
		e.Err = err
		d := decideInCall(p, ctx, s, p.Classify(err), clock.Now())
		c.stop = d.Stop
		if d.Stop == retry.StopFinal {
			c.err = err
			return
		}
		if !d.Retry && ctx.Err() == nil {
			e.Stop, e.RetryAfter = d.Stop, d.Verdict.After
			if d.Stop == retry.StopBudget {
				e.RetryAfter = d.Delay
			}
			c.err = e
			return
		}
		if !d.Retry {
			break
		}
		c.waits = append(c.waits, d.Delay)
		if clock.SleepContext(ctx, d.Delay) == nil {
			e.Waited += d.Delay
		}
		s = d.State
	}
	e.Stop = retry.StopCanceled
	if ctx.Err() == context.DeadlineExceeded {
		e.Stop = retry.StopDeadline
	}
	e.Cause = context.Cause(ctx)
	c.stop, c.err = e.Stop, e
}

func TestPropertyExecuteAndCallAgree(t *testing.T) {
	t.Parallel()
	const cases = 4000
	seen := map[retry.StopReason]int{}
	for seed := range uint64(cases) {
		sc := newScenario(seed)
		var want, got course

		su := newSurroundings(seed)
		p, clock, ctx := su.begin(t, sc)
		p.Observer = retry.ObserverFunc(func(_ context.Context, e retry.Event) { want.add(e) })
		want.err = p.Execute(ctx, sc.run(clock, &want))
		left := peerDrainOf(p.Budget, clock.Now())

		su = newSurroundings(seed)
		p, clock, ctx = su.begin(t, sc)
		got.byHand(ctx, &p, clock, sc.run(clock, &got))

		assert.Equal(t, want.attempts, got.attempts, "seed %d: attempts", seed)
		assert.Equal(t, want.waits, got.waits, "seed %d: waits", seed)
		assert.Equal(t, want.stop, got.stop, "seed %d", seed)
		assert.Equal(t, want.err, got.err, "seed %d", seed)
		assert.Equal(t, left, peerDrainOf(p.Budget, clock.Now()), "seed %d: what is left of the budget", seed)
		if t.Failed() {
			t.Fatalf("seed %d: %+v\n%+v\n%+v", seed, sc.policy, su, sc.script)
		}
		seen[want.stop]++
	}
	for stop := range retry.StopMaybeApplied + 1 {
		assert.Greater(t, seen[stop], cases/100, "%v is rare: %v", stop, seen)
	}
}

// peerDrainOf returns how many retries are left in a budget, if there is one.
func peerDrainOf(b *retry.Budget, now time.Time) int {
	if b == nil {
		return 0
	}
	return peerDrain(b, now)
}

// What follows is the decider once more, one rule after the other, in the
// slowest and plainest way there is.

// naiveRange is what a built-in jitter draws from.
func naiveRange(j retry.Jitter, d, limit time.Duration) (lo, hi time.Duration) {
	around := func(x time.Duration) (lo, hi time.Duration) {
		return max(d-x, 0), min(naiveSum(d, x), limit)
	}
	switch j {
	case retry.FullJitter:
		return 0, d
	case retry.EqualJitter:
		return d / 2, d
	case retry.NoJitter:
		return d, d
	case retry.Proportional(0.1):
		return around(time.Duration(0.1 * float64(d)))
	case retry.Proportional(0.5):
		return around(d / 2)
	case retry.PlusMinus(2 * time.Second):
		return around(2 * time.Second)
	default:
		panic(j)
	}
}

func naiveSum(a, b time.Duration) time.Duration {
	sum := new(big.Int).Add(big.NewInt(int64(a)), big.NewInt(int64(b)))
	if !sum.IsInt64() {
		return math.MaxInt64
	}
	return time.Duration(sum.Int64())
}

// naiveDraw picks the duration of [lo, hi] that is at u of all 2⁶⁴ words.
func naiveDraw(lo, hi time.Duration, u uint64) time.Duration {
	n := new(big.Int).Add(big.NewInt(int64(hi)-int64(lo)), big.NewInt(1))
	n.Mul(n, new(big.Int).SetUint64(u))
	n.Rsh(n, 64)
	return lo + time.Duration(n.Int64())
}

// naiveSettings are the settings of a policy for one kind of failure, without
// defaults.
func naiveSettings(p *retry.Policy, v retry.Verdict) retry.Override {
	s := retry.Override{MaxAttempts: 3, Backoff: retry.Exponential{}}
	written := func() bool { // one by one
		switch b := s.Backoff.(type) {
		case retry.Constant:
			return true
		case retry.Schedule:
			return len(b) > 0
		default:
			return false
		}
	}
	layers := []retry.Override{
		{MaxAttempts: p.MaxAttempts, Backoff: p.Backoff, Jitter: p.Jitter, MaxDelay: p.MaxDelay},
		p.Overrides[v.Class.String()],
	}
	if v.Category != "" {
		layers = append(layers, p.Overrides[v.Category])
	}
	for _, layer := range layers {
		if layer.MaxAttempts > 0 {
			s.MaxAttempts = layer.MaxAttempts
		}
		if layer.Backoff != nil {
			s.Backoff = layer.Backoff
		}
		if layer.Jitter != nil {
			s.Jitter = layer.Jitter
		}
		if layer.MaxDelay > 0 {
			s.MaxDelay = layer.MaxDelay
		}
	}
	if s.Jitter == nil {
		s.Jitter = retry.FullJitter
		if written() {
			s.Jitter = retry.Proportional(0.1)
		}
	}
	if s.MaxDelay == 0 {
		if written() {
			for n := 1; n < 10; n++ {
				s.MaxDelay = max(s.MaxDelay, s.Backoff.Delay(n))
			}
		} else {
			s.MaxDelay = max(30*time.Second, s.Backoff.Delay(1))
		}
	}
	return s
}

// naiveDecide decides about a failure. The next attempt must begin before the
// deadline, unless that is zero.
func naiveDecide(p *retry.Policy, s retry.State, v retry.Verdict, now, deadline time.Time, u uint64) retry.Decision {
	// What the verdict means.
	if v.After < 0 {
		v.After = 0
	}
	if v.Class > retry.RateLimited {
		v.Class = retry.Unknown
	}
	if v.Class == retry.Unknown && v.After > 0 {
		v.Class = retry.RateLimited
	}
	set := naiveSettings(p, v)
	longestHint := max(time.Minute, set.MaxDelay)
	if p.MaxRetryAfter > 0 {
		longestHint = p.MaxRetryAfter
	}

	// What it costs.
	s.Failures, s.RateLimited = max(s.Failures, 0), max(s.RateLimited, 0)
	retryNumber := s.Failures + 1
	free := v.Class == retry.RateLimited && v.After > 0 && s.RateLimited < p.FreeRateLimits
	if free {
		s.RateLimited++
	} else {
		s.Failures++
	}
	d := retry.Decision{Counted: !free, Limit: set.MaxAttempts, Verdict: v, State: s}

	// How long it may last.
	left := time.Duration(math.MaxInt64)
	if p.MaxElapsed > 0 && !s.First.IsZero() {
		left = p.MaxElapsed
		if now.After(s.First) {
			left -= now.Sub(s.First)
		}
	}
	switch {
	case v.Class == retry.Final:
		d.Stop = retry.StopFinal
	case p.NonIdempotent && !v.NotApplied:
		d.Stop = retry.StopMaybeApplied
	case !free && s.Failures >= set.MaxAttempts:
		d.Stop = retry.StopAttempts
	case left < 0:
		d.Stop = retry.StopElapsed
	case v.After > longestHint:
		d.Stop, d.Delay = retry.StopRetryAfter, v.After
	}
	if d.Stop != retry.StopNone {
		if d.Delay > 0 {
			d.At = now.Add(d.Delay)
		}
		return d
	}

	// How long the wait is.
	backoff := max(min(set.Backoff.Delay(retryNumber), set.MaxDelay), 0)
	switch {
	case v.After > 0:
		lo := max(v.After, min(backoff, time.Second))
		hi := naiveSum(lo, lo/100*10)
		if left < hi {
			hi = max(left, lo)
		}
		if room := deadline.Sub(now); !deadline.IsZero() && room-1 < hi {
			hi = max(room-1, lo)
		}
		d.Delay = naiveDraw(lo, hi, u)
	case backoff > 0:
		lo, hi := naiveRange(set.Jitter, backoff, set.MaxDelay)
		d.Delay = naiveDraw(lo, hi, u)
	}

	// Whether that is in time.
	switch {
	case d.Delay > left:
		d.Stop = retry.StopElapsed
	case !deadline.IsZero() && !now.Add(d.Delay).Before(deadline):
		d.Stop = retry.StopDeadline
	default:
		d.Retry = true
	}
	if d.Retry || d.Delay > 0 {
		d.At = now.Add(d.Delay)
	}
	return d
}

// oracleCase is a random question for the decider. Durations are few, so that
// limits are often met exactly.
type oracleCase struct {
	policy  retry.Policy
	state   retry.State
	verdict retry.Verdict
	now     time.Time
	room    time.Duration // until the deadline
	bounded bool          // there is a deadline
}

func newOracleCase(r *rand.Rand) oracleCase {
	limits := []time.Duration{0, 1, 999_999_999, time.Second, 2 * time.Second, 10 * time.Second, 11 * time.Second, time.Minute, time.Hour}
	duration := func() time.Duration { return someOf(r, limits...) }
	backoff := func() retry.Backoff {
		d := duration()
		return someOf[retry.Backoff](
			r, nil, retry.Exponential{Initial: d}, retry.Linear{Initial: d}, retry.Fibonacci{Initial: d},
			retry.Constant(d), retry.Constant(d), retry.Constant(-1), retry.Schedule{d, 0, 2 * d}, retry.Schedule{},
		)
	}
	jitter := func() retry.Jitter {
		return someOf[retry.Jitter](
			r, nil, retry.FullJitter, retry.EqualJitter, retry.NoJitter, retry.NoJitter,
			retry.Proportional(0.5), retry.PlusMinus(2*time.Second),
		)
	}
	now := time.Unix(1_700_000_000, 999_999_999).UTC()
	c := oracleCase{
		policy: retry.Policy{
			MaxAttempts:    someOf(r, -1, 0, 1, 2, 3, 9, retry.Unlimited),
			MaxElapsed:     someOf(r, 0, 0, -1, duration(), duration()),
			Backoff:        backoff(),
			MaxDelay:       someOf(r, 0, 0, duration()),
			Jitter:         jitter(),
			MaxRetryAfter:  someOf(r, 0, -1, duration(), math.MaxInt64),
			FreeRateLimits: someOf(r, -1, 0, 1, 3),
			NonIdempotent:  r.IntN(4) == 0,
		},
		state: retry.State{
			Failures:    someOf(r, -5, 0, 0, 1, 2, 3, 8),
			RateLimited: someOf(r, -5, 0, 0, 1, 2, 3),
		},
		verdict: retry.Verdict{
			Class:      someOf(r, retry.Unknown, retry.Final, retry.Retryable, retry.Retryable, retry.RateLimited, retry.RateLimited, retry.RateLimited+1),
			NotApplied: r.IntN(2) == 0,
			After:      someOf(r, 0, -1, duration(), duration(), math.MaxInt64),
			Category:   someOf(r, "", "a", "b", "retryable"),
		},
		now:     now,
		room:    duration(),
		bounded: r.IntN(2) == 0,
	}
	if r.IntN(4) > 0 {
		c.state.First = now.Add(-someOf(r, -time.Hour, 0, duration(), duration()))
	}
	for _, kind := range []string{"unknown", "final", "retryable", "rate_limited", "a", "b", ""} {
		if r.IntN(6) > 0 {
			continue
		}
		if c.policy.Overrides == nil {
			c.policy.Overrides = map[string]retry.Override{}
		}
		c.policy.Overrides[kind] = retry.Override{
			MaxAttempts: someOf(r, -1, 0, 1, 4), Backoff: backoff(), Jitter: jitter(), MaxDelay: someOf(r, -1, 0, duration()),
		}
	}
	return c
}

// untilContext has a deadline that it does not keep.
type untilContext struct {
	context.Context
	deadline time.Time
}

func (c untilContext) Deadline() (time.Time, bool) { return c.deadline, true }

func TestPropertyDecideAgainstOracle(t *testing.T) {
	t.Parallel()
	const cases = 30_000
	seen := map[retry.StopReason]int{}
	for seed := range uint64(cases) {
		r := rand.New(rand.NewPCG(seed, 2))
		c := newOracleCase(r)
		for _, u := range []uint64{0, math.MaxUint64, r.Uint64()} {
			c.policy.Rand = word(u)
			var deadline time.Time
			got := c.policy.Decide(c.state, c.verdict, c.now)
			if c.bounded {
				deadline = c.now.Add(c.room)
				got = decideInCall(&c.policy, untilContext{t.Context(), deadline}, c.state, c.verdict, c.now)
			}
			want := naiveDecide(&c.policy, c.state, c.verdict, c.now, deadline, u)
			if !assert.Equal(t, want, got, "seed %d, word %#x", seed, u) {
				t.Fatalf("%+v", c)
			}
			seen[got.Stop]++
		}
	}
	for _, stop := range []retry.StopReason{
		retry.StopNone, retry.StopFinal, retry.StopAttempts, retry.StopElapsed, retry.StopDeadline, retry.StopRetryAfter, retry.StopMaybeApplied,
	} {
		assert.Greater(t, seen[stop], cases/50, "%v is rare: %v", stop, seen)
	}
}

// TestPropertyCallsEndForAReason checks that no call goes on after a failure that is
// Final, and that none ends without a reason.
func TestPropertyCallsEndForAReason(t *testing.T) {
	t.Parallel()
	for seed := range uint64(1000) {
		sc := newScenario(seed)
		c := sc.execute(t.Context(), true)
		finals := slices.IndexFunc(c.verdicts, func(v retry.Verdict) bool { return v.Class == retry.Final })
		assert.True(t, finals < 0 || finals == len(c.attempts)-1, "seed %d: an attempt after a final error", seed)
		assert.Equal(t, c.err == nil, c.stop == retry.StopNone, "seed %d", seed)
		assert.Len(t, c.waits, len(c.attempts)-1, "seed %d: one wait between two attempts", seed)
		for _, d := range c.waits {
			assert.GreaterOrEqual(t, d, time.Duration(0), "seed %d", seed)
		}
	}
}
