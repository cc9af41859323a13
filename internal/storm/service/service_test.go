// The simulation has one goroutine and counts in 64 bits: its runs, which take long,
// would be no different there.

//go:build !race && !386

package service_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/storm/service"
	"github.com/seed-5ff3c98e/retry/internal/storm/throttle"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

// small is a scenario that runs in a moment.
func small(f service.Fault) service.Scenario {
	s := service.Default().Usual(f)
	s.Warmup, s.After, s.Rate = 20*time.Second, time.Minute, 80
	s.Workers = 1
	return s
}

func run(t *testing.T, s service.Scenario, strategy service.Strategy) service.Result {
	t.Helper()
	return testkit.Must(service.Run(s, strategy))(t)
}

func strategies() []service.Strategy {
	return []service.Strategy{
		service.NoRetries(),
		service.Immediate(3),
		service.Fixed(10),
		service.Exponential(10, retry.FullJitter),
		service.Throttled("bucket", func() throttle.Throttle { return &throttle.Bucket{Cap: 10, Cost: 1, PerSuccess: 0.1} }),
		service.Throttled("envoy", func() throttle.Throttle { return &throttle.Concurrency{Ratio: 0.2, Min: 3} }),
		ours(),
	}
}

var allFaults = []service.Fault{service.Stall, service.Outage, service.Partial, service.Brownout, service.Quota}

func sum(ns []int) (total int) {
	for _, n := range ns {
		total += n
	}
	return total
}

// Every call ends once. The same seed has the same result, and another seed another one.
// Strategies can be compared run by run because they all see the same calls.
func TestEveryCallEndsOnce(t *testing.T) {
	t.Parallel()
	for _, f := range allFaults {
		calls := run(t, small(f), service.NoRetries()).Calls
		for _, strategy := range strategies() {
			s := small(f)
			r := run(t, s, strategy)
			name := fmt.Sprint(f, ", ", strategy.Name)
			assert.Equal(t, calls, r.Calls, name)
			assert.Equal(t, r, run(t, s, strategy), name)
			s.Seed++
			assert.NotEqual(t, r, run(t, s, strategy), name)
			assert.Equal(t, r.Calls, r.Succeeded+r.Failed+r.InFlight, name)
			assert.Equal(t, r.Succeeded, sum(r.Good), name)
			assert.GreaterOrEqual(t, sum(r.Attempts), r.Succeeded+r.Failed, name)
			assert.LessOrEqual(t, sum(r.Attempts), r.Calls*strategy.Policy.MaxAttempts, name)
			assert.InDelta(t, 80*120, r.Calls, 5*math.Sqrt(80*120), name)
		}
	}
}

// ledger is a throttle that counts, for all clients together.
type ledger struct{ calls, allowed, done, succeeded int }

func (l *ledger) Allow(attempt int, _ time.Duration) bool {
	if attempt == 1 {
		l.calls++
	}
	l.allowed++
	return true
}

func (l *ledger) Done(_ int, success bool, _ time.Duration) {
	l.done++
	if success {
		l.succeeded++
	}
}

// Every attempt that was allowed is settled once, and that of a call in flight
// not yet.
func TestEveryAttemptIsSettledOnce(t *testing.T) {
	t.Parallel()
	for _, f := range allFaults {
		for _, attempts := range []int{1, 3, 10} {
			var l ledger
			strategy := service.Exponential(attempts, retry.FullJitter)
			strategy.Throttle = func() throttle.Throttle { return &l }
			r := run(t, small(f), strategy)
			name := fmt.Sprint(f, ", ", attempts)
			assert.Equal(t, r.Calls, l.calls, name)
			assert.Equal(t, r.Succeeded, l.succeeded, name)
			assert.Equal(t, r.InFlight, l.allowed-l.done, name)
		}
	}
}

func TestSeedsRunInOrder(t *testing.T) {
	t.Parallel()
	s := small(service.Partial)
	results := testkit.Must(service.RunSeeds(s, ours(), 4))(t)
	for i, r := range results {
		assert.Equal(t, run(t, s, ours()), r, i)
		s.Seed++
	}
}

// The backlog of a stall of 10 s is 8000 calls. Without retries, those that
// begin when less than 1000 are left are in time: after 7000/(1000-800) s.
func TestRecoveryWithoutRetries(t *testing.T) {
	t.Parallel()
	results := runSeeds(t, stall(10), service.NoRetries())
	assert.InDelta(t, 35, service.Summarize(results).Recovery.Seconds(), 2)
}

// During a stall everything times out, so the attempts can be counted by hand:
// those of a call follow each other after 1 s and the wait.
func TestAmplificationOfAStall(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		strategy service.Strategy
		want     float64
	}{
		{service.NoRetries(), 1},
		{service.Immediate(3), (10 + 9 + 8) / 10.0},
		{service.Exponential(3, retry.NoJitter), (10 + 8.9 + 7.7) / 10},
		{service.Exponential(3, retry.FullJitter), (10 + 8.95 + 7.85) / 10},
		{service.Fixed(10), (10 + 8.9 + 7.8 + 6.7 + 5.6 + 4.5 + 3.4 + 2.3 + 1.2 + 0.1) / 10},
	} {
		assert.InDelta(t, test.want, run(t, stall(10), test.strategy).Amplification, 0.04, test.strategy.Name)
	}
}

// An attempt that takes longer than its timeout has failed, even if its answer
// comes while the next attempt runs. With service times that are exponential and
// workers that are free, 1/e of the attempts fail where the timeout is the mean.
func TestLateAnswersDoNotCount(t *testing.T) {
	t.Parallel()
	s := service.Default().Usual(service.Partial)
	s.Severity, s.Duration, s.After = 1e-9, time.Minute, time.Minute // no fault to speak of
	s.Workers, s.Timeout = 100, s.Service
	p := 1 / math.E
	r := run(t, s, service.Immediate(3))
	assert.InDelta(t, 1+p+p*p, r.Amplification, 0.02)
	assert.InDelta(t, 1-p*p*p, r.During, 0.01)
}

// The total outage of the Budget's documentation: the extra attempts are at
// most clients × (Reserve + Ratio × rate × TTL).
func TestBudgetBoundsTheExtraAttempts(t *testing.T) {
	t.Parallel()
	for _, clients := range []int{1, 10, 100, 1000} {
		s := stall(clients)
		s.Fault = service.Outage
		r := run(t, s, ours())
		begin, end := int(s.Warmup.Seconds()), int((s.Warmup + s.Duration).Seconds())
		extra := (r.Amplification - 1) / r.Amplification * float64(sum(r.Attempts[begin:end]))
		bound := float64(clients) * (3 + 0.1*s.Rate/float64(clients)*5)
		// What is earned is random; so is who earns it.
		assert.LessOrEqual(t, extra, 1.1*bound, clients)
		if clients <= 100 {
			assert.GreaterOrEqual(t, extra, 0.8*bound, clients)
		}
	}
}

func TestPartialFailures(t *testing.T) {
	t.Parallel()
	s := service.Default().Usual(service.Partial)
	s.After = time.Minute
	for _, p := range []float64{0.02, 0.2, 0.5} {
		s.Severity = p
		none, three := run(t, s, service.NoRetries()), run(t, s, service.Exponential(3, retry.FullJitter))
		assert.InDelta(t, 1-p, none.During, 0.02)
		assert.InDelta(t, 1-p*p*p, three.During, 0.02)
		assert.InDelta(t, 1+p+p*p, three.Amplification, 0.03)
		assert.Zero(t, none.Recovery)
	}
}

// A full queue of 500 before half of the workers takes a second, and no more.
func TestBrownoutSheds(t *testing.T) {
	t.Parallel()
	s := service.Default().Usual(service.Brownout)
	s.Duration, s.After = 30*time.Second, time.Minute
	r := run(t, s, service.NoRetries())
	assert.Zero(t, r.Recovery)
	assert.InDelta(t, 0.4, r.During, 0.15)
	assert.LessOrEqual(t, r.P50, 100*time.Millisecond, "who is shed learns it at once")

	s.Queue = 0
	assert.Greater(t, run(t, s, service.NoRetries()).Recovery, 10*time.Second, "without a bound, all of them wait")
}

// quota is a scenario whose service takes half of the load for 10 s, and what 10 clients
// make of it under a strategy.
func quota(t *testing.T, strategy service.Strategy) service.Result {
	t.Helper()
	s := service.Default().Usual(service.Quota)
	s.After = time.Minute
	return run(t, s, strategy)
}

// Why retries that the server has asked for take from the Budget too, unless the client
// holds all of its calls back.
func TestQuotaAndBudget(t *testing.T) {
	t.Parallel()
	none, budgeted := quota(t, service.NoRetries()), quota(t, ours())
	assert.InDelta(t, 0.5, none.During, 0.01)
	assert.Equal(t, 1.0, none.Amplification)
	assert.LessOrEqual(t, budgeted.Amplification, 1.10)

	free, cooled := ours(), ours()
	free.FreeHints, free.Policy.FreeRateLimits = true, 100
	cooled.Cooldown = time.Minute
	assert.Greater(t, quota(t, free).Amplification, 2.5)
	r := quota(t, cooled)
	assert.Less(t, r.Amplification, 1.25)
	assert.Greater(t, r.During, 0.6, "they wait for their turn")

	cooled.Policy.Timeout = 500 * time.Millisecond // shorter than the hint
	r = quota(t, cooled)
	assert.Greater(t, r.During, 0.35)
	assert.Less(t, r.Amplification, 0.8, "whoever cannot wait sends nothing")
}

// The settings of a policy reach the simulation.
func TestPolicyIsTheRealOne(t *testing.T) {
	t.Parallel()
	s := small(service.Stall)
	attempts := func(p retry.Policy) float64 {
		p.Backoff = retry.Constant(0)
		return run(t, s, service.Strategy{Policy: p}).Amplification
	}
	assert.InDelta(t, 2.7, attempts(retry.Policy{}), 0.05, "3 attempts of 1 s")
	assert.Equal(t, 1.0, attempts(retry.Policy{NonIdempotent: true}), "a timeout may have taken effect")
	assert.InDelta(t, 2.95, attempts(retry.Policy{AttemptTimeout: 200 * time.Millisecond}), 0.05)
	assert.InDelta(t, 1.9, attempts(retry.Policy{MaxElapsed: 1500 * time.Millisecond}), 0.05)
	assert.InDelta(t, 1.9, attempts(retry.Policy{Overrides: map[string]retry.Override{"timeout": {MaxAttempts: 2}}}), 0.05)
	assert.Equal(t, 1.0, attempts(retry.Policy{Classifier: func(error) retry.Verdict { return retry.Verdict{Class: retry.Final} }}))

	s = small(service.Outage)
	refused := run(t, s, service.Strategy{Policy: retry.Policy{NonIdempotent: true, Backoff: retry.Constant(0)}})
	assert.InDelta(t, 3, refused.Amplification, 0.01, "a refused connection has had no effect")
}

func TestHammeringEndsTheRun(t *testing.T) {
	t.Parallel()
	_, err := service.Run(small(service.Outage), service.Strategy{
		Name:   "for ever",
		Policy: retry.Policy{MaxAttempts: retry.Unlimited, Backoff: retry.Constant(0)},
	})
	assert.ErrorContains(t, err, "for ever: more than 960000 attempts")
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		spoil func(*service.Scenario)
		want  string
	}{
		{"clients", func(s *service.Scenario) { s.Clients = 0 }, "clients: 0: must be from 1 to 100000"},
		{"rate", func(s *service.Scenario) { s.Rate = math.NaN() }, "rate: NaN: must be above 0 and at most 2000000 calls per second"},
		{"workers", func(s *service.Scenario) { s.Workers = -1 }, "workers: -1: must be at least 1"},
		{"service", func(s *service.Scenario) { s.Service = 0 }, "service: 0s: must be positive"},
		{"timeout", func(s *service.Scenario) { s.Timeout = -time.Second }, "timeout: -1s: must be positive"},
		{"queue", func(s *service.Scenario) { s.Queue = -1 }, "queue: -1: must not be negative; 0 means no bound"},
		{"hint", func(s *service.Scenario) { s.Hint = -1 }, "hint: -1ns: must not be negative; 0 means none"},
		{"fault", func(s *service.Scenario) { s.Fault = "fire" }, "fault: fire: must be one of stall, outage, partial, brownout, quota"},
		{"severity", func(s *service.Scenario) { s.Severity = 1.5 }, "severity: 1.5: must be above 0 and at most 1"},
		{"duration", func(s *service.Scenario) { s.Duration = 1500 * time.Millisecond }, "duration: 1.5s: must be from 1s to 1h0m0s, in whole seconds"},
		{"warmup", func(s *service.Scenario) { s.Warmup = time.Second }, "warmup: 1s: must be from 20s to 1h0m0s, in whole seconds"},
		{"after", func(s *service.Scenario) { s.After = 2 * time.Hour }, "after: 2h0m0s: must be from 1m0s to 1h0m0s, in whole seconds"},
		{"overload", func(s *service.Scenario) { s.Rate = 1000 }, "rate: 1000: must be below the 1000/s that the workers can serve"},
		{
			"too much", func(s *service.Scenario) { s.Rate, s.Workers = 50_000, 1000 },
			"rate: 50000: makes 15500000 calls in 5m10s; must be at most 2000000",
		},
		{"two", func(s *service.Scenario) { s.Clients, s.Workers = 0, 0 }, "clients: 0: must be from 1 to 100000\nworkers: 0: must be at least 1"},
	} {
		s := service.Default()
		test.spoil(&s)
		assert.EqualError(t, s.Validate(), test.want, test.name)
		_, err := service.Run(s, ours())
		assert.EqualError(t, err, test.want, test.name)
	}
	s := service.Default()
	assert.NoError(t, s.Validate())
}

func TestRecovery(t *testing.T) {
	t.Parallel()
	began := make([]int, 60)
	for i := range began {
		began[i] = 10
	}
	// good has 10 successes in every second from, but for those of bad.
	good := func(from int, bad ...int) []int {
		ns := make([]int, 60)
		for i := from; i < 60; i++ {
			ns[i] = 10
		}
		for _, i := range bad {
			ns[i] = 0
		}
		return ns
	}
	for _, test := range []struct {
		name string
		good []int
		want time.Duration
	}{
		{"at once", good(20), 0},
		{"it was never away", good(0), 0},
		{"after 7 s", good(27), 7 * time.Second},
		{"again later", good(20, 40), 21 * time.Second},
		{"in the last window", good(20, 45), 26 * time.Second},
		{"the last window is the only good one", good(20, 54), 35 * time.Second},
		{"not in the last window", good(20, 55), service.Never},
		{"never", make([]int, 60), service.Never},
	} {
		assert.Equal(t, test.want, service.Recovery(test.good, began, 20, 60, 0.99), test.name)
	}
	assert.Equal(t, time.Duration(0), service.Recovery(make([]int, 60), make([]int, 60), 20, 60, 0.99), "no calls, no failures")
}

func TestSummarize(t *testing.T) {
	t.Parallel()
	got := service.Summarize([]service.Result{
		{Amplification: 1, Peak: 1, Recovery: 10 * time.Second, During: 0.5, After: 1, P50: time.Second, P99: 2 * time.Second},
		{Amplification: 2, Peak: 5, Recovery: service.Never, During: 0, After: 0, P50: 2 * time.Second, P99: 3 * time.Second},
		{Amplification: 3, Peak: 3, Recovery: 20 * time.Second, During: 1, After: 0.5, P50: 3 * time.Second, P99: 4 * time.Second},
	})
	assert.Equal(t, service.Summary{
		Amplification: 2, WorstAmplification: 3, Peak: 5,
		Recovery: 15 * time.Second, WorstRecovery: 20 * time.Second, Never: 1, Runs: 3,
		During: 0.5, After: 0.5, P50: 2 * time.Second, P99: 3 * time.Second,
	}, got)
	assert.Equal(t, 2, service.Summarize([]service.Result{{Recovery: service.Never}, {Recovery: service.Never}}).Never)
}
