//go:build !race && !386

package service_test

import (
	"flag"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/storm/service"
	"github.com/seed-5ff3c98e/retry/internal/storm/throttle"
)

// The amplification that an independent simulation found for what others hold
// retries back with, in a stall of 10 s with 10 and with 1000 clients.
func TestThrottlesMatchTheIndependentFigures(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name          string
		throttle      func() throttle.Throttle
		ten, thousand float64
	}{
		{"per success", func() throttle.Throttle { return &throttle.Bucket{Cap: 10, Cost: 1, PerSuccess: 0.1} }, 1.01, 2.16},
		{"per call", func() throttle.Throttle { return &throttle.Bucket{Cap: 10, Cost: 1, PerCall: 0.1} }, 1.11, 2.25},
		{"gRPC", func() throttle.Throttle { return &throttle.GRPC{Max: 10, Ratio: 0.1} }, 1.00, 1.46},
		{"Envoy", func() throttle.Throttle { return &throttle.Concurrency{Ratio: 0.2, Min: 3} }, 1.22, 2.42},
	} {
		strategy := service.Throttled(test.name, test.throttle)
		assert.InDelta(t, test.ten, run(t, stall(10), strategy).Amplification, 0.02, test.name)
		assert.InDelta(t, test.thousand, run(t, stall(1000), strategy).Amplification, 0.09, test.name)
	}
}

// A short stall is enough for retries without a budget, not for ours.
func TestShortStallIsEnoughForAStorm(t *testing.T) {
	t.Parallel()
	s := stall(10)
	s.Duration = 2 * time.Second
	assert.Equal(t, service.Never, run(t, s, service.Immediate(3)).Recovery)
	assert.Equal(t, service.Never, run(t, s, service.Exponential(3, retry.FullJitter)).Recovery)
	assert.LessOrEqual(t, run(t, s, service.NoRetries()).Recovery, 5*time.Second)
	assert.LessOrEqual(t, run(t, s, ours()).Recovery, 7*time.Second)
}

var seeds = flag.Int("storm.seeds", 5, "how many seeds the contract is tested with")

// ours is the policy and the Budget of the contract: the zero one.
func ours() service.Strategy {
	return service.Budgeted(func() *retry.Budget { return &retry.Budget{} })
}

// stall is the stall of the contract.
func stall(clients int) service.Scenario {
	s := service.Default()
	s.Clients, s.After = clients, 2*time.Minute
	return s
}

func runSeeds(t *testing.T, s service.Scenario, strategy service.Strategy) []service.Result {
	t.Helper()
	results, err := service.RunSeeds(s, strategy, *seeds)
	require.NoError(t, err)
	return results
}

// The contract of the Budget: every seed has to keep it.
func TestStormContract(t *testing.T) {
	t.Parallel()
	none := runSeeds(t, stall(10), service.NoRetries())
	for _, clients := range []int{10, 100, 1000} {
		most, within := 1.10, time.Duration(0)
		if clients == 1000 {
			most, within = 1.45, time.Minute
		}
		for i, r := range runSeeds(t, stall(clients), ours()) {
			limit := within
			if limit == 0 {
				limit = none[i].Recovery * 5 / 4
			}
			assert.LessOrEqual(t, r.Amplification, most, "amplification, %d clients, seed %d", clients, i+1)
			assert.LessOrEqual(t, r.Recovery, limit, "recovery, %d clients, seed %d", clients, i+1)
			assert.NotEqual(t, service.Never, r.Recovery, "%d clients, seed %d", clients, i+1)
			t.Logf("%4d clients, seed %d: %.3f, %v (no retries: %v)", clients, i+1, r.Amplification, r.Recovery, none[i].Recovery)
		}
	}
}

// A budget that forbids everything would keep the first half of the contract.
func TestBudgetAllowsWhatBackgroundErrorsNeed(t *testing.T) {
	t.Parallel()
	for _, clients := range []int{10, 100, 1000} {
		s := service.Default().Usual(service.Partial)
		s.Clients, s.Severity, s.Duration, s.After = clients, 0.02, time.Minute, time.Minute
		for i, r := range runSeeds(t, s, ours()) {
			assert.GreaterOrEqual(t, r.During, 0.999, "%d clients, seed %d", clients, i+1)
		}
	}
}
