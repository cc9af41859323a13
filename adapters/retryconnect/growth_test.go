package retryconnect_test

import (
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/adapters/retryconnect"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
)

// refusal is an error of a server with details.
func refusal(t *testing.T, waits ...time.Duration) *connect.Error {
	t.Helper()
	e := connect.NewWireError(connect.CodeUnavailable, errors.New("no"))
	for _, d := range waits {
		detail, err := connect.NewErrorDetail(&errdetails.RetryInfo{RetryDelay: durationpb.New(d)})
		require.NoError(t, err)
		e.AddDetail(detail)
	}
	return e
}

// A server can send millions of details. The first hundred are read.
func TestManyDetails(t *testing.T) {
	t.Parallel()
	most := slices.Repeat([]time.Duration{time.Second}, 99)
	assert.Equal(t, time.Minute, retryconnect.Classify(refusal(t, append(most, time.Minute)...)).After)
	assert.Equal(t, time.Second, retryconnect.Classify(refusal(t, append(most, time.Second, time.Minute)...)).After)
}

// A refusal is what its ErrorInfo says.
func TestReasons(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		code   connect.Code
		reason string
		want   retry.Verdict
	}{
		{connect.CodeResourceExhausted, "RATE_LIMIT_EXCEEDED", retry.Verdict{Class: retry.RateLimited, NotApplied: true, Category: "connect_resource_exhausted"}},
		{connect.CodePermissionDenied, "RATE_LIMIT_EXCEEDED", retry.Verdict{Class: retry.RateLimited, NotApplied: true, Category: "connect_permission_denied"}},
		{connect.CodePermissionDenied, "IAM_PERMISSION_DENIED", retry.Verdict{Class: retry.Final, Category: "connect_permission_denied"}},
		{connect.CodeResourceExhausted, "QUOTA_EXHAUSTED", retry.Verdict{Class: retry.Final, Category: "quota_exhausted"}},
	} {
		e := connect.NewWireError(tt.code, errors.New("no"))
		detail, err := connect.NewErrorDetail(&errdetails.ErrorInfo{Reason: tt.reason})
		require.NoError(t, err)
		e.AddDetail(detail)
		assert.Equal(t, tt.want, retryconnect.Classify(e), tt)
	}
}

// What a server sends makes no work that grows faster than what it has sent.
//
//nolint:paralleltest // It measures.
func TestWorkGrowsNoFasterThanTheInput(t *testing.T) {
	with := func(h http.Header) *connect.Error {
		e := refusal(t)
		maps.Copy(e.Meta(), h)
		return e
	}
	for name, build := range map[string]func(n int) *connect.Error{
		"hints": func(n int) *connect.Error { return refusal(t, slices.Repeat([]time.Duration{1}, n/50)...) },
		"headers": func(n int) *connect.Error {
			return with(http.Header{"Date": {strings.Repeat("x", n/2)}, "Retry-After": {strings.Repeat("2000000000,", n/22) + "1"}})
		},
		"lines": func(n int) *connect.Error {
			return with(http.Header{"Ratelimit": slices.Repeat([]string{`"a";r=0;t=1`}, n/12)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.GrowsLikeTheInput(t, func(e *connect.Error) { _ = retryconnect.Classify(e) }, build)
		})
	}
}
