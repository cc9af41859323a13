package main

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

type metrics struct {
	*prometheus.Registry

	retries   *prometheus.CounterVec // by the number of the attempt that follows
	exhausted prometheus.Counter
}

func newMetrics() *metrics {
	m := &metrics{Registry: prometheus.NewRegistry()}
	auto := promauto.With(m)
	m.retries = auto.NewCounterVec(prometheus.CounterOpts{
		Name: "task_retry_total", Help: "Retries that became pending, by attempt.",
	}, []string{"attempt"})
	m.exhausted = auto.NewCounter(prometheus.CounterOpts{
		Name: "task_retry_exhausted_total", Help: "Tasks that failed because their retries were used up.",
	})
	return m
}
