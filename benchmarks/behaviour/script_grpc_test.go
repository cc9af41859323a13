package behaviour_test

import (
	"context"
	"errors"
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

// exchangeGRPC connects to a server in memory. The clock is that of the bubble it runs in.
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
