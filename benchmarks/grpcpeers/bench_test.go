package grpcpeers_test

import (
	"context"
	"math"
	"math/rand/v2"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/failsafe-go/failsafe-go/failsafegrpc"
	"github.com/googleapis/gax-go/v2"
	middleware "github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/retry"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrygrpc"
)

const attempts = 3

// check is the method that all call.
const check = healthpb.Health_Check_FullMethodName

// service refuses its first calls.
type service struct {
	healthpb.UnimplementedHealthServer

	refusals, calls int
}

func (s *service) Check(context.Context, *healthpb.HealthCheckRequest) (*healthpb.HealthCheckResponse, error) {
	if s.calls++; s.calls <= s.refusals {
		return nil, status.Error(codes.Unavailable, "busy")
	}
	return &healthpb.HealthCheckResponse{Status: healthpb.HealthCheckResponse_SERVING}, nil
}

// serve serves s over loopback.
func serve(tb testing.TB, s *service) (address string) {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(tb, err)
	server := grpc.NewServer()
	healthpb.RegisterHealthServer(server, s)
	go func() { _ = server.Serve(listener) }()
	tb.Cleanup(server.Stop)
	return listener.Addr().String()
}

// nothing is an interceptor that does nothing.
func nothing(
	ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	return invoker(ctx, method, req, reply, cc, opts...)
}

// byGax is an interceptor that does what the clients of Google do in every method.
func byGax(
	ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	return gax.Invoke(ctx, func(ctx context.Context, _ gax.CallSettings) error {
		return invoker(ctx, method, req, reply, cc, opts...)
	}, gax.WithRetry(func() gax.Retryer {
		return gax.OnCodes([]codes.Code{codes.Unavailable}, gax.Backoff{Initial: time.Millisecond, Max: time.Millisecond})
	}))
}

// peers are the contestants, each with the options of a connection that make it retry
// UNAVAILABLE, up to 3 attempts, with waits of a millisecond at most.
var peers = []struct {
	name string
	opts func() []grpc.DialOption
}{
	{"hand", func() []grpc.DialOption { return []grpc.DialOption{grpc.WithChainUnaryInterceptor(nothing)} }},
	{"retry", func() []grpc.DialOption {
		return (&retrygrpc.Interceptor{
			Policy:     &retry.Policy{Backoff: retry.Constant(time.Millisecond)},
			Idempotent: retrygrpc.Methods(check),
		}).DialOptions()
	}},
	{"middleware", func() []grpc.DialOption {
		return []grpc.DialOption{grpc.WithChainUnaryInterceptor(middleware.UnaryClientInterceptor(
			middleware.WithMax(attempts), middleware.WithBackoff(middleware.BackoffLinear(time.Millisecond))))}
	}},
	{"failsafe", func() []grpc.DialOption {
		policy := failsafegrpc.NewRetryPolicyBuilder[*healthpb.HealthCheckResponse]().WithDelay(time.Millisecond).Build()
		return []grpc.DialOption{grpc.WithChainUnaryInterceptor(failsafegrpc.NewUnaryClientInterceptor(policy))}
	}},
	{"gax", func() []grpc.DialOption { return []grpc.DialOption{grpc.WithChainUnaryInterceptor(byGax)} }},
	{"grpc", func() []grpc.DialOption {
		return []grpc.DialOption{grpc.WithChainUnaryInterceptor(nothing), grpc.WithDefaultServiceConfig(
			`{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 3, "initialBackoff": "0.001s",
				"maxBackoff": "0.001s", "backoffMultiplier": 1, "retryableStatusCodes": ["UNAVAILABLE"]}}]}`)}
	}},
}

// caller returns a function that makes a call of a server.
func caller(tb testing.TB, address string, opts []grpc.DialOption) func() error {
	tb.Helper()
	conn, err := grpc.NewClient("passthrough:///"+address,
		append(opts, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = conn.Close() })
	client, ctx, req := healthpb.NewHealthClient(conn), context.Background(), &healthpb.HealthCheckRequest{}
	return func() error {
		_, err := client.Check(ctx, req)
		return err
	}
}

// TestSame has a server that refuses two calls: the third succeeds.
func TestSame(t *testing.T) {
	t.Parallel()
	for _, p := range peers[1:] {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			s := &service{refusals: attempts - 1}
			require.NoError(t, caller(t, serve(t, s), p.opts())())
			assert.Equal(t, attempts, s.calls)
		})
	}
}

// TestAllocs counts what a call allocates beyond one behind an interceptor that does
// nothing. Ours is the copy of the trailer, which nobody else reads.
func TestAllocs(t *testing.T) { //nolint:paralleltest // counts what others allocate
	const calls = 1000
	var bare float64
	for _, p := range peers {
		call := caller(t, serve(t, &service{}), p.opts())
		least := math.Inf(1)
		for range 3 {
			least = min(least, testing.AllocsPerRun(calls, func() { _ = call() }))
		}
		if p.name == "hand" {
			bare = least
			continue
		}
		t.Logf("%s: %+.0f allocations", p.name, least-bare)
		if p.name == "retry" {
			assert.LessOrEqual(t, least-bare, 1.0)
		}
	}
}

// BenchmarkUnary reports the ratios.
func BenchmarkUnary(b *testing.B) {
	calls := make([]func() error, len(peers))
	took := make([][]time.Duration, len(peers))
	order := make([]int, len(peers))
	for i, p := range peers {
		calls[i], order[i] = caller(b, serve(b, &service{}), p.opts()), i
		require.NoError(b, calls[i]())
	}
	for b.Loop() {
		rand.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, i := range order {
			start := time.Now()
			if err := calls[i](); err != nil {
				b.Fatal(err)
			}
			took[i] = append(took[i], time.Since(start))
		}
	}
	median := func(i int) float64 {
		slices.Sort(took[i])
		return float64(took[i][len(took[i])/2])
	}
	hand := median(0)
	for i, p := range peers[1:] {
		b.ReportMetric(median(i+1)/hand, p.name+"/hand")
	}
}
