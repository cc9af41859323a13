package retryslog_test

import (
	"cmp"
	"context"
	"errors"
	"expvar"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/retryslog"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// withoutTime returns a logger whose output is the same every time.
func withoutTime() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		},
	}))
}

func ExampleNew() {
	policy := &retry.Policy{
		Name:     "fetch",
		Jitter:   retry.NoJitter,
		Observer: retryslog.New(withoutTime(), nil),
		Clock:    &retrytest.Clock{}, // so that the example does not wait
	}
	attempts := 0
	_ = policy.Execute(context.Background(), func(context.Context) error {
		if attempts++; attempts < 3 {
			return errors.New("connection lost")
		}
		return nil
	})
	// Output:
	// level=WARN msg=retrying policy=fetch attempt=1 delay=2s class=unknown elapsed=0s error="connection lost"
	// level=WARN msg=retrying policy=fetch attempt=2 delay=4s class=unknown elapsed=2s error="connection lost"
	// level=INFO msg=recovered policy=fetch attempt=3 elapsed=6s
}

// Two Observers: one logs, and one counts retries by the kind of the failure.
func ExampleNew_metrics() {
	retries := new(expvar.Map) // expvar.Publish shows it, or use a counter of your metrics
	count := &retry.Observer{Event: func(_ context.Context, e retry.Event) {
		if e.Kind == retry.Retrying {
			retries.Add(cmp.Or(e.Verdict.Category, e.Verdict.Class.String()), 1)
		}
	}}
	policy := &retry.Policy{
		Name:     "fetch",
		Observer: retry.Observers(retryslog.New(slog.Default(), nil), count),
	}

	policy.Observer = retry.Observers(retryslog.New(withoutTime(), nil), count)
	policy.Jitter, policy.Clock = retry.NoJitter, &retrytest.Clock{} // so that the example does not wait
	failures := retrytest.Script(context.DeadlineExceeded, errors.New("connection lost"), nil)
	fmt.Println(policy.Execute(context.Background(), failures.Run), retries)
	// Output:
	// level=WARN msg=retrying policy=fetch attempt=1 delay=2s class=retryable category=timeout elapsed=0s error="context deadline exceeded"
	// level=WARN msg=retrying policy=fetch attempt=2 delay=4s class=unknown elapsed=2s error="connection lost"
	// level=INFO msg=recovered policy=fetch attempt=3 elapsed=6s
	// <nil> {"timeout": 1, "unknown": 1}
}

func ExampleOptions() {
	observer := retryslog.New(withoutTime(), &retryslog.Options{
		Retrying:  slog.LevelDebug,
		Succeeded: slog.LevelInfo,
	})
	policy := &retry.Policy{Observer: observer, Clock: &retrytest.Clock{}}
	_ = policy.Execute(context.Background(), func(context.Context) error { return nil })
	// Output: level=INFO msg=succeeded attempt=1 elapsed=0s
}

type jobKey struct{}

// The records of a call tell which job it was made for.
func ExampleOptions_attrs() {
	observer := retryslog.New(withoutTime(), &retryslog.Options{
		Attrs: func(ctx context.Context) []slog.Attr {
			return []slog.Attr{slog.Any("job", ctx.Value(jobKey{}))}
		},
	})
	policy := &retry.Policy{MaxAttempts: 2, Observer: observer, Jitter: retry.NoJitter, Clock: &retrytest.Clock{}}
	ctx := context.WithValue(context.Background(), jobKey{}, 42)
	attempts := 0
	_ = policy.Execute(ctx, func(context.Context) error {
		if attempts++; attempts < 2 {
			return errors.New("connection lost")
		}
		return nil
	})
	// Output:
	// level=WARN msg=retrying attempt=1 delay=2s class=unknown elapsed=0s error="connection lost" job=42
	// level=INFO msg=recovered attempt=2 elapsed=2s job=42
}

// In an outage the log has one line per kind of failure and minute.
func ExampleOptions_interval() {
	observer := retryslog.New(withoutTime(), &retryslog.Options{Interval: time.Minute})
	policy := &retry.Policy{MaxAttempts: 1, Observer: observer, Clock: &retrytest.Clock{}}
	for range 1000 {
		_ = policy.Execute(context.Background(), func(context.Context) error {
			return errors.New("connection refused")
		})
	}
	// Output: level=ERROR msg="gave up" attempt=1 stop=attempts class=unknown elapsed=0s error="failed after 1 attempt: connection refused"
}

func ExampleRedact() {
	fmt.Println(retryslog.Redact(`Get "https://user:password@example.com/jobs?token=12345": EOF`))
	// Output: Get "https://example.com/jobs?token=***": EOF
}
