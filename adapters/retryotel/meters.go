package retryotel

import (
	"context"
	"errors"
	"maps"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/names"
	"github.com/seed-5ff3c98e/retry/retryquota"
)

// meters are the instruments.
type meters struct {
	calls, retries        metric.Int64Counter
	delay, hold, duration metric.Float64Histogram

	policies   *names.Names[*series]
	categories *names.Names[string]
}

// series is what is known of one policy. The options are made once, because they are most
// of the cost of a measurement.
type series struct {
	policy               attribute.KeyValue
	succeeded, recovered []metric.AddOption
	attempts             atomic.Int64 // observed, because that costs a call less than a measurement
	record               []metric.RecordOption
	waiting              atomic.Int64
	waited               func() // ends a wait
}

func newMeters(meter metric.Meter, opts *Options) (*meters, error) {
	m := &meters{
		policies:   names.New(opts.MaxPolicies, other, newSeries),
		categories: names.New(opts.MaxCategories, other, func(category string) string { return category }),
	}
	budgets := maps.Clone(opts.Budgets)
	var errs [8]error
	m.calls, errs[0] = meter.Int64Counter("retry.calls", metric.WithUnit("{call}"),
		metric.WithDescription("Calls that ended, by outcome and kind of the last failure."))
	_, errs[1] = meter.Int64ObservableCounter("retry.attempts", metric.WithUnit("{attempt}"),
		metric.WithDescription("Attempts of the calls that ended."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			for _, s := range m.policies.All() {
				o.Observe(s.attempts.Load(), metric.WithAttributes(s.policy))
			}
			return nil
		}))
	m.retries, errs[2] = meter.Int64Counter("retry.retries", metric.WithUnit("{retry}"),
		metric.WithDescription("Retries that were decided on, by kind of the failure before."))
	m.delay, errs[3] = meter.Float64Histogram("retry.delay", metric.WithUnit("s"),
		metric.WithDescription("Waits before retries."), metric.WithExplicitBucketBoundaries(seconds...))
	m.duration, errs[4] = meter.Float64Histogram("retry.call.duration", metric.WithUnit("s"),
		metric.WithDescription("Time from the first attempt of a call to its end."),
		metric.WithExplicitBucketBoundaries(seconds...))
	_, errs[5] = meter.Int64ObservableUpDownCounter("retry.calls.waiting", metric.WithUnit("{call}"),
		metric.WithDescription("Calls that wait for their next attempt."),
		metric.WithInt64Callback(func(_ context.Context, o metric.Int64Observer) error {
			for _, s := range m.policies.All() {
				o.Observe(s.waiting.Load(), metric.WithAttributes(s.policy))
			}
			return nil
		}))
	m.hold, errs[7] = meter.Float64Histogram("retry.hold", metric.WithUnit("s"),
		metric.WithDescription("How long a quota has held all calls."), metric.WithExplicitBucketBoundaries(seconds...))
	_, errs[6] = meter.Float64ObservableGauge("retry.budget.balance", metric.WithUnit("{retry}"),
		metric.WithDescription("Retries that the budget would allow now."),
		metric.WithFloat64Callback(func(_ context.Context, o metric.Float64Observer) error {
			now := time.Now()
			for name, b := range budgets {
				o.Observe(b.Balance(now), metric.WithAttributes(budgetKey.String(name)))
			}
			return nil
		}))
	return m, errors.Join(append(errs[:], quotaGauges(meter, maps.Clone(opts.Quotas)))...)
}

// quotaGauges shows quotas.
func quotaGauges(meter metric.Meter, quotas map[string]*retryquota.Quota) error {
	gauge := func(name, unit, description string, value func(retryquota.Status) (float64, bool)) error {
		_, err := meter.Float64ObservableGauge(name, metric.WithUnit(unit), metric.WithDescription(description),
			metric.WithFloat64Callback(func(_ context.Context, o metric.Float64Observer) error {
				for name, q := range quotas {
					if value, known := value(q.Status(nil)); known {
						o.Observe(value, metric.WithAttributes(quotaKey.String(name)))
					}
				}
				return nil
			}))
		return err
	}
	return errors.Join(
		gauge("retry.quota.hold", "s", "The rest of the time in which the quota lets nobody go.",
			func(s retryquota.Status) (float64, bool) { return s.Hold.Seconds(), true }),
		gauge("retry.quota.waiting", "{attempt}", "Attempts that wait for a turn of the quota.",
			func(s retryquota.Status) (float64, bool) { return float64(s.Waiting + s.Away), true }),
		gauge("retry.quota.rate", "{turn}/s", "Turns of the quota in a second; absent while no limit is known.",
			func(s retryquota.Status) (float64, bool) { return 1 / max(s.Gap.Seconds(), 1e-9), s.Gap > 0 }),
	)
}

func newSeries(policy string) *series {
	label := policyKey.String(policy)
	with := func(more ...attribute.KeyValue) metric.MeasurementOption {
		return metric.WithAttributeSet(attribute.NewSet(append(more, label)...))
	}
	s := &series{
		policy:    label,
		succeeded: []metric.AddOption{with(outcomeKey.String("succeeded"))},
		recovered: []metric.AddOption{with(outcomeKey.String("recovered"))},
		record:    []metric.RecordOption{with()},
	}
	s.waited = func() { s.waiting.Add(-1) }
	return s
}

// record counts an event.
func (m *meters) record(ctx context.Context, e retry.Event) {
	s := m.policies.Of(e.Policy)
	switch {
	case e.Kind == retry.Retrying:
		m.retries.Add(ctx, 1, metric.WithAttributes(m.failure(e, s.policy)...))
		m.delay.Record(ctx, e.Delay.Seconds(), s.record...)
		return
	case e.Kind == retry.Held:
		m.hold.Record(ctx, e.Delay.Seconds(), s.record...)
		return
	case e.Kind == retry.Succeeded && e.Attempt <= 1:
		m.calls.Add(ctx, 1, s.succeeded...)
	case e.Kind == retry.Succeeded:
		m.calls.Add(ctx, 1, s.recovered...)
	case e.Kind == retry.GaveUp:
		m.calls.Add(ctx, 1, metric.WithAttributes(m.failure(e, s.policy, outcomeKey.String(e.Stop.Error()))...))
	default:
		return
	}
	s.attempts.Add(int64(max(e.Attempt, 0)))
	m.duration.Record(ctx, e.Elapsed.Seconds(), s.record...)
}

// failure returns attributes with the kind of the last failure, as far as it is known.
func (m *meters) failure(e retry.Event, attributes ...attribute.KeyValue) []attribute.KeyValue {
	switch {
	case e.Verdict.Category != "":
		return append(attributes, errorKey.String(m.categories.Of(e.Verdict.Category)))
	case e.Verdict == (retry.Verdict{}):
		return attributes
	default:
		return append(attributes, errorKey.String(e.Verdict.Class.String()))
	}
}
