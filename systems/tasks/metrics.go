package main

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

type metrics struct {
	registry  *prometheus.Registry
	retries   *prometheus.CounterVec // by the number of the attempt that follows
	exhausted prometheus.Counter
}

func newMetrics() *metrics {
	m := &metrics{
		prometheus.NewRegistry(),
		prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "task_retry_total", Help: "Retries that became pending, by attempt.",
		}, []string{"attempt"}),
		prometheus.NewCounter(prometheus.CounterOpts{
			Name: "task_retry_exhausted_total", Help: "Tasks that failed because their retries were used up.",
		}),
	}
	m.registry.MustRegister(m.retries, m.exhausted)
	return m
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}
