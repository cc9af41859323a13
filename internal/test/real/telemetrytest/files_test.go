// Package telemetrytest tests the files of retryprometheus with the libraries of
// Prometheus: the alert rules as promtool loads them, and all queries against what a
// Collector exposes.
package telemetrytest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retryprometheus"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// exposed returns what a Collector exposes after an outage of a policy: some calls that
// recovered, and most given up.
func exposed(t *testing.T) []*dto.MetricFamily {
	t.Helper()
	c := retryprometheus.New(&retryprometheus.Options{Budgets: map[string]*retry.Budget{"payments": {}}})
	for call := range 20 {
		p := &retry.Policy{
			Name: "fetch", Observer: c.Observer(), Clock: &retrytest.Clock{}, Budget: &retry.Budget{Reserve: call % 3},
		}
		failures := call % 4
		_ = p.Execute(t.Context(), func(context.Context) error {
			if failures--; failures >= 0 {
				return errors.New("boom")
			}
			return nil
		})
	}
	c.Observer().Event(t.Context(), retry.Event{Kind: retry.Retrying, Policy: "fetch", Attempt: 1, Delay: time.Hour})
	registry := prometheus.NewRegistry()
	registry.MustRegister(c)
	return testkit.Must(registry.Gather())(t)
}

// loaded returns the series of those metrics over 20 minutes, as promtool's tests write
// them: each grows by its value every minute.
func loaded(t *testing.T, families []*dto.MetricFamily) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("load 1m\n")
	for _, f := range families {
		samples := testkit.Must(expfmt.ExtractSamples(&expfmt.DecodeOptions{Timestamp: model.Now()}, f))(t)
		for _, s := range samples {
			fmt.Fprintf(&b, "  %v 0+%vx20\n", s.Metric, float64(s.Value))
		}
	}
	return b.String()
}

// evaluate returns the result of a query at the end of the 20 minutes.
func evaluate(t *testing.T, script, query string) promql.Vector {
	t.Helper()
	storage := promqltest.LoadedStorage(t, script)
	engine := promqltest.NewTestEngine(t, false, 0, 1_000_000)
	q, err := engine.NewInstantQuery(t.Context(), storage, nil, query, time.Unix(0, 0).Add(20*time.Minute))
	require.NoError(t, err, query)
	defer q.Close()
	result := q.Exec(t.Context())
	require.NoError(t, result.Err, query)
	vector, err := result.Vector()
	require.NoError(t, err, query)
	return append(promql.Vector{}, vector...)
}

// checkNames checks that the metrics and the labels of a query exist.
func checkNames(t *testing.T, families []*dto.MetricFamily, query string) {
	t.Helper()
	known := map[string]map[string]bool{}
	for _, f := range families {
		names := map[string]bool{"__name__": true}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				names[l.GetName()] = true
			}
		}
		if f.GetType() == dto.MetricType_HISTOGRAM {
			names["le"] = true
			known[f.GetName()+"_bucket"] = names
			continue
		}
		known[f.GetName()] = names
	}
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(query)
	require.NoError(t, err, query)
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if s, ok := node.(*parser.VectorSelector); ok {
			require.Contains(t, known, s.Name, query)
			for _, m := range s.LabelMatchers {
				assert.True(t, known[s.Name][m.Name], "%s has no label %s", s.Name, m.Name)
			}
		}
		return nil
	})
}

// rules reads the alert rules as promtool does.
func rules(t *testing.T) []rulefmt.Rule {
	t.Helper()
	groups, errs := rulefmt.ParseFile("../../../../adapters/retryprometheus/alerts.yaml", false, model.UTF8Validation, parser.NewParser(parser.Options{}), slog.New(slog.DiscardHandler))
	require.Empty(t, errs)
	require.Len(t, groups.Groups, 1)
	return groups.Groups[0].Rules
}

func TestAlerts(t *testing.T) {
	t.Parallel()
	families := exposed(t)
	outage := loaded(t, families)
	quiet := `load 1m
  retry_calls_total{policy="fetch",outcome="succeeded",category=""} 0+600x20
  retry_calls_total{policy="fetch",outcome="recovered",category=""} 0+10x20
  retry_calls_total{policy="fetch",outcome="canceled",category=""} 0+100x20
  retry_calls_total{policy="fetch",outcome="attempts",category="timeout"} 0+1x20
  retry_calls_total{policy="fetch",outcome="budget",category="timeout"} 3x20
  retry_retries_total{policy="fetch",category="timeout"} 0+12x20
  retry_retries_total{policy="rare",category="timeout"} 0+1x20
  retry_calls_total{policy="rare",outcome="recovered",category=""} 0+1x20
`
	all := rules(t)
	require.Len(t, all, 3)
	for _, rule := range all {
		t.Run(rule.Alert, func(t *testing.T) {
			t.Parallel()
			checkNames(t, families, rule.Expr)
			fired := evaluate(t, outage, rule.Expr)
			require.Len(t, fired, 1, "in an outage")
			assert.Equal(t, "fetch", fired[0].Metric.Get("policy"))
			assert.Empty(t, evaluate(t, quiet, rule.Expr), "in good times")
			assert.NotEmpty(t, rule.Annotations["summary"])
			assert.NotEmpty(t, rule.Labels["severity"])
		})
	}
}

func TestDashboard(t *testing.T) {
	t.Parallel()
	data := testkit.Must(os.ReadFile("../../../../adapters/retryprometheus/dashboard.json"))(t)
	var dashboard struct {
		Panels []struct {
			ID      int
			Title   string
			Targets []struct{ Expr string }
		}
		Templating struct {
			List []struct{ Name string }
		}
	}
	require.NoError(t, json.Unmarshal(data, &dashboard))
	families := exposed(t)
	script := loaded(t, families)
	ids := map[int]bool{}
	used := map[string]bool{}
	for _, panel := range dashboard.Panels {
		assert.False(t, ids[panel.ID], "panels have numbers of their own")
		ids[panel.ID] = true
		require.NotEmpty(t, panel.Targets, panel.Title)
		for _, target := range panel.Targets {
			// What Grafana fills in.
			query := strings.NewReplacer("$policy", ".*", "$__rate_interval", "5m").Replace(target.Expr)
			require.NotContains(t, query, "$")
			checkNames(t, families, query)
			assert.NotEmpty(t, evaluate(t, script, query), "%s: %s", panel.Title, query)
			for _, f := range families {
				used[f.GetName()] = used[f.GetName()] || strings.Contains(query, f.GetName())
			}
		}
	}
	for name, is := range used {
		assert.True(t, is, "no panel shows %s", name)
	}
}
