// Package telemetrytest tests the files of retryprometheus with the libraries of
// Prometheus: the alert rules as promtool loads them, and all queries against what a
// Collector exposes. It also compares what retryprometheus and retryotel count with the
// events of every driver of a policy, and sends what retryotel tells to a receiver of OTLP.
// It has tests only, and is a module of its own because those libraries are large.
package telemetrytest
