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
)

var seeds = flag.Int("storm.seeds", 5, "how many seeds the contract is tested with")

// ours is the policy and the Budget of the contract: the zero one.
func ours() service.Strategy {
	return service.Budgeted(func() *retry.Budget { return &retry.Budget{} })
}

// stall is that of the contract.
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
