package main

import (
	"fmt"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/storm/compare"
	"github.com/seed-5ff3c98e/retry/internal/storm/service"
)

// faultTables has a table for every fault but the stall of 10 seconds and
// partial failures.
func faultTables() (string, error) {
	faults := []struct {
		title string
		service.Scenario
		independent string
	}{
		{
			"Stall of 2 s", usual(service.Stall, 1, 2*time.Second),
			"full jitter, 3 attempts: never; no retries and bucket of 10: 4 s",
		},
		{
			"Outage of 10 s: connections are refused", usual(service.Outage, 1, 10*time.Second),
			"full jitter, 3 attempts: 2.98, at once; 10 attempts: never; bucket of 10: 1.01, at once",
		},
		{
			"Brownout of 60 s: half of the workers, a queue of 500", usual(service.Brownout, 0.5, time.Minute),
			"25 to 30 % without rate limiting",
		},
	}
	var m markdown
	for i, f := range faults {
		if i > 0 {
			m.WriteByte('\n')
		}
		fmt.Fprintf(&m, "### %s\n\nIndependent: %s.\n\n", f.title, f.independent)
		if err := faultTable(&m, f.Scenario); err != nil {
			return "", err
		}
	}
	return m.String(), nil
}

func faultTable(m *markdown, s service.Scenario) error {
	m.head("", "clients", "attempts per call", "peak load", "recovery", "success in the fault", "p99 wait")
	for _, c := range few() {
		for _, clients := range c.clients() {
			sum, err := measure(s, clients, c.strategy)
			if err != nil {
				return err
			}
			m.row(c.name, c.label(clients), fmt.Sprintf("%.2f", sum.Amplification), fmt.Sprintf("%.1f×", sum.Peak), compare.Recovery(sum),
				compare.Percent(sum.During), compare.Round(sum.P99).String())
		}
	}
	return nil
}

func usual(f service.Fault, severity float64, d time.Duration) service.Scenario {
	s := service.Default().Usual(f)
	s.Severity, s.Duration, s.After = severity, d, 2*time.Minute
	return s
}

// partialTable has three shares of attempts that fail.
func partialTable() (string, error) {
	severities := []float64{0.02, 0.2, 0.5}
	var m markdown
	head := []string{"attempts per call / success / p99 wait", "clients"}
	for _, severity := range severities {
		head = append(head, fmt.Sprintf("%.0f %% fail", 100*severity))
	}
	m.head(head...)
	for _, c := range few() {
		for _, clients := range c.clients() {
			cells := []string{c.name, c.label(clients)}
			for _, severity := range severities {
				sum, err := measure(usual(service.Partial, severity, 30*time.Second), clients, c.strategy)
				if err != nil {
					return "", err
				}
				cells = append(cells, fmt.Sprintf("%.2f / %s / %v", sum.Amplification, compare.Percent(sum.During), compare.Round(sum.P99)))
			}
			m.row(cells...)
		}
	}
	m.row("independent: no retries", "", "98.06 %", "", "")
	m.row("independent: full jitter, 3 attempts", "", "", "", "1.75 / 87 %")
	m.row("independent: bucket of 10", "10", "1.02 / 99.6 to 100 %", "", "1.06 / 52 %")
	return m.String(), nil
}
