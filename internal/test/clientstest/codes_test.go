package clientstest_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gorilla/websocket"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/resend/resend-go/v2"
	"github.com/sijms/go-ora/v2/network"
	"github.com/stretchr/testify/assert"
	"github.com/twitchtv/twirp"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"golang.org/x/crypto/ssh"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/seed-5ff3c98e/retry"
)

// TestRootKnowsCodesOfClients checks that retry.Classify, which imports none of them, knows
// the codes in the errors of clients that speak no HTTP, or hide it.
func TestRootKnowsCodesOfClients(t *testing.T) {
	t.Parallel()
	const wait = 6 * time.Second
	for name, test := range map[string]struct {
		err   error
		class retry.Class
		after time.Duration
	}{
		"twirp, unavailable": {twirp.NewError(twirp.Unavailable, "x"), retry.Retryable, 0},
		"twirp, exhausted":   {twirp.NewError(twirp.ResourceExhausted, "x"), retry.RateLimited, 0},
		"twirp, canceled":    {twirp.NewError(twirp.Canceled, "x"), retry.Final, 0},
		"twirp, malformed":   {twirp.NewError(twirp.Malformed, "x"), retry.Final, 0},
		"etcd, no leader":    {rpctypes.ErrNoLeader, retry.Retryable, 0},
		"etcd, compacted":    {rpctypes.ErrCompacted, retry.Final, 0},

		"a WebSocket, restart": {&websocket.CloseError{Code: websocket.CloseServiceRestart}, retry.Retryable, 0},
		"a WebSocket, later":   {&websocket.CloseError{Code: websocket.CloseTryAgainLater}, retry.RateLimited, 0},
		"a WebSocket, policy":  {&websocket.CloseError{Code: websocket.ClosePolicyViolation}, retry.Final, 0},
		"QUIC, refused":        {&quic.TransportError{Remote: true, ErrorCode: quic.ConnectionRefused}, retry.Retryable, 0},
		"QUIC, a certificate":  {&quic.TransportError{Remote: true, ErrorCode: 0x100 + 42}, retry.Final, 0},
		"QUIC, versions":       {&quic.VersionNegotiationError{}, retry.Final, 0},
		"HTTP/3, rejected":     {&http3.Error{Remote: true, ErrorCode: http3.ErrCodeRequestRejected}, retry.Retryable, 0},
		"HTTP/3, load":         {&http3.Error{Remote: true, ErrorCode: http3.ErrCodeExcessiveLoad}, retry.RateLimited, 0},
		"SSH, prohibited":      {&ssh.OpenChannelError{Reason: ssh.Prohibited}, retry.Final, 0},
		"SSH, resources":       {&ssh.OpenChannelError{Reason: ssh.ResourceShortage}, retry.Retryable, 0},

		"Oracle, deadlock": {&network.OracleError{ErrCode: 60}, retry.Retryable, 0},
		"Oracle, unique":   {&network.OracleError{ErrCode: 1}, retry.Final, 0},
		"resend":           {&resend.RateLimitError{RetryAfter: "6"}, retry.RateLimited, wait},
		"gophercloud": {gophercloud.ErrUnexpectedResponseCode{
			Actual: http.StatusTooManyRequests, ResponseHeader: http.Header{"Retry-After": {"6"}},
		}, retry.RateLimited, wait},
		"gophercloud, conflict": {gophercloud.ErrUnexpectedResponseCode{Actual: http.StatusConflict}, retry.Final, 0},
	} {
		v := retry.Classify(fmt.Errorf("x: %w", test.err))
		assert.Equal(t, test.class, v.Class, name)
		assert.Equal(t, test.after, v.After, name)
	}
}

// TestRootKnowsDetailsOfGRPC checks that retry.Classify reads the details of Google's APIs.
func TestRootKnowsDetailsOfGRPC(t *testing.T) {
	t.Parallel()
	info := func(reason string) protoadapt.MessageV1 { return &errdetails.ErrorInfo{Reason: reason} }
	wait := &errdetails.RetryInfo{RetryDelay: durationpb.New(time.Second)}
	day := &errdetails.QuotaFailure{Violations: []*errdetails.QuotaFailure_Violation{{QuotaId: "RequestsPerDay"}}}
	for name, test := range map[string]struct {
		code     codes.Code
		details  []protoadapt.MessageV1
		class    retry.Class
		category string
		after    time.Duration
	}{
		"a rate":             {codes.ResourceExhausted, []protoadapt.MessageV1{info("RATE_LIMIT_EXCEEDED")}, retry.RateLimited, "grpc_resource_exhausted", 0},
		"a rate, forbidden":  {codes.PermissionDenied, []protoadapt.MessageV1{info("RATE_LIMIT_EXCEEDED")}, retry.RateLimited, "grpc_permission_denied", 0},
		"forbidden":          {codes.PermissionDenied, []protoadapt.MessageV1{info("IAM_PERMISSION_DENIED")}, retry.Final, "grpc_permission_denied", 0},
		"not paid":           {codes.PermissionDenied, []protoadapt.MessageV1{info("BILLING_DISABLED")}, retry.Final, "billing", 0},
		"a day's":            {codes.ResourceExhausted, []protoadapt.MessageV1{day, wait}, retry.Final, "quota_exhausted", 0},
		"for a second":       {codes.ResourceExhausted, []protoadapt.MessageV1{wait}, retry.RateLimited, "grpc_resource_exhausted", time.Second},
		"aborted, a second":  {codes.Aborted, []protoadapt.MessageV1{wait}, retry.Retryable, "grpc_aborted", time.Second},
		"not found, a while": {codes.NotFound, []protoadapt.MessageV1{wait}, retry.Final, "grpc_not_found", 0},
	} {
		s, err := status.New(test.code, "x").WithDetails(test.details...)
		assert.NoError(t, err)
		want := retry.Verdict{Class: test.class, NotApplied: test.class == retry.RateLimited, After: test.after, Category: test.category}
		assert.Equal(t, want, retry.Classify(s.Err()), name)
	}
}
