package telemetrytest_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	_ "modernc.org/sqlite"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrygrpc"
	"github.com/seed-5ff3c98e/retry/adapters/retryotel"
	"github.com/seed-5ff3c98e/retry/adapters/retrypgx"
	"github.com/seed-5ff3c98e/retry/adapters/retryprometheus"
	"github.com/seed-5ff3c98e/retry/retryexec"
	"github.com/seed-5ff3c98e/retry/retryhttp"
	"github.com/seed-5ff3c98e/retry/retrypool"
	"github.com/seed-5ff3c98e/retry/retrysql"
	"github.com/seed-5ff3c98e/retry/retrytable"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// down is a database that nobody can connect to.
type down struct{}

func (down) Connect(context.Context) (driver.Conn, error) {
	return nil, retry.Mark(errors.New("refused"), retry.Verdict{Class: retry.Retryable, Category: "conn_refused"})
}

func (down) Driver() driver.Driver { return nil }

// busy is a service that refuses four calls of five.
type busy struct {
	healthpb.UnimplementedHealthServer

	calls atomic.Int32
}

func (b *busy) Check(context.Context, *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	n := b.calls.Add(1)
	if n%5 == 0 {
		return &healthpb.HealthCheckResponse{}, nil
	}
	if n%5 == 4 {
		return nil, status.Error(codes.NotFound, "no")
	}
	return nil, status.Error(codes.Unavailable, "no")
}

// drivers are what drives a policy. Each makes calls of all sorts: some end well at once or
// after retries, and some do not.
var drivers = map[string]func(t *testing.T, p *retry.Policy){
	"Execute": func(t *testing.T, p *retry.Policy) {
		t.Helper()
		for n := range 5 {
			failures := n
			_ = p.Execute(t.Context(), func(context.Context) error {
				if failures--; failures >= 0 {
					return retry.Mark(errors.New("boom"), retry.Verdict{Class: retry.Retryable, Category: fmt.Sprint("kind", n)})
				}
				return nil
			})
		}
		ctx, cancel := context.WithCancel(t.Context())
		_ = p.Execute(ctx, func(context.Context) error { cancel(); return errors.New("boom") })
		_ = p.Execute(ctx, func(context.Context) error { return nil })
	},
	"retryhttp": func(t *testing.T, p *retry.Policy) {
		t.Helper()
		calls := 0
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			if calls++; calls%4 != 0 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}))
		defer server.Close()
		client := &http.Client{Transport: &retryhttp.Transport{Policy: p, Budget: retryhttp.NoBudget}}
		for range 5 {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
			require.NoError(t, err)
			resp, err := client.Do(req)
			require.NoError(t, err)
			_ = resp.Body.Close()
		}
	},
	"retrysql": func(t *testing.T, p *retry.Policy) {
		t.Helper()
		db := sql.OpenDB(down{})
		defer func() { _ = db.Close() }()
		require.Error(t, retrysql.InTx(t.Context(), db, p, nil, func(context.Context, *sql.Tx) error { return nil }))
	},
	"retryexec": func(t *testing.T, p *retry.Policy) {
		t.Helper()
		require.NoError(t, retryexec.Run(t.Context(), p, retryexec.Command("true")))
		require.Error(t, retryexec.Run(t.Context(), p, retryexec.Command("sh", "-c", "exit 75")))
	},
	"retrypool": func(t *testing.T, p *retry.Policy) {
		t.Helper()
		q := *p
		q.Clock, q.Backoff = nil, retry.Constant(time.Millisecond)
		pool := &retrypool.Pool{Workers: 2, Policy: &q}
		for n := range 5 {
			failures := n
			_, err := pool.Submit(t.Context(), func(context.Context) error {
				if failures--; failures >= 0 {
					return errors.New("boom")
				}
				return nil
			})
			require.NoError(t, err)
		}
		require.NoError(t, pool.Wait(t.Context()))
		_, err := pool.Close(t.Context())
		require.NoError(t, err)
	},
	"retrytable": func(t *testing.T, p *retry.Policy) {
		t.Helper()
		db, err := sql.Open("sqlite", ":memory:")
		require.NoError(t, err)
		defer func() { _ = db.Close() }()
		db.SetMaxOpenConns(1)
		table := &retrytable.Table[int64]{Dialect: retrytable.SQLite, Name: "jobs"}
		_, err = db.ExecContext(t.Context(), "CREATE TABLE jobs (id INTEGER PRIMARY KEY);"+table.Schema()+
			"INSERT INTO jobs (id) VALUES (1), (2), (3), (4), (5)")
		require.NoError(t, err)
		q := *p
		q.Clock, q.Backoff = nil, retry.Constant(0)
		worker := &retrytable.Worker[int64]{
			Table: table, DB: db, Policy: &q, Work: func(_ context.Context, job *retrytable.Job[int64]) error {
				switch {
				case int64(job.Attempt()) >= job.ID:
					return nil
				case job.ID == 5:
					return retry.MarkFinal(errors.New("boom"))
				}
				return errors.New("boom")
			},
		}
		claimed := 1
		for claimed > 0 {
			claimed, err = worker.Once(t.Context())
			require.NoError(t, err)
		}
	},
	"retrygrpc": func(t *testing.T, p *retry.Policy) {
		t.Helper()
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		server, service := grpc.NewServer(), &busy{}
		healthpb.RegisterHealthServer(server, service)
		go func() { _ = server.Serve(listener) }()
		defer server.Stop()
		retries := &retrygrpc.Interceptor{Policy: p, Idempotent: retrygrpc.Methods(healthpb.Health_Check_FullMethodName)}
		conn, err := grpc.NewClient(listener.Addr().String(), append(retries.DialOptions(),
			grpc.WithTransportCredentials(insecure.NewCredentials()))...)
		require.NoError(t, err)
		defer func() { _ = conn.Close() }()
		for range 5 {
			_, _ = healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
		}
	},
	"retrypgx": func(t *testing.T, p *retry.Policy) {
		t.Helper()
		pool, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/nowhere?connect_timeout=5")
		require.NoError(t, err)
		defer pool.Close()
		require.Error(t, retrypgx.InTx(t.Context(), pool, p, nil, func(context.Context, pgx.Tx) error { return nil }))
	},
	// A driver of an engine has no Call: it makes the events itself.
	"engine": func(t *testing.T, p *retry.Policy) {
		t.Helper()
		v := retry.Verdict{Class: retry.Retryable, Category: "lost"}
		p.Observer.Observe(t.Context(), retry.Event{Kind: retry.Retrying, Policy: p.Name, Attempt: 4, Delay: time.Hour, Verdict: v})
		p.Observer.Observe(t.Context(), retry.Event{Kind: retry.GaveUp, Policy: p.Name, Attempt: 5, Verdict: v, Stop: retry.StopAttempts})
	},
}

// counts are the counters by their names and labels.
type counts map[string]float64

func (c counts) add(name, outcome, category string, n float64) {
	if n != 0 {
		c[fmt.Sprintf("%s %s %s", name, outcome, category)] += n
	}
}

// TestDrivers runs every driver with both, and compares their counters with the events.
func TestDrivers(t *testing.T) {
	t.Parallel()
	for name, drive := range drivers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			recorder, collector, reader := &retrytest.Recorder{}, retryprometheus.New(nil), metric.NewManualReader()
			otel, err := retryotel.New(&retryotel.Options{MeterProvider: metric.NewMeterProvider(metric.WithReader(reader))})
			require.NoError(t, err)
			drive(t, &retry.Policy{
				Name: name, Observer: retry.Observers(recorder, collector, otel), Clock: &retrytest.Clock{},
			})

			want := counts{}
			for _, e := range recorder.Events() {
				category := e.Verdict.Category
				if category == "" && e.Verdict != (retry.Verdict{}) {
					category = e.Verdict.Class.String()
				}
				switch {
				case e.Kind == retry.Retrying:
					want.add("retries", "", category, 1)
					want.add("delay", "", "", e.Delay.Seconds())
					continue
				case e.Kind == retry.Succeeded && e.Attempt == 1:
					want.add("calls", "succeeded", "", 1)
				case e.Kind == retry.Succeeded:
					want.add("calls", "recovered", "", 1)
				default:
					want.add("calls", e.Stop.Error(), category, 1)
				}
				want.add("attempts", "", "", float64(e.Attempt))
				want.add("ended", "", "", 1)
			}
			require.NotEmpty(t, want)
			assert.InDeltaMapValues(t, want, ofPrometheus(t, collector), 1e-9)
			assert.InDeltaMapValues(t, want, ofOTel(t, reader), 1e-9)
		})
	}
}

func ofPrometheus(t *testing.T, c prometheus.Collector) counts {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	require.NoError(t, registry.Register(c))
	families, err := registry.Gather()
	require.NoError(t, err)
	got := counts{}
	names := map[string]string{
		"retry_calls_total": "calls", "retry_attempts_total": "attempts", "retry_retries_total": "retries",
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			switch {
			case f.GetType() == dto.MetricType_COUNTER:
				got.add(names[f.GetName()], labels["outcome"], labels["category"], m.GetCounter().GetValue())
			case f.GetName() == "retry_delay_seconds":
				got.add("delay", "", "", m.GetHistogram().GetSampleSum())
			case f.GetName() == "retry_call_duration_seconds":
				got.add("ended", "", "", float64(m.GetHistogram().GetSampleCount()))
			}
		}
	}
	return got
}

func ofOTel(t *testing.T, reader metric.Reader) counts {
	t.Helper()
	var all metricdata.ResourceMetrics
	require.NoError(t, reader.Collect(t.Context(), &all))
	got := counts{}
	names := map[string]string{"retry.calls": "calls", "retry.attempts": "attempts", "retry.retries": "retries"}
	text := func(set attribute.Set, key attribute.Key) string {
		v, _ := set.Value(key)
		return v.AsString()
	}
	for _, m := range all.ScopeMetrics[0].Metrics {
		switch data := m.Data.(type) {
		case metricdata.Sum[int64]:
			for _, p := range data.DataPoints {
				if name := names[m.Name]; name != "" {
					got.add(name, text(p.Attributes, "retry.outcome"), text(p.Attributes, "error.type"), float64(p.Value))
				}
			}
		case metricdata.Histogram[float64]:
			for _, p := range data.DataPoints {
				if m.Name == "retry.delay" {
					got.add("delay", "", "", p.Sum)
				} else {
					got.add("ended", "", "", float64(p.Count))
				}
			}
		}
	}
	return got
}
