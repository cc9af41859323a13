package retryprometheus

import (
	"context"
	"maps"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/names"
	"github.com/seed-5ff3c98e/retry/retryquota"
)

// other is the label of what is beyond the limits.
const other = "other"

// Options are settings of a [Collector]. The zero Options are the defaults.
type Options struct {
	// Labels are added to every metric, with these values.
	Labels prometheus.Labels

	// DelayBuckets and DurationBuckets are the upper bounds of the histograms, in seconds.
	// nil means bounds from 10 ms to an hour, and from 5 ms to an hour.
	DelayBuckets, DurationBuckets []float64

	// Budgets are the budgets whose balance is shown, by the names that they have in the
	// metrics. Their policies must use the system's clock.
	Budgets map[string]*retry.Budget

	// Quotas are shown by the names that they have in the metrics. Their policies must use the
	// system's clock.
	Quotas map[string]*retryquota.Quota

	// MaxPolicies and MaxCategories bound how many different values the labels policy and
	// category have, before the rest is "other". 0 or less means 100 each.
	MaxPolicies, MaxCategories int

	// Exemplar, if not nil, returns the labels of the exemplar for a call, such as a
	// trace_id that is in its context; nil means none. It runs on the goroutine of the
	// call, and must be safe for concurrent use. Prometheus limits such labels to 128
	// characters.
	Exemplar func(ctx context.Context) prometheus.Labels
}

var (
	delayBuckets    = []float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 3600}
	durationBuckets = []float64{.005, .01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 3600}
)

// Collector is a [prometheus.Collector] of what its [Collector.Observer] is told. It is safe for
// concurrent use.
type Collector struct {
	calls       *prometheus.CounterVec
	attempts    *prometheus.CounterVec
	retries     *prometheus.CounterVec
	waiting     *prometheus.Desc
	balance     *prometheus.Desc
	budgets     map[string]*retry.Budget
	quotas      map[string]*retryquota.Quota
	held, queue *prometheus.Desc // of quotas
	rate        *prometheus.Desc
	hold, delay *prometheus.HistogramVec
	duration    *prometheus.HistogramVec
	exemplar    func(context.Context) prometheus.Labels

	policies   *names.Names[*series]
	categories *names.Names[string]
}

// series are those of one policy.
type series struct {
	policy               string // the label
	succeeded, recovered prometheus.Counter
	attempts             prometheus.Counter
	delay, duration      prometheus.Observer
	waiting              atomic.Int64
	waited               func() // ends a wait
}

var _ prometheus.Collector = (*Collector)(nil)

// New returns a Collector, which the program has to register. nil means the zero
// [Options].
func New(opts *Options) *Collector {
	if opts == nil {
		opts = &Options{}
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: opts.Labels}, labels)
	}
	histogram := func(name, help string, buckets, otherwise []float64) *prometheus.HistogramVec {
		if buckets == nil {
			buckets = otherwise
		}
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: name, Help: help, ConstLabels: opts.Labels, Buckets: buckets,
		}, []string{"policy"})
	}
	quota := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, []string{"quota"}, opts.Labels)
	}
	c := &Collector{
		calls:    counter("retry_calls_total", "Calls that ended, by outcome and kind of the last failure.", "policy", "outcome", "category"),
		attempts: counter("retry_attempts_total", "Attempts of the calls that ended.", "policy"),
		retries:  counter("retry_retries_total", "Retries that were decided on, by kind of the failure before.", "policy", "category"),
		waiting: prometheus.NewDesc("retry_calls_waiting", "Calls that wait for their next attempt.",
			[]string{"policy"}, opts.Labels),
		balance: prometheus.NewDesc("retry_budget_balance", "Retries that the budget would allow now.",
			[]string{"budget"}, opts.Labels),
		budgets:  maps.Clone(opts.Budgets),
		quotas:   maps.Clone(opts.Quotas),
		held:     quota("retry_quota_hold_seconds", "The rest of the time in which the quota lets nobody go."),
		queue:    quota("retry_quota_waiting", "Attempts that wait for a turn of the quota."),
		rate:     quota("retry_quota_rate", "Turns of the quota in a second; absent while no limit is known."),
		hold:     histogram("retry_hold_seconds", "How long a quota has held all calls.", opts.DelayBuckets, delayBuckets),
		delay:    histogram("retry_delay_seconds", "Waits before retries.", opts.DelayBuckets, delayBuckets),
		duration: histogram("retry_call_duration_seconds", "Time from the first attempt of a call to its end.", opts.DurationBuckets, durationBuckets),
		exemplar: opts.Exemplar,
	}
	c.policies = names.New(opts.MaxPolicies, other, c.series)
	c.categories = names.New(opts.MaxCategories, other, func(category string) string { return category })
	return c
}

func (c *Collector) series(policy string) *series {
	s := &series{
		policy:    policy,
		succeeded: c.calls.WithLabelValues(policy, "succeeded", ""),
		recovered: c.calls.WithLabelValues(policy, "recovered", ""),
		attempts:  c.attempts.WithLabelValues(policy),
		delay:     c.delay.WithLabelValues(policy),
		duration:  c.duration.WithLabelValues(policy),
	}
	s.waited = func() { s.waiting.Add(-1) }
	return s
}

// Describe implements [prometheus.Collector].
func (c *Collector) Describe(descs chan<- *prometheus.Desc) {
	descs <- c.waiting
	descs <- c.balance
	descs <- c.held
	descs <- c.queue
	descs <- c.rate
	for _, m := range c.metrics() {
		m.Describe(descs)
	}
}

// Collect implements [prometheus.Collector].
func (c *Collector) Collect(metrics chan<- prometheus.Metric) {
	for policy, s := range c.policies.All() {
		n := float64(s.waiting.Load())
		metrics <- prometheus.MustNewConstMetric(c.waiting, prometheus.GaugeValue, n, policy)
	}
	now := time.Now()
	for name, b := range c.budgets {
		metrics <- prometheus.MustNewConstMetric(c.balance, prometheus.GaugeValue, b.Balance(now), name)
	}
	for name, q := range c.quotas {
		status := q.Status(nil)
		metrics <- prometheus.MustNewConstMetric(c.held, prometheus.GaugeValue, status.Hold.Seconds(), name)
		metrics <- prometheus.MustNewConstMetric(c.queue, prometheus.GaugeValue, float64(status.Waiting+status.Away), name)
		if status.Gap > 0 {
			metrics <- prometheus.MustNewConstMetric(c.rate, prometheus.GaugeValue, 1/status.Gap.Seconds(), name)
		}
	}
	for _, m := range c.metrics() {
		m.Collect(metrics)
	}
}

func (c *Collector) metrics() []prometheus.Collector {
	return []prometheus.Collector{c.calls, c.attempts, c.retries, c.hold, c.delay, c.duration}
}

// Observer returns the Observer of the policies.
func (c *Collector) Observer() *retry.Observer {
	return &retry.Observer{Event: c.event, Wait: c.wait}
}

func (c *Collector) event(ctx context.Context, e retry.Event) {
	s := c.policies.Of(e.Policy)
	if e.Kind == retry.Retrying {
		c.retries.WithLabelValues(s.policy, c.category(e.Verdict)).Inc()
		c.observe(ctx, s.delay, e.Delay)
		return
	}
	switch {
	case e.Kind == retry.Held:
		c.hold.WithLabelValues(s.policy).Observe(e.Delay.Seconds())
		return
	case e.Kind == retry.Succeeded && e.Attempt <= 1:
		s.succeeded.Inc()
	case e.Kind == retry.Succeeded:
		s.recovered.Inc()
	case e.Kind == retry.GaveUp:
		c.calls.WithLabelValues(s.policy, e.Stop.Error(), c.category(e.Verdict)).Inc()
	default:
		return
	}
	s.attempts.Add(float64(max(e.Attempt, 0)))
	c.observe(ctx, s.duration, e.Elapsed)
}

// wait counts a call that waits, until the returned function is called.
func (c *Collector) wait(policy string) func() {
	s := c.policies.Of(policy)
	s.waiting.Add(1)
	return s.waited
}

// category returns the label for the last failure of a call.
func (c *Collector) category(v retry.Verdict) string {
	switch {
	case v.Category != "":
		return c.categories.Of(v.Category)
	case v == (retry.Verdict{}):
		return ""
	default:
		return v.Class.String()
	}
}

func (c *Collector) observe(ctx context.Context, to prometheus.Observer, d time.Duration) {
	if c.exemplar != nil {
		if labels := c.exemplar(ctx); labels != nil {
			if to, ok := to.(prometheus.ExemplarObserver); ok {
				to.ObserveWithExemplar(d.Seconds(), labels)
				return
			}
		}
	}
	to.Observe(d.Seconds())
}
