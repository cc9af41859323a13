package retryotel

import (
	"context"
	"fmt"
	"runtime/debug"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/names"
	"github.com/seed-5ff3c98e/retry/retryquota"
	"github.com/seed-5ff3c98e/retry/retryslog"
)

// scope is the name of the instrumentation, and the path of this module.
const scope = "github.com/seed-5ff3c98e/retry/adapters/retryotel"

// version returns the version of this module in the program.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range append(info.Deps, &info.Main) {
			if m.Path == scope && m.Version != "" {
				return m.Version
			}
		}
	}
	return "(devel)"
}

// other is for names beyond the limits, as in the semantic conventions for error.type.
const other = "_OTHER"

// The names of the attributes.
const (
	policyKey   = attribute.Key("retry.policy")
	attemptKey  = attribute.Key("retry.attempt")
	progressKey = attribute.Key("retry.progress")
	classKey    = attribute.Key("retry.class")
	delayKey    = attribute.Key("retry.delay")
	stopKey     = attribute.Key("retry.stop_reason")
	outcomeKey  = attribute.Key("retry.outcome")
	budgetKey   = attribute.Key("retry.budget")
	quotaKey    = attribute.Key("retry.quota")
	errorKey    = attribute.Key("error.type")
	messageKey  = attribute.Key("exception.message")
	resendKey   = attribute.Key("http.request.resend_count")
	previousKey = attribute.Key("previous-rpc-attempts")
)

// Options are settings of [New]. The zero Options are the defaults.
type Options struct {
	// TracerProvider makes the spans and MeterProvider the metrics; nil means the global
	// one.
	TracerProvider trace.TracerProvider
	MeterProvider  metric.MeterProvider

	// Spans makes a span for every attempt.
	Spans bool

	// SpanName is the name of these spans. "" means "attempt".
	SpanName string

	// Attributes, if not nil, returns attributes for the span of attempt n, from 1. See
	// [HTTPAttributes] and [GRPCAttributes].
	Attributes func(n int) []attribute.KeyValue

	// Budgets are the budgets whose balance is shown, by the names that they have in the
	// metrics. Their policies must use the system's clock.
	Budgets map[string]*retry.Budget

	// Quotas are shown by the names that they have in the metrics. Their policies must use the
	// system's clock.
	Quotas map[string]*retryquota.Quota

	// MaxPolicies and MaxCategories bound how many different values retry.policy and
	// error.type have in the metrics. 0 or less means 100 each.
	MaxPolicies, MaxCategories int
}

// HTTPAttributes are for attempts that are HTTP requests: http.request.resend_count, on
// every attempt but the first.
func HTTPAttributes(n int) []attribute.KeyValue {
	if n <= 1 {
		return nil
	}
	return []attribute.KeyValue{resendKey.Int(n - 1)}
}

// GRPCAttributes are for attempts that are gRPC calls: previous-rpc-attempts.
func GRPCAttributes(n int) []attribute.KeyValue {
	return []attribute.KeyValue{previousKey.Int(max(n-1, 0))}
}

// New returns an Observer. nil means the zero [Options]. It fails if the MeterProvider
// refuses an instrument. The Observer is safe for concurrent use.
func New(opts *Options) (*retry.Observer, error) {
	if opts == nil {
		opts = &Options{}
	}
	provider := opts.MeterProvider
	if provider == nil {
		provider = otel.GetMeterProvider()
	}
	m, err := newMeters(provider.Meter(scope,
		metric.WithInstrumentationVersion(version()), metric.WithSchemaURL(semconv.SchemaURL)), opts)
	if err != nil {
		return nil, fmt.Errorf("retryotel: %w", err)
	}
	o := &retry.Observer{Event: m.event, Wait: m.wait}
	if !opts.Spans {
		return o, nil
	}
	tracers := opts.TracerProvider
	if tracers == nil {
		tracers = otel.GetTracerProvider()
	}
	tracer := tracers.Tracer(scope, trace.WithInstrumentationVersion(version()), trace.WithSchemaURL(semconv.SchemaURL))
	s := &spans{tracer: tracer, name: opts.SpanName, attributes: opts.Attributes}
	if s.name == "" {
		s.name = "attempt"
	}
	o.Attempt = s.attempt
	return o, nil
}

func (m *meters) event(ctx context.Context, e retry.Event) {
	m.record(ctx, e)
	switch {
	case e.Kind == retry.Retrying:
		addEvent(ctx, "retry", e, delayKey.Float64(e.Delay.Seconds()))
	case e.Kind == retry.Held:
		addEvent(ctx, "retry.held", e, delayKey.Float64(e.Delay.Seconds()))
	case e.Kind == retry.GaveUp && e.Stop != retry.StopFinal:
		addEvent(ctx, "retry.gave_up", e, stopKey.String(e.Stop.Error()))
	}
}

// wait counts a call that waits, until the returned function is called.
func (m *meters) wait(policy string) func() {
	s := m.policies.Of(policy)
	s.waiting.Add(1)
	return s.waited
}

// addEvent adds an event to the span of the call, if somebody records it.
func addEvent(ctx context.Context, name string, e retry.Event, more attribute.KeyValue) {
	span := trace.SpanFromContext(ctx)
	if !span.IsRecording() {
		return
	}
	attributes := append(make([]attribute.KeyValue, 0, 7),
		attemptKey.Int(e.Attempt), classKey.String(e.Verdict.Class.String()), more)
	if e.Verdict.Progress {
		attributes = append(attributes, progressKey.Bool(true))
	}
	if e.Policy != "" {
		attributes = append(attributes, policyKey.String(names.Valid(e.Policy)))
	}
	if e.Verdict.Category != "" {
		attributes = append(attributes, errorKey.String(names.Valid(e.Verdict.Category)))
	}
	if e.Err != nil {
		attributes = append(attributes, messageKey.String(text(e.Err)))
	}
	span.AddEvent(name, trace.WithAttributes(attributes...))
}

// text returns what may be told of an error, by way of fmt because that survives an Error
// method that panics.
func text(err error) string { return names.Valid(retryslog.Redact(fmt.Sprint(err))) }

// spans makes spans of attempts.
type spans struct {
	tracer     trace.Tracer
	name       string
	attributes func(n int) []attribute.KeyValue
}

func (s *spans) attempt(ctx context.Context, n int) (context.Context, func(error)) {
	attributes := []attribute.KeyValue{attemptKey.Int(n)}
	if s.attributes != nil {
		attributes = append(attributes, s.attributes(n)...)
	}
	ctx, span := s.tracer.Start(ctx, s.name, trace.WithAttributes(attributes...))
	if !span.IsRecording() {
		return ctx, func(error) { span.End() }
	}
	return ctx, func(err error) {
		if err != nil {
			span.SetAttributes(errorKey.String(other))
			span.SetStatus(codes.Error, text(err))
		}
		span.End()
	}
}

// seconds are bounds for histograms of what may last from milliseconds to an hour.
var seconds = []float64{.005, .01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 3600}
