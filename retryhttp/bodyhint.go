package retryhttp

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"
)

// maxHintBody is the largest number of bytes of a body that are searched for a
// hint.
const maxHintBody = 64 << 10

// ParseBodyHint reads the server's hint from a JSON body: Discord's retry_after in
// seconds, the google.rpc.RetryInfo in an error of a Google API, and
// details.retryAfterSeconds of a Kubernetes Status. It returns false if there is
// no hint. It ignores bodies of more than 64 KiB.
//
// Sources: Discord's documentation of rate limits, google/rpc/error_details.proto,
// and metav1.StatusDetails.
func ParseBodyHint(body []byte) (time.Duration, bool) {
	var hints struct {
		RetryAfter json.RawMessage `json:"retry_after"`
		Error      json.RawMessage `json:"error"`
		Details    json.RawMessage `json:"details"`
	}
	if len(body) > maxHintBody || json.Unmarshal(body, &hints) != nil {
		return 0, false
	}
	if d, ok := decimal(string(hints.RetryAfter), time.Second); ok {
		return d, true
	}
	if d, ok := retryInfo(hints.Error); ok {
		return d, true
	}
	var status struct {
		RetryAfterSeconds json.RawMessage `json:"retryAfterSeconds"`
	}
	if json.Unmarshal(hints.Details, &status) != nil {
		return 0, false
	}
	d, ok := decimal(string(status.RetryAfterSeconds), time.Second)
	return d, ok && d > 0 // Kubernetes writes no zero
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
		if d, valid := decimal(number, time.Second); ok && valid {
			most, found = max(most, d), true
		}
	}
	return most, found
}

// peekTime is the longest time to wait for the body with a hint.
const peekTime = time.Second

// peekHint looks for a hint in the body of a response, and puts the bytes that it
// read back.
func peekHint(resp *http.Response) (time.Duration, bool) {
	if resp.ContentLength > maxHintBody || !isJSON(get(resp.Header, "Content-Type")) {
		return 0, false
	}
	timer := closeAfter(peekTime, resp.Body)
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxHintBody+1))
	rest := io.Reader(resp.Body)
	if !timer.Stop() && err == nil {
		err = http.ErrBodyReadAfterClose
	}
	if err != nil {
		rest = failing{err}
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(data), rest), resp.Body}
	return ParseBodyHint(data)
}

// isJSON reports whether a media type is JSON or based on it. Its parameters, which may be
// any number, do not matter.
func isJSON(contentType string) bool {
	mediaType, _, _ := strings.Cut(contentType, ";")
	mediaType = trim(mediaType)
	const suffix = "+json"
	return strings.EqualFold(mediaType, "application/json") ||
		len(mediaType) > len(suffix) && strings.EqualFold(mediaType[len(mediaType)-len(suffix):], suffix)
}

// failing replaces the rest of a body that could not be read.
type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
