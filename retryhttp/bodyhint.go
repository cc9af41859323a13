package retryhttp

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
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
//   - parameters.retry_after of Telegram, in seconds, and the largest retry_after,
//     retry_after_ms, retry_after_seconds, retryAfterSeconds, retry_in_seconds or
//     backoff_seconds anywhere else, as of Dropbox, Todoist, monday.com and Infura.
//
// It returns false if there is no hint. It ignores bodies of more than 64 KiB.
//
// Sources: Discord's documentation of rate limits, the Matrix client-server API,
// google/rpc/error_details.proto, metav1.StatusDetails, Telegram's ResponseParameters, and
// RateLimitError in Dropbox's HTTP documentation.
func ParseBodyHint(body []byte) (time.Duration, bool) {
	return hint.InBody(document(body))
}

// document decodes a JSON body of at most 64 KiB. It is nil for anything else.
func document(body []byte) (document any) {
	if len(body) > maxHintBody {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber() // a hint is a decimal number, and may be any
	if d.Decode(&document) != nil {
		return nil
	}
	if _, err := d.Token(); err != io.EOF {
		return nil
	}
	return document
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

// readAnswer reads a body of the type that the headers say. A panic is no answer.
func readAnswer(header http.Header, body []byte) (says bodyAnswer) {
	defer func() { _ = recover() }()
	if body = decoded(header, body); len(body) > maxHintBody {
		return says
	}
	contentType := header.Get("Content-Type")
	switch {
	case isJSON(contentType):
		document := document(body)
		says.after, says.hinted = hint.InBody(document)
		says.reason = known.ReasonIn(document)
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
	switch encoding := header.Get("Content-Encoding"); {
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

// peekTime is the longest time to wait for the body that may say why a request failed. Bodies
// of failures nearly always come with the headers.
const peekTime = 500 * time.Millisecond

// peek reads the body of a response for what it says about retries. All of the body stays
// readable: what has come is kept, and what has not come in time is read by the caller.
func peek(resp *http.Response) bodyAnswer {
	contentType := resp.Header.Get("Content-Type")
	value := isJSON(contentType)
	if resp.Body == http.NoBody || resp.ContentLength > maxHintBody || !value && !isXML(contentType) {
		return bodyAnswer{}
	}
	p := &peeked{src: resp.Body, done: make(chan struct{})}
	go p.fill(value && resp.Header.Get("Content-Encoding") == "")
	resp.Body = p
	timer := time.NewTimer(peekTime)
	defer timer.Stop()
	select {
	case <-p.done:
		if len(p.data) <= maxHintBody {
			p.says = readAnswer(resp.Header, p.data)
		}
	case <-timer.C:
		p.late.Store(true)
	}
	return p.says
}

// said returns what a body says that was peeked at before.
func said(body io.ReadCloser) bodyAnswer {
	if p, ok := body.(*peeked); ok {
		return p.says
	}
	return bodyAnswer{}
}

// peeked is a body whose beginning was read.
type peeked struct {
	src  io.ReadCloser
	says bodyAnswer

	late atomic.Bool   // fill reads no more
	done chan struct{} // closed when fill has ended; the fields below are its own until then

	data  []byte // what was read and not yet given to the caller
	err   error  // of src, after data
	panic any    // of src
}

// fill reads the beginning of the body: a JSON value if it is to stop there, because the body
// may not end for long, or else all up to a limit. It runs on a goroutine of its own, because
// a Read cannot be interrupted without losing the rest of the body.
func (p *peeked) fill(value bool) {
	defer close(p.done)
	defer func() { p.panic = recover() }()
	if value {
		var raw json.RawMessage
		_ = json.NewDecoder(bufio.NewReader(filling{p})).Decode(&raw) // which may ask for a few bytes only
	} else {
		_, _ = io.Copy(io.Discard, filling{p})
	}
}

// filling keeps what is read.
type filling struct{ *peeked }

var errEnough = errors.New("enough")

func (f filling) Read(b []byte) (int, error) {
	if f.late.Load() || len(f.data) > maxHintBody {
		return 0, errEnough
	}
	n, err := f.src.Read(b[:min(len(b), maxHintBody+1-len(f.data))])
	f.data, f.err = append(f.data, b[:n]...), err
	return n, err
}

// Read waits for the Read that is under way, as it would have to itself.
func (p *peeked) Read(b []byte) (int, error) {
	<-p.done
	if len(p.data) > 0 {
		n := copy(b, p.data)
		p.data = p.data[n:]
		return n, nil
	}
	switch {
	case p.panic != nil:
		panic(p.panic)
	case p.err != nil:
		return 0, p.err
	default:
		return p.src.Read(b)
	}
}

// Close ends a Read that is under way.
func (p *peeked) Close() error {
	p.late.Store(true)
	return p.src.Close()
}
