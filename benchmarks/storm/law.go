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
