package telemetrytest_test

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"
	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	v1 "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retryotel"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// receiver is a receiver of OTLP over HTTP.
type receiver struct {
	*httptest.Server

	mu     sync.Mutex
	values map[string]float64 // of counters by name and attributes; the counts of histograms with "#"
	units  map[string]string
	spans  []*tracepb.Span
}

func receive(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{values: map[string]float64{}, units: map[string]string{}}
	handle := func(request, response proto.Message, take func()) http.HandlerFunc {
		return func(w http.ResponseWriter, req *http.Request) {
			body := io.Reader(req.Body)
			if req.Header.Get("Content-Encoding") == "gzip" {
				unzipped, err := gzip.NewReader(req.Body)
				if err != nil {
					w.WriteHeader(http.StatusBadRequest)
					return
				}
				body = unzipped
			}
			data, err := io.ReadAll(body)
			r.mu.Lock()
			defer r.mu.Unlock()
			if err != nil || proto.Unmarshal(data, request) != nil {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			take()
			answer, _ := proto.Marshal(response)
			w.Header().Set("Content-Type", "application/x-protobuf")
			_, _ = w.Write(answer)
		}
	}
	metrics, traces := &collectormetrics.ExportMetricsServiceRequest{}, &collectortrace.ExportTraceServiceRequest{}
	mux := http.NewServeMux()
	mux.Handle("POST /v1/metrics", handle(metrics, &collectormetrics.ExportMetricsServiceResponse{}, func() { r.metrics(metrics) }))
	mux.Handle("POST /v1/traces", handle(traces, &collectortrace.ExportTraceServiceResponse{}, func() {
		for _, resource := range traces.GetResourceSpans() {
			for _, scope := range resource.GetScopeSpans() {
				r.spans = append(r.spans, scope.GetSpans()...)
			}
		}
	}))
	r.Server = httptest.NewServer(mux)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) metrics(request *collectormetrics.ExportMetricsServiceRequest) {
	for _, resource := range request.GetResourceMetrics() {
		for _, scope := range resource.GetScopeMetrics() {
			for _, m := range scope.GetMetrics() {
				r.units[m.GetName()] = m.GetUnit()
				for _, p := range m.GetSum().GetDataPoints() {
					r.values[m.GetName()+labels(p.GetAttributes())] = float64(p.GetAsInt())
				}
				for _, p := range m.GetHistogram().GetDataPoints() {
					r.values["#"+m.GetName()+labels(p.GetAttributes())] = float64(p.GetCount())
				}
			}
		}
	}
}

// labels returns attributes as text, in their order.
func labels(attributes []*v1.KeyValue) string {
	var all []string
	for _, a := range attributes {
		all = append(all, fmt.Sprintf("%s=%s", a.GetKey(), a.GetValue().GetStringValue()))
	}
	return "{" + strings.Join(all, ",") + "}"
}

// TestOTLP sends what retryotel tells over HTTP to a receiver, as a program with an
// exporter does.
func TestOTLP(t *testing.T) {
	t.Parallel()
	r := receive(t)
	metrics, err := otlpmetrichttp.New(t.Context(), otlpmetrichttp.WithEndpointURL(r.URL+"/v1/metrics"))
	require.NoError(t, err)
	traces, err := otlptracehttp.New(t.Context(), otlptracehttp.WithEndpointURL(r.URL+"/v1/traces"))
	require.NoError(t, err)
	meters := metric.NewMeterProvider(metric.WithReader(metric.NewPeriodicReader(metrics)))
	tracers := trace.NewTracerProvider(trace.WithBatcher(traces))
	observer, err := retryotel.New(&retryotel.Options{MeterProvider: meters, TracerProvider: tracers, Spans: true})
	require.NoError(t, err)

	p := &retry.Policy{Name: "fetch", Observer: observer, Clock: &retrytest.Clock{}}
	failure := retry.Mark(errors.New("no answer"), retry.Verdict{Class: retry.Retryable, Category: "timeout"})
	ctx, span := tracers.Tracer("test").Start(t.Context(), "job")
	failures := 2
	require.NoError(t, p.Execute(ctx, func(context.Context) error {
		if failures--; failures >= 0 {
			return failure
		}
		return nil
	}))
	require.Error(t, p.Execute(ctx, func(context.Context) error { return failure }))
	span.End()
	require.NoError(t, meters.Shutdown(t.Context()))
	require.NoError(t, tracers.Shutdown(t.Context()))

	r.mu.Lock()
	defer r.mu.Unlock()
	waiting := "retry.calls.waiting{retry.policy=fetch}"
	assert.Contains(t, r.values, waiting)
	delete(r.values, waiting) // the clock of the policy is not that of the machine
	assert.Equal(t, map[string]float64{
		"retry.calls{retry.outcome=recovered,retry.policy=fetch}":                   1,
		"retry.calls{error.type=timeout,retry.outcome=attempts,retry.policy=fetch}": 1,
		"retry.attempts{retry.policy=fetch}":                                        6,
		"retry.retries{error.type=timeout,retry.policy=fetch}":                      4,
		"#retry.delay{retry.policy=fetch}":                                          4,
		"#retry.call.duration{retry.policy=fetch}":                                  2,
	}, r.values)
	assert.Equal(t, map[string]string{
		"retry.calls": "{call}", "retry.attempts": "{attempt}", "retry.retries": "{retry}",
		"retry.calls.waiting": "{call}", "retry.delay": "s", "retry.call.duration": "s",
	}, r.units)
	events, attempts := map[string]int{}, 0
	for _, s := range r.spans {
		if s.GetName() == "attempt" {
			attempts++
		}
		for _, e := range s.GetEvents() {
			events[e.GetName()]++
		}
	}
	assert.Equal(t, 6, attempts)
	assert.Equal(t, map[string]int{"retry": 4, "retry.gave_up": 1}, events)
}
