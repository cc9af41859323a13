package retryotel_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retryotel"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retryquota"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

var errBoom = errors.New("boom")

var errTimeout = retry.Mark(errBoom, retry.Verdict{Class: retry.Retryable, Category: "timeout"})

// telemetry is an Observer and what it has told the SDK of OpenTelemetry.
type telemetry struct {
	*retry.Observer

	reader *metric.ManualReader
	spans  *tracetest.SpanRecorder
	tracer *trace.TracerProvider
}

func observe(t testing.TB, opts retryotel.Options) *telemetry {
	t.Helper()
	o := &telemetry{reader: metric.NewManualReader(), spans: tracetest.NewSpanRecorder()}
	o.tracer = trace.NewTracerProvider(trace.WithSpanProcessor(o.spans))
	opts.TracerProvider, opts.MeterProvider = o.tracer, metric.NewMeterProvider(metric.WithReader(o.reader))
	o.Observer = testkit.Must(retryotel.New(&opts))(t)
	return o
}

// units are those of the metrics.
var units = map[string]string{
	"retry.calls": "{call}", "retry.attempts": "{attempt}", "retry.retries": "{retry}", "retry.calls.waiting": "{call}",
	"retry.delay": "s", "retry.call.duration": "s", "retry.budget.balance": "{retry}",
	"retry.quota.hold": "s", "retry.quota.waiting": "{attempt}", "retry.quota.rate": "{turn}/s",
}

// read returns the values of all series; of a histogram its sum, and its count under the
// name with "#".
func (o *telemetry) read(t testing.TB) map[string]float64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, o.reader.Collect(t.Context(), &all))
	values := map[string]float64{}
	name := func(name string, set attribute.Set) string {
		return fmt.Sprintf("%s{%s}", name, set.Encoded(attribute.DefaultEncoder()))
	}
	for _, scope := range all.ScopeMetrics {
		assert.Equal(t, "github.com/seed-5ff3c98e/retry/adapters/retryotel", scope.Scope.Name)
		assert.NotEmpty(t, scope.Scope.Version)
		assert.Equal(t, semconv.SchemaURL, scope.Scope.SchemaURL)
		for _, m := range scope.Metrics {
			assert.Equal(t, units[m.Name], m.Unit, m.Name)
			assert.NotEmpty(t, m.Description)
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					values[name(m.Name, p.Attributes)] = float64(p.Value)
				}
			case metricdata.Gauge[float64]:
				for _, p := range data.DataPoints {
					values[name(m.Name, p.Attributes)] = p.Value
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					values[name(m.Name, p.Attributes)] = p.Sum
					values[name("#"+m.Name, p.Attributes)] = float64(p.Count)
				}
			default:
				assert.Fail(t, "unknown data", "%s: %T", m.Name, data)
			}
		}
	}
	return values
}

// run runs one call under a policy with a clock of its own, which fails at first.
func run(ctx context.Context, o *retry.Observer, failures ...error) error {
	p := &retry.Policy{Name: "a", Observer: o, Jitter: retry.NoJitter, Clock: &retrytest.Clock{}}
	return p.Execute(ctx, testkit.FailingFirst(failures...))
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	o := observe(t, retryotel.Options{})
	require.NoError(t, run(t.Context(), o.Observer))
	require.NoError(t, run(t.Context(), o.Observer, errTimeout, errBoom))
	require.Error(t, run(t.Context(), o.Observer, errTimeout, errTimeout, errTimeout))
	require.Error(t, run(t.Context(), o.Observer, retry.MarkFinal(errBoom)))
	require.Error(t, run(testkit.Canceled(t.Context()), o.Observer))

	got := o.read(t)
	assert.Equal(t, map[string]float64{
		"retry.calls{retry.outcome=succeeded,retry.policy=a}":                   1,
		"retry.calls{retry.outcome=recovered,retry.policy=a}":                   1,
		"retry.calls{error.type=timeout,retry.outcome=attempts,retry.policy=a}": 1,
		"retry.calls{error.type=final,retry.outcome=final,retry.policy=a}":      1,
		"retry.calls{retry.outcome=canceled,retry.policy=a}":                    1,
		"retry.attempts{retry.policy=a}":                                        8,
		"retry.retries{error.type=timeout,retry.policy=a}":                      3,
		"retry.retries{retry.policy=a}":                                         1,
		"retry.delay{retry.policy=a}":                                           12,
		"#retry.delay{retry.policy=a}":                                          4,
		"retry.call.duration{retry.policy=a}":                                   12,
		"#retry.call.duration{retry.policy=a}":                                  5,
		"retry.calls.waiting{retry.policy=a}":                                   0,
	}, got)
}

func TestWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := observe(t, retryotel.Options{})
		testkit.CountsWaiting(t, o.Observer, func() float64 { return o.read(t)["retry.calls.waiting{retry.policy=a}"] })
	})
}

func TestBudgets(t *testing.T) {
	t.Parallel()
	b := &retry.Budget{Reserve: 5}
	o := observe(t, retryotel.Options{Budgets: map[string]*retry.Budget{"payments": b}})
	require.True(t, b.TryWithdraw(time.Now()))
	assert.Equal(t, map[string]float64{"retry.budget.balance{retry.budget=payments}": 4}, o.read(t))
}

func TestQuotas(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := testkit.LimitedQuota()
		o := observe(t, retryotel.Options{Quotas: map[string]*retryquota.Quota{"api": q, "none": nil}})
		status := q.Status(nil)
		require.Positive(t, status.Gap)
		assert.Equal(t, map[string]float64{
			"retry.quota.hold{retry.quota=api}": 30, "retry.quota.hold{retry.quota=none}": 0,
			"retry.quota.waiting{retry.quota=api}": float64(status.Waiting + status.Away), "retry.quota.waiting{retry.quota=none}": 0,
			"retry.quota.rate{retry.quota=api}": 1 / status.Gap.Seconds(),
		}, o.read(t))
	})
}

// TestCardinality has a server that makes up categories.
func TestCardinality(t *testing.T) {
	t.Parallel()
	o := observe(t, retryotel.Options{MaxPolicies: 1, MaxCategories: 5})
	for n := range 1000 {
		v := retry.Verdict{Class: retry.Retryable, Category: fmt.Sprintf("made_up_%d\xff", n)}
		o.Event(t.Context(), retry.Event{Kind: retry.GaveUp, Attempt: 1, Verdict: v, Stop: retry.StopAttempts})
	}
	o.Event(t.Context(), retry.Event{Kind: retry.Succeeded, Policy: "another", Attempt: 1})
	o.Event(t.Context(), retry.Event{Kind: 77, Policy: "of a version to come", Attempt: 1})
	got := o.read(t)
	assert.Equal(t, 995.0, got["retry.calls{error.type=_OTHER,retry.outcome=attempts,retry.policy=}"])
	assert.Equal(t, 1.0, got["retry.calls{retry.outcome=succeeded,retry.policy=_OTHER}"])
	assert.Equal(t, 1.0, got["retry.attempts{retry.policy=_OTHER}"])
	assert.Less(t, len(got), 20)
	for series := range got {
		assert.Less(t, len(series), 200)
	}
}

// attributes returns those of a span or an event as text.
func attributes(kvs []attribute.KeyValue) string {
	set := attribute.NewSet(kvs...)
	return set.Encoded(attribute.DefaultEncoder())
}

func TestEvents(t *testing.T) {
	t.Parallel()
	o := observe(t, retryotel.Options{})
	ctx, span := o.tracer.Tracer("test").Start(t.Context(), "job")
	secret := retry.Mark(errors.New(`Get "http://user:password@example.com/": EOF; Authorization: Bearer abc `+"\xff"), retry.Verdict{Class: retry.Retryable, Category: "eof"})
	require.Error(t, run(ctx, o.Observer, errBoom, secret, errBoom))
	require.Error(t, run(ctx, o.Observer, retry.MarkFinal(errBoom)))
	require.NoError(t, run(ctx, o.Observer, retry.MarkProgress(errBoom)))
	span.End()

	spans := o.spans.Ended()
	require.Len(t, spans, 1, "no spans of attempts")
	events := spans[0].Events()
	require.Len(t, events, 4, "none for the final error")
	assert.Equal(t, "retry", events[0].Name)
	assert.Equal(t, "exception.message=boom,retry.attempt=1,retry.class=unknown,retry.delay=2,retry.policy=a", attributes(events[0].Attributes))
	assert.Equal(t, "error.type=eof,exception.message=Get \"http://example.com/\": EOF; Authorization: Bearer *** \ufffd,retry.attempt=2,retry.class=retryable,retry.delay=4,retry.policy=a",
		attributes(events[1].Attributes))
	assert.Equal(t, "retry.gave_up", events[2].Name)
	assert.Equal(t, "exception.message=a failed after 3 attempts: boom,retry.attempt=3,retry.class=unknown,retry.policy=a,retry.stop_reason=attempts",
		attributes(events[2].Attributes))
	assert.Equal(t, "exception.message=boom,retry.attempt=1,retry.class=unknown,retry.delay=2,retry.policy=a,retry.progress=true",
		attributes(events[3].Attributes))
}

// TestNoSpan has callers without a span, or with one that is not recorded.
func TestNoSpan(t *testing.T) {
	t.Parallel()
	o := observe(t, retryotel.Options{Spans: true})
	o.tracer = trace.NewTracerProvider(trace.WithSampler(trace.NeverSample()), trace.WithSpanProcessor(o.spans))
	require.Error(t, run(t.Context(), o.Observer, errBoom, errBoom, errBoom))
	ctx, span := o.tracer.Tracer("test").Start(t.Context(), "job")
	require.Error(t, run(ctx, o.Observer, errBoom, errBoom, errBoom))
	span.End()
	for _, s := range o.spans.Ended() {
		assert.Equal(t, "attempt", s.Name())
	}
	assert.Equal(t, 2.0, o.read(t)["retry.calls{retry.outcome=attempts,retry.policy=a}"])
}

// TestSpans has a span for every attempt, beneath that of the caller and above what the
// attempt does.
func TestSpans(t *testing.T) {
	t.Parallel()
	o := observe(t, retryotel.Options{Spans: true, SpanName: "GET", Attributes: retryotel.HTTPAttributes})
	tracer := o.tracer.Tracer("test")
	ctx, parent := tracer.Start(t.Context(), "job")
	calls := 0
	p := &retry.Policy{Name: "a", Observer: o.Observer, Clock: &retrytest.Clock{}}
	require.NoError(t, p.Execute(ctx, func(ctx context.Context) error {
		_, span := tracer.Start(ctx, "beneath")
		defer span.End()
		if calls++; calls < 3 {
			return errBoom
		}
		return nil
	}))
	parent.End()

	spans := o.spans.Ended()
	require.Len(t, spans, 7)
	scope := spans[1].InstrumentationScope()
	assert.NotEmpty(t, scope.Version)
	assert.Equal(t, semconv.SchemaURL, scope.SchemaURL)
	for n := range 3 {
		beneath, attempt := spans[2*n], spans[2*n+1]
		assert.Equal(t, "GET", attempt.Name())
		assert.Equal(t, parent.SpanContext().SpanID(), attempt.Parent().SpanID())
		assert.Equal(t, attempt.SpanContext().SpanID(), beneath.Parent().SpanID())
		want := fmt.Sprintf("retry.attempt=%d", n+1)
		if n > 0 {
			want = fmt.Sprintf("http.request.resend_count=%d,", n) + want
		}
		if n == 2 {
			assert.Equal(t, codes.Unset, attempt.Status().Code)
		} else {
			want = "error.type=_OTHER," + want
			assert.Equal(t, trace.Status{Code: codes.Error, Description: "boom"}, attempt.Status())
		}
		assert.Equal(t, want, attributes(attempt.Attributes()))
	}
	require.Len(t, spans[6].Events(), 2, "events are of the caller's span")

	assert.Equal(t, "previous-rpc-attempts=0", attributes(retryotel.GRPCAttributes(1)))
	assert.Equal(t, "previous-rpc-attempts=2", attributes(retryotel.GRPCAttributes(3)))
}

// TestSpanOfPanic has an attempt without an outcome: its span ends.
func TestSpanOfPanic(t *testing.T) {
	t.Parallel()
	o := observe(t, retryotel.Options{Spans: true})
	p := &retry.Policy{Observer: o.Observer}
	assert.Panics(t, func() { _ = p.Execute(t.Context(), func(context.Context) error { panic("boom") }) })
	require.Len(t, o.spans.Ended(), 1)
	assert.Equal(t, codes.Error, o.spans.Ended()[0].Status().Code)
}

// TestGlobal has no providers: those of the process do nothing.
func TestGlobal(t *testing.T) {
	t.Parallel()
	for _, opts := range []*retryotel.Options{nil, {Spans: true}} {
		o := testkit.Must(retryotel.New(opts))(t)
		require.NoError(t, run(t.Context(), o, errBoom))
	}
}

func TestAllocs(t *testing.T) { //nolint:paralleltest // counts what others allocate
	o := observe(t, retryotel.Options{})
	p := &retry.Policy{Name: "fetch", Observer: o.Observer}
	fn := func(context.Context) error { return nil }
	ctx := context.Background()
	assert.LessOrEqual(t, testing.AllocsPerRun(100, func() { _ = p.Execute(ctx, fn) }), 2.0)
}
