package retrygrpc_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrygrpc"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

// wait returns a detail with a hint.
func wait(t *testing.T, d time.Duration) *anypb.Any {
	t.Helper()
	detail, err := anypb.New(&errdetails.RetryInfo{RetryDelay: durationpb.New(d)})
	assert.NoError(t, err)
	return detail
}

func detailed(details ...*anypb.Any) error {
	return status.FromProto(&spb.Status{Code: int32(codes.Unavailable), Message: "no", Details: details}).Err()
}

// A server can send millions of details. The first hundred are read.
func TestManyDetails(t *testing.T) {
	t.Parallel()
	short, long := wait(t, time.Second), wait(t, time.Minute)
	most := slices.Repeat([]*anypb.Any{short}, 99)
	assert.Equal(t, time.Minute, retrygrpc.Classify(detailed(append(most, long)...)).After)
	for _, classify := range []retry.Classifier{retrygrpc.Classify, retry.Classify} {
		assert.Equal(t, time.Second, classify(detailed(append(most, short, long)...)).After)
	}
}

// What a server sends makes no work that grows faster than what it has sent.
//
//nolint:paralleltest // It measures.
func TestWorkGrowsNoFasterThanTheInput(t *testing.T) {
	unknown := &anypb.Any{TypeUrl: "type.googleapis.com/no.Such", Value: []byte("x")}
	for name, build := range map[string]func(n int) error{
		"hints":   func(n int) error { return detailed(slices.Repeat([]*anypb.Any{wait(t, 1)}, n/50)...) },
		"unknown": func(n int) error { return detailed(slices.Repeat([]*anypb.Any{unknown}, n/30)...) },
		"a long hint": func(n int) error {
			return detailed(&anypb.Any{TypeUrl: wait(t, 1).GetTypeUrl(), Value: slices.Repeat(wait(t, 1).GetValue(), n/4)})
		},
		"a long type":    func(n int) error { return detailed(&anypb.Any{TypeUrl: strings.Repeat("type.googleapis.com/", n/20)}) },
		"a long message": func(n int) error { return status.Error(codes.Internal, strings.Repeat("stream terminated ", n/18)) },
	} {
		t.Run(name, func(t *testing.T) {
			testkit.GrowsLikeTheInput(t, func(err error) { _ = retrygrpc.Classify(err) }, build)
		})
	}
}
