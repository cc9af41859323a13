package retrygrpc_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrygrpc"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// The methods of the service of these tests. Its definition is below.
const (
	get    = "/retrygrpc.test.Jobs/Get"    // NO_SIDE_EFFECTS
	remove = "/retrygrpc.test.Jobs/Remove" // IDEMPOTENT
	submit = "/retrygrpc.test.Jobs/Submit" // says nothing
	watch  = "/retrygrpc.test.Jobs/Watch"  // NO_SIDE_EFFECTS, a stream of responses
	follow = "/retrygrpc.test.Jobs/Follow" // says nothing, a stream of responses
	talk   = "/retrygrpc.test.Jobs/Talk"   // NO_SIDE_EFFECTS, streams both ways
	chat   = "/retrygrpc.test.Jobs/Chat"   // says nothing, streams both ways
	upload = "/retrygrpc.test.Jobs/Upload" // says nothing, a stream of requests
)

// definition is what generated code would have registered.
var definition = sync.OnceValue(func() error {
	method := func(name string, level descriptorpb.MethodOptions_IdempotencyLevel) *descriptorpb.MethodDescriptorProto {
		text := ".google.protobuf.StringValue"
		return &descriptorpb.MethodDescriptorProto{
			Name: &name, InputType: &text, OutputType: &text,
			Options: &descriptorpb.MethodOptions{IdempotencyLevel: level.Enum()},
		}
	}
	file := &descriptorpb.FileDescriptorProto{
		Syntax:     new("proto3"),
		Name:       new("retrygrpc/test.proto"),
		Package:    new("retrygrpc.test"),
		Dependency: []string{"google/protobuf/wrappers.proto"},
		Service: []*descriptorpb.ServiceDescriptorProto{{
			Name: new("Jobs"),
			Method: []*descriptorpb.MethodDescriptorProto{
				method("Get", descriptorpb.MethodOptions_NO_SIDE_EFFECTS),
				method("Remove", descriptorpb.MethodOptions_IDEMPOTENT),
				method("Submit", descriptorpb.MethodOptions_IDEMPOTENCY_UNKNOWN),
				method("Watch", descriptorpb.MethodOptions_NO_SIDE_EFFECTS),
				method("Follow", descriptorpb.MethodOptions_IDEMPOTENCY_UNKNOWN),
				method("Talk", descriptorpb.MethodOptions_NO_SIDE_EFFECTS),
				method("Chat", descriptorpb.MethodOptions_IDEMPOTENCY_UNKNOWN),
				method("Upload", descriptorpb.MethodOptions_IDEMPOTENCY_UNKNOWN),
			},
		}},
	}
	d, err := protodesc.NewFile(file, protoregistry.GlobalFiles)
	if err != nil {
		return err
	}
	return protoregistry.GlobalFiles.RegisterFile(d)
})

// server is a real one on loopback, whose methods are functions.
type server struct {
	address string

	mu       sync.Mutex
	calls    int
	previous [][]string // grpc-previous-rpc-attempts of every call
	quiet    bool       // calls are not noted, because that allocates

	unary  func(ctx context.Context, call int, in string) (string, error)
	stream func(call int, stream grpc.ServerStream) error
}

// began notes a call and returns its number, from 1.
func (s *server) began(ctx context.Context) int {
	if s.quiet {
		return 0
	}
	md, _ := metadata.FromIncomingContext(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	s.previous = append(s.previous, md.Get("grpc-previous-rpc-attempts"))
	return s.calls
}

func (s *server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

func (s *server) start(t testing.TB, opts ...grpc.ServerOption) *server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	g := grpc.NewServer(opts...)
	g.RegisterService(s.service(), nil)
	s.address = listener.Addr().String()
	go func() { _ = g.Serve(listener) }()
	t.Cleanup(g.Stop)
	return s
}

func (s *server) service() *grpc.ServiceDesc {
	unary := func(_ any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
		var in wrapperspb.StringValue
		if err := decode(&in); err != nil {
			return nil, err
		}
		handle := func(ctx context.Context, _ any) (any, error) {
			out, err := s.unary(ctx, s.began(ctx), in.GetValue())
			if err != nil {
				return nil, err
			}
			return wrapperspb.String(out), nil
		}
		if interceptor == nil {
			return handle(ctx, &in)
		}
		return interceptor(ctx, &in, &grpc.UnaryServerInfo{}, handle)
	}
	stream := func(_ any, stream grpc.ServerStream) error {
		return s.stream(s.began(stream.Context()), stream)
	}
	return &grpc.ServiceDesc{
		ServiceName: "retrygrpc.test.Jobs",
		HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{
			{MethodName: "Get", Handler: unary},
			{MethodName: "Remove", Handler: unary},
			{MethodName: "Submit", Handler: unary},
		},
		Streams: []grpc.StreamDesc{
			{StreamName: "Watch", Handler: stream, ServerStreams: true},
			{StreamName: "Follow", Handler: stream, ServerStreams: true},
			{StreamName: "Talk", Handler: stream, ServerStreams: true, ClientStreams: true},
			{StreamName: "Chat", Handler: stream, ServerStreams: true, ClientStreams: true},
			{StreamName: "Upload", Handler: stream, ClientStreams: true},
		},
	}
}

// dial is connect for a connection that is closed when the test ends.
func dial(t testing.TB, address string, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	conn := connect(t, address, opts...)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// connect returns a connection that reconnects fast.
func connect(t testing.TB, address string, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	require.NoError(t, definition())
	conn, err := grpc.NewClient("passthrough:///"+address, append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: time.Millisecond, Multiplier: 1, MaxDelay: time.Millisecond},
			MinConnectTimeout: time.Second,
		}),
	}, opts...)...)
	require.NoError(t, err)
	return conn
}

// call makes a unary call.
func call(ctx context.Context, conn *grpc.ClientConn, method, in string, opts ...grpc.CallOption) (string, error) {
	var out wrapperspb.StringValue
	err := conn.Invoke(ctx, method, wrapperspb.String(in), &out, opts...)
	return out.GetValue(), err
}

// watching calls a method with a stream of responses, as generated code does.
func watching(ctx context.Context, conn *grpc.ClientConn, method, in string) (grpc.ClientStream, error) {
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, method)
	if err != nil {
		return nil, err
	}
	if err := stream.SendMsg(wrapperspb.String(in)); err != nil {
		return nil, err
	}
	return stream, stream.CloseSend()
}

// receive reads one response of a stream.
func receive(stream grpc.ClientStream) (string, error) {
	var out wrapperspb.StringValue
	err := stream.RecvMsg(&out)
	return out.GetValue(), err
}

// quick is a policy whose waits are on record and take no time.
func quick(attempts int) (*retry.Policy, *retrytest.Recorder) {
	r := &retrytest.Recorder{}
	return &retry.Policy{
		MaxAttempts: attempts,
		Jitter:      retry.NoJitter,
		Clock:       &retrytest.Clock{},
		Rand:        retrytest.NewRand(0),
		Observer:    r.Observer(),
	}, r
}

// retrying is an Interceptor with a policy of quick, and no budget.
func retrying(attempts int) (*retrygrpc.Interceptor, *retrytest.Recorder) {
	p, r := quick(attempts)
	return &retrygrpc.Interceptor{Policy: p, Budget: retrygrpc.NoBudget}, r
}
