package retryhttp_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retryhttp"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// What services say in the bodies of failures, as their documentation or their users show it.
var reasons = []struct {
	name     string
	status   int
	body     string
	class    retry.Class
	category string
	after    time.Duration
}{
	{"OpenAI, used up", 429, `{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`, retry.Final, "quota_exhausted", 0},
	{"OpenAI, used up, by type", 429, `{"error":{"message":"m","type":"insufficient_quota","param":null,"code":null}}`, retry.Final, "quota_exhausted", 0},
	{"OpenAI, not paid", 429, `{"error":{"message":"Your account is not active","type":"billing_not_active","param":null,"code":"billing_not_active"}}`, retry.Final, "billing", 0},
	{"OpenAI, hard limit", 400, `{"error":{"code":"billing_hard_limit_reached","message":"Billing hard limit has been reached","param":null,"type":"invalid_request_error"}}`, retry.Final, "billing", 0},
	{"OpenAI, a rate", 429, `{"error":{"message":"Rate limit reached for gpt-4o","type":"tokens","param":null,"code":"rate_limit_exceeded"}}`, retry.RateLimited, "http_429", 0},
	{"Anthropic, a rate", 429, `{"type":"error","error":{"type":"rate_limit_error","message":"m"},"request_id":"r"}`, retry.RateLimited, "http_429", 0},
	{"Anthropic, overloaded", 529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, retry.RateLimited, "http_529", 0},
	{"Anthropic, not paid", 402, `{"type":"error","error":{"type":"billing_error","message":"m"}}`, retry.Final, "billing", 0},
	{"Moonshot, used up", 429, `{"error":{"type":"exceeded_current_quota_error","message":"m"}}`, retry.Final, "quota_exhausted", 0},

	{"GitHub, secondary", 403, `{"message":"You have exceeded a secondary rate limit.","documentation_url":"https://docs.github.com/rest/overview/rate-limits-for-the-rest-api#about-secondary-rate-limits"}`, retry.RateLimited, "http_403", time.Minute},
	{"GitHub, secondary, with a version", 429, `{"documentation_url":"https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api?apiVersion=2022-11-28#about-secondary-rate-limits"}`, retry.RateLimited, "http_429", time.Minute},
	{"GitHub, secondary, older", 403, `{"documentation_url":"https://docs.github.com/en/free-pro-team@latest/rest/overview/resources-in-the-rest-api#secondary-rate-limits","message":"m"}`, retry.RateLimited, "http_403", time.Minute},
	{"GitHub, abuse", 403, `{"documentation_url":"https://developer.github.com/v3/#abuse-rate-limits"}`, retry.RateLimited, "http_403", time.Minute},
	{"GitHub, primary", 403, `{"message":"API rate limit exceeded","documentation_url":"http://developer.github.com/v3/#rate-limiting"}`, retry.RateLimited, "http_403", 0},
	{"GitHub, forbidden", 403, `{"message":"Resource not accessible by integration","documentation_url":"https://docs.github.com/rest/issues/issues#create-an-issue"}`, retry.Final, "http_403", 0},
	{"another site", 403, `{"documentation_url":"https://example.com/#about-secondary-rate-limits"}`, retry.Final, "http_403", 0},

	{"Google, a user's rate", 403, `{"error":{"errors":[{"domain":"usageLimits","reason":"userRateLimitExceeded","message":"User Rate Limit Exceeded"}],"code":403,"message":"m"}}`, retry.RateLimited, "http_403", 0},
	{"Google, a rate", 403, `{"error":{"code":403,"status":"PERMISSION_DENIED","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"RATE_LIMIT_EXCEEDED","domain":"googleapis.com"}]}}`, retry.RateLimited, "http_403", 0},
	{"Google, a day's", 403, `{"error":{"errors":[{"domain":"usageLimits","reason":"dailyLimitExceeded"}],"code":403}}`, retry.Final, "quota_exhausted", 0},
	{"YouTube, a day's", 403, `{"error":{"errors":[{"domain":"youtube.quota","reason":"quotaExceeded"}],"code":403}}`, retry.Final, "quota_exhausted", 0},
	{"Google, forbidden", 403, `{"error":{"errors":[{"domain":"global","reason":"insufficientPermissions"}],"code":403}}`, retry.Final, "http_403", 0},
	{"Google, not paid", 403, `{"error":{"code":403,"status":"PERMISSION_DENIED","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"BILLING_DISABLED"}]}}`, retry.Final, "billing", 0},
	{"Gemini, a minute's", 429, `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateRequestsPerMinutePerProjectPerModel-FreeTier"}]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34s"}]}}`, retry.RateLimited, "http_429", 34 * time.Second},
	{"Gemini, a day's", 429, `{"error":{"code":429,"status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateRequestsPerDayPerProjectPerModel-FreeTier"}]},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34s"}]}}`, retry.Final, "quota_exhausted", 0},
	{"Vertex, in a list", 429, `[{"error":{"code":429,"errors":[{"domain":"global","reason":"rateLimitExceeded"}],"status":"RESOURCE_EXHAUSTED"}}]`, retry.RateLimited, "http_429", 0},

	{"AWS JSON", 400, `{"__type":"com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException","message":"m"}`, retry.RateLimited, "aws_ProvisionedThroughputExceededException", 0},
	{"AWS JSON, throttled", 400, `{"__type":"ThrottlingException","Message":"Rate exceeded"}`, retry.RateLimited, "aws_ThrottlingException", 0},
	{"AWS JSON, invalid", 400, `{"__type":"com.amazon.coral.validate#ValidationException","message":"m"}`, retry.Final, "http_400", 0},
	{"AWS JSON, a service's quota", 400, `{"__type":"ServiceQuotaExceededException","message":"m"}`, retry.Final, "quota_exhausted", 0},
	{"AWS, not finished", 400, `{"__type":"FinalizingOrganizationException","message":"m"}`, retry.Retryable, "http_400", 0},
	{"a registry, an upload", 400, `{"errors":[{"code":"BLOB_UPLOAD_INVALID","message":"m"}]}`, retry.Retryable, "http_400", 0},
	{"AWS XML", 400, `<ErrorResponse xmlns="x"><Error><Type>Sender</Type><Code>Throttling</Code><Message>Rate exceeded</Message></Error></ErrorResponse>`, retry.RateLimited, "aws_Throttling", 0},
	{"S3", 503, `<?xml version="1.0"?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>`, retry.RateLimited, "aws_SlowDown", 0},
	{"S3, denied", 403, `<?xml version="1.0"?><Error><Code>AccessDenied</Code></Error>`, retry.Final, "http_403", 0},

	{"Azure, used up", 403, `{"error":{"code":"QuotaExceeded","message":"m"}}`, retry.Final, "quota_exhausted", 0},
	{"Azure, used up, with 429", 429, `{"error":{"code":"InsufficientQuota","message":"m"}}`, retry.Final, "quota_exhausted", 0},
	{"Azure, a rate", 429, `{"error":{"code":"SubscriptionRequestsThrottled","message":"m"}}`, retry.RateLimited, "http_429", 0},
	{"Azure, the same at work", 409, `{"error":{"code":"AnotherOperationInProgress","message":"m"}}`, retry.Retryable, "http_409", 0},

	{"Stripe, a rate", 429, `{"error":{"code":"rate_limit","type":"invalid_request_error"}}`, retry.RateLimited, "http_429", 0},
	{"Stripe, a lock", 429, `{"error":{"code":"lock_timeout","type":"invalid_request_error"}}`, retry.RateLimited, "http_429", 0},
	{"Stripe, declined", 402, `{"error":{"code":"card_declined","type":"card_error"}}`, retry.Final, "http_402", 0},
	{"Stripe, the key is in use", 409, `{"error":{"code":"idempotency_key_in_use","type":"idempotency_error"}}`, retry.Retryable, "http_409", 0},
	{"Slack", 429, `{"ok":false,"error":"ratelimited"}`, retry.RateLimited, "http_429", 0},
	{"Slack, an older code", 403, `{"ok":false,"error":"rate_limited"}`, retry.RateLimited, "http_403", 0},
	{"Shopify", 403, `{"errors":[{"message":"Throttled","extensions":{"code":"THROTTLED"}}]}`, retry.RateLimited, "http_403", 0},
	{"Shopify, REST", 429, `{"errors":"Exceeded 2 calls per second for api client."}`, retry.RateLimited, "http_429", 0},
	{"X, a month's", 429, `{"title":"UsageCapExceeded","detail":"Usage cap exceeded: Monthly product cap","type":"https://api.twitter.com/2/problems/usage-capped"}`, retry.Final, "quota_exhausted", 0},
	{"Meta", 400, `{"error":{"message":"(#17) User request limit reached","type":"OAuthException","code":17,"fbtrace_id":"x"}}`, retry.RateLimited, "http_400", 0},
	{"Meta, a bad token", 400, `{"error":{"message":"m","type":"OAuthException","code":190}}`, retry.Final, "http_400", 0},
	{"Salesforce", 403, `[{"message":"TotalRequests Limit exceeded.","errorCode":"REQUEST_LIMIT_EXCEEDED"}]`, retry.RateLimited, "http_403", 0},
	{"Salesforce, a locked row", 400, `[{"message":"unable to obtain exclusive access to this record","errorCode":"UNABLE_TO_LOCK_ROW","fields":[]}]`, retry.Retryable, "http_400", 0},
	{"Linear", 400, `{"errors":[{"message":"Rate limit exceeded","extensions":{"code":"RATELIMITED","statusCode":400}}]}`, retry.RateLimited, "http_400", 0},
	{"Box, another operation", 409, `{"type":"error","status":409,"code":"operation_blocked_temporary"}`, retry.Retryable, "http_409", 0},
	{"HubSpot, a day's", 429, `{"status":"error","errorType":"RATE_LIMIT","policyName":"DAILY"}`, retry.Final, "quota_exhausted", 0},
	{"HubSpot, ten seconds'", 429, `{"status":"error","errorType":"RATE_LIMIT","policyName":"TEN_SECONDLY_ROLLING"}`, retry.RateLimited, "http_429", 0},
	{"Discord", 429, `{"message":"You are being rate limited.","retry_after":64.57,"global":false}`, retry.RateLimited, "http_429", 64570 * time.Millisecond},
	{"Telegram", 429, `{"ok":false,"error_code":429,"description":"Too Many Requests: retry after 35","parameters":{"retry_after":35}}`, retry.RateLimited, "http_429", 35 * time.Second},
	{"Matrix", 429, `{"errcode":"M_LIMIT_EXCEEDED","error":"Too many requests","retry_after_ms":2000}`, retry.RateLimited, "http_429", 2 * time.Second},
	{"Dropbox", 429, `{"error_summary":"too_many_requests/..","error":{"reason":{".tag":"too_many_requests"},"retry_after":300}}`, retry.RateLimited, "http_429", 5 * time.Minute},

	{"Groq, no room", 498, `{"error":{"message":"m","type":"capacity_exceeded"}}`, retry.RateLimited, "http_498", 0},
	{"BigQuery, its backend", 400, `{"error":{"errors":[{"domain":"global","reason":"jobBackendError"}],"code":400}}`, retry.Retryable, "http_400", 0},
	{"OAuth, a device that polls too often", 400, `{"error":"slow_down"}`, retry.RateLimited, "http_400", 0},
	{"ACME, a nonce", 400, `{"type":"urn:ietf:params:acme:error:badNonce","status":400}`, retry.Retryable, "http_400", 0},
	{"ACME, an order", 400, `{"type":"urn:ietf:params:acme:error:malformed","status":400}`, retry.Final, "http_400", 0},
	{"PayPal, the same request", 409, `{"name":"RESOURCE_CONFLICT","details":[{"issue":"PREVIOUS_REQUEST_IN_PROGRESS"}]}`, retry.Retryable, "http_409", 0},
	{"Square, for a while", 400, `{"errors":[{"category":"API_ERROR","code":"TEMPORARY_ERROR"}]}`, retry.Retryable, "http_400", 0},
	{"Twilio, for the day", 429, `{"code":63038,"more_info":"https://www.twilio.com/docs/errors/63038","status":429}`, retry.Final, "quota_exhausted", 0},
	{"Workers AI, for the day", 429, `{"errors":[{"code":3036,"message":"m"}],"success":false}`, retry.Final, "quota_exhausted", 0},
	{"prose is not read", 429, `{"error":{"message":"insufficient_quota rate_limit_exceeded"}}`, retry.RateLimited, "http_429", 0},
	{"a code that is none", 403, `{"error":{"code":{"insufficient_quota":1}}}`, retry.Final, "http_403", 0},
	{"a code in another spelling", 403, `{"error":{"code":"RateLimitExceededException"}}`, retry.RateLimited, "http_403", 0},
	{"a code as a message", 400, `{"error":{"code":400,"message":"TOO_MANY_ATTEMPTS_TRY_LATER"}}`, retry.RateLimited, "http_400", 0},
	{"words of a code in a message", 400, `{"error":{"code":400,"message":"too many requests"}}`, retry.Final, "http_400", 0},
	{"a word before the end", 400, `{"error":{"code":"RateLimitExceededNotAllowed"}}`, retry.Final, "http_400", 0},
	{"a long code", 400, `{"error":{"code":"` + strings.Repeat("x", 64) + `Throttled"}}`, retry.Final, "http_400", 0},

	{"Cosmos DB, retry with", 449, `{"code":"449"}`, retry.Retryable, "http_449", 0},
	{"S3, another at work", 409, `<Error><Code>OperationAborted</Code></Error>`, retry.Retryable, "http_409", 0},
	{"IAM, two who change it", 409, `<ErrorResponse><Error><Code>ConcurrentModification</Code></Error></ErrorResponse>`, retry.Retryable, "http_409", 0},
	{"DynamoDB, a transaction", 400, `{"__type":"com.amazonaws.dynamodb.v20120810#TransactionConflictException"}`, retry.Retryable, "http_400", 0},
	{"DynamoDB, a condition", 400, `{"__type":"com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException"}`, retry.Final, "http_400", 0},
	{"SQS, a key's rate", 400, `{"__type":"com.amazonaws.sqs#KmsThrottled"}`, retry.RateLimited, "http_400", 0},
	{"Azure, being deleted", 409, `<Error><Code>ContainerBeingDeleted</Code></Error>`, retry.Retryable, "http_409", 0},
	{"Google, not ready", 400, `{"error":{"errors":[{"reason":"resourceNotReady"}],"code":400}}`, retry.Retryable, "http_400", 0},
	{"Google, aborted", 409, `{"error":{"code":409,"status":"ABORTED"}}`, retry.Retryable, "http_409", 0},
	{"Google Ads", 429, `{"error":{"details":[{"errors":[{"details":{"quotaErrorDetails":{"retryDelay":"899s"}}}]}]}}`, retry.RateLimited, "http_429", 899 * time.Second},
	{"Notion, a conflict", 409, `{"object":"error","status":409,"code":"conflict_error"}`, retry.Retryable, "http_409", 0},
	{"Airtable, a month's", 429, `{"errors":[{"error":"PUBLIC_API_BILLING_LIMIT_EXCEEDED"}]}`, retry.Final, "billing", 0},
	{"Stack Exchange", 400, `{"error_id":502,"error_name":"throttle_violation"}`, retry.RateLimited, "http_400", 0},
	{"Stack Exchange, out of order", 400, `{"error_id":503,"error_name":"temporarily_unavailable"}`, retry.Retryable, "http_400", 0},
	{"Hugging Face, a model that is loaded", 503, `{"error":"Model is currently loading","estimated_time":20.5}`, retry.Retryable, "http_503", 20500 * time.Millisecond},
	{"monday.com", 429, `{"errors":[{"extensions":{"code":"COMPLEXITY_BUDGET_EXHAUSTED","retry_in_seconds":23}}]}`, retry.RateLimited, "http_429", 23 * time.Second},
	{"Todoist", 429, `{"error_tag":"LIMITS_REACHED","error_extra":{"retry_after":3}}`, retry.RateLimited, "http_429", 3 * time.Second},
	{"Statuspage", 420, `{"error":"Too many requests"}`, retry.RateLimited, "http_420", 0},
	{"WhatsApp, a pair's", 400, `{"error":{"type":"OAuthException","code":131056}}`, retry.RateLimited, "http_400", 0},
	{"Meta, transient", 400, `{"error":{"type":"OAuthException","is_transient":true,"code":2}}`, retry.Retryable, "http_400", 0},
	{"Meta, not transient", 400, `{"error":{"type":"OAuthException","is_transient":false,"code":100}}`, retry.Final, "http_400", 0},
	{"Plaid, a bank that is down", 400, `{"error_type":"INSTITUTION_ERROR","error_code":"INSTITUTION_DOWN"}`, retry.Retryable, "http_400", 0},
	{"Plaid, log in", 400, `{"error_type":"ITEM_ERROR","error_code":"ITEM_LOGIN_REQUIRED"}`, retry.Final, "http_400", 0},
	{"Apigee", 500, `{"fault":{"detail":{"errorcode":"policies.ratelimit.SpikeArrestViolation"}}}`, retry.RateLimited, "http_500", 0},
	{"Zhipu, in arrears", 429, `{"error":{"code":"1113"}}`, retry.Final, "billing", 0},
	{"Dropbox, many writes", 409, `{"error":{".tag":"path","reason":{".tag":"too_many_write_operations"}}}`, retry.RateLimited, "http_409", 0},
	{"too deep", 403, `{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"a":{"code":"rate_limit_exceeded"}}}}}}}}}}`, retry.Final, "http_403", 0},
	{"broken", 403, `{"error":{"code":"rate_limit_exceeded"`, retry.Final, "http_403", 0},
	{"HTML", 403, `<html><title>403 Forbidden</title></html>`, retry.Final, "http_403", 0},
	{"a second code of XML", 403, `<Error><Message>m</Message><Code>AccessDenied</Code><Code>SlowDown</Code></Error>`, retry.Final, "http_403", 0},
	{"not found, limited", 404, `{"error":{"code":"rate_limit_exceeded"}}`, retry.RateLimited, "http_404", 0},
}

func contentType(body string) string {
	if strings.HasPrefix(body, "<") {
		return "application/xml"
	}
	return "application/json"
}

func TestReasonsOfServices(t *testing.T) {
	t.Parallel()
	for _, reason := range reasons {
		t.Run(reason.name, func(t *testing.T) {
			t.Parallel()
			resp := &http.Response{StatusCode: reason.status, Header: headers("Content-Type", contentType(reason.body)), Body: closedBody{t}}
			got := retryhttp.ClassifyBody(resp, []byte(reason.body), noon)
			assert.Equal(t, reason.class, got.Class)
			assert.Equal(t, reason.category, got.Category)
			assert.Equal(t, reason.after, got.After)
			gzipped := headers("Content-Type", contentType(reason.body), "Content-Encoding", "gzip")
			resp = &http.Response{StatusCode: reason.status, Header: gzipped}
			assert.Equal(t, got, retryhttp.ClassifyBody(resp, zipped(t, reason.body), noon), "gzip")
		})
	}
}

// closedBody must not be read.
type closedBody struct{ t *testing.T }

func (b closedBody) Read([]byte) (int, error) {
	b.t.Error("the body was read")
	return 0, http.ErrBodyReadAfterClose
}
func (b closedBody) Close() error { return nil }

func zipped(t *testing.T, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	testkit.Must(io.WriteString(w, text))(t)
	require.NoError(t, w.Close())
	return b.Bytes()
}

// A Transport with BodyHints acts on what the body says, and the caller reads all of it; so
// does Do, whose error has it.
func TestBodiesDecide(t *testing.T) {
	t.Parallel()
	for _, reason := range reasons {
		if reason.status == http.StatusNotFound || reason.status == http.StatusPaymentRequired {
			continue // nobody reads the bodies of these
		}
		t.Run(reason.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", contentType(reason.body))
				w.WriteHeader(reason.status)
				_, _ = io.WriteString(w, reason.body)
			})
			want := 2
			if reason.class == retry.Final {
				want = 1
			}
			clock := &retrytest.Clock{}
			c := client(t, nil, &retry.Policy{MaxAttempts: 2, Clock: clock, MaxRetryAfter: time.Hour, Backoff: retry.Constant(0)})
			transport := c.Transport.(*retryhttp.Transport)
			transport.BodyHints = true
			resp := testkit.Must(c.Get(s.URL))(t)
			assert.EqualValues(t, want, s.requests.Load())
			assert.Equal(t, reason.body, text(t, resp))
			v := retryhttp.ClassifyResponse(resp, time.Now())
			assert.Equal(t, reason.class, v.Class, "the body that was read counts")
			assert.Equal(t, reason.after, v.After)
			if want == 2 && reason.after > 0 {
				require.Len(t, clock.Sleeps(), 1)
				assert.GreaterOrEqual(t, clock.Sleeps()[0], reason.after)
			}

			transport.BodyHints = false
			err := retryhttp.Do(c, nil, request(t, http.MethodGet, s.URL, nil), func(*http.Response) error { return nil })
			assert.EqualValues(t, 2*want, s.requests.Load(), "Do reads it anyway")
			assert.EqualValues(t, 1, s.conns.Load(), "what was read leaves the connection as it was")
			failed := testkit.As[*retryhttp.StatusError](t, err)
			assert.Equal(t, reason.body, string(failed.Body))
			if reason.class == retry.Final {
				assert.Equal(t, retry.Final, retry.Classify(err).Class, "a policy around Do does not repeat it")
			}
		})
	}
}

// Without BodyHints, the body is not read, and the status decides.
func TestBodiesDoNotDecide(t *testing.T) {
	t.Parallel()
	resp := &http.Response{
		StatusCode: http.StatusTooManyRequests, Header: headers("Content-Type", "application/json"), Body: closedBody{t},
	}
	assert.Equal(t, retry.RateLimited, retryhttp.ClassifyResponse(resp, noon).Class)
	base := roundTripper(func(*http.Request) (*http.Response, error) { return resp, nil })
	testkit.Must(get(t, &retryhttp.Transport{Base: base, Policy: atOnce(1)}, "http://a/"))(t)
}

// A code in the headers counts too, and one that forbids retries counts before.
func TestReasonsInHeaders(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		status   int
		header   []string
		class    retry.Class
		category string
	}{
		{400, []string{"X-Amzn-Errortype", "ThrottlingException:http://internal.amazon.com/coral/com.amazon.coral.availability/"}, retry.RateLimited, "aws_ThrottlingException"},
		{400, []string{"X-Amzn-Errortype", "ValidationException"}, retry.Final, "http_400"},
		{403, []string{"X-Amzn-Errortype", "com.amazonaws.kms#LimitExceededException"}, retry.RateLimited, "aws_LimitExceededException"},
		{403, []string{"X-Ms-Error-Code", "QuotaExceeded"}, retry.Final, "quota_exhausted"},
		{409, []string{"X-Ms-Error-Code", "AnotherOperationInProgress"}, retry.Retryable, "http_409"},
		{429, []string{"X-Ms-Error-Code", "InsufficientQuota"}, retry.Final, "quota_exhausted"},
		{400, []string{"X-Amzn-Errortype", "ThrottlingException", "X-Should-Retry", "false"}, retry.Final, "http_400"},
		{400, []string{"X-Amzn-Errortype", ""}, retry.Final, "http_400"},
		{409, []string{"Openai-Version", "2020-10-01"}, retry.Retryable, "http_409"},
		{409, []string{"Stripe-Version", "2026-01-28", "Stripe-Should-Retry", "false"}, retry.Final, "http_409"},
		{498, []string{"X-Trans-Id", "tx1"}, retry.RateLimited, "http_498"}, // Swift
		{498, nil, retry.Final, "http_498"},
	} {
		v := retryhttp.ClassifyResponse(&http.Response{StatusCode: test.status, Header: headers(test.header...)}, noon)
		assert.Equal(t, test.class, v.Class, "%v", test.header)
		assert.Equal(t, test.category, v.Category, "%v", test.header)
	}
	for _, name := range []string{"X-Stainless-Lang", "Stripe-Version"} { // of the request
		conflict := &http.Response{StatusCode: http.StatusConflict, Request: &http.Request{Header: headers(name, "x")}}
		assert.Equal(t, retry.Retryable, retryhttp.ClassifyResponse(conflict, noon).Class, name)
	}
	stopped := &http.Response{StatusCode: http.StatusForbidden, Header: headers("Content-Type", "application/json", "X-Should-Retry", "false")}
	v := retryhttp.ClassifyBody(stopped, []byte(`{"code":"rate_limit_exceeded"}`), noon)
	assert.Equal(t, retry.Final, v.Class)
}

// Bodies that lie, and bodies of no response.
func TestClassifyBodyOfAnything(t *testing.T) {
	t.Parallel()
	const limited = `{"code":"rate_limit_exceeded"}`
	assert.Equal(t, retry.Verdict{}, retryhttp.ClassifyBody(nil, nil, noon))
	assert.Equal(t, retry.Verdict{}, retryhttp.ClassifyBody(&http.Response{StatusCode: http.StatusOK}, []byte(limited), noon))
	for name, test := range map[string]struct {
		header []string
		body   []byte
		want   retry.Class
	}{
		"as it says":             {[]string{"Content-Type", "application/json"}, []byte(limited), retry.RateLimited},
		"of Amazon":              {[]string{"Content-Type", "application/x-amz-json-1.1"}, []byte(limited), retry.RateLimited},
		"a problem":              {[]string{"Content-Type", "application/problem+json"}, []byte(limited), retry.RateLimited},
		"XML of another name":    {[]string{"Content-Type", "application/error+xml; charset=utf-8"}, []byte("<Code>SlowDown</Code>"), retry.RateLimited},
		"without a type":         {nil, []byte(limited), retry.Final},
		"as a text":              {[]string{"Content-Type", "text/plain"}, []byte(limited), retry.Final},
		"XML in JSON":            {[]string{"Content-Type", "application/json"}, []byte("<Code>SlowDown</Code>"), retry.Final},
		"JSON in XML":            {[]string{"Content-Type", "text/xml"}, []byte(limited), retry.Final},
		"XML that breaks off":    {[]string{"Content-Type", "text/xml"}, []byte("<Code>SlowDown"), retry.Final},
		"gzip that is none":      {[]string{"Content-Type", "application/json", "Content-Encoding", "gzip"}, []byte(limited), retry.Final},
		"gzip that breaks off":   {[]string{"Content-Type", "application/json", "Content-Encoding", "gzip"}, zipped(t, limited)[:20], retry.Final},
		"gzip that is not said":  {[]string{"Content-Type", "application/json"}, zipped(t, limited), retry.Final},
		"another encoding":       {[]string{"Content-Type", "application/json", "Content-Encoding", "br"}, []byte(limited), retry.Final},
		"no encoding":            {[]string{"Content-Type", "application/json", "Content-Encoding", "Identity"}, []byte(limited), retry.RateLimited},
		"gzip that explodes":     {[]string{"Content-Type", "application/json", "Content-Encoding", "gzip"}, zipped(t, limited+strings.Repeat(" ", 1<<24)), retry.Final},
		"longer than 64 KiB":     {[]string{"Content-Type", "application/json"}, []byte(limited + strings.Repeat(" ", 64<<10)), retry.Final},
		"nothing":                {[]string{"Content-Type", "application/json"}, nil, retry.Final},
		"binary":                 {[]string{"Content-Type", "application/json"}, bytes.Repeat([]byte{0xff, 0}, 1000), retry.Final},
		"a code without a value": {[]string{"Content-Type", "application/json"}, []byte(`{"code":null,"type":7,"errors":{}}`), retry.Final},
	} {
		resp := &http.Response{StatusCode: http.StatusForbidden, Header: headers(test.header...)}
		assert.Equal(t, test.want, retryhttp.ClassifyBody(resp, test.body, noon).Class, name)
	}
}

// trickle is a body that comes in parts; the last of them is repeated without end if there is
// no error.
type trickle struct {
	parts []string
	err   error
	pause chan struct{} // before the parts after the first; nil means none
	reads int
}

func (b *trickle) Read(p []byte) (int, error) {
	b.reads++
	if len(b.parts) == 0 {
		return 0, b.err
	}
	if b.reads > 1 && b.pause != nil {
		<-b.pause
	}
	n := copy(p, b.parts[0])
	switch {
	case n < len(b.parts[0]):
		b.parts[0] = b.parts[0][n:]
	case len(b.parts) > 1 || b.err != nil:
		b.parts = b.parts[1:]
	}
	return n, nil
}

func (b *trickle) Close() error { return nil }

// refusing makes a Transport that reads bodies, over a Base that answers with this one.
func refusing(header http.Header, body io.ReadCloser) *retryhttp.Transport {
	base := roundTripper(func(req *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusTooManyRequests, Header: header, Body: body, Request: req, ContentLength: -1}, nil
	})
	return &retryhttp.Transport{Base: base, Policy: atOnce(1), BodyHints: true}
}

// A body whose value has come is not read on, however long it goes on, and is read on by the
// caller where the Transport has stopped.
func TestBodiesWithoutEnd(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]string{
		"a value, and no end":  `{"code":"insufficient_quota"}`,
		"a value without end":  `{"code":"insufficient_quota","x":"`,
		"spaces":               ` `,
		"an opening in each":   `[`,
		"something that is no": `<html>`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body := &trickle{parts: []string{first, strings.Repeat("x", 1000)}}
			transport := refusing(headers("Content-Type", "application/json"), body)
			resp := testkit.Must(get(t, transport, "http://a/"))(t)
			assert.Less(t, body.reads, 200, "64 KiB at most")
			want := first + strings.Repeat("x", 100_000)
			got := make([]byte, len(want))
			testkit.Must(io.ReadFull(resp.Body, got))(t)
			assert.Equal(t, want, string(got))
			require.NoError(t, resp.Body.Close())
		})
	}
}

// A body that does not come in time is not waited for, and the caller gets all of it.
func TestBodiesThatComeLate(t *testing.T) {
	t.Parallel()
	body := &trickle{parts: []string{`{"code":"insuffi`, `cient_quota"}`}, err: io.EOF, pause: make(chan struct{})}
	began := time.Now()
	resp := testkit.Must(get(t, refusing(headers("Content-Type", "application/json"), body), "http://a/"))(t)
	assert.Less(t, time.Since(began), 10*time.Second)
	close(body.pause)
	assert.Equal(t, `{"code":"insufficient_quota"}`, text(t, resp))
}

// An error in the middle of a body is for the caller, after what has come.
func TestBodiesThatBreakOff(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken off")
	for _, kind := range []string{"application/json", "text/xml"} {
		body := &trickle{parts: []string{`{"code":"insufficient_quota"`}, err: broken}
		resp := testkit.Must(get(t, refusing(headers("Content-Type", kind), body), "http://a/"))(t)
		got, err := io.ReadAll(resp.Body)
		require.ErrorIs(t, err, broken)
		assert.JSONEq(t, `{"code":"insufficient_quota"}`, string(got)+"}")
		require.NoError(t, resp.Body.Close())
	}
}

// panicking is a body that panics, which it does to its reader.
type panicking struct{}

func (panicking) Read([]byte) (int, error) { panic("body") }
func (panicking) Close() error             { return nil }

func TestBodiesThatPanic(t *testing.T) {
	t.Parallel()
	resp := testkit.Must(get(t, refusing(headers("Content-Type", "application/json"), panicking{}), "http://a/"))(t)
	assert.PanicsWithValue(t, "body", func() { _, _ = resp.Body.Read(nil) })
	require.NoError(t, resp.Body.Close())
}
