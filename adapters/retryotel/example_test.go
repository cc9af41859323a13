package retryotel_test

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retryotel"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

func ExampleNew() {
	ctx := context.Background()

	observer, err := retryotel.New(nil) // of the global providers
	if err != nil {
		panic(err)
	}
	policy := &retry.Policy{Name: "fetch", Observer: observer}
	fmt.Println(policy.Execute(ctx, func(context.Context) error { return nil }))
	// Output: <nil>
}

// With spans of the attempts.
func ExampleOptions() {
	spans := tracetest.NewSpanRecorder() // a program has an exporter here
	tracers := trace.NewTracerProvider(trace.WithSpanProcessor(spans))
	observer, err := retryotel.New(&retryotel.Options{TracerProvider: tracers, Spans: true})
	if err != nil {
		panic(err)
	}
	policy := &retry.Policy{
		Name:     "fetch",
		Observer: observer,
		Clock:    &retrytest.Clock{}, // so that the example does not wait
	}
	ctx, span := tracers.Tracer("example").Start(context.Background(), "job")
	attempts := 0
	_ = policy.Execute(ctx, func(context.Context) error {
		if attempts++; attempts < 3 {
			return errors.New("connection lost")
		}
		return nil
	})
	span.End()
	for _, s := range spans.Ended() {
		fmt.Printf("%s %s: %d events\n", s.Name(), s.Status().Code, len(s.Events()))
	}
	// Output:
	// attempt Error: 0 events
	// attempt Error: 0 events
	// attempt Unset: 0 events
	// job Unset: 2 events
}
