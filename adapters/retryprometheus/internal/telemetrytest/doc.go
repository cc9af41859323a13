// Package telemetrytest tests the files of retryprometheus with the libraries of
// Prometheus: the alert rules as promtool loads them, and all queries against what a
// Collector exposes. It has tests only, and is a module of its own because those libraries
// are large.
package telemetrytest
