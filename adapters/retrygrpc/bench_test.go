package retrygrpc_test

import (
	"context"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/seed-5ff3c98e/retry/adapters/retrygrpc"
)

// chained is an interceptor that does nothing.
func chained(
	ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	return invoker(ctx, method, req, reply, cc, opts...)
}

// ways are those in which the benchmark and TestAllocs make calls.
var ways = []struct {
	name, method string
	opts         func() []grpc.DialOption
}{
	{"by=hand", get, func() []grpc.DialOption { return []grpc.DialOption{grpc.WithChainUnaryInterceptor(chained)} }},
	{"by=retry", get, (&retrygrpc.Interceptor{}).DialOptions},
	{"by=retry_once", submit, (&retrygrpc.Interceptor{}).DialOptions},
}

// caller returns a function that makes a call which succeeds at once, over loopback.
func caller(tb testing.TB, method string, opts ...grpc.DialOption) func() {
	tb.Helper()
	s := (&server{unary: func(_ context.Context, _ int, in string) (string, error) { return in, nil }}).start(tb)
	s.quiet = true
	conn := dial(tb, s.address, opts...)
	ctx, in, out := context.Background(), wrapperspb.String("job"), &wrapperspb.StringValue{}
	return func() {
		// Generated code gives every call an option.
		if err := conn.Invoke(ctx, method, in, out, grpc.StaticMethod()); err != nil {
			tb.Fatal(err)
		}
	}
}

// BenchmarkUnary compares a call that succeeds at once over loopback with the same call
// behind an interceptor that does nothing.
func BenchmarkUnary(b *testing.B) {
	for _, way := range ways {
		b.Run(way.name, func(b *testing.B) {
			call := caller(b, way.method, way.opts()...)
			call()
			b.ReportAllocs()
			for b.Loop() {
				call()
			}
		})
	}
}
