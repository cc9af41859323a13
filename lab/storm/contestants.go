package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/storm/compare"
	"github.com/seed-5ff3c98e/retry/internal/storm/service"
	"github.com/seed-5ff3c98e/retry/internal/storm/throttle"
)

// contestant is a strategy and what an independent simulation found for it
// after the stall of 10 seconds, with 10 and with 1000 clients.
type contestant struct {
	name     string
	strategy service.Strategy
	shared   bool // clients share something among their calls, so that their number matters
	ten      string
	thousand string
}

func contestants() []contestant {
	full := retry.FullJitter
	return []contestant{
		{"no retries", service.NoRetries(), false, "1.00 / 36 s", "1.00 / 36 s"},
		{"naive, 3 attempts", service.Immediate(3), false, "2.70 / never", "2.70 / never"},
		{"fixed 100 ms, 10 attempts", service.Fixed(10), false, "5.04 / never", "5.04 / never"},
		{"exponential, 3 attempts", service.Exponential(3, retry.NoJitter), false, "2.67 / never", "2.67 / never"},
		{"full jitter, 3 attempts", service.Exponential(3, full), false, "2.68 / never", "2.68 / never"},
		{"full jitter, 10 attempts", service.Exponential(10, full), false, "4.32 / never", "4.32 / never"},
		bucket("bucket 10 % per success, cap 10", throttle.Bucket{Cap: 10, Cost: 1, PerSuccess: 0.1}, "1.01 / 36 s", "2.16 / 88 s"),
		bucket("bucket 10 % per success, cap 100", throttle.Bucket{Cap: 100, Cost: 1, PerSuccess: 0.1}, "1.12 / 42 s", "2.68 / never"),
		throttled("gRPC throttle 10, 0.1", func() throttle.Throttle { return &throttle.GRPC{Max: 10, Ratio: 0.1} },
			"1.00 / 39 s", "1.46 / 54 s"),
		{"ours: full jitter, 3 attempts, zero Budget", ours(), true, "1.04 / 38 s", "1.37 / 50 s"},
	}
}

// few are the contestants of the other faults, where the rest is between two of them.
func few() []contestant {
	return slices.DeleteFunc(contestants(), func(c contestant) bool {
		return slices.Contains([]string{"naive, 3 attempts", "fixed 100 ms, 10 attempts", "exponential, 3 attempts", "bucket 10 % per success, cap 100"}, c.name)
	})
}

// others are the contestants of the stall alone.
func others() []contestant {
	return []contestant{
		bucket("bucket 10 % per call, cap 10", throttle.Bucket{Cap: 10, Cost: 1, PerCall: 0.1}, "1.11 / 79 s", "2.25 / 169 s"),
		throttled("10 % of the calls of 10 s", func() throttle.Throttle { return &throttle.Window{Ratio: 0.1, TTL: 10 * time.Second} },
			"1.11 / 79 s", "1.19 / 119 s"),
		throttled("Finagle: 20 % of the calls of 10 s, and 10/s",
			func() throttle.Throttle { return &throttle.Window{Ratio: 0.2, PerSecond: 10, TTL: 10 * time.Second} },
			"1.41 / never", "2.68 / never"),
		throttled("Envoy: 20 % of the requests in progress, at least 3",
			func() throttle.Throttle { return &throttle.Concurrency{Ratio: 0.2, Min: 3} }, "1.22 / never", "2.42 / never"),
		withWaits(2*time.Second, bucket("AWS SDK: 500 tokens, 10 per timeout", throttle.Bucket{Cap: 500, Cost: 10, PerSuccess: 1, Refund: true},
			"1.06 / 40 s", "2.30 / never")),
		withWaits(50*time.Millisecond, bucket("AWS SDK of 2026: 500 tokens, 14 per retry", throttle.Bucket{Cap: 500, Cost: 14, PerSuccess: 1, Refund: true},
			"1.04 / 40 s", "2.70 / 211 s")),
	}
}

// withWaits gives a contestant a first wait of its own.
func withWaits(initial time.Duration, c contestant) contestant {
	c.strategy.Policy.Backoff = retry.Exponential{Initial: initial}
	return c
}

// ours is the strategy of the contract.
func ours() service.Strategy {
	return service.Budgeted(func() *retry.Budget { return &retry.Budget{} })
}

func bucket(name string, b throttle.Bucket, ten, thousand string) contestant {
	return throttled(name, func() throttle.Throttle { full := b; return &full }, ten, thousand)
}

func throttled(name string, t func() throttle.Throttle, ten, thousand string) contestant {
	return contestant{name, service.Throttled(name, t), true, ten, thousand}
}

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
