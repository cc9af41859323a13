package known

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/hint"
)

// The facts of reasons. A fact without a category has that of the response's status.
var (
	usedUp  = Permanent("quota_exhausted") // until somebody raises the quota, or for a day
	unpaid  = Permanent("billing")         // until somebody pays
	limited = Rejected("")                 // a rate limit, whatever the status
	passing = Transient("")                // whatever the status
)

// Reason classifies a code with which a service says in a body, a header or an error why it
// has refused a request. It has the codes that say more than the status does: a 429 that no
// wait can help, and a 400 or 403 that is a rate limit. Codes are compared as they are
// written, without the namespace of AWS; then by the words at their end, see word. A code that
// is not known gives the zero Fact.
func Reason(code string) Fact {
	if code == "" {
		return Fact{}
	}
	if f, ok := reasons[code]; ok {
		return f
	}
	if strings.HasPrefix(code, "http") {
		return page(code)
	}
	if urn, ok := strings.CutPrefix(code, "urn:"); ok {
		code = urn[strings.LastIndexByte(urn, ':')+1:]
	} else if before, _, ok := strings.Cut(code, ":"); ok { // X-Amzn-Errortype: Throttling:http://…
		code = before
	}
	if _, name, ok := strings.Cut(code, "#"); ok { // com.amazonaws.dynamodb.v20120810#Throttling
		code = name
	}
	if f, ok := reasons[code]; ok {
		return f
	}
	if f := AWS(code); f.Class != Unknown {
		return f
	}
	if f := word(code); f.Class != Unknown {
		return f
	}
	if kind, _, ok := strings.Cut(code, "."); ok { // of Tencent and Alibaba Cloud: Throttling.User
		return Reason(kind)
	}
	return Fact{}
}

// AWS classifies a code of AWS: the codes that the AWS SDKs retry, by their
// exact names.
func AWS(code string) Fact {
	switch code {
	case "RequestTimeout", "RequestTimeoutException":
		return Transient("aws_" + code)
	case "BandwidthLimitExceeded", "EC2ThrottledException", "LimitExceededException",
		"PriorRequestNotComplete", "ProvisionedThroughputExceededException",
		"RequestLimitExceeded", "RequestThrottled", "RequestThrottledException", "SlowDown",
		"ThrottledException", "Throttling", "ThrottlingException", "TooManyRequestsException",
		"TransactionInProgressException":
		return Throttled("aws_" + code)
	default:
		return Fact{}
	}
}

// reasons has one row for each code, under the page that documents it.
var reasons = map[string]Fact{
	// OpenAI, and those who speak like it.
	// https://platform.openai.com/docs/guides/error-codes
	"insufficient_quota":         usedUp,
	"billing_hard_limit_reached": unpaid,
	"billing_not_active":         unpaid,
	"access_terminated":          Permanent("access_terminated"),
	"account_deactivated":        Permanent("access_terminated"),
	"rate_limit_exceeded":        limited,
	// https://developers.openai.com/codex/pricing
	"usage_limit_reached": usedUp,
	// https://platform.moonshot.ai/docs/api/chat
	"exceeded_current_quota_error": usedUp,
	"rate_limit_reached_error":     limited,
	// https://help.aliyun.com/zh/model-studio/error-code
	"Arrearage":                    unpaid,
	"AllocationQuota.FreeTierOnly": usedUp,
	"Throttling.RateQuota":         limited,
	"Throttling.BurstRate":         limited,
	// https://elevenlabs.io/docs/developers/resources/error-messages
	"quota_exceeded": usedUp,

	// Anthropic.
	// https://docs.anthropic.com/en/api/errors
	"billing_error":    unpaid,
	"rate_limit_error": limited,
	"overloaded_error": Throttled(""),

	// Google: the reasons of the JSON APIs and, in capitals, of google.rpc.ErrorInfo.
	// https://cloud.google.com/apis/design/errors,
	// https://developers.google.com/workspace/drive/api/guides/handle-errors
	"rateLimitExceeded":       limited,
	"userRateLimitExceeded":   limited,
	"RATE_LIMIT_EXCEEDED":     limited,
	"dailyLimitExceeded":      usedUp,
	"dailyLimitExceededUnreg": usedUp,
	"storageQuotaExceeded":    usedUp,
	// https://developers.google.com/youtube/v3/docs/errors,
	// https://cloud.google.com/bigquery/docs/error-messages
	"quotaExceeded":            usedUp,
	"billingNotEnabled":        unpaid,
	"billingTierLimitExceeded": unpaid,
	"jobRateLimitExceeded":     limited,
	"tableUnavailable":         passing,
	"backendError":             passing,
	"jobBackendError":          passing,
	"jobInternalError":         passing,
	"RESOURCE_QUOTA_EXCEEDED":  usedUp,
	"QUOTA_EXHAUSTED":          usedUp,
	"BILLING_DISABLED":         unpaid,
	// https://developers.google.com/webmaster-tools/limits,
	// https://developers.google.com/analytics/devguides/reporting/core/v3/errors
	"concurrentLimitExceeded": limited,
	"servingLimitExceeded":    limited,
	// https://google.aip.dev/194: the whole transaction is repeated
	"ABORTED": passing,
	"aborted": passing, // Connect

	// AWS, besides the codes of func AWS.
	// https://docs.aws.amazon.com/general/latest/gr/api-retries.html
	"ServiceQuotaExceededException": usedUp,
	// https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
	"InsufficientInstanceCapacity": passing,
	"PendingVerification":          Permanent("access_terminated"),
	// https://docs.aws.amazon.com/rdsdataservice/latest/APIReference/CommonErrors.html
	"DatabaseResumingException": passing,
	// https://docs.aws.amazon.com/organizations/latest/APIReference/API_CreateAccount.html
	"FinalizingOrganizationException": passing,
	// https://www.alibabacloud.com/help/en/ecs/developer-reference/error-code
	"Throttling.User": limited,
	"Throttling.Api":  limited,

	// Azure.
	// https://learn.microsoft.com/azure/azure-resource-manager/troubleshooting/common-deployment-errors
	"QuotaExceeded":                 usedUp,
	"ResourceQuotaExceeded":         usedUp,
	"DeploymentQuotaExceeded":       usedUp,
	"InsufficientQuota":             usedUp,
	"AnotherOperationInProgress":    passing,
	"RetryableError":                passing,
	"TooManyRequests":               limited,
	"SubscriptionRequestsThrottled": limited,
	// https://learn.microsoft.com/rest/api/cosmos-db/http-status-codes-for-cosmosdb
	"RequestRateTooLarge": limited,
	// https://learn.microsoft.com/graph/errors
	"activityLimitReached": limited,
	"ApplicationThrottled": limited,

	// Stripe.
	// https://docs.stripe.com/error-codes
	"rate_limit":             limited,
	"lock_timeout":           limited,
	"idempotency_key_in_use": passing,

	// Slack.
	// https://docs.slack.dev/apis/web-api/rate-limits
	"ratelimited":  limited,
	"rate_limited": limited,

	// Shopify.
	// https://shopify.dev/docs/api/usage/rate-limits
	"THROTTLED": limited,

	// X.
	// https://docs.x.com/x-api/fundamentals/response-codes-and-errors
	"https://api.twitter.com/2/problems/usage-capped": usedUp,
	"https://api.x.com/2/problems/usage-capped":       usedUp,
	"https://api.twitter.com/2/problems/credits":      unpaid,
	"https://api.x.com/2/problems/credits":            unpaid,

	// Meta: the type and the number.
	// https://developers.facebook.com/docs/graph-api/overview/rate-limiting
	"OAuthException/4":     limited,
	"OAuthException/17":    limited,
	"OAuthException/32":    limited,
	"OAuthException/613":   limited,
	"OAuthException/80000": limited,
	"OAuthException/80001": limited,
	"OAuthException/80002": limited,
	"OAuthException/80003": limited,
	"OAuthException/80004": limited,
	"OAuthException/80005": limited,
	"OAuthException/80006": limited,
	"OAuthException/80008": limited,
	"OAuthException/80009": limited,
	"OAuthException/80014": limited,
	// https://developers.facebook.com/docs/whatsapp/cloud-api/support/error-codes
	"OAuthException/80007":  limited,
	"OAuthException/130429": limited,
	"OAuthException/131056": limited,

	// Salesforce.
	// https://developer.salesforce.com/docs/atlas.en-us.api_rest.meta/api_rest/errorcodes.htm
	"REQUEST_LIMIT_EXCEEDED": limited,
	"UNABLE_TO_LOCK_ROW":     passing,

	// Linear, whose rate limit is a 400.
	// https://linear.app/developers/rate-limiting
	"RATELIMITED": limited,

	// Box.
	// https://developer.box.com/guides/api-calls/permissions-and-errors/common-errors
	"operation_blocked_temporary": passing,

	// Notion.
	// https://developers.notion.com/reference/status-codes
	"conflict_error": passing,

	// Plaid.
	// https://plaid.com/docs/errors/institution/
	"INSTITUTION_DOWN":           passing,
	"INSTITUTION_NOT_RESPONDING": passing,

	// The device flow of OAuth, and ACME, whose type is a URN.
	// https://www.rfc-editor.org/rfc/rfc8628#section-3.5,
	// https://www.rfc-editor.org/rfc/rfc8555#section-6.5
	"slow_down":             limited,
	"authorization_pending": passing,
	"badNonce":              passing,

	// Cloudflare's Workers AI: the neurons of the day.
	// https://developers.cloudflare.com/workers-ai/platform/errors/
	"3036": usedUp,

	// Zhipu: an account in arrears.
	// https://docs.bigmodel.cn/cn/api/api-code
	"1113": unpaid,

	// Registries of images: an upload that broke off, and is begun anew.
	// https://github.com/opencontainers/distribution-spec/blob/main/spec.md#error-codes,
	// https://github.com/google/go-containerregistry/blob/main/pkg/v1/remote/transport/error.go
	"BLOB_UPLOAD_INVALID": passing,

	// Trino and Presto: the type of an error in the query itself.
	// https://trino.io/docs/current/develop/client-protocol.html
	"USER_ERROR": Permanent("invalid"),

	// Mashery, in a header.
	// https://support.mashery.com/docs/read/mashery_api/20/Error_Codes
	"ERR_403_DEVELOPER_OVER_QPS": limited,
	"ERR_403_SERVICE_OVER_QPS":   limited,

	// HubSpot: the name of the policy.
	// https://developers.hubspot.com/docs/developer-tooling/platform/usage-guidelines
	"policyName/DAILY": usedUp,
}

// gitHubWait is how long to wait after a secondary rate limit without a Retry-After.
//
// https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api
const gitHubWait = time.Minute

// page classifies the documentation_url in an error of GitHub, whose message is prose, and the
// more_info of Twilio.
func page(url string) Fact {
	if strings.HasSuffix(url, "twilio.com/docs/errors/63038") { // a limit of the day
		return usedUp
	}
	if _, rest, ok := strings.Cut(url, "://"); ok &&
		(strings.HasPrefix(rest, "docs.github.com/") || strings.HasPrefix(rest, "developer.github.com/")) {
		_, fragment, _ := strings.Cut(rest, "#")
		switch fragment {
		case "about-secondary-rate-limits", "secondary-rate-limits", "abuse-rate-limits":
			f := limited
			f.After = gitHubWait
			return f
		case "rate-limiting", "about-primary-rate-limits", "primary-rate-limits":
			return limited
		}
	}
	return Fact{}
}

// PerDay reports whether the name of a Google quota is that of a quota for a day, such as
// GenerateRequestsPerDayPerProjectPerModel-FreeTier: no wait of a minute helps, whatever the
// RetryInfo beside it says.
//
// https://ai.google.dev/gemini-api/docs/rate-limits
func PerDay(quota string) Fact {
	if strings.Contains(quota, "PerDay") {
		return usedUp
	}
	return Fact{}
}

// ReasonIn looks for the codes of an error in a JSON document, as encoding/json decodes it
// into an any, with or without UseNumber.
func ReasonIn(document any) Fact { return reasonIn(document, 0) }

// deepest is how deep the codes of errors are in a document: details in a list in an error
// in a list.
const deepest = 8

func reasonIn(part any, depth int) (f Fact) {
	if depth > deepest {
		return f
	}
	switch part := part.(type) {
	case []any:
		for _, item := range part {
			f = f.or(reasonIn(item, depth+1))
		}
	case map[string]any:
		if part["is_transient"] == true { // https://developers.facebook.com/docs/graph-api/guides/error-handling
			f = passing
		}
		for key, value := range part {
			code, ok := value.(string)
			if number, isNumber := value.(json.Number); isNumber {
				code, ok = string(number), true
			}
			if !ok {
				f = f.or(reasonIn(value, depth+1))
				continue
			}
			switch key {
			case "code", "type", "status", "reason", "error", "message", "errorCode", "error_code", "errorType", "error_type",
				"__type", "Code", "title", ".tag", "documentation_url", "errorcode", "error_name",
				"issue", "name", "more_info":
				f = f.or(Reason(code))
			case "quotaId", "quota_limit":
				f = f.or(PerDay(code))
			case "policyName":
				f = f.or(Reason(key + "/" + code))
			}
		}
		if kind, _ := part["type"].(string); kind != "" {
			switch part["code"].(type) {
			case float64, json.Number:
				f = f.or(Reason(fmt.Sprint(kind, "/", part["code"])))
			}
		}
	}
	return f
}

// ShouldRetry returns the value of X-Should-Retry or Stripe-Should-Retry, or "".
func ShouldRetry(header map[string][]string) string {
	if value := first(header, "X-Should-Retry"); value != "" {
		return value
	}
	return first(header, "Stripe-Should-Retry")
}

// first returns the first value of a header with this name in canonical form, or "".
func first(header map[string][]string, name string) string {
	if values := header[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// reasonHeaders have the code of a failure.
//
// https://docs.aws.amazon.com/kms/latest/APIReference/CommonErrors.html,
// https://learn.microsoft.com/rest/api/storageservices/status-and-error-codes2
var reasonHeaders = [...]string{"X-Amzn-Errortype", "X-Ms-Error-Code", "X-Mashery-Error-Code"}

// byHeader returns what a header says by being there, or that nothing is left.
func byHeader(status int, header map[string][]string) Fact {
	switch {
	case EnvoyLimited(header):
		return limited
	case status == 403 && hint.IsZero(first(header, "X-Ratelimit-Remaining")):
		return limited
	case sellingPartner(status, header):
		return limited
	case status == 503 && header["X-Envoy-Overloaded"] != nil:
		// Envoy has not passed the request on.
		// https://www.envoyproxy.io/docs/envoy/latest/configuration/http/http_filters/router_filter
		return limited
	case status == conflict && (header["Openai-Version"] != nil || header["Stripe-Version"] != nil):
		return passing // see conflicts
	case status == 498 && header["X-Trans-Id"] != nil:
		return limited // see swift
	case status == 410 && header["X-Ms-Substatus"] != nil:
		// A partition of Cosmos DB has moved.
		// https://learn.microsoft.com/azure/cosmos-db/nosql/conceptual-resilient-sdk-applications
		return passing
	default:
		return Fact{}
	}
}

// sellingPartner reports whether a response is a rate limit of Amazon's Selling Partner API,
// which calls it QuotaExceeded, as Azure does a quota that is used up.
//
// https://developer-docs.amazon.com/sp-api/docs/usage-plans-and-rate-limits
func sellingPartner(status int, header map[string][]string) bool {
	return status == 429 && header["X-Amzn-Ratelimit-Limit"] != nil
}

// because returns f with what a reason says, if there is one.
func (f Fact) because(reason Fact) Fact {
	if reason.Class == Unknown {
		return f
	}
	if reason.Category == "" {
		reason.Category = f.Category
	}
	reason.After = 0
	if f.Class == RateLimited && reason.Class == RateLimited { // the request of a 429 was not processed
		reason.Flags |= f.Flags
	}
	return reason
}
