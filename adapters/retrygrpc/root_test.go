package retrygrpc_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retrygrpc"
)

// TestRootKnowsStatuses checks that retry.Classify, which does not import gRPC, says about
// a status what this package says of an operation, but for two codes that are Unknown to it
// and for proofs that nothing was applied.
func TestRootKnowsStatuses(t *testing.T) {
	t.Parallel()
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		plain := status.New(code, "x")
		withInfo, err := plain.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(5 * time.Second)})
		require.NoError(t, err)
		for _, s := range []*status.Status{plain, withInfo} {
			err := fmt.Errorf("x: %w", s.Err())
			want, got := retrygrpc.Classify(err), retry.Classify(err)
			switch code {
			case codes.Unknown, codes.Internal:
				want.Class, want.After = retry.Unknown, 0
			case codes.Aborted:
				want.NotApplied = false
			case codes.Unavailable, codes.ResourceExhausted:
			default:
				want.After = 0
			}
			if want.Class == retry.Final {
				want.After = 0
			}
			assert.Equal(t, want, got, "%v", s)
		}
	}
}
