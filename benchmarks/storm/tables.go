package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/storm/compare"
	"github.com/seed-5ff3c98e/retry/internal/storm/service"
)

// manyClients are the numbers of clients of all tables.
var manyClients = []int{10, 100, 1000}

// contractTable compares the real Budget with what it is held to.
func contractTable() (string, error) {
	stall := service.Default()
	none, err := measure(stall, 10, service.NoRetries())
	if err != nil {
		return "", err
	}
	bars := map[int]string{
		10:   fmt.Sprintf("≤ 1.10 / ≤ %.0f s", 1.25*none.Recovery.Seconds()),
		100:  fmt.Sprintf("≤ 1.10 / ≤ %.0f s", 1.25*none.Recovery.Seconds()),
		1000: "≤ 1.45 / ≤ 60 s",
	}
	var m markdown
	m.head("clients", "stall of 10 s: bar", "worst of 5 seeds", "2 % errors: bar", "success")
	for _, clients := range manyClients {
		sum, err := measure(stall, clients, ours())
		if err != nil {
			return "", err
		}
		errors, err := measure(background(), clients, ours())
		if err != nil {
			return "", err
		}
		m.row(strconv.Itoa(clients), bars[clients],
			fmt.Sprintf("%.2f / %.0f s", sum.WorstAmplification, sum.WorstRecovery.Seconds()),
			"≥ 99.9 %", compare.Percent(errors.During))
	}
	return m.String(), nil
}

// background is a service with 2 % of errors.
func background() service.Scenario {
	s := service.Default().Usual(service.Partial)
	s.Severity, s.Duration, s.After = 0.02, time.Minute, time.Minute
	return s
}

// stallTable has everybody after the stall of 10 seconds.
func stallTable() (string, error) {
	var m markdown
	m.head("attempts per call / recovery", "10 clients", "independent", "100 clients", "1000 clients", "independent", "p50 wait", "p99 wait")
	for _, c := range append(contestants(), others()...) {
		var sums []service.Summary
		for _, clients := range c.clients() {
			sum, err := measure(service.Default(), clients, c.strategy)
			if err != nil {
				return "", err
			}
			sums = append(sums, sum)
		}
		few, some, many := sums[0], sums[len(sums)/2], sums[len(sums)-1]
		m.row(c.name, both(few), c.ten, both(some), both(many), c.thousand,
			compare.Round(few.P50).String(), compare.Round(few.P99).String())
	}
	return m.String(), nil
}

// clients returns the numbers of clients that make a difference.
func (c *contestant) clients() []int {
	if c.shared {
		return manyClients
	}
	return manyClients[:1]
}

// label says how many clients a row is about.
func (c *contestant) label(clients int) string {
	if c.shared {
		return strconv.Itoa(clients)
	}
	return "any"
}

func both(s service.Summary) string {
	return fmt.Sprintf("%.2f / %s", s.Amplification, compare.Recovery(s))
}

// budgetsTable tries settings of the Budget.
func budgetsTable() (string, error) {
	budgets := []struct {
		name        string
		ttl         time.Duration
		reserve     int
		independent [3]string
	}{
		{"TTL 10 s, reserve 3", 10 * time.Second, 0, [3]string{"1.09 / 40 s", "1.12 / 41 s", "1.38 / 52 s"}},
		{"TTL 5 s, reserve 1", 0, 1, [3]string{}},
		{"TTL 5 s, no reserve", 0, retry.NoReserve, [3]string{"", "", "1.00, 98.2 %"}},
	}
	var m markdown
	m.head("Budget", "clients", "attempts per call / recovery", "independent", "2 % errors: success")
	for _, b := range budgets {
		strategy := service.Budgeted(func() *retry.Budget { return &retry.Budget{TTL: b.ttl, Reserve: b.reserve} })
		for i, clients := range manyClients {
			stall, err := measure(service.Default(), clients, strategy)
			if err != nil {
				return "", err
			}
			errors, err := measure(background(), clients, strategy)
			if err != nil {
				return "", err
			}
			m.row(b.name, strconv.Itoa(clients), both(stall), b.independent[i], compare.Percent(errors.During))
		}
	}
	return m.String(), nil
}
