package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/lab/systems/shared"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// metrics are the four that show whether retries help, for what this process did.
type metrics struct {
	registry           *prometheus.Registry
	retried, exhausted *prometheus.CounterVec
	delay              prometheus.Histogram
	retries, successes atomic.Int64 // attempts that were retries, when they end
}

func newMetrics() *metrics {
	m := &metrics{registry: prometheus.NewRegistry()}
	auto := promauto.With(m.registry)
	m.retried = auto.NewCounterVec(prometheus.CounterOpts{
		Name: "tickets_retried_total", Help: "Failures that are retried, by error category.",
	}, []string{"category"})
	m.exhausted = auto.NewCounterVec(prometheus.CounterOpts{
		Name: "tickets_retry_exhausted_total", Help: "Tickets put on hold because they had all their retries, by error category.",
	}, []string{"category"})
	m.delay = auto.NewHistogram(prometheus.HistogramOpts{
		Name: "retry_delay_seconds", Help: "Backoff delays.",
		Buckets: append([]float64{0}, prometheus.ExponentialBuckets(0.25, 2, 15)...), // to 4096
	})
	auto.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "retry_success_rate", Help: "Percentage of the retries so far that succeeded; NaN before the first has ended.",
	}, m.successRate)
	for _, category := range []string{transient, apiError, codeError, systemError, unknown} {
		m.retried.WithLabelValues(category) // there from the start, for rate()
		m.exhausted.WithLabelValues(category)
	}
	return m
}

// ended counts an attempt if it was a retry, and what follows from its failure.
func (m *metrics) ended(o *retrytable.Outcome[string], category string) {
	again := o.Job.State.Failures > 0
	if again {
		m.retries.Add(1)
	}
	switch d := o.Decision; {
	case o.Err == nil && again:
		m.successes.Add(1)
	case o.Err == nil:
	case d.Retry:
		m.retried.WithLabelValues(category).Inc()
		m.delay.Observe(d.Delay.Seconds())
	case d.Stop == retry.StopAttempts:
		m.exhausted.WithLabelValues(category).Inc()
	}
}

func (m *metrics) successRate() float64 {
	return 100 * float64(m.successes.Load()) / float64(m.retries.Load()) // in this order, and counted in the other: at most 100
}

// serve exposes them to this machine until the context is done, and returns where.
func (m *metrics) serve(ctx context.Context, address string, log *slog.Logger) (url string, err error) {
	listener, err := shared.Listen(ctx, address)
	if err != nil {
		return "", fmt.Errorf("-metrics: %w", err)
	}
	if !listener.Addr().(*net.TCPAddr).IP.IsLoopback() {
		return "", shared.Usage(errors.Join(fmt.Errorf("-metrics: %s: must be a loopback address", address), listener.Close()))
	}
	go func() {
		if err := shared.Serve(ctx, listener, promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}), time.Second); ctx.Err() == nil {
			log.Error("metrics", "error", err)
		}
	}()
	return "http://" + listener.Addr().String() + "/metrics", nil
}
