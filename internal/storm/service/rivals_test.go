//go:build !race && !386

package service_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/storm/service"
	"github.com/seed-5ff3c98e/retry/internal/storm/throttle"
)

// The amplification that an independent simulation found for what others hold
// retries back with, in a stall of 10 s with 10 and with 1000 clients.
func TestThrottlesMatchTheIndependentFigures(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name          string
		throttle      func() throttle.Throttle
		ten, thousand float64
	}{
		{"per success", func() throttle.Throttle { return &throttle.Bucket{Cap: 10, Cost: 1, PerSuccess: 0.1} }, 1.01, 2.16},
		{"per call", func() throttle.Throttle { return &throttle.Bucket{Cap: 10, Cost: 1, PerCall: 0.1} }, 1.11, 2.25},
		{"gRPC", func() throttle.Throttle { return &throttle.GRPC{Max: 10, Ratio: 0.1} }, 1.00, 1.46},
		{"Envoy", func() throttle.Throttle { return &throttle.Concurrency{Ratio: 0.2, Min: 3} }, 1.22, 2.42},
	}
	for _, test := range tests {
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
