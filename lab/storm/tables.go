package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/storm/compare"
	"github.com/seed-5ff3c98e/retry/internal/storm/service"
	"github.com/seed-5ff3c98e/retry/internal/storm/throttle"
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

const never = -1

// lawTable shows from which utilization on a stall of 5 s is never over.
func lawTable() (string, error) {
	utilizations := [...]float64{0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9}
	full := retry.FullJitter
	bucket := func(b throttle.Bucket) service.Strategy { return bucket("", b, "", "").strategy }
	rows := []struct {
		name        string
		strategy    service.Strategy
		independent [len(utilizations)]int // seconds; 0 is unknown
	}{
		{"no retries", service.NoRetries(), [...]int{1, 2, 4, 5, 9, 16, 31}},
		{"full jitter, 2 attempts", service.Exponential(2, full), [...]int{3, 12, never, never, never, never, never}},
		{"full jitter, 3 attempts", service.Exponential(3, full), [...]int{26, never, never, never, never, never, never}},
		{"full jitter, 5 attempts", service.Exponential(5, full), [...]int{never, never, never, never, never, never, never}},
		{"bucket 10 % per call, cap 3", bucket(throttle.Bucket{Cap: 3, Cost: 1, PerCall: 0.1}), [...]int{1, 3, 5, 7, 13, 27, never}},
		{"bucket 10 % per success, cap 10", bucket(throttle.Bucket{Cap: 10, Cost: 1, PerSuccess: 0.1}), [...]int{1, 2, 4, 5, 9, 17, 32}},
		{"ours, TTL 10 s", service.Budgeted(func() *retry.Budget { return &retry.Budget{TTL: 10 * time.Second} }), [...]int{1, 3, 4, 7, 11, 19, 47}},
		{"ours", ours(), [len(utilizations)]int{}},
	}
	var m markdown
	head := []string{"recovery, s (independent)"}
	for _, u := range utilizations {
		head = append(head, fmt.Sprintf("%.0f %%", 100*u))
	}
	m.head(head...)
	for _, row := range rows {
		cells := []string{row.name}
		for i, u := range utilizations {
			s := service.Default()
			s.Duration, s.After = 5*time.Second, 2*time.Minute
			s.Rate = u * s.Capacity()
			sum, err := measure(s, s.Clients, row.strategy)
			if err != nil {
				return "", err
			}
			cells = append(cells, bare(sum)+inParentheses(row.independent[i]))
		}
		m.row(cells...)
	}
	return m.String(), nil
}

// bare is recovery without the unit and the worst.
func bare(s service.Summary) string {
	if s.Never > 0 {
		return compare.Recovery(s)
	}
	return fmt.Sprintf("%.0f", s.Recovery.Seconds())
}

func inParentheses(seconds int) string {
	switch seconds {
	case 0:
		return ""
	case never:
		return " (never)"
	default:
		return " (" + strconv.Itoa(seconds) + ")"
	}
}

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
