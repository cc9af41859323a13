package behaviour_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// grpcPromises are about gRPC calls.
var grpcPromises = []promise[*grpcContestant]{
	{
		"A pushback is the wait",
		"UNAVAILABLE with `grpc-retry-pushback-ms: 5000`, then a success. The backoff would wait for 1s.",
		grpcProbe(grpcPolicy{}, func(c *grpcContestant, e *grpcExchange) cell {
			_, err := e.call(context.Background(), grpcGet)
			return waitedFor(e, err, 5*time.Second)
		}, grpcReply{code: codes.Unavailable, pushback: "5000"}, grpcReply{}),
	},
	{
		"A pushback can forbid a retry",
		"UNAVAILABLE with `grpc-retry-pushback-ms: -1`, then a success.",
		grpcProbe(grpcPolicy{}, func(c *grpcContestant, e *grpcExchange) cell {
			_, _ = e.call(context.Background(), grpcGet)
			return keptIf(e.requests == 1, "%s", count(e.requests, "request"))
		}, grpcReply{code: codes.Unavailable, pushback: "-1"}, grpcReply{}),
	},
	{
		"A pushback longer than the longest wait is not slept",
		"`grpc-retry-pushback-ms: 3600000`; the longest wait is 30s.",
		grpcProbe(grpcPolicy{}, func(c *grpcContestant, e *grpcExchange) cell {
			took, _ := e.call(context.Background(), grpcGet)
			return keptIf(took < time.Hour, "%s", choose(took == 0, "returned at once", "waited for "+short(took.Round(time.Second))))
		}, grpcReply{code: codes.Unavailable, pushback: "3600000"}, grpcReply{}),
	},
	{
		"A pushback beyond the deadline: returns at once",
		"`grpc-retry-pushback-ms: 20000`, and a deadline 10s away.",
		grpcProbe(grpcPolicy{}, func(c *grpcContestant, e *grpcExchange) cell {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			took, _ := e.call(ctx, grpcGet)
			return keptIf(took == 0, "%s", choose(took == 0, "returned at once", "returned after "+short(took.Round(time.Second))))
		}, grpcReply{code: codes.Unavailable, pushback: "20000"}),
	},
	{
		"A RetryInfo in the details is a lower bound",
		"UNAVAILABLE with a `google.rpc.RetryInfo` of 5s, then a success. The backoff would wait for 1s.",
		grpcProbe(grpcPolicy{info: true}, func(c *grpcContestant, e *grpcExchange) cell {
			_, err := e.call(context.Background(), grpcGet)
			got := waitedFor(e, err, 5*time.Second)
			if got.mark == kept && c.ownInfo {
				return cell{partly, "with code of the caller's that reads it"}
			}
			return got
		}, grpcReply{code: codes.Unavailable, info: 5 * time.Second}, grpcReply{}),
	},
	{
		"RESOURCE_EXHAUSTED without a hint is retried",
		"Most servers that limit a rate give no RetryInfo: RESOURCE_EXHAUSTED, then a success.",
		grpcProbe(grpcPolicy{}, func(c *grpcContestant, e *grpcExchange) cell {
			_, _ = e.call(context.Background(), grpcGet)
			return keptIf(e.requests == 2, "%s", count(e.requests, "request"))
		}, grpcReply{code: codes.ResourceExhausted}, grpcReply{}),
	},
	{
		"What may have been applied is not sent again",
		"`Submit`, UNAVAILABLE, always.",
		grpcProbe(grpcPolicy{}, func(c *grpcContestant, e *grpcExchange) cell {
			_, _ = e.call(context.Background(), grpcSubmit)
			if e.requests > 1 && c.once != "" {
				return cell{partly, count(e.requests, "request") + "; not with " + c.once}
			}
			return keptIf(e.requests == 1, "%s", count(e.requests, "request"))
		}, grpcReply{code: codes.Unavailable}),
	},
	{
		"What was proved not to be sent is sent again",
		"`Submit`, while the server cannot be reached for 2s.",
		func(t tester, c *grpcContestant) cell {
			return bubble(t, func(t tester) cell {
				e := exchangeGRPC(t, c.options(grpcPolicy{}), &grpcExchange{down: 2 * time.Second, replies: []grpcReply{{}}})
				defer e.stop()
				_, err := e.call(context.Background(), grpcSubmit)
				return keptIf(err == nil, "%s", choose(err == nil, "succeeded", "failed at once"))
			})
		},
	},
	{
		"A server learns that a call is a retry",
		"UNAVAILABLE, then a success; the metadata of the second request.",
		grpcProbe(grpcPolicy{}, func(c *grpcContestant, e *grpcExchange) cell {
			_, _ = e.call(context.Background(), grpcGet)
			if e.requests < 2 {
				return cell{broken, count(e.requests, "request")}
			}
			if len(e.metadata[1].Get("grpc-previous-rpc-attempts")) > 0 {
				return cell{kept, "`grpc-previous-rpc-attempts`"}
			}
			for key := range e.metadata[1] {
				if e.metadata[0].Get(key) == nil {
					return cell{partly, "`" + key + "`, which only its own servers know"}
				}
			}
			return cell{broken, "nothing"}
		}, grpcReply{code: codes.Unavailable}, grpcReply{}),
	},
	{
		"A stream that fails before its first message is opened again",
		"`Watch`: UNAVAILABLE before any message, then a stream of two.",
		grpcProbe(grpcPolicy{}, func(c *grpcContestant, e *grpcExchange) cell {
			if c.noStreams {
				return cell{absent, "none for streams"}
			}
			messages, err := e.watch(context.Background())
			return keptIf(messages == 2 && err == nil, "%s, %s, %v", count(e.requests, "request"), count(messages, "message"), status.Code(err))
		}, grpcReply{code: codes.Unavailable}, grpcReply{messages: 2}),
	},
	{
		"A stream is not opened again after a message was delivered",
		"`Watch`: UNAVAILABLE after one message of two, then a stream of two.",
		grpcProbe(grpcPolicy{}, func(c *grpcContestant, e *grpcExchange) cell {
			if c.noStreams {
				return cell{absent, "none for streams"}
			}
			messages, err := e.watch(context.Background())
			seen := choose(messages > 2, "a message came twice", "the caller got the message and the error")
			return keptIf(e.requests == 1 && messages == 1 && err != nil, "%s: %s", count(e.requests, "request"), seen)
		}, grpcReply{messages: 1, code: codes.Unavailable}, grpcReply{messages: 2}),
	},
	{
		"Retries do not multiply with those of a service config",
		"UNAVAILABLE, always; the service config has a `retryPolicy` of 4 attempts too.",
		func(t tester, c *grpcContestant) cell {
			return bubble(t, func(t tester) cell {
				opts := append(c.options(grpcPolicy{}), grpc.WithDefaultServiceConfig(grpcConfig))
				e := exchangeGRPC(t, opts, &grpcExchange{replies: []grpcReply{{code: codes.Unavailable}}})
				defer e.stop()
				_, _ = e.call(context.Background(), grpcGet)
				return keptIf(e.requests <= 4, "%s", count(e.requests, "request"))
			})
		},
	},
	{
		"An outage does not become a storm",
		"100 calls, one after the other, UNAVAILABLE, always; with what the library has to limit all retries of a connection.",
		grpcProbe(grpcPolicy{budget: true}, func(c *grpcContestant, e *grpcExchange) cell {
			for range 100 {
				_, _ = e.call(context.Background(), grpcGet)
			}
			return keptIf(e.requests <= 150, "%d requests", e.requests)
		}, grpcReply{code: codes.Unavailable}),
	},
}

// grpcProbe runs a probe against a server with these replies, on the clock of a bubble.
func grpcProbe(p grpcPolicy, probe func(*grpcContestant, *grpcExchange) cell, replies ...grpcReply) func(tester, *grpcContestant) cell {
	return func(t tester, c *grpcContestant) cell {
		return bubble(t, func(t tester) cell {
			e := exchangeGRPC(t, c.options(p), &grpcExchange{replies: replies})
			defer e.stop()
			return probe(c, e)
		})
	}
}

// waitedFor looks at a call that succeeded at its second request.
func waitedFor(e *grpcExchange, err error, wait time.Duration) cell {
	if err != nil || e.requests != 2 {
		return cell{broken, fmt.Sprintf("%s, %v", count(e.requests, "request"), status.Code(err))}
	}
	got := e.waits()[0]
	if got < wait {
		return cell{broken, "waited as without it"}
	}
	return keptIf(got <= wait+wait/5, "waited for it, or up to 10 %% more")
}

// The methods of the server: one that may be repeated, one that may not, and a stream of
// responses that may be repeated.
const (
	grpcGet    = "/jobs.Jobs/Get"
	grpcSubmit = "/jobs.Jobs/Submit"
	grpcWatch  = "/jobs.Jobs/Watch"
)

// grpcReply is what the server does with a call.
type grpcReply struct {
	messages int // of a stream, before its end
	code     codes.Code
	pushback string        // "": none
	info     time.Duration // of a RetryInfo; 0: none
}

func (r *grpcReply) error(trailer func(metadata.MD)) error {
	if r.pushback != "" {
		trailer(metadata.Pairs("grpc-retry-pushback-ms", r.pushback))
	}
	s := status.New(r.code, "overloaded")
	if r.info > 0 {
		s, _ = s.WithDetails(protoadapt.MessageV1Of(&errdetails.RetryInfo{RetryDelay: durationpb.New(r.info)}))
	}
	return s.Err()
}

// grpcExchange is a server, a connection to it, and what became of the calls.
type grpcExchange struct {
	conn    *grpc.ClientConn
	stop    func()
	down    time.Duration // the server cannot be reached for so long
	replies []grpcReply   // the last for ever
	start   time.Time

	mu       sync.Mutex
	requests int
	at       []time.Duration
	metadata []metadata.MD
}

// began notes a call and returns the reply.
func (e *grpcExchange) began(ctx context.Context) *grpcReply {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.requests++
	e.at = append(e.at, time.Since(e.start))
	md, _ := metadata.FromIncomingContext(ctx)
	e.metadata = append(e.metadata, md)
	return &e.replies[min(e.requests, len(e.replies))-1]
}

func (e *grpcExchange) unary(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) { //nolint:revive // grpc's order
	var in wrapperspb.StringValue
	if err := decode(&in); err != nil {
		return nil, err
	}
	r := e.began(ctx)
	return &in, r.error(func(md metadata.MD) { _ = grpc.SetTrailer(ctx, md) })
}

func (e *grpcExchange) stream(_ any, stream grpc.ServerStream) error {
	r := e.began(stream.Context())
	for range r.messages {
		if err := stream.SendMsg(wrapperspb.String("job")); err != nil {
			return err
		}
	}
	return r.error(stream.SetTrailer)
}

// exchangeGRPC connects to a server in memory. It keeps the time of the bubble it runs in.
func exchangeGRPC(t tester, opts []grpc.DialOption, e *grpcExchange) *grpcExchange {
	t.Helper()
	e.start = time.Now()
	listener := bufconn.Listen(1 << 16)
	server := grpc.NewServer()
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "jobs.Jobs",
		HandlerType: (*any)(nil),
		Methods:     []grpc.MethodDesc{{MethodName: "Get", Handler: e.unary}, {MethodName: "Submit", Handler: e.unary}},
		Streams:     []grpc.StreamDesc{{StreamName: "Watch", Handler: e.stream, ServerStreams: true}},
	}, nil)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	conn, err := grpc.NewClient("passthrough:///jobs", append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			if time.Since(e.start) < e.down {
				return nil, errors.New("connection refused")
			}
			return listener.DialContext(ctx)
		}),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	e.conn = conn
	e.stop = func() {
		_ = conn.Close()
		server.Stop()
		<-served
	}
	return e
}

// call makes a unary call and returns its error and how long it took.
func (e *grpcExchange) call(ctx context.Context, method string) (took time.Duration, err error) {
	start := time.Now()
	err = e.conn.Invoke(ctx, method, wrapperspb.String("job"), &wrapperspb.StringValue{}, grpc.StaticMethod())
	return time.Since(start), err
}

// watch reads a stream to its end and returns how many messages came.
func (e *grpcExchange) watch(ctx context.Context) (messages int, err error) {
	stream, err := e.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, grpcWatch, grpc.StaticMethod())
	if err != nil {
		return 0, err
	}
	if err := errors.Join(stream.SendMsg(wrapperspb.String("job")), stream.CloseSend()); err != nil {
		return 0, err
	}
	for {
		if err := stream.RecvMsg(&wrapperspb.StringValue{}); errors.Is(err, io.EOF) {
			return messages, nil
		} else if err != nil {
			return messages, err
		}
		messages++
	}
}

// waits returns the waits between the requests.
func (e *grpcExchange) waits() []time.Duration {
	r := run{at: e.at}
	return r.waits()
}
