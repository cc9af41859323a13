package hint

import (
	"encoding/json"
	"strings"
	"time"
)

// InBody reads the hint in the JSON document of a failure, as package retryhttp documents it.
// The document is decoded into an any, with its numbers as json.Number.
func InBody(document any) (after time.Duration, found bool) {
	defer silence()
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
	return within(document, 0)
}

// names has the names under which services write a hint anywhere in a body, and its unit.
var names = map[string]time.Duration{
	"retry_after":         time.Second, // Dropbox, Todoist
	"retry_after_ms":      time.Millisecond,
	"retry_after_seconds": time.Second,
	"retryAfterSeconds":   time.Second,
	"retry_in_seconds":    time.Second, // monday.com
	"backoff_seconds":     time.Second, // Infura
	"estimated_time":      time.Second, // Hugging Face, of a model that is loaded
}

// deepest is how deep a hint is in a document.
const deepest = 8

// within returns the largest hint anywhere in a document.
func within(part any, depth int) (most time.Duration, found bool) {
	if depth > deepest {
		return 0, false
	}
	switch part := part.(type) {
	case []any:
		for _, item := range part {
			if d, ok := within(item, depth+1); ok {
				most, found = max(most, d), true
			}
		}
	case map[string]any:
		for name, value := range part {
			if d, ok := named(name, value, depth); ok {
				most, found = max(most, d), true
			}
		}
	}
	return most, found
}

// named reads a member of an object. A zero is as good as none.
func named(name string, value any, depth int) (time.Duration, bool) {
	if unit, ok := names[name]; ok {
		d, _ := number(value, unit)
		return d, d > 0
	}
	if name == "quotaErrorDetails" { // Google Ads
		delay, _ := object(value)["retryDelay"].(string)
		return protoDuration(delay)
	}
	return within(value, depth+1)
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
	return protoDuration(delay)
}

// protoDuration reads a google.protobuf.Duration, as JSON has it.
func protoDuration(text string) (time.Duration, bool) {
	seconds, ok := strings.CutSuffix(text, "s")
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
