package clientstest_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"connectrpc.com/connect/v2"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/anthropics/anthropic-sdk-go"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/go-resty/resty/v2"
	"github.com/google/go-github/v92/github"
	"github.com/googleapis/gax-go/v2/apierror"
	"github.com/minio/minio-go/v7"
	"github.com/openai/openai-go/v3"
	"github.com/slack-go/slack"
	"github.com/stretchr/testify/assert"
	"github.com/stripe/stripe-go/v85"
	"google.golang.org/api/googleapi"
	"google.golang.org/genai"

	"github.com/seed-5ff3c98e/retry"
)

// TestRootKnowsStatusesOfClients checks that retry.Classify, which imports none of them,
// finds the status in the errors of clients that have no method for it.
func TestRootKnowsStatusesOfClients(t *testing.T) {
	t.Parallel()
	for status, class := range map[int]retry.Class{404: retry.Final, 429: retry.RateLimited, 503: retry.Retryable} {
		for _, err := range []error{
			&azcore.ResponseError{StatusCode: status},
			&googleapi.Error{Code: status},
			&github.ErrorResponse{Response: &http.Response{StatusCode: status, Request: &http.Request{}}},
			minio.ErrorResponse{StatusCode: status},
		} {
			v := retry.Classify(fmt.Errorf("x: %w", err))
			assert.Equal(t, class, v.Class, "%d: %T", status, err)
			assert.Equal(t, fmt.Sprintf("http_%d", status), v.Category, "%T", err)
		}
		// Their Error methods need a whole exchange.
		assert.Equal(t, class, retry.Classify(&openai.Error{StatusCode: status}).Class)
		assert.Equal(t, class, retry.Classify(&anthropic.Error{StatusCode: status}).Class)
	}
}

// TestRootKnowsConnect checks that retry.Classify knows the codes of version 2 of Connect.
// retryconnect, which is for version 1, checks those of its errors.
func TestRootKnowsConnect(t *testing.T) {
	t.Parallel()
	for code, want := range map[connect.Code]retry.Verdict{
		connect.CodeNotFound:    {Class: retry.Final, Category: "grpc_not_found"},
		connect.CodeUnavailable: {Class: retry.Retryable, Category: "grpc_unavailable"},
		connect.CodeInternal:    {Category: "grpc_internal"},
	} {
		assert.Equal(t, want, retry.Classify(fmt.Errorf("x: %w", connect.NewError(code, "y"))))
	}
}

// TestRootKnowsResponsesOfClients checks that retry.Classify finds the hint and the reason in
// the errors of clients.
func TestRootKnowsResponsesOfClients(t *testing.T) {
	t.Parallel()
	const wait = 30 * time.Second
	header := http.Header{"Retry-After": {"30"}}
	response := func(status int) *http.Response {
		return &http.Response{StatusCode: status, Header: header, Request: &http.Request{}}
	}
	aws := func(status int, code string) error {
		return &awshttp.ResponseError{ResponseError: &smithyhttp.ResponseError{
			Response: &smithyhttp.Response{Response: response(status)}, Err: &smithy.GenericAPIError{Code: code},
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
	for name, test := range map[string]struct {
		err   error
		class retry.Class
		after time.Duration
	}{
		"googleapi":             {&googleapi.Error{Code: 429, Header: header}, retry.RateLimited, wait},
		"googleapi, forbidden":  {&googleapi.Error{Code: 403}, retry.Final, 0},
		"googleapi, a rate":     {limit, retry.RateLimited, 0},
		"gax, a rate":           {wrapped, retry.RateLimited, 0},
		"googleapi, in details": {&googleapi.Error{Code: 429, Details: []any{info}}, retry.RateLimited, wait},
		"genai":                 {genai.APIError{Code: 429, Details: []map[string]any{info}}, retry.RateLimited, wait},
		"genai, a day's":        {genai.APIError{Code: 429, Details: []map[string]any{day, info}}, retry.Final, 0},
		"genai, not found":      {genai.APIError{Code: 404}, retry.Final, 0},
		"azcore":                {&azcore.ResponseError{StatusCode: 429, RawResponse: response(429)}, retry.RateLimited, wait},
		"azcore, used up":       {&azcore.ResponseError{StatusCode: http.StatusForbidden, ErrorCode: "QuotaExceeded"}, retry.Final, 0},
		"go-github":             {&github.ErrorResponse{Response: response(429)}, retry.RateLimited, wait},
		"go-github, secondary":  {&github.AbuseRateLimitError{Response: &http.Response{StatusCode: http.StatusForbidden, Request: &http.Request{}}}, retry.RateLimited, time.Minute},
		"go-github, by a page":  {&github.ErrorResponse{Response: &http.Response{StatusCode: http.StatusForbidden, Request: &http.Request{}}, DocumentationURL: page}, retry.RateLimited, time.Minute},
		"go-github, primary":    {&github.RateLimitError{Response: &http.Response{StatusCode: http.StatusForbidden, Request: &http.Request{}}}, retry.RateLimited, 0},
		"stripe":                {payment, retry.RateLimited, wait},
		"stripe, declined":      {&stripe.Error{HTTPStatusCode: 402, Code: stripe.ErrorCodeCardDeclined}, retry.Final, 0},
		"openai":                {&openai.Error{StatusCode: 429, Response: response(429)}, retry.RateLimited, wait},
		"openai, used up":       {&openai.Error{StatusCode: 429, Response: response(429), Code: "insufficient_quota"}, retry.Final, 0},
		"anthropic":             {&anthropic.Error{StatusCode: 529, Response: response(529)}, retry.RateLimited, wait},
		"slack":                 {&slack.RateLimitedError{RetryAfter: wait}, retry.RateLimited, wait},
		"smithy":                {aws(503, "ServiceUnavailable"), retry.Retryable, wait},
		"smithy, throttled":     {aws(400, "ThrottlingException"), retry.RateLimited, 0},
		"smithy, unknown":       {aws(403, "AccessDeniedException"), retry.RateLimited, wait}, // by its header
		"resty":                 {&resty.ResponseError{Response: &resty.Response{RawResponse: response(503)}}, retry.Retryable, wait},
		"minio":                 {minio.ErrorResponse{StatusCode: 503, Code: "SlowDown"}, retry.RateLimited, 0},
	} {
		v := retry.Classify(test.err)
		assert.Equal(t, test.class, v.Class, name)
		assert.Equal(t, test.after, v.After, name)
	}
}
