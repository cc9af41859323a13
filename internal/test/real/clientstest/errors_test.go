package clientstest_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/storage"
	"connectrpc.com/connect/v2"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/anthropics/anthropic-sdk-go"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	containerd "github.com/containerd/errdefs"
	"github.com/go-ldap/ldap/v3"
	"github.com/go-resty/resty/v2"
	telegram "github.com/go-telegram-bot-api/telegram-bot-api/v5"
	"github.com/google/go-github/v92/github"
	"github.com/googleapis/gax-go/v2/apierror"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gorilla/websocket"
	"github.com/minio/minio-go/v7"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/openai/openai-go/v3"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/redis/go-redis/v9"
	"github.com/resend/resend-go/v2"
	"github.com/sijms/go-ora/v2/network"
	"github.com/slack-go/slack"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/stripe/stripe-go/v85"
	"github.com/twitchtv/twirp"
	"github.com/twmb/franz-go/pkg/kerr"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"golang.org/x/crypto/ssh"
	"golang.org/x/net/http2"
	"google.golang.org/api/googleapi"
	"google.golang.org/genai"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"
	"gorm.io/gorm"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/provoke"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

// TestRootKnowsErrorsOfClients checks that retry.Classify, which imports none of them, knows the
// statuses, the codes, the hints and the reasons in the errors of clients. retryconnect, which
// is for version 1 of Connect, checks those of its errors.
func TestRootKnowsErrorsOfClients(t *testing.T) {
	t.Parallel()
	const wait = 30 * time.Second
	header := http.Header{"Retry-After": {"30"}}
	response := func(status int, header http.Header) *http.Response {
		return &http.Response{StatusCode: status, Header: header, Request: &http.Request{}}
	}
	forbidden := response(http.StatusForbidden, nil)
	aws := func(status int, code string) error {
		return &awshttp.ResponseError{ResponseError: &smithyhttp.ResponseError{
			Response: &smithyhttp.Response{Response: response(status, header)}, Err: &smithy.GenericAPIError{Code: code},
		}}
	}
	payment := &stripe.Error{HTTPStatusCode: 429, Code: stripe.ErrorCodeRateLimit}
	payment.SetLastResponse(&stripe.APIResponse{Header: header})
	limit := &googleapi.Error{Code: 403, Errors: []googleapi.ErrorItem{{Reason: "userRateLimitExceeded"}}}
	wrapped, ok := apierror.FromError(limit)
	assert.True(t, ok)
	info := map[string]any{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "30s"}
	day := map[string]any{"violations": []any{map[string]any{"quotaId": "GenerateRequestsPerDayPerProjectPerModel-FreeTier"}}}
	const page = "https://docs.github.com/rest/overview/rate-limits-for-the-rest-api#about-secondary-rate-limits"
	openstack := func(status int) error {
		return gophercloud.ErrUnexpectedResponseCode{Actual: status, ResponseHeader: header}
	}
	for n, tt := range []struct {
		err      error
		class    retry.Class
		category string // "" is any
		after    time.Duration
	}{
		// Statuses, and the headers of responses.
		{&googleapi.Error{Code: 404}, retry.Final, "http_404", 0},
		{minio.ErrorResponse{StatusCode: 404}, retry.Final, "http_404", 0},
		{&openai.Error{StatusCode: 404}, retry.Final, "http_404", 0},
		{&anthropic.Error{StatusCode: 404}, retry.Final, "http_404", 0},
		{&azcore.ResponseError{StatusCode: 404}, retry.Final, "http_404", 0},
		{genai.APIError{Code: 404}, retry.Final, "http_404", 0},
		{&googleapi.Error{Code: 503}, retry.Retryable, "http_503", 0},
		{minio.ErrorResponse{StatusCode: 503}, retry.Retryable, "http_503", 0},
		{&openai.Error{StatusCode: 503}, retry.Retryable, "http_503", 0},
		{&anthropic.Error{StatusCode: 503}, retry.Retryable, "http_503", 0},
		{&azcore.ResponseError{StatusCode: 503}, retry.Retryable, "http_503", 0},
		{&github.ErrorResponse{Response: response(503, nil)}, retry.Retryable, "http_503", 0},
		{&googleapi.Error{Code: 429, Header: header}, retry.RateLimited, "", wait},
		{&openai.Error{StatusCode: 429, Response: response(429, header)}, retry.RateLimited, "", wait},
		{&azcore.ResponseError{StatusCode: 429, RawResponse: response(429, header)}, retry.RateLimited, "", wait},
		{&github.ErrorResponse{Response: response(429, header)}, retry.RateLimited, "", wait},
		{payment, retry.RateLimited, "", wait},
		{openstack(429), retry.RateLimited, "", wait},
		{minio.ErrorResponse{StatusCode: 429}, retry.RateLimited, "http_429", 0},
		{openstack(http.StatusConflict), retry.Final, "", 0},
		{&anthropic.Error{StatusCode: 529, Response: response(529, header)}, retry.RateLimited, "", wait},
		{&resty.ResponseError{Response: &resty.Response{RawResponse: response(503, header)}}, retry.Retryable, "", wait},
		{&slack.RateLimitedError{RetryAfter: wait}, retry.RateLimited, "", wait},
		{&resend.RateLimitError{RetryAfter: "30"}, retry.RateLimited, "", wait},

		{&openai.Error{StatusCode: http.StatusConflict}, retry.Retryable, "http_409", 0},
		{&anthropic.Error{StatusCode: http.StatusConflict}, retry.Retryable, "http_409", 0},
		{&stripe.Error{HTTPStatusCode: http.StatusConflict}, retry.Retryable, "http_409", 0},

		// Reasons and details.
		{&googleapi.Error{Code: 403}, retry.Final, "", 0},
		{limit, retry.RateLimited, "", 0},
		{wrapped, retry.RateLimited, "", 0},
		{&googleapi.Error{Code: 429, Details: []any{info}}, retry.RateLimited, "", wait},
		{genai.APIError{Code: 429, Details: []map[string]any{info}}, retry.RateLimited, "", wait},
		{genai.APIError{Code: 429, Details: []map[string]any{day, info}}, retry.Final, "", 0},
		{&azcore.ResponseError{StatusCode: http.StatusForbidden, ErrorCode: "QuotaExceeded"}, retry.Final, "", 0},
		{&github.AbuseRateLimitError{Response: forbidden}, retry.RateLimited, "", time.Minute},
		{&github.ErrorResponse{Response: forbidden, DocumentationURL: page}, retry.RateLimited, "", time.Minute},
		{&github.RateLimitError{Response: forbidden}, retry.RateLimited, "", 0},
		{&github.AcceptedError{}, retry.Retryable, "not_ready", 0},
		{&stripe.Error{HTTPStatusCode: 402, Code: stripe.ErrorCodeCardDeclined}, retry.Final, "", 0},
		{&openai.Error{StatusCode: 429, Response: response(429, header), Code: "insufficient_quota"}, retry.Final, "", 0},
		{aws(503, "ServiceUnavailable"), retry.Retryable, "", wait},
		{aws(400, "ThrottlingException"), retry.RateLimited, "", 0},
		{aws(403, "AccessDeniedException"), retry.RateLimited, "", wait}, // by its header
		{minio.ErrorResponse{StatusCode: 503, Code: "SlowDown"}, retry.RateLimited, "", 0},
		{&slack.SlackErrorResponse{Err: "invalid_auth"}, retry.Final, "permission", 0},
		{&slack.SlackErrorResponse{Err: "ratelimited"}, retry.RateLimited, "rate_limited", 0},

		// Codes, in errors of clients that speak no HTTP, or hide it.
		{twirp.NewError(twirp.Unavailable, "x"), retry.Retryable, "", 0},
		{twirp.NewError(twirp.ResourceExhausted, "x"), retry.RateLimited, "", 0},
		{twirp.NewError(twirp.Canceled, "x"), retry.Final, "", 0},
		{twirp.NewError(twirp.Malformed, "x"), retry.Final, "", 0},
		{rpctypes.ErrNoLeader, retry.Retryable, "", 0},
		{rpctypes.ErrCompacted, retry.Final, "", 0},
		{&websocket.CloseError{Code: websocket.CloseServiceRestart}, retry.Retryable, "", 0},
		{&websocket.CloseError{Code: websocket.CloseTryAgainLater}, retry.RateLimited, "", 0},
		{&websocket.CloseError{Code: websocket.ClosePolicyViolation}, retry.Final, "", 0},
		{&quic.TransportError{Remote: true, ErrorCode: quic.ConnectionRefused}, retry.Retryable, "", 0},
		{&quic.TransportError{Remote: true, ErrorCode: 0x100 + 42}, retry.Final, "", 0},
		{&quic.VersionNegotiationError{}, retry.Final, "", 0},
		{&http3.Error{Remote: true, ErrorCode: http3.ErrCodeRequestRejected}, retry.Retryable, "", 0},
		{&http3.Error{Remote: true, ErrorCode: http3.ErrCodeExcessiveLoad}, retry.RateLimited, "", 0},
		{&ssh.OpenChannelError{Reason: ssh.Prohibited}, retry.Final, "", 0},
		{&network.OracleError{ErrCode: 60}, retry.Retryable, "", 0},
		{&network.OracleError{ErrCode: 1}, retry.Final, "", 0},
		{&telegram.Error{Code: 429, ResponseParameters: telegram.ResponseParameters{RetryAfter: 30}}, retry.RateLimited, "http_429", wait},
		{&telegram.Error{Code: 502}, retry.Retryable, "http_502", 0},
		{&telegram.Error{Code: 403}, retry.Final, "http_403", 0}, // the user has blocked the bot
		{&jetstream.APIError{Code: 503, ErrorCode: 10008}, retry.Retryable, "http_503", 0},
		{jetstream.ErrStreamNotFound, retry.Final, "http_404", 0},
		{ldap.NewError(ldap.LDAPResultBusy, assert.AnError), retry.Retryable, "ldap_51", 0},
		{ldap.NewError(ldap.LDAPResultInvalidCredentials, assert.AnError), retry.Final, "ldap_49", 0},
		{ldap.NewError(ldap.LDAPResultOperationsError, assert.AnError), retry.Unknown, "", 0},
		{ldap.NewError(ldap.ErrorNetwork, assert.AnError), retry.Retryable, "ldap_200", 0},
		{ldap.NewError(ldap.ErrorFilterCompile, assert.AnError), retry.Final, "ldap_201", 0},
		{&ssh.OpenChannelError{Reason: ssh.ResourceShortage}, retry.Retryable, "ssh_4", 0},
		{&ssh.AlgorithmNegotiationError{}, retry.Final, "ssh", 0},
		{kerr.NotLeaderForPartition, retry.Retryable, "kafka_6", 0},
		{kerr.ThrottlingQuotaExceeded, retry.RateLimited, "kafka_89", 0},
		{kerr.TopicAuthorizationFailed, retry.Final, "kafka_29", 0},
		{kerr.RebalanceInProgress, retry.Unknown, "", 0},
		{containerd.ErrUnavailable, retry.Retryable, "unavailable", 0},
		{containerd.ErrNotFound, retry.Final, "not_found", 0},
		{containerd.ErrInvalidArgument, retry.Final, "invalid", 0},
		{containerd.ErrPermissionDenied, retry.Final, "permission", 0},
		{rpctypes.ErrTooManyRequests, retry.RateLimited, "grpc_resource_exhausted", 0},
		{rpctypes.ErrNoSpace, retry.Final, "quota_exhausted", 0},

		// Nothing is there.
		{gorm.ErrRecordNotFound, retry.Final, "not_found", 0},
		{mongo.ErrNoDocuments, retry.Final, "not_found", 0},
		{redis.Nil, retry.Final, "not_found", 0},
		{redis.ErrClosed, retry.Final, "closed", 0},
		{redis.TxFailedErr, retry.Unknown, "", 0},
		{jetstream.ErrKeyNotFound, retry.Final, "not_found", 0},
		{jetstream.ErrNoKeysFound, retry.Final, "not_found", 0},
		{nats.ErrKeyNotFound, retry.Final, "not_found", 0},
		{storage.ErrObjectNotExist, retry.Final, "not_found", 0},
		{storage.ErrBucketNotExist, retry.Final, "not_found", 0},
		{connect.NewError(connect.CodeNotFound, "x"), retry.Final, "grpc_not_found", 0},
		{connect.NewError(connect.CodeUnavailable, "x"), retry.Retryable, "grpc_unavailable", 0},
		{connect.NewError(connect.CodeInternal, "x"), retry.Unknown, "grpc_internal", 0},
	} {
		v := retry.Classify(errors.Join(tt.err))
		name := fmt.Sprintf("row %d, %T", n, tt.err) // the text of some needs a whole exchange
		assert.Equal(t, tt.class, v.Class, name)
		assert.Equal(t, tt.after, v.After, name)
		if tt.category != "" {
			assert.Equal(t, tt.category, v.Category, name)
		}
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

// The codes that the protocol calls retriable are those that are Retryable.
func TestCodesOfKafka(t *testing.T) {
	t.Parallel()
	for code := range int16(200) {
		err := kerr.TypedErrorForCode(code)
		if err == nil || err.Code != code {
			continue
		}
		class := retry.Classify(err).Class
		assert.Equal(t, err.Retriable, class == retry.Retryable || class == retry.RateLimited, "%d %v", code, err)
	}
}

// overXNet is a Transport of golang.org/x/net/http2 without TLS, which pings the server.
//
//nolint:staticcheck // it is deprecated, and in use
func overXNet(t *testing.T, every time.Duration) *http2.Transport {
	t.Helper()
	base := &http2.Transport{
		AllowHTTP: true, ReadIdleTimeout: every, PingTimeout: every,
		DialTLSContext: func(ctx context.Context, network, addr string, _ *tls.Config) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, addr)
		},
	}
	t.Cleanup(base.CloseIdleConnections)
	return base
}

// A Transport of golang.org/x/net/http2 returns errors of its own types, up to Go 1.26 by code of
// its own and since then by that of net/http. They are known as those of net/http are.
func TestErrorsOfXNetHTTP2(t *testing.T) {
	t.Parallel()
	goAway := func(last func(stream uint32) uint32, code uint32, end bool) func(*provoke.HTTP2Conn) {
		return func(c *provoke.HTTP2Conn) {
			c.GoAway(last(c.Request()), code)
			if end {
				c.EndWrites()
			}
		}
	}
	same := func(stream uint32) uint32 { return stream }
	none := func(uint32) uint32 { return 0 }
	for _, tt := range []struct {
		name     string // of the type first
		handle   func(*provoke.HTTP2Conn)
		text     string
		class    retry.Class
		category string
		get      int // attempts of a GET, and of a POST
		post     int
	}{
		{"http2.StreamError, INTERNAL_ERROR", provoke.ResetEach(provoke.InternalError), "INTERNAL_ERROR", retry.Retryable, "http2_reset", 2, 1},
		{"http2.StreamError, CANCEL", provoke.ResetEach(provoke.CancelStream), "CANCEL", retry.Retryable, "http2_reset", 2, 1},
		{"http2.StreamError, ENHANCE_YOUR_CALM", provoke.ResetEach(provoke.EnhanceYourCalm), "ENHANCE_YOUR_CALM", retry.RateLimited, "http2_calm", 2, 1},
		{"http2.StreamError, HTTP_1_1_REQUIRED", provoke.ResetEach(provoke.HTTP11Required), "HTTP_1_1_REQUIRED", retry.Retryable, "http2_refused", 2, 2},
		{"http2.StreamError, of the client", func(c *provoke.HTTP2Conn) {
			c.Each(func(stream uint32) { c.Header(stream, 0, 1, 'a', 1, 'b') })
		}, "PROTOCOL_ERROR", retry.Final, "malformed", 1, 1},
		{"http2.StreamError, in the body", provoke.ResetEachBody(provoke.InternalError), "INTERNAL_ERROR", retry.Retryable, "http2_reset", 1, 1},
		{"http2.GoAwayError, NO_ERROR", goAway(same, provoke.NoError, true), "server sent GOAWAY and closed", retry.Retryable, "http2_goaway", 2, 1},
		{"http2.GoAwayError, ENHANCE_YOUR_CALM", goAway(same, provoke.EnhanceYourCalm, true), "server sent GOAWAY and closed", retry.RateLimited, "http2_calm", 2, 1},
		{"*errors.errorString, GOAWAY before the stream", goAway(none, provoke.InternalError, false), "GOAWAY from server ErrCode:INTERNAL_ERROR", retry.Retryable, "http2_goaway", 2, 2},
		{"http2.ConnectionError", func(c *provoke.HTTP2Conn) {
			c.Request()
			c.Reset(0, provoke.NoError)
		}, "connection error: PROTOCOL_ERROR", retry.Unknown, "", 1, 1},
		{"*errors.errorString, closed", func(c *provoke.HTTP2Conn) {
			c.Request()
			c.EndWrites()
		}, "EOF", retry.Retryable, "eof", 2, 1},
		{"*errors.errorString, no answer to a ping", func(c *provoke.HTTP2Conn) { provoke.Ignore(c) }, "client connection lost", retry.Retryable, "conn_closed", 2, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			url := provoke.ServeHTTP2(t, tt.handle).URL()
			call := func(rt http.RoundTripper, method string) error {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader("hello"))
				require.NoError(t, err)
				resp, err := rt.RoundTrip(req)
				if err == nil {
					_, err = io.ReadAll(resp.Body)
					_ = resp.Body.Close()
				}
				return err
			}
			every := time.Duration(0)
			if strings.HasSuffix(tt.name, "ping") {
				every = 50 * time.Millisecond
			}
			err := call(overXNet(t, every), http.MethodGet)
			require.ErrorContains(t, err, tt.text)
			kind, _, _ := strings.Cut(tt.name, ",")
			require.Equal(t, kind, fmt.Sprintf("%T", err))
			v := retryhttp.Classify(err)
			assert.Equal(t, tt.class, v.Class)
			assert.Equal(t, tt.category, v.Category)
			for method, want := range map[string]int{http.MethodGet: tt.get, http.MethodPost: tt.post} { // as Base
				attempts := 0
				p := &retry.Policy{MaxAttempts: 2, Backoff: retry.Constant(0), Observer: &retry.Observer{Event: func(_ context.Context, e retry.Event) {
					attempts = e.Attempt
				}}}
				require.Error(t, call(&retryhttp.Transport{Base: overXNet(t, every), Policy: p, Budget: retryhttp.NoBudget}, method))
				assert.Equal(t, want, attempts, method)
			}
		})
	}
}
