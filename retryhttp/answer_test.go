package retryhttp_test

import (
	"encoding/json"
	"math"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retryhttp"
)

// Every row of the table, which was collected from RFCs, vendors and the tests
// and bugs of other clients.
func TestParseHintTable(t *testing.T) {
	t.Parallel()
	data := testkit.Must(os.ReadFile("testdata/hints.json"))(t)
	var rows []struct {
		ID      string
		Status  int
		Now     time.Time
		Headers map[string][]string
		Want    string
		Why     string
	}
	require.NoError(t, json.Unmarshal(data, &rows))
	require.NotEmpty(t, rows)
	for _, row := range rows {
		t.Run(row.ID, func(t *testing.T) {
			t.Parallel()
			h := http.Header{}
			for key, values := range row.Headers {
				for _, value := range values {
					h.Add(key, value)
				}
			}
			got := "ignored"
			if d, ok := retryhttp.ParseHint(row.Status, h, row.Now); ok {
				got = d.String()
			}
			assert.Equal(t, row.Want, got, "%v %s", row.Headers, row.Why)
		})
	}
}

// Fractions, dates, overflow, and cases that are not in the
// table.
func TestParseHint(t *testing.T) {
	t.Parallel()
	const longest = time.Duration(math.MaxInt64)
	for _, test := range []struct {
		name   string
		header http.Header
		want   time.Duration
		ok     bool
	}{
		{"no header", nil, 0, false},
		{"empty", headers("Retry-After", ""), 0, false},
		{"fraction", headers("Retry-After", "0.25"), 250 * time.Millisecond, true},
		{"below a nanosecond", headers("Retry-After", "0.00000000099"), 0, true},
		{"nanoseconds", headers("Retry-After", "1.000000001"), time.Second + 1, true},
		{"IMF-fixdate", headers("Retry-After", "Fri, 20 Nov 2026 12:01:00 GMT"), time.Minute, true},
		{"RFC 850", headers("Retry-After", "Friday, 20-Nov-26 12:01:00 GMT"), time.Minute, true},
		{"asctime", headers("Retry-After", "Fri Nov 20 12:01:00 2026"), time.Minute, true},
		{"one-digit day", headers("Retry-After", "Tue, 1 Dec 2026 12:00:00 GMT"), 11 * 24 * time.Hour, true},
		{"UTC", headers("Retry-After", "Fri, 20 Nov 2026 12:01:00 UTC"), time.Minute, true},
		{"month in capitals", headers("Retry-After", "Fri, 20 NOV 2026 12:01:00 GMT"), 0, false},
		{
			"relative to Date",
			headers("Retry-After", "Fri, 20 Nov 2026 09:00:05 GMT", "Date", "Fri, 20 Nov 2026 09:00:00 GMT"),
			5 * time.Second, true,
		},
		{"invalid Date", headers("Retry-After", "Fri, 20 Nov 2026 12:01:00 GMT", "Date", "yesterday"), time.Minute, true},
		{"one second more than fits", headers("Retry-After", "9223372037"), longest, true},
		{"fraction more than fits", headers("Retry-After", "9223372036.9"), longest, true},
		{"1e30 in digits", headers("Retry-After", "1000000000000000000000000000000"), longest, true},
		{"milliseconds of AWS", headers("X-Amz-Retry-After", "1500", "Retry-After", "7"), 1500 * time.Millisecond, true},
		{"a quota of 3000 years", headers("RateLimit", `"d";r=0;t=99999999999`), 0, false},
		{"a quota of 3000 years, older form", headers("RateLimit", "limit=1, remaining=0, reset=99999999999"), 0, false},
		{"the quota that can be waited for", headers("RateLimit", `"d";r=0;t=99999999999, "m";r=0;t=60`), time.Minute, true},
		{"milliseconds", headers("Retry-After-Ms", "9223372036854775807"), longest, true},
		{"distant date", headers("Retry-After", "Fri, 31 Dec 9999 23:59:59 GMT"), longest, true},
		{"digits that are not ASCII", headers("Retry-After", "١٢"), 0, false},
		{"epoch in milliseconds", headers("X-RateLimit-Reset", "1795176060000"), time.Minute, true},
		{
			"Anthropic", headers("Anthropic-RateLimit-Tokens-Remaining", "0",
				"Anthropic-RateLimit-Tokens-Reset", "2026-11-20T12:00:07Z"), 7 * time.Second, true,
		},
		{"separator in the quota's name", headers("RateLimit", `"a,b;r=9";r=0;t=3`), 3 * time.Second, true},
		{"an item that is a Token", headers("RateLimit", `default;r=0;t=30, "b";r=0;t=3`), 3 * time.Second, true},
		{"an item of parameters", headers("RateLimit", "r=0;t=30"), 0, false},
		{"the older form in a name", headers("RateLimit", `"a;remaining=0;reset=9;b";r=5;t=3`), 0, false},
		{"in one word", headers("X-RateLimit-RetryAfter", "1795176030", "X-RateLimit-Remaining", "0"), 30 * time.Second, true},
		{"unbalanced quotes", headers("RateLimit", `"a;r=0;t=3`), 0, false},
		{"the last line within 8 KiB", lines("Retry-After", 8<<10/2, "7"), 7 * time.Second, true},
		{"a line beyond 8 KiB", lines("Retry-After", 8<<10/2+1, "7"), 1 * time.Second, true},
		{"a number of 8 KiB", headers("Retry-After", strings.Repeat("0", 8<<10-2)+"7"), 7 * time.Second, true},
		{"a longer number", headers("Retry-After", strings.Repeat("0", 8<<10-1)+"7"), 0, false},
		{"a longer number, and another header", headers("Retry-After-Ms", strings.Repeat("9", 8<<10), "Retry-After", "7"), 7 * time.Second, true},
		{"a date of 64 characters", headers("Retry-After", "2026-11-20T12:01:00."+strings.Repeat("0", 43)+"Z"), time.Minute, true},
		{"a longer date", headers("Retry-After", "2026-11-20T12:01:00."+strings.Repeat("0", 44)+"Z"), 0, false},
		{
			"a Date that is too long", headers("Retry-After", "Fri, 20 Nov 2026 12:01:00 GMT",
				"Date", "2026-11-20T12:00:30."+strings.Repeat("0", 44)+"Z"), time.Minute, true,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got, ok := retryhttp.ParseHint(http.StatusTooManyRequests, test.header, noon)
			assert.Equal(t, test.ok, ok)
			assert.Equal(t, test.want, got)
		})
	}
}

// lines returns a header of n lines: 1, but for the last line.
func lines(name string, n int, last string) http.Header {
	values := slices.Repeat([]string{"1"}, n)
	values[n-1] = last
	return http.Header{name: values}
}

// Fake clocks tend to start in 1970, where every small number could be a Unix
// time, or in 2000, as that of testing/synctest, where Unix times have nine digits.
func TestParseHintOnFakeClock(t *testing.T) {
	t.Parallel()
	now := time.Unix(60, 0)
	got, ok := retryhttp.ParseHint(http.StatusTooManyRequests, headers("Retry-After", "30"), now)
	assert.True(t, ok)
	assert.Equal(t, 30*time.Second, got)
	_, ok = retryhttp.ParseHint(http.StatusTooManyRequests, headers("Retry-After", "soon"), now)
	assert.False(t, ok)
	now = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	got, _ = retryhttp.ParseHint(http.StatusTooManyRequests, headers("X-RateLimit-Reset", "946686300"), now)
	assert.Equal(t, 25*time.Minute, got)
}

// A number that is neither a plausible time nor plausible seconds is not a
// hint.
func TestParseHintImplausibleReset(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	for _, name := range []string{"X-Ratelimit-Reset", "Ratelimit-Reset", "X-Ratelimit-Reset-After"} {
		for value, want := range map[string]time.Duration{
			"60": time.Minute, "2678400": 31 * 24 * time.Hour, "2678401": 0, "99999999": 0, "1800000060": time.Minute,
		} {
			got, ok := retryhttp.ParseHint(http.StatusTooManyRequests, headers(name, value), now)
			assert.Equal(t, want > 0, ok, "%s: %s", name, value)
			if ok {
				assert.Equal(t, want, got, "%s: %s", name, value)
			}
		}
	}
}

// A number that is not a status is not retried.
func TestHintOfInvalidStatus(t *testing.T) {
	t.Parallel()
	for _, status := range []int{-1, 0, 1, 99, 600, 999} {
		_, ok := retryhttp.ParseHint(status, headers("Retry-After", "5"), noon)
		assert.False(t, ok, "%d", status)
	}
}

// TestParseHintOfEnvoy checks that a rate limit of Envoy has a hint with any status of a
// failure.
func TestParseHintOfEnvoy(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]bool{400: true, 404: true, 429: true, 599: true, 200: false, 399: false, 600: false} {
		h := headers("X-Envoy-Ratelimited", "true", "Retry-After", "7")
		d, ok := retryhttp.ParseHint(status, h, noon)
		assert.Equal(t, want, ok, "%d", status)
		v := retryhttp.ClassifyResponse(&http.Response{StatusCode: status, Header: h}, noon)
		if want {
			assert.Equal(t, 7*time.Second, d, "%d", status)
			assert.Equal(t, retry.RateLimited, v.Class, "%d", status)
			assert.Equal(t, 7*time.Second, v.After, "%d", status)
		} else {
			assert.NotEqual(t, retry.RateLimited, v.Class, "%d", status)
		}
	}
}

// What well-known APIs send with a 429, by their documentation, in a response at noon of 20
// November 2026, whose Unix time is 1795176000. want is 0 where the headers do not tell.
var services = []struct {
	name, source string
	header       []string
	want         time.Duration
}{
	{"Okta", "https://developer.okta.com/docs/reference/rl-best-practices/", []string{"X-Rate-Limit-Limit", "600", "X-Rate-Limit-Remaining", "0", "X-Rate-Limit-Reset", "1795176060"}, time.Minute},
	{"X", "https://docs.x.com/x-api/fundamentals/rate-limits", []string{"x-rate-limit-limit", "900", "x-rate-limit-remaining", "0", "x-rate-limit-reset", "1795176900"}, 15 * time.Minute},
	{"Vantage", "https://docs.vantage.sh/api/rate_limiting", []string{"x-rate-limit-remaining", "0", "x-rate-limit-reset", "1795176010"}, 10 * time.Second},
	{"ShipStation", "https://docs.shipstation.com/rate-limits", []string{"X-Rate-Limit-Remaining", "0", "X-Rate-Limit-Reset", "20"}, 20 * time.Second},
	{"Jira and Confluence", "https://developer.atlassian.com/cloud/jira/platform/rate-limiting/", []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "2026-11-20T12:01Z"}, time.Minute},
	{"Vimeo", "https://developer.vimeo.com/guidelines/rate-limiting", []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "2026-11-20T12:01:00+00:00"}, time.Minute},
	{"an offset without a colon", "https://www.iso.org/iso-8601-date-and-time-format.html", []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "2026-11-20T13:01:00+0100"}, time.Minute},
	{"MailerLite", "https://developers-classic.mailerlite.com/docs/api-rate-limits", []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "2026-11-20 12:01:00 UTC"}, time.Minute},
	{"Help Scout", "https://developer.helpscout.com/mailbox-api/overview/rate-limiting/", []string{"X-RateLimit-Limit-Minute", "400", "X-RateLimit-Remaining-Minute", "0", "X-RateLimit-Retry-After", "20"}, 20 * time.Second},
	{"GitHub", "https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api", []string{"x-ratelimit-remaining", "0", "x-ratelimit-reset", "1795176600", "x-ratelimit-used", "5000"}, 10 * time.Minute},
	{"GitLab", "https://docs.gitlab.com/administration/settings/user_and_ip_rate_limits/", []string{"RateLimit-Remaining", "0", "RateLimit-Reset", "1795176060", "RateLimit-ResetTime", "Fri, 20 Nov 2026 12:02:00 GMT"}, time.Minute},
	{"Yelp", "https://docs.developer.yelp.com/docs/fusion-rate-limiting", []string{"RateLimit-DailyLimit", "5000", "RateLimit-Remaining", "0", "RateLimit-ResetTime", "2026-11-21T00:00:00+00:00"}, 12 * time.Hour},
	{"Linear", "https://linear.app/developers/rate-limiting", []string{"X-RateLimit-Requests-Remaining", "0", "X-RateLimit-Requests-Reset", "1795176030000", "X-RateLimit-Complexity-Remaining", "9", "X-RateLimit-Complexity-Reset", "1795179600000"}, 30 * time.Second},
	{"OpenAI", "https://platform.openai.com/docs/guides/rate-limits", []string{"x-ratelimit-remaining-requests", "0", "x-ratelimit-reset-requests", "1s", "x-ratelimit-remaining-tokens", "0", "x-ratelimit-reset-tokens", "6m0s"}, 6 * time.Minute},
	{"Azure OpenAI", "https://learn.microsoft.com/azure/ai-services/openai/how-to/quota", []string{"x-ratelimit-remaining-tokens", "0", "x-ratelimit-reset-tokens", "41"}, 41 * time.Second},
	{"Anthropic", "https://docs.anthropic.com/en/api/rate-limits", []string{"anthropic-ratelimit-output-tokens-remaining", "0", "anthropic-ratelimit-output-tokens-reset", "2026-11-20T12:00:05Z"}, 5 * time.Second},
	{"Anthropic, Priority Tier", "https://docs.anthropic.com/en/api/service-tiers", []string{"anthropic-priority-input-tokens-remaining", "0", "anthropic-priority-input-tokens-reset", "2026-11-20T12:00:05Z"}, 5 * time.Second},
	{"Groq", "https://console.groq.com/docs/rate-limits", []string{"x-ratelimit-remaining-requests", "14370", "x-ratelimit-reset-requests", "2m59.56s", "x-ratelimit-remaining-tokens", "0", "x-ratelimit-reset-tokens", "7.66s"}, 7660 * time.Millisecond},
	{"Cerebras", "https://inference-docs.cerebras.ai/support/rate-limits", []string{"x-ratelimit-remaining-requests-day", "0", "x-ratelimit-reset-requests-day", "33011.382867", "x-ratelimit-remaining-tokens-minute", "0", "x-ratelimit-reset-tokens-minute", "11.38"}, 33011382867 * time.Microsecond},
	{"Hugging Face", "https://huggingface.co/docs/hub/rate-limits", []string{"RateLimit", `"api";r=0;t=55`, "RateLimit-Policy", `"fixed window";"api";q=500;w=300`}, 55 * time.Second},
	{"OpenRouter", "https://openrouter.ai/docs/api-reference/limits", []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "1795176060000"}, time.Minute},
	{"Discord", "https://discord.com/developers/docs/topics/rate-limits", []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "1795176064.57", "X-RateLimit-Reset-After", "64.57"}, 64570 * time.Millisecond},
	{"Reddit", "https://support.reddithelp.com/hc/en-us/articles/16160319875092", []string{"X-Ratelimit-Used", "600", "X-Ratelimit-Remaining", "0.0", "X-Ratelimit-Reset", "245"}, 245 * time.Second},
	{"Twitch", "https://dev.twitch.tv/docs/api/guide/#twitch-rate-limits", []string{"Ratelimit-Remaining", "0", "Ratelimit-Reset", "1795176007"}, 7 * time.Second},
	{"Imgur", "https://apidocs.imgur.com/#rate-limits", []string{"X-RateLimit-UserRemaining", "0", "X-RateLimit-UserReset", "1795177800", "X-RateLimit-ClientRemaining", "12402"}, 30 * time.Minute},
	{"Imgur, posts", "https://apidocs.imgur.com/#rate-limits", []string{"X-Post-Rate-Limit-Remaining", "0", "X-Post-Rate-Limit-Reset", "1800"}, 30 * time.Minute},
	{"Contentful", "https://www.contentful.com/developers/docs/references/content-delivery-api/", []string{"X-Contentful-RateLimit-Second-Limit", "55", "X-Contentful-RateLimit-Reset", "1"}, time.Second},
	{"BigCommerce", "https://docs.bigcommerce.com/developer/docs/overview/api-fundamentals/rate-limits", []string{"X-Rate-Limit-Requests-Left", "0", "X-Rate-Limit-Time-Reset-Ms", "15000", "X-Rate-Limit-Time-Window-Ms", "30000"}, 15 * time.Second},
	{"Brevo", "https://developers.brevo.com/docs/limit-headers", []string{"x-sib-ratelimit-remaining", "0", "x-sib-ratelimit-reset", "480"}, 8 * time.Minute},
	{"Fitbit", "https://dev.fitbit.com/build/reference/web-api/developer-guide/application-design/", []string{"Fitbit-Rate-Limit-Remaining", "0", "Fitbit-Rate-Limit-Reset", "1478"}, 1478 * time.Second},
	{"Fastly", "https://www.fastly.com/documentation/reference/api/#rate-limiting", []string{"Fastly-RateLimit-Remaining", "0", "Fastly-RateLimit-Reset", "1795176600"}, 10 * time.Minute},
	{"Sentry", "https://docs.sentry.io/api/ratelimits/", []string{"X-Sentry-Rate-Limit-Remaining", "0", "X-Sentry-Rate-Limit-Reset", "1795176001"}, time.Second},
	{"Walmart", "https://developer.walmart.com/suppliers/docs/rate-limiting", []string{"X-Current-Token-Count", "0", "X-Next-Replenishment-Time", "1795176003000"}, 3 * time.Second},
	{"Azure Resource Graph", "https://learn.microsoft.com/azure/governance/resource-graph/concepts/guidance-for-throttled-requests", []string{"x-ms-user-quota-remaining", "0", "x-ms-user-quota-resets-after", "00:00:05"}, 5 * time.Second},
	{"Azure Cost Management", "https://learn.microsoft.com/azure/cost-management-billing/costs/manage-automation", []string{"x-ms-ratelimit-microsoft.costmanagement-qpu-retry-after", "17", "x-ms-ratelimit-microsoft.costmanagement-entity-retry-after", "3"}, 17 * time.Second},
	{"Azure Resource Manager", "https://learn.microsoft.com/azure/azure-resource-manager/management/request-limits-and-throttling", []string{"Retry-After", "17", "x-ms-ratelimit-remaining-subscription-reads", "0"}, 17 * time.Second},
	{"Cosmos DB", "https://learn.microsoft.com/rest/api/cosmos-db/common-cosmosdb-rest-response-headers", []string{"x-ms-retry-after-ms", "61"}, 61 * time.Millisecond},
	{"Connecteam", "https://developer.connecteam.com/docs/rate-limiting-1", []string{"x-ratelimit-minute-remaining", "0", "x-ratelimit-minute-reset", "1795176030", "x-ratelimit-day-remaining", "88", "x-ratelimit-day-reset", "1795219200"}, 30 * time.Second},
	{"Microsoft Graph", "https://learn.microsoft.com/graph/throttling", []string{"Retry-After", "10"}, 10 * time.Second},
	{"Slack", "https://docs.slack.dev/apis/web-api/rate-limits", []string{"Retry-After", "30"}, 30 * time.Second},
	{"Shopify", "https://shopify.dev/docs/api/admin-rest/usage/rate-limits", []string{"X-Shopify-Shop-Api-Call-Limit", "40/40", "Retry-After", "2.0"}, 2 * time.Second},
	{"Zoom", "https://developers.zoom.us/docs/api/rate-limits/", []string{"X-RateLimit-Type", "Daily-limit", "X-RateLimit-Remaining", "0", "Retry-After", "2026-11-21T00:00:00Z"}, 12 * time.Hour},
	{"Docker Hub", "https://docs.docker.com/docker-hub/usage/pulls/", []string{"RateLimit-Limit", "100;w=21600", "RateLimit-Remaining", "0;w=21600", "Retry-After", "1795176060"}, time.Minute},
	{"Resend", "https://resend.com/docs/api-reference/rate-limit", []string{"ratelimit-limit", "2", "ratelimit-remaining", "0", "ratelimit-reset", "1"}, time.Second},
	{"Close", "https://developer.close.com/topics/rate-limits/", []string{"RateLimit", "limit=100, remaining=0, reset=5"}, 5 * time.Second},
	{"Cloudflare", "https://developers.cloudflare.com/fundamentals/api/reference/limits/", []string{"Ratelimit", `"default";r=0;t=30`, "Ratelimit-Policy", `"default";q=1200;w=300`}, 30 * time.Second},
	{"DigitalOcean", "https://docs.digitalocean.com/reference/api/api-reference/#section/Introduction/Rate-Limit", []string{"ratelimit-remaining", "0", "ratelimit-reset", "1795179600"}, time.Hour},
	{"Hetzner", "https://docs.hetzner.cloud/reference/cloud#rate-limiting", []string{"RateLimit-Remaining", "0", "RateLimit-Reset", "1795176001"}, time.Second},
	{"Auth0", "https://auth0.com/docs/troubleshoot/customer-support/operational-policies/rate-limit-policy", []string{"x-ratelimit-remaining", "0", "x-ratelimit-reset", "1795176001"}, time.Second},
	{"Datadog", "https://docs.datadoghq.com/api/latest/rate-limits/", []string{"X-RateLimit-Period", "3600", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "12"}, 12 * time.Second},
	{"PagerDuty", "https://developer.pagerduty.com/docs/rest-api-rate-limits", []string{"ratelimit-remaining", "0", "ratelimit-reset", "49"}, 49 * time.Second},
	{"Intercom", "https://developers.intercom.com/docs/references/rest-api/errors/rate-limiting", []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "1795176010"}, 10 * time.Second},
	{"Smartsheet", "https://developers.smartsheet.com/api/resource_management/getting-started/throttling-and-rate-limiting", []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "1795176042"}, 42 * time.Second},
	{"WHOOP", "https://developer.whoop.com/docs/developing/rate-limiting", []string{"X-RateLimit-Limit", "100, 100;window=60, 10000;window=86400", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "3"}, 3 * time.Second},
	{"Mailgun", "https://documentation.mailgun.com/docs/mailgun/api-reference/send/mailgun", []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "1795176060000"}, time.Minute},
	{"Figma", "https://developers.figma.com/docs/rest-api/rate-limits/", []string{"Retry-After", "25", "X-Figma-Rate-Limit-Type", "low"}, 25 * time.Second},
	{"bucket4j", "https://bucket4j.com/", []string{"X-Rate-Limit-Retry-After-Seconds", "59"}, 59 * time.Second},
	{"EVE Online", "https://developers.eveonline.com/docs/services/esi/best-practices/", []string{"X-ESI-Error-Limit-Remain", "0", "X-ESI-Error-Limit-Reset", "37"}, 37 * time.Second},
	{"Zendesk", "https://developer.zendesk.com/api-reference/introduction/rate-limits/", []string{"Zendesk-RateLimit-Tickets-Index", "total=100; remaining=0; resets=41"}, 41 * time.Second},
	{"KuCoin", "https://www.kucoin.com/docs-new/rate-limit", []string{"gw-ratelimit-remaining", "0", "gw-ratelimit-reset", "14990"}, 14990 * time.Millisecond},
	{"Bybit", "https://bybit-exchange.github.io/docs/v5/rate-limit", []string{"X-Bapi-Limit-Status", "0", "X-Bapi-Limit-Reset-Timestamp", "1795176002000"}, 2 * time.Second},
	{"Gate.io", "https://www.gate.io/docs/developers/apiv4/", []string{"X-Gate-RateLimit-Requests-Remain", "0", "X-Gate-RateLimit-Reset-Timestamp", "1795176001"}, time.Second},
	{"SurveyMonkey", "https://developer.surveymonkey.com/api/v3/", []string{"X-Ratelimit-App-Global-Minute-Remaining", "0", "X-Ratelimit-App-Global-Minute-Reset", "23"}, 23 * time.Second},
	{"Notion", "https://developers.notion.com/reference/request-limits", []string{"Retry-After", "1"}, time.Second},
	{"Spotify", "https://developer.spotify.com/documentation/web-api/concepts/rate-limits", []string{"Retry-After", "7"}, 7 * time.Second},
	{"Airtable", "https://airtable.com/developers/web/api/rate-limits", []string{"Content-Type", "application/json"}, 0},
	{"lemlist", "https://developer.lemlist.com/api-reference/getting-started/rate-limits", []string{"Retry-After", "2", "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "Fri Nov 20 2026 13:00:02 GMT+0100 (Central European Standard Time)"}, 2 * time.Second},
}

func TestHintsOfServices(t *testing.T) {
	t.Parallel()
	assert.GreaterOrEqual(t, len(services), 50)
	for _, service := range services {
		t.Run(service.name, func(t *testing.T) {
			t.Parallel()
			got, ok := retryhttp.ParseHint(http.StatusTooManyRequests, headers(service.header...), noon)
			assert.Equal(t, service.want > 0, ok, service.source)
			assert.Equal(t, service.want, got, service.source)
		})
	}
}

// Headers that look like a hint and are none.
func TestHintsThatAreNone(t *testing.T) {
	t.Parallel()
	for name, header := range map[string][]string{
		"something is left":             {"X-Rate-Limit-Remaining", "1", "X-Rate-Limit-Reset", "60"},
		"something is left of all":      {"X-RateLimit-Requests-Remaining", "5", "X-RateLimit-Requests-Reset", "60"},
		"nobody says what is left":      {"X-RateLimit-Requests-Reset", "60"},
		"a reset that is no rate limit": {"X-Password-Reset", "60", "X-Password-Remaining", "0"},
		"a limit without a reset":       {"X-RateLimit-Limit", "60", "X-RateLimit-Remaining", "0"},
		"no time":                       {"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "soon"},
		"a negative duration":           {"X-RateLimit-Remaining-Tokens", "0", "X-RateLimit-Reset-Tokens", "-1s"},
		"an unknown zone":               {"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "2026-11-20T12:01:00"},
		"no clock":                      {"x-ms-user-quota-remaining", "0", "x-ms-user-quota-resets-after", "00:05"},
		"four parts of a clock":         {"x-ms-user-quota-remaining", "0", "x-ms-user-quota-resets-after", "00:00:00:05"},
		"a remainder of two points":     {"X-RateLimit-Remaining-Tokens", "0.0.0", "X-RateLimit-Reset-Tokens", "1s"},
		"a remainder of a point":        {"X-RateLimit-Remaining-Tokens", ".", "X-RateLimit-Reset-Tokens", "1s"},
	} {
		_, ok := retryhttp.ParseHint(http.StatusTooManyRequests, headers(header...), noon)
		assert.False(t, ok, name)
	}
	long := "X-Ratelimit-Reset-" + string(make([]byte, 64))
	_, ok := retryhttp.ParseHint(http.StatusTooManyRequests, http.Header{long: {"60"}}, noon)
	assert.False(t, ok, "a long name")
}
