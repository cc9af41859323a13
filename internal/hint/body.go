package hint

import (
	"encoding/json"
	"strings"
	"time"
)

// InBody reads the hint in the JSON document of a failure, as package retryhttp documents it.
// The document is decoded into an any, with its numbers as json.Number.
func InBody(document any) (time.Duration, bool) {
	body := object(document)
	problem := object(body["error"])
	if d, ok := number(body["retry_after"], time.Second); ok {
		return d, true
	}
	if d, ok := number(body["retry_after_ms"], time.Millisecond); ok {
		return d, true
	}
	if d, ok := retryInfo(problem["details"]); ok {
		return d, true
	}
	if d, ok := number(object(body["details"])["retryAfterSeconds"], time.Second); ok && d > 0 { // Kubernetes writes no zero
		return d, true
	}
	if d, ok := number(object(body["parameters"])["retry_after"], time.Second); ok {
		return d, true
	}
	return number(problem["retry_after"], time.Second)
}

// retryInfo reads the largest delay in the details of an error.
func retryInfo(details any) (most time.Duration, found bool) {
	list, _ := details.([]any)
	for _, detail := range list {
		if d, ok := RetryInfo(detail); ok {
			most, found = max(most, d), true
		}
	}
	return most, found
}

// RetryInfo reads the delay of a google.rpc.RetryInfo.
func RetryInfo(detail any) (time.Duration, bool) {
	info := object(detail)
	if info["@type"] != "type.googleapis.com/google.rpc.RetryInfo" {
		return 0, false
	}
	delay, _ := info["retryDelay"].(string)
	seconds, ok := strings.CutSuffix(delay, "s")
	if !ok {
		return 0, false
	}
	return Decimal(seconds, time.Second)
}

func object(value any) map[string]any {
	object, _ := value.(map[string]any)
	return object
}

func number(value any, unit time.Duration) (time.Duration, bool) {
	n, _ := value.(json.Number)
	return Decimal(string(n), unit)
}
