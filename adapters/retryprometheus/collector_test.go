package retryprometheus_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retryprometheus"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retryquota"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

var errBoom = errors.New("boom")

// observe tells a Collector of events as they come.
func observe(c *retryprometheus.Collector, events ...retry.Event) {
	for _, e := range events {
		c.Observer().Event(context.Background(), e)
	}
}

// run runs one call under a policy with a clock of its own, which fails at first.
func run(c *retryprometheus.Collector, name string, failures ...error) error {
	p := &retry.Policy{Name: name, Observer: c.Observer(), Jitter: retry.NoJitter, Clock: &retrytest.Clock{}}
	return p.Execute(context.Background(), testkit.FailingFirst(failures...))
}

// handler answers with the metrics, and request asks for them as Prometheus does.
func handler(t testing.TB, c prometheus.Collector) http.Handler {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(c))
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true})
}

func request(t testing.TB, url string) *http.Request {
	t.Helper()
	req := testkit.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))(t)
	req.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	return req
}

// scrape reads the metrics over HTTP.
func scrape(t testing.TB, c prometheus.Collector) string {
	t.Helper()
	server := httptest.NewServer(handler(t, c))
	defer server.Close()
	resp := testkit.Must(server.Client().Do(request(t, server.URL)))(t)
	defer resp.Body.Close()
	body := testkit.Must(io.ReadAll(resp.Body))(t)
	require.Equal(t, http.StatusOK, resp.StatusCode, string(body))
	return string(body)
}

// lines returns the samples of a scrape that begin with a prefix.
func lines(text, prefix string) (found []string) {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, prefix) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

func TestCollector(t *testing.T) {
	t.Parallel()
	c := retryprometheus.New(nil)
	timeout := retry.Mark(errBoom, retry.Verdict{Class: retry.Retryable, Category: "timeout"})
	require.NoError(t, run(c, "a"))
	require.NoError(t, run(c, "a", timeout, errBoom))
	require.Error(t, run(c, "a", timeout, timeout, timeout))
	require.Error(t, run(c, "b", retry.MarkFinal(errBoom)))
	require.Error(t, (&retry.Policy{Name: "b", Observer: c.Observer()}).Execute(testkit.Canceled(t.Context()), func(context.Context) error { return nil }))

	text := scrape(t, c)
	assert.Equal(t, []string{
		`retry_calls_total{category="",outcome="canceled",policy="b"} 1.0`,
		`retry_calls_total{category="",outcome="recovered",policy="a"} 1.0`,
		`retry_calls_total{category="",outcome="recovered",policy="b"} 0.0`,
		`retry_calls_total{category="",outcome="succeeded",policy="a"} 1.0`,
		`retry_calls_total{category="",outcome="succeeded",policy="b"} 0.0`,
		`retry_calls_total{category="final",outcome="final",policy="b"} 1.0`,
		`retry_calls_total{category="timeout",outcome="attempts",policy="a"} 1.0`,
	}, lines(text, "retry_calls_total{"))
	assert.Equal(t, []string{
		`retry_attempts_total{policy="a"} 7.0`,
		`retry_attempts_total{policy="b"} 1.0`,
	}, lines(text, "retry_attempts_total{"))
	assert.Equal(t, []string{
		`retry_retries_total{category="",policy="a"} 1.0`,
		`retry_retries_total{category="timeout",policy="a"} 3.0`,
	}, lines(text, "retry_retries_total{"))
	assert.Equal(t, []string{
		`retry_delay_seconds_count{policy="a"} 4`,
		`retry_delay_seconds_count{policy="b"} 0`,
		`retry_delay_seconds_sum{policy="a"} 12.0`,
		`retry_delay_seconds_sum{policy="b"} 0.0`,
	}, append(lines(text, "retry_delay_seconds_count"), lines(text, "retry_delay_seconds_sum")...))
	assert.Equal(t, []string{
		`retry_call_duration_seconds_count{policy="a"} 3`,
		`retry_call_duration_seconds_count{policy="b"} 2`,
		`retry_call_duration_seconds_sum{policy="a"} 12.0`,
		`retry_call_duration_seconds_sum{policy="b"} 0.0`,
	}, append(lines(text, "retry_call_duration_seconds_count"), lines(text, "retry_call_duration_seconds_sum")...))
}

func TestLint(t *testing.T) {
	t.Parallel()
	c := retryprometheus.New(&retryprometheus.Options{Labels: prometheus.Labels{"service": "jobs"}})
	require.Error(t, run(c, "a", errBoom, errBoom, errBoom))
	assert.Empty(t, testkit.Must(testutil.CollectAndLint(c))(t))
	assert.Equal(t, []string{`retry_attempts_total{policy="a",service="jobs"} 3.0`}, lines(scrape(t, c), "retry_attempts_total{"))
	assert.NotEmpty(t, lines(scrape(t, c), `retry_calls_waiting{policy="a",service="jobs"}`))
}

func TestWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := retryprometheus.New(nil)
		testkit.CountsWaiting(t, o.Observer(), func() float64 {
			registry := prometheus.NewRegistry()
			registry.MustRegister(o)
			families := testkit.Must(registry.Gather())(t)
			for _, f := range families {
				if f.GetName() == "retry_calls_waiting" {
					return f.GetMetric()[0].GetGauge().GetValue()
				}
			}
			return math.NaN()
		})
	})
}

func TestBudgets(t *testing.T) {
	t.Parallel()
	b := &retry.Budget{Reserve: 5}
	c := retryprometheus.New(&retryprometheus.Options{Budgets: map[string]*retry.Budget{"payments": b, "none": nil}})
	require.True(t, b.TryWithdraw(time.Now()))
	assert.Equal(t, []string{
		`retry_budget_balance{budget="none"} +Inf`,
		`retry_budget_balance{budget="payments"} 4.0`,
	}, lines(scrape(t, c), "retry_budget_balance{"))
}

func TestQuotas(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q := testkit.LimitedQuota()
		c := retryprometheus.New(&retryprometheus.Options{Quotas: map[string]*retryquota.Quota{"api": q, "none": nil}})
		status := q.Status(nil)
		require.Positive(t, status.Gap)
		// A bubble's time may go on while a socket is closed.
		answer := httptest.NewRecorder()
		handler(t, c).ServeHTTP(answer, request(t, "/metrics"))
		assert.Equal(t, []string{
			`retry_quota_hold_seconds{quota="api"} 30.0`,
			`retry_quota_hold_seconds{quota="none"} 0.0`,
			`retry_quota_rate{quota="api"} ` + strconv.FormatFloat(1/status.Gap.Seconds(), 'g', -1, 64),
			fmt.Sprintf(`retry_quota_waiting{quota="api"} %d.0`, status.Waiting+status.Away),
			`retry_quota_waiting{quota="none"} 0.0`,
		}, lines(answer.Body.String(), "retry_quota_"))
	})
}

// TestCardinality has a server that makes up categories, which are not even UTF-8.
func TestCardinality(t *testing.T) {
	t.Parallel()
	c := retryprometheus.New(&retryprometheus.Options{MaxCategories: 5, MaxPolicies: 3})
	for n := range 1000 {
		v := retry.Verdict{Class: retry.Retryable, Category: fmt.Sprintf("made_up_%d\xff", n)}
		name := fmt.Sprintf("policy %d\xfe", n)
		observe(c,
			retry.Event{Kind: retry.Retrying, Policy: name, Attempt: 1, Verdict: v},
			retry.Event{Kind: retry.GaveUp, Policy: name, Attempt: 2, Verdict: v, Stop: retry.StopAttempts})
	}
	text := scrape(t, c)
	assert.Contains(t, text, `retry_calls_total{category="other",outcome="attempts",policy="other"} 995.0`)
	assert.Contains(t, text, `retry_attempts_total{policy="other"} 1994.0`)
	assert.Contains(t, text, `policy="policy 0`+"\ufffd")
	assert.Len(t, lines(text, "retry_attempts_total{"), 4)
	assert.LessOrEqual(t, len(lines(text, "retry_retries_total{")), 4*6)
}

// TestExemplars has calls with a trace.
func TestExemplars(t *testing.T) {
	t.Parallel()
	type key struct{}
	c := retryprometheus.New(&retryprometheus.Options{Exemplar: func(ctx context.Context) prometheus.Labels {
		if id, ok := ctx.Value(key{}).(string); ok {
			return prometheus.Labels{"trace_id": id}
		}
		return nil
	}})
	ctx := context.WithValue(t.Context(), key{}, "cafe")
	c.Observer().Event(ctx, retry.Event{Kind: retry.Succeeded, Policy: "a", Attempt: 1, Elapsed: time.Second})
	c.Observer().Event(t.Context(), retry.Event{Kind: retry.Succeeded, Policy: "a", Attempt: 1, Elapsed: time.Millisecond})
	assert.Equal(t, 1, strings.Count(scrape(t, c), `# {trace_id="cafe"} 1.0`))
}

// TestUnknownKind has an event of a version to come.
func TestUnknownKind(t *testing.T) {
	t.Parallel()
	c := retryprometheus.New(nil)
	observe(c, retry.Event{Kind: 77, Policy: "a", Attempt: 3})
	assert.Equal(t, []string{`retry_attempts_total{policy="a"} 0.0`}, lines(scrape(t, c), "retry_attempts_total{"))
}

func TestAllocs(t *testing.T) { //nolint:paralleltest // counts what others allocate
	c := retryprometheus.New(nil)
	p := &retry.Policy{Name: "fetch", Observer: c.Observer()}
	fn := func(context.Context) error { return nil }
	ctx := context.Background()
	assert.Zero(t, testing.AllocsPerRun(100, func() { _ = p.Execute(ctx, fn) }))
}
