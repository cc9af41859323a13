package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/storm/compare"
	"github.com/seed-5ff3c98e/retry/internal/storm/service"
)

// hinted are the contestants where the server says when to come back.
func hinted() []service.Strategy {
	strategy := func(name string, change func(*service.Strategy)) service.Strategy {
		s := ours()
		s.Name = name
		change(&s)
		return s
	}
	free := func(s *service.Strategy) { s.FreeHints = true }
	cooldown := func(s *service.Strategy) { s.Cooldown = time.Minute }
	return []service.Strategy{
		service.NoRetries(),
		strategy("ours: 3 attempts, zero Budget", func(*service.Strategy) {}),
		strategy("the same, hinted retries not under the Budget", free),
		strategy("the same, and 100 FreeRateLimits", func(s *service.Strategy) { free(s); s.Policy.FreeRateLimits = 100 }),
		strategy("ours with Cooldown", cooldown),
		strategy("ours with Cooldown and Timeout 5 s", func(s *service.Strategy) { cooldown(s); s.Policy.Timeout = 5 * time.Second }),
	}
}

// hintTables has a table for every way in which a server says when to come back.
func hintTables() (string, error) {
	quota := func(severity float64, d time.Duration) service.Scenario { return usual(service.Quota, severity, d) }
	tables := []struct {
		title string
		service.Scenario
	}{
		{"A quota of half of the load for 60 s: 429", quota(0.5, time.Minute)},
		{"Everything is refused for 10 s: 429", quota(1, 10*time.Second)},
	}
	var m markdown
	for i, table := range tables {
		if i > 0 {
			m.WriteByte('\n')
		}
		fmt.Fprintf(&m, "#### %s\n\n", table.title)
		if err := hintTable(&m, table.Scenario); err != nil {
			return "", err
		}
	}
	return m.String(), nil
}

func hintTable(m *markdown, s service.Scenario) error {
	m.head("", "clients", "attempts per call", "peak load", "recovery", "success in the fault", "p99 wait")
	for _, strategy := range hinted() {
		for _, clients := range []int{10, 1000} {
			sum, err := measure(s, clients, strategy)
			if err != nil {
				return err
			}
			m.row(strategy.Name, strconv.Itoa(clients), fmt.Sprintf("%.2f", sum.Amplification), fmt.Sprintf("%.1f×", sum.Peak),
				compare.Recovery(sum), compare.Percent(sum.During), compare.Round(sum.P99).String())
		}
	}
	return nil
}
