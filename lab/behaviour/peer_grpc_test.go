package behaviour_test

import (
	"context"
	"slices"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/budget"
	"github.com/failsafe-go/failsafe-go/failsafegrpc"
	"github.com/googleapis/gax-go/v2"
	middleware "github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/retry"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrygrpc"
)

const grpcIntro = "Calls through each library as an interceptor of a real client, to a real server in memory. " +
	"All make 4 attempts and wait for 1s, 2s and 4s, as far as they can; `Get` and `Watch` may be repeated, and `Submit` may not. " +
	"gax is no interceptor: its `Invoke` is put around the call as the clients of Google do it."

// grpcPolicy is what a probe of gRPC asks for beside the usual.
type grpcPolicy struct {
	info   bool // hints in the details of a status are to be heeded
	budget bool // a limit for all retries of a connection
}

// grpcContestant is a library for gRPC calls.
type grpcContestant struct {
	name, module, setup string
	options             func(grpcPolicy) []grpc.DialOption
	// once says how the documentation excludes a method from the retries, where that
	// takes more than one setting of the connection.
	once string
	// ownInfo says that hints take code of one's own.
	ownInfo bool
	// noStreams says that it has nothing for streams.
	noStreams bool
}

// repeatable are the methods that may be repeated.
var repeatable = []string{grpcGet, grpcWatch}

var grpcContestants = []*grpcContestant{
	{
		name:   "retrygrpc",
		module: "github.com/seed-5ff3c98e/retry/adapters/retrygrpc",
		setup:  "`Interceptor.DialOptions`, with a `Policy` that has `Exponential` and `NoJitter`, and `Methods` in the place of a proto definition",
		options: func(grpcPolicy) []grpc.DialOption {
			i := &retrygrpc.Interceptor{
				Policy: &retry.Policy{
					MaxAttempts: 4, Backoff: retry.Exponential{Initial: time.Second}, MaxDelay: 30 * time.Second, Jitter: retry.NoJitter,
				},
				Idempotent: retrygrpc.Methods(repeatable...),
			}
			return i.DialOptions()
		},
	},
	{
		name:   "go-grpc-middleware",
		module: "github.com/grpc-ecosystem/go-grpc-middleware/v2",
		setup:  "`retry.UnaryClientInterceptor` and `StreamClientInterceptor` with `WithMax` and `BackoffExponential`",
		options: func(grpcPolicy) []grpc.DialOption {
			opts := []middleware.CallOption{
				middleware.WithMax(4), middleware.WithBackoff(middleware.BackoffExponential(time.Second)),
			}
			return []grpc.DialOption{
				grpc.WithChainUnaryInterceptor(middleware.UnaryClientInterceptor(opts...)),
				grpc.WithChainStreamInterceptor(middleware.StreamClientInterceptor(opts...)),
			}
		},
		once: "`Disable()` with every such call",
	},
	{
		name:   "failsafegrpc",
		module: "github.com/failsafe-go/failsafe-go",
		setup:  "`NewUnaryClientInterceptor` with `NewRetryPolicyBuilder`, `WithMaxAttempts` and `WithBackoff`; a `WithDelayFunc` of our own where hints are to be heeded, and `WithBudget` where a budget is",
		options: func(p grpcPolicy) []grpc.DialOption {
			b := failsafegrpc.NewRetryPolicyBuilder[*wrapperspb.StringValue]().WithMaxAttempts(4).WithBackoff(time.Second, 30*time.Second)
			if p.info {
				b = b.WithDelayFunc(func(e failsafe.ExecutionAttempt[*wrapperspb.StringValue]) time.Duration {
					if d, ok := statusInfo(e.LastError()); ok {
						return d
					}
					return -1
				})
			}
			if p.budget {
				b = b.WithBudget(budget.New())
			}
			return []grpc.DialOption{grpc.WithChainUnaryInterceptor(failsafegrpc.NewUnaryClientInterceptor(b.Build()))}
		},
		ownInfo:   true,
		noStreams: true,
	},
	{
		name:   "gax-grpc",
		module: "github.com/googleapis/gax-go/v2",
		setup:  "`Invoke` around the calls of the methods that may be repeated, with `OnCodes(Unavailable)`; a `Retryer` of our own counts the attempts, takes the waits without jitter, and reads hints where they are to be heeded",
		options: func(p grpcPolicy) []grpc.DialOption {
			invoke := func(ctx context.Context, method string, call func(context.Context) error) error {
				if !slices.Contains(repeatable, method) {
					return call(ctx)
				}
				return gax.Invoke(ctx, func(ctx context.Context, _ gax.CallSettings) error { return call(ctx) },
					gax.WithRetry(func() gax.Retryer { return &gaxGRPC{info: p.info} }))
			}
			return []grpc.DialOption{
				grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn,
					invoker grpc.UnaryInvoker, opts ...grpc.CallOption,
				) error {
					return invoke(ctx, method, func(ctx context.Context) error { return invoker(ctx, method, req, reply, cc, opts...) })
				}),
				grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string,
					streamer grpc.Streamer, opts ...grpc.CallOption,
				) (stream grpc.ClientStream, err error) {
					err = invoke(ctx, method, func(ctx context.Context) error {
						stream, err = streamer(ctx, desc, cc, method, opts...)
						return err
					})
					return stream, err
				}),
			}
		},
		ownInfo: true,
	},
	{
		name:   "grpc-go",
		module: "google.golang.org/grpc",
		setup:  "the retries of grpc-go itself: a service config with a `retryPolicy` for the methods that may be repeated, and `retryThrottling` where a budget is asked for",
		options: func(p grpcPolicy) []grpc.DialOption {
			config := grpcConfig
			if p.budget {
				config = `{"retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1}, ` + config[1:]
			}
			return []grpc.DialOption{grpc.WithDefaultServiceConfig(config)}
		},
	},
}

// grpcConfig is a service config with retries.
const grpcConfig = `{"methodConfig": [{"name": [{"service": "jobs.Jobs", "method": "Get"}, {"service": "jobs.Jobs", "method": "Watch"}],
	"retryPolicy": {"maxAttempts": 4, "initialBackoff": "1s", "maxBackoff": "30s", "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]}}]}`

// gaxGRPC is a Retryer that counts.
type gaxGRPC struct {
	info     bool
	failures int
}

func (r *gaxGRPC) Retry(err error) (time.Duration, bool) {
	if r.failures++; r.failures >= 4 {
		return 0, false
	}
	_, again := gax.OnCodes([]codes.Code{codes.Unavailable}, gax.Backoff{}).Retry(err)
	if d, ok := statusInfo(err); ok && r.info {
		return d, again
	}
	return time.Second << (r.failures - 1), again
}

// statusInfo returns the hint of a status.
func statusInfo(err error) (time.Duration, bool) {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			return info.GetRetryDelay().AsDuration(), true
		}
	}
	return 0, false
}
