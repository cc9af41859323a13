package retry

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/errtree"
)

// opinion is what the errors of a chain say, heard from the outside to the
// inside.
type opinion struct {
	verdict Verdict

	// weak is a verdict of Timeout, Temporary and their kin, which holds only
	// if no error further in names its cause.
	weak bool

	// unsent says that what happened further in happened before anything was
	// sent.
	unsent bool

	// network says that an io.EOF further in is a lost connection.
	network bool

	// dial and send say what failed: a dial, or the sending of a request. They
	// decide only if no error says why it failed.
	dial, send bool

	// also, if not nil, is asked first about every error.
	also Classifier
}

// inspect asks every error of the tree, after also where there is one.
func inspect(err error, also Classifier) Verdict {
	o := opinion{also: also}
	nodes := errtree.Nodes(errtree.MaxNodes)
	if o.inspect(err, &nodes); nodes.Exceeded() {
		return Verdict{}
	}
	return o.result()
}

func (o *opinion) inspect(err error, nodes *errtree.Nodes) {
	for err != nil && nodes.Take() {
		o.ask(err)
		one, several := errtree.Unwrap(err)
		if several != nil {
			o.inspectAmong(several, nodes)
			break
		}
		err = one
	}
	if o.verdict == (Verdict{}) {
		o.guess()
	}
}

// guess judges by what failed, where no error says why.
func (o *opinion) guess() {
	switch {
	case o.dial:
		o.hear(anew("dial"), true)
	case o.send:
		o.hear(again("conn"), true)
	}
}

func (o *opinion) inspectAmong(legs []error, nodes *errtree.Nodes) {
	var all opinion
	for _, leg := range legs {
		one := opinion{unsent: o.unsent, network: o.network, also: o.also}
		one.inspect(leg, nodes)
		v := one.result()
		switch {
		case v == (Verdict{}):
		case all.verdict == (Verdict{}):
			all = opinion{verdict: v, weak: one.weak}
		default:
			all = opinion{verdict: all.verdict.merge(v, false), weak: all.weak && one.weak}
		}
	}
	o.hear(all.verdict, all.weak)
}

// hear adds what an error further in says.
func (o *opinion) hear(v Verdict, weak bool) {
	after := orDefault(o.verdict.After, v.After)
	decided := o.verdict.Class != Unknown && !o.weak
	if !decided && v.Class != Unknown && (!weak || o.verdict.Class == Unknown) {
		o.verdict, o.weak = v, weak
	} else if o.verdict == (Verdict{}) {
		o.verdict.Category = v.Category // an opinion too: unknown, but named
	}
	o.verdict.After = after
}

// result returns the verdict of all that was heard.
func (o *opinion) result() Verdict {
	v := o.verdict
	v.normalize()
	if v.Class != Unknown {
		v.NotApplied = v.NotApplied || o.unsent
	}
	if v.Class == Final {
		v.After = 0
	}
	return v
}

// ask hears what this one error says.
func (o *opinion) ask(err error) {
	if o.also != nil {
		if v := o.also(err); v != (Verdict{}) {
			o.hear(v, false)
			return
		}
	}
	if o.askType(err) {
		return
	}
	for i := range sentinels {
		// Sentinels are pointers, so this comparison cannot panic.
		if s := &sentinels[i]; err == s.err {
			o.hear(s.verdict, false)
			return
		}
	}
	if err == io.EOF && o.network {
		o.hear(again("eof"), false)
		return
	}
	t := reflect.TypeOf(err)
	if t == plainType {
		return
	}
	if v := typeVerdict(t, err); v != (Verdict{}) {
		o.hear(v, false)
		return
	}
	if t.NumMethod() > 1 { // more than Error
		o.askMethods(err)
	}
}

// plainType is the type of what errors.New makes, which says nothing.
var plainType = reflect.TypeOf(errors.ErrUnsupported)

func final(category string) Verdict { return Verdict{Class: Final, Category: category} }

// again is the verdict for an operation that may have taken effect.
func again(category string) Verdict { return Verdict{Class: Retryable, Category: category} }

// anew is the verdict for an operation that had no effect.
func anew(category string) Verdict {
	return Verdict{Class: Retryable, NotApplied: true, Category: category}
}

func limited(category string) Verdict { return Verdict{Class: RateLimited, Category: category} }

// askType knows the types of packages that are linked anyway.
func (o *opinion) askType(err error) (known bool) {
	switch e := err.(type) {
	case errno:
		v := errnoVerdict(e)
		o.hear(v, false)
		return v != (Verdict{})
	case *net.OpError: // its Timeout and Temporary are those of what it wraps
		if e != nil {
			o.network = true
			if e.Op == "dial" {
				o.unsent, o.dial = true, true
			}
		}
		return true
	case *net.DNSError:
		if e != nil {
			o.askDNS(e)
		}
		return true
	case *url.Error: // likewise
		if e != nil {
			o.network = true
			if e.Op == "parse" {
				o.hear(final("invalid"), false)
			}
		}
		return true
	case *json.SyntaxError, *json.UnmarshalTypeError, *json.InvalidUnmarshalError,
		base64.CorruptInputError, *strconv.NumError, *time.ParseError,
		*net.ParseError, *net.AddrError, net.UnknownNetworkError, net.InvalidAddrError,
		url.EscapeError, url.InvalidHostError:
		o.hear(final("invalid"), false)
		return true
	case interface{ RuntimeError() }: // runtime.Error
		o.hear(final("panic"), false)
		return true
	default:
		return false
	}
}

// askDNS is weak about a lookup that may succeed later, because one that was
// canceled looks the same and wraps the cancellation.
func (o *opinion) askDNS(e *net.DNSError) {
	o.unsent = true
	switch {
	case e.IsTimeout || e.IsTemporary:
		o.hear(anew("dns"), true)
	case e.IsNotFound:
		o.hear(final("dns_not_found"), false)
	}
}

// sentinels are the error variables of the standard library that say something.
var sentinels = []struct {
	err     error
	verdict Verdict
}{
	{context.Canceled, final("canceled")},
	{fs.ErrNotExist, final("not_found")},
	{fs.ErrPermission, final("permission")},
	{fs.ErrExist, final("exists")},
	{fs.ErrInvalid, final("invalid")},
	{fs.ErrClosed, final("closed")},
	{errors.ErrUnsupported, final("unsupported")},
	{io.ErrUnexpectedEOF, again("eof")},
	{io.ErrClosedPipe, again("closed")},
	{net.ErrClosed, again("closed")},
}

// typeVerdict knows types of packages that this one does not link, because a
// program that never dials should not carry them.
func typeVerdict(t reflect.Type, err error) Verdict {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch pkg := t.PkgPath(); pkg {
	case "crypto/x509":
		return final("tls_cert")
	case "crypto/tls":
		switch t.Name() {
		case "CertificateVerificationError":
			return final("tls_cert")
		case "RecordHeaderError", "ECHRejectionError":
			return final("tls")
		case "alert", "AlertError":
			return alertVerdict(err)
		}
	case "encoding/csv", "encoding/hex", "encoding/xml":
		return final("invalid")
	case "net/http":
		switch t.Name() {
		case "ProtocolError":
			return final("invalid")
		case "tlsHandshakeTimeoutError":
			return anew("timeout")
		case "http2StreamError", "StreamError":
			return streamVerdict(err)
		}
	case "os/exec":
		if t.Name() == "Error" {
			return final("not_found")
		}
	case "github.com/cenkalti/backoff/v4", "github.com/cenkalti/backoff/v5":
		if t.Name() == "PermanentError" {
			return final("permanent")
		}
	case "github.com/avast/retry-go/v4", "github.com/avast/retry-go/v5":
		if t.Name() == "unrecoverableError" {
			return final("permanent")
		}
	default:
		if strings.HasSuffix(pkg, "/http2") && t.Name() == "StreamError" {
			return streamVerdict(err)
		}
	}
	return Verdict{}
}

// alertVerdict judges a TLS alert, a refusal but for two that are accidents.
//
// https://www.rfc-editor.org/rfc/rfc8446#section-6
func alertVerdict(err error) Verdict {
	const internalError, userCanceled = 80, 90
	alert := reflect.ValueOf(err)
	if alert.Kind() == reflect.Uint8 && (alert.Uint() == internalError || alert.Uint() == userCanceled) {
		return again("tls_alert")
	}
	return final("tls_alert")
}

// streamVerdict judges a stream error of HTTP/2, golang.org/x/net/http2's or the
// copy in net/http: a reset stream and the reason.
//
// https://www.rfc-editor.org/rfc/rfc9113#section-7
func streamVerdict(err error) Verdict {
	stream := reflect.Indirect(reflect.ValueOf(err))
	if stream.Kind() != reflect.Struct {
		return Verdict{}
	}
	code := stream.FieldByName("Code")
	if !code.IsValid() || !code.CanUint() {
		return Verdict{}
	}
	switch code.Uint() {
	case 0x7, 0xd: // REFUSED_STREAM, HTTP_1_1_REQUIRED: not processed
		return anew("http2_refused")
	case 0xb: // ENHANCE_YOUR_CALM
		return limited("http2_calm")
	case 0x2, 0x3, 0x8: // INTERNAL_ERROR, FLOW_CONTROL_ERROR, CANCEL
		return again("http2_reset")
	default:
		return Verdict{}
	}
}
