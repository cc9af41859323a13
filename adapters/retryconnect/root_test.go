package retryconnect_test

import (
	"errors"
	"fmt"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry"
)

// TestRootKnowsCodes checks that retry.Classify, which does not import Connect, knows the
// codes.
func TestRootKnowsCodes(t *testing.T) {
	t.Parallel()
	for code, want := range map[connect.Code]retry.Verdict{
		connect.CodeNotFound:    {Class: retry.Final, Category: "grpc_not_found"},
		connect.CodeUnavailable: {Class: retry.Retryable, Category: "grpc_unavailable"},
		connect.CodeInternal:    {Category: "grpc_internal"},
	} {
		assert.Equal(t, want, retry.Classify(fmt.Errorf("x: %w", connect.NewError(code, errors.New("y")))))
	}
}
