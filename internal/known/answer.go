package known

import "strconv"

// Answer classifies a response by its status and its headers. hinted says that there is a
// server's hint. reason is what the body says, or the zero Fact; it counts more than the
// status, and less than a header that forbids retries. The fact has no wait. A number that is
// not an HTTP status gives the zero Fact. keyed says that a conflict means another request in
// progress, such as the first one with the same Idempotency-Key.
func Answer(status int, header map[string][]string, hinted, keyed bool, reason Fact) Fact {
	f := Status(status, hinted)
	switch {
	case f.Class == Unknown:
		return f
	case ShouldRetry(header) == "false":
		f.Class = Final
		return f
	case keyed && status == conflict:
		f.Class = Retryable
	}
	for _, name := range reasonHeaders {
		if reason.Class == Unknown {
			reason = Reason(first(header, name))
		}
	}
	if reason.Class == Unknown || sellingPartner(status, header) {
		reason = byHeader(status, header)
	}
	return f.because(reason)
}

// Heeded reports whether a failure with this status and these headers can be retried if there
// is a hint.
func Heeded(status int, header map[string][]string) bool {
	if status < 400 || status > highestStatus {
		return false
	}
	return status == conflict || Status(status, true).Class != Final || EnvoyLimited(header)
}

// MoreInBody reports whether a failure with this status may have a code that says more than the
// status does.
func MoreInBody(status int) bool {
	switch status {
	case 400, 402, 403, 410, 422, 498, 500:
		return true
	default:
		return Heeded(status, nil)
	}
}

const conflict = 409

// EnvoyLimited reports whether a response is a rate limit of Envoy, whatever its status.
//
// https://www.envoyproxy.io/docs/envoy/latest/configuration/http/http_filters/rate_limit_filter
func EnvoyLimited(header map[string][]string) bool { return header["X-Envoy-Ratelimited"] != nil }

// Status classifies an HTTP status for a request with an unknown method. hinted says
// that there is a server's hint, which makes some statuses retryable. A number that
// is not an HTTP status gives the zero Fact.
//
// https://www.rfc-editor.org/rfc/rfc9110#section-15
func Status(status int, hinted bool) Fact {
	if status < lowestStatus || status > highestStatus {
		return Fact{}
	}
	category := statusCategory(status)
	switch status {
	case 429: // RFC 6585 section 4
		return Rejected(category)
	case 403: // GitHub's primary and secondary limits
		if hinted {
			return Rejected(category)
		}
	case 529: // Anthropic, Cloudflare: overloaded
		return Throttled(category)
	case 420: // Statuspage, and X in its old days: https://developer.statuspage.io/
		return Rejected(category)
	case 418: // Binance, to who goes on after a 429: https://developers.binance.com/docs/binance-spot-api-docs
		if hinted {
			return Rejected(category)
		}
	case 449: // Microsoft, Retry With: https://learn.microsoft.com/rest/api/cosmos-db/http-status-codes-for-cosmosdb
		return Transient(category)
	case 408, 421, 425: // 425: RFC 8470 section 5.2
		return Unapplied(category)
	case 509: // https://learn.microsoft.com/graph/errors: a limit of the bandwidth
		return Throttled(category)
	case 413, 423, 477: // 477: HubSpot moves an account, https://developers.hubspot.com/docs/api-reference/error-handling
		if hinted {
			return Transient(category)
		}
	case 503:
		if hinted {
			return Unapplied(category)
		}
		return Transient(category)
	case 500, 502, 504, 520, 521, 522, 523, 524, 530, 598, 599: // from 520 on: Cloudflare, proxies
		return Transient(category)
	}
	return Permanent(category)
}

const lowestStatus, highestStatus = 100, 599

// statusCategories has the categories of all statuses one after the other, eight bytes
// each, so that a response costs no allocation.
var statusCategories = func() string {
	var all []byte
	for status := lowestStatus; status <= highestStatus; status++ {
		all = strconv.AppendInt(append(all, "http_"...), int64(status), 10)
	}
	return string(all)
}()

func statusCategory(status int) string {
	const size = len("http_100")
	return statusCategories[(status-lowestStatus)*size:][:size]
}
