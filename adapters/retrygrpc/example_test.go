package retrygrpc_test

import (
	"context"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrygrpc"
)

// busy is a health service that refuses its first calls.
type busy struct {
	healthpb.UnimplementedHealthServer

	refusals int
}

func (b *busy) Check(ctx context.Context, _ *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	if b.refusals > 0 {
		b.refusals--
		return nil, retrygrpc.Overloaded(ctx, 10*time.Millisecond, "too many checks")
	}
	return &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_SERVING}, nil
}

// serve serves a health service on loopback.
func serve(service healthpb.HealthServer) (address string, stop func()) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	server := grpc.NewServer()
	healthpb.RegisterHealthServer(server, service)
	go func() { _ = server.Serve(listener) }()
	return listener.Addr().String(), server.Stop
}

func ExampleInterceptor() {
	address, stop := serve(&busy{refusals: 2})
	defer stop()

	policy := &retry.Policy{
		Name: "health",
		Observer: &retry.Observer{Event: func(_ context.Context, e retry.Event) {
			fmt.Printf("%v: attempt %d\n", e.Kind, e.Attempt)
		}},
	}
	security := grpc.WithTransportCredentials(insecure.NewCredentials())

	retries := &retrygrpc.Interceptor{Policy: policy, Idempotent: retrygrpc.Methods("/grpc.health.v1.Health/*")}
	conn, err := grpc.NewClient(address, append(retries.DialOptions(), security)...)
	if err != nil {
		panic(err)
	}
	defer func() { _ = conn.Close() }()

	resp, err := healthpb.NewHealthClient(conn).Check(context.Background(), &healthpb.HealthCheckRequest{})
	fmt.Println(resp.GetStatus(), err)
	// Output:
	// retrying: attempt 1
	// retrying: attempt 2
	// succeeded: attempt 3
	// SERVING <nil>
}

// A call that was retried to no avail has a status as other calls have.
func ExampleError() {
	address, stop := serve(health.NewServer())
	stop() // nobody is there

	retries := &retrygrpc.Interceptor{Policy: &retry.Policy{Backoff: retry.Constant(0)}}
	conn, err := grpc.NewClient(address, append(retries.DialOptions(),
		grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		panic(err)
	}
	defer func() { _ = conn.Close() }()

	_, err = healthpb.NewHealthClient(conn).Check(context.Background(), &healthpb.HealthCheckRequest{})
	fmt.Println(status.Code(err), status.Code(err) == codes.Unavailable)
	// Output: Unavailable true
}
