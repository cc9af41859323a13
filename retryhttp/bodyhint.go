package retryhttp

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/hint"
	"github.com/seed-5ff3c98e/retry/internal/known"
)

// maxHintBody is the largest number of bytes of a body that are searched for a
// hint.
const maxHintBody = 64 << 10

// ParseBodyHint reads the server's hint from a JSON body, the first of these:
//
//   - retry_after of Discord, in seconds, and retry_after_ms of Matrix, in milliseconds,
//   - the google.rpc.RetryInfo in an error of a Google API,
//   - details.retryAfterSeconds of a Kubernetes Status,
//   - parameters.retry_after of Telegram, and error.retry_after of Dropbox, in seconds.
//
// It returns false if there is no hint. It ignores bodies of more than 64 KiB.
//
// Sources: Discord's documentation of rate limits, the Matrix client-server API,
// google/rpc/error_details.proto, metav1.StatusDetails, Telegram's ResponseParameters, and
// RateLimitError in Dropbox's HTTP documentation.
func ParseBodyHint(body []byte) (time.Duration, bool) {
	var hints struct {
		RetryAfter   json.RawMessage `json:"retry_after"`
		RetryAfterMs json.RawMessage `json:"retry_after_ms"`
		Error        json.RawMessage `json:"error"`
		Details      json.RawMessage `json:"details"`
		Parameters   json.RawMessage `json:"parameters"`
	}
	if len(body) > maxHintBody || json.Unmarshal(body, &hints) != nil {
		return 0, false
	}
	if d, ok := hint.Decimal(string(hints.RetryAfter), time.Second); ok {
		return d, true
	}
	if d, ok := hint.Decimal(string(hints.RetryAfterMs), time.Millisecond); ok {
		return d, true
	}
	if d, ok := retryInfo(hints.Error); ok {
		return d, true
	}
	var inner struct {
		RetryAfterSeconds json.RawMessage `json:"retryAfterSeconds"`
		RetryAfter        json.RawMessage `json:"retry_after"`
	}
	_ = json.Unmarshal(hints.Details, &inner)
	if d, ok := hint.Decimal(string(inner.RetryAfterSeconds), time.Second); ok && d > 0 { // Kubernetes writes no zero
		return d, true
	}
	for _, raw := range []json.RawMessage{hints.Parameters, hints.Error} {
		inner.RetryAfter = nil
		_ = json.Unmarshal(raw, &inner)
		if d, ok := hint.Decimal(string(inner.RetryAfter), time.Second); ok {
			return d, true
		}
	}
	return 0, false
}

// retryInfo reads the largest delay in the details of an error.
func retryInfo(raw json.RawMessage) (most time.Duration, found bool) {
	var problem struct {
		Details []struct {
			Type       string `json:"@type"`
			RetryDelay string `json:"retryDelay"`
		} `json:"details"`
	}
	if json.Unmarshal(raw, &problem) != nil {
		return 0, false
	}
	for _, detail := range problem.Details {
		if detail.Type != "type.googleapis.com/google.rpc.RetryInfo" {
			continue
		}
		number, ok := strings.CutSuffix(detail.RetryDelay, "s")
		if d, valid := hint.Decimal(number, time.Second); ok && valid {
			most, found = max(most, d), true
		}
	}
	return most, found
}

// bodyAnswer is what a body says about retries.
type bodyAnswer struct {
	after  time.Duration
	hinted bool
	reason known.Fact
}

// hint returns the hint of a body: its own, or the one that belongs to its reason.
func (a *bodyAnswer) hint() (time.Duration, bool) {
	if a.hinted {
		return a.after, true
	}
	return a.reason.After, a.reason.After > 0
}

// readAnswer reads a body of the type that the headers say.
func readAnswer(header http.Header, body []byte) (says bodyAnswer) {
	if body = decoded(header, body); len(body) > maxHintBody {
		return says
	}
	contentType := get(header, "Content-Type")
	switch {
	case isJSON(contentType):
		says.after, says.hinted = ParseBodyHint(body)
		var document any
		if json.Unmarshal(body, &document) == nil {
			says.reason = known.ReasonIn(document)
		}
	case isXML(contentType): // of AWS and Azure Storage
		_, rest, _ := bytes.Cut(body, []byte("<Code>"))
		if code, _, ok := bytes.Cut(rest, []byte("</Code>")); ok {
			says.reason = known.Reason(string(code))
		}
	}
	return says
}

// decoded returns a body without its Content-Encoding, which net/http leaves if the request
// asked for it. It is nil if that cannot be read.
func decoded(header http.Header, body []byte) []byte {
	switch encoding := get(header, "Content-Encoding"); {
	case encoding == "", strings.EqualFold(encoding, "identity"):
		return body
	case !strings.EqualFold(encoding, "gzip"):
		return nil
	}
	r, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil
	}
	plain, _ := io.ReadAll(io.LimitReader(r, maxHintBody+1))
	return plain
}

// isJSON reports whether a media type is JSON or based on it. Its parameters, which may be
// any number, do not matter.
func isJSON(contentType string) bool {
	mediaType := mediaType(contentType)
	const amazon = "application/x-amz-json-"
	return strings.EqualFold(mediaType, "application/json") || endsIn(mediaType, "+json") ||
		len(mediaType) > len(amazon) && strings.EqualFold(mediaType[:len(amazon)], amazon)
}

// isXML is isJSON for XML.
func isXML(contentType string) bool {
	mediaType := mediaType(contentType)
	return strings.EqualFold(mediaType, "application/xml") || strings.EqualFold(mediaType, "text/xml") || endsIn(mediaType, "+xml")
}

func mediaType(contentType string) string {
	mediaType, _, _ := strings.Cut(contentType, ";")
	return hint.Trim(mediaType)
}

func endsIn(mediaType, suffix string) bool {
	n := len(mediaType) - len(suffix)
	return n > 0 && strings.EqualFold(mediaType[n:], suffix)
}
