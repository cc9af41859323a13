package retrygax_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/googleapis/gax-go/v2"
	"github.com/googleapis/gax-go/v2/apierror"
	"github.com/stretchr/testify/assert"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrygax"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

// server is a real one on loopback that fails its first calls.
type server struct {
	grpc_health_v1.UnimplementedHealthServer

	calls, failures int
	err             error
}

func (s *server) Check(context.Context, *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	if s.calls++; s.calls <= s.failures {
		return nil, s.err
	}
	return &grpc_health_v1.HealthCheckResponse{}, nil
}

// invoke calls the server as the generated clients do.
func (s *server) invoke(t *testing.T, p *retry.Policy) error {
	t.Helper()
	listener := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	g := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(g, s)
	go func() { _ = g.Serve(listener) }()
	defer g.Stop()
	conn := testkit.Must(grpc.NewClient("passthrough:///"+listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	defer func() { _ = conn.Close() }()
	client := grpc_health_v1.NewHealthClient(conn)
	return gax.Invoke(t.Context(), func(ctx context.Context, _ gax.CallSettings) error {
		_, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{})
		return err
	}, gax.WithRetry(retrygax.New(p)))
}

func hinted(t *testing.T, code codes.Code, after time.Duration) error {
	t.Helper()
	s := testkit.Must(status.New(code, "no").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(after)}))(t)
	return s.Err()
}

func TestInvoke(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		err      error
		failures int
		policy   *retry.Policy
		want     int
	}{
		{"recovers", status.Error(codes.Unavailable, "no"), 2, &retry.Policy{Backoff: retry.Constant(0)}, 3},
		{"exhausted", status.Error(codes.Unavailable, "no"), 9, &retry.Policy{Backoff: retry.Constant(0)}, 3},
		{"not idempotent", status.Error(codes.Unavailable, "no"), 9, &retry.Policy{Backoff: retry.Constant(0), NonIdempotent: true}, 1},
		{"refused", hinted(t, codes.ResourceExhausted, time.Millisecond), 1, &retry.Policy{Backoff: retry.Constant(0), NonIdempotent: true}, 2},
		{"too long", hinted(t, codes.Unavailable, time.Hour), 9, nil, 1},
		{"exhausted resource", status.Error(codes.ResourceExhausted, "no"), 1, &retry.Policy{Backoff: retry.Constant(0)}, 2},
		{"exhausted by what may not be repeated", status.Error(codes.ResourceExhausted, "no"), 9, &retry.Policy{NonIdempotent: true}, 1},
		{"aborted", status.Error(codes.Aborted, "no"), 9, nil, 1},
		{"internal", status.Error(codes.Internal, "no"), 9, nil, 1},
		{"time", status.Error(codes.DeadlineExceeded, "no"), 9, &retry.Policy{
			MaxAttempts: retry.Unlimited, Backoff: retry.Constant(time.Millisecond), MaxElapsed: time.Nanosecond,
		}, 1},
		{"classifier", status.Error(codes.NotFound, "no"), 1, &retry.Policy{
			Backoff:    retry.Constant(0),
			Classifier: func(error) retry.Verdict { return retry.Verdict{Class: retry.Retryable} },
		}, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := &server{failures: tt.failures, err: tt.err}
			err := s.invoke(t, tt.policy)
			assert.Equal(t, tt.want, s.calls)
			assert.Equal(t, tt.want > tt.failures, err == nil, err)
			if err != nil {
				_ = testkit.As[*apierror.APIError](t, err) // as without us
			}
		})
	}
	assert.Zero(t, retrygax.Classify(errors.New("other")))
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ { // those of a call, not of what it is a part of
		want := retry.Classify(status.Error(code, "no"))
		if code == codes.Unknown || code == codes.Internal || code == codes.Aborted {
			want.Class = retry.Final
		}
		assert.Equal(t, want, retrygax.Classify(status.Error(code, "no")), code)
	}
	for code, want := range map[codes.Code]string{
		codes.Canceled: "grpc_cancelled", codes.ResourceExhausted: "grpc_resource_exhausted", 42: "grpc_other",
	} {
		assert.Equal(t, want, retrygax.Classify(status.Error(code, "no")).Category)
	}
}
