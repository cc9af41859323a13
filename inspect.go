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

// opinion is what one error, or a tree of them, says about a retry.
type opinion struct {
	verdict Verdict

	// weak opinions are those of Timeout, Temporary and their kin, which hold
	// only where no error beneath names its cause.
	weak bool

	// unsent says that whatever happened beneath this error happened before
	// anything was sent.
	unsent bool

	// network says that an io.EOF beneath this error is a lost connection.
	network bool
}

// inspect asks every error of the tree.
func inspect(err error) Verdict {
	nodes := errtree.MaxNodes
	o := inspectIn(err, opinion{}, &nodes)
	if nodes <= 0 { // not all was seen
		return Verdict{}
	}
	o.verdict.normalize()
	return o.verdict
}

// inspectIn asks a chain from the outside to the inside. Of the context it uses
// unsent and network only.
func inspectIn(err error, context opinion, nodes *int) opinion {
	said := opinion{unsent: context.unsent, network: context.network}
	for err != nil && *nodes > 0 {
		*nodes--
		said = said.over(ask(err, said.network))
		one, several := errtree.Unwrap(err)
		if several != nil {
			return said.over(inspectAmong(several, said, nodes))
		}
		err = one
	}
	return said
}

func inspectAmong(legs []error, context opinion, nodes *int) (said opinion) {
	for _, leg := range legs {
		o := inspectIn(leg, context, nodes)
		switch {
		case o.verdict == (Verdict{}):
		case said.verdict == (Verdict{}):
			said = o
		default:
			said.verdict = said.verdict.merge(o.verdict, false)
			said.weak = said.weak && o.weak
		}
	}
	said.unsent, said.network = false, false // true of single legs
	return said
}

// over combines what an error says with what the one that it wraps says.
func (outer opinion) over(inner opinion) opinion {
	said := outer
	said.unsent = outer.unsent || inner.unsent
	said.network = outer.network || inner.network
	if !outer.decided() && (inner.decided() || outer.verdict.Class == Unknown) {
		said.verdict, said.weak = inner.verdict, inner.weak
	}
	said.verdict.After = orDefault(outer.verdict.After, inner.verdict.After)
	switch said.verdict.Class {
	case Final:
		said.verdict.After = 0
	case Retryable, RateLimited:
		said.verdict.NotApplied = said.verdict.NotApplied || said.unsent
	}
	return said
}

// decided reports whether the opinion has a class that stands whatever is
// beneath.
func (o opinion) decided() bool { return o.verdict.Class != Unknown && !o.weak }

// ask returns what this one error says.
func ask(err error, network bool) opinion {
	if o, known := askType(err); known {
		return o
	}
	if v := sentinel(err, network); v != (Verdict{}) {
		return opinion{verdict: v}
	}
	t := reflect.TypeOf(err)
	if v := typeNameVerdict(t, err); v != (Verdict{}) {
		return opinion{verdict: v}
	}
	if t.NumMethod() == 1 { // nothing but Error
		return opinion{}
	}
	return askMethods(err)
}

func final(category string) Verdict { return Verdict{Class: Final, Category: category} }

// again is the verdict for an operation that may have taken effect.
func again(category string) Verdict { return Verdict{Class: Retryable, Category: category} }

// anew is the verdict for an operation that had no effect.
func anew(category string) Verdict {
	return Verdict{Class: Retryable, NotApplied: true, Category: category}
}

func limited(category string) Verdict { return Verdict{Class: RateLimited, Category: category} }

// askType knows the types of packages that are linked anyway.
func askType(err error) (o opinion, known bool) {
	switch e := err.(type) {
	case errno:
		v := errnoVerdict(e)
		return opinion{verdict: v}, v != (Verdict{})
	case *net.OpError:
		if e == nil {
			return opinion{}, true
		}
		o = askWeak(err) // Timeout
		o.network = true
		o.unsent = e.Op == "dial"
		return o, true
	case *net.DNSError:
		if e == nil {
			return opinion{}, true
		}
		return askDNS(e), true
	case *url.Error:
		if e == nil {
			return opinion{}, true
		}
		if e.Op == "parse" {
			return opinion{verdict: final("invalid")}, true
		}
		o = askWeak(err)
		o.network = true
		return o, true
	case *json.SyntaxError, *json.UnmarshalTypeError, *json.InvalidUnmarshalError,
		base64.CorruptInputError, *strconv.NumError, *time.ParseError,
		*net.ParseError, *net.AddrError, net.UnknownNetworkError, net.InvalidAddrError,
		url.EscapeError, url.InvalidHostError:
		return opinion{verdict: final("invalid")}, true
	case interface{ RuntimeError() }: // runtime.Error
		return opinion{verdict: final("panic")}, true
	default:
		return opinion{}, false
	}
}

// askDNS is weak about a lookup that may succeed later, because one that was
// canceled looks the same and wraps the cancellation.
func askDNS(e *net.DNSError) opinion {
	switch {
	case e.IsTimeout || e.IsTemporary:
		return opinion{verdict: anew("dns"), weak: true, unsent: true}
	case e.IsNotFound:
		return opinion{verdict: final("dns_not_found")}
	default:
		return opinion{unsent: true}
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

// sentinel compares with == and asks an Is method, as errors.Is does.
func sentinel(err error, network bool) Verdict {
	_, hasIs := err.(interface{ Is(error) bool })
	for _, s := range sentinels {
		// Sentinels are pointers, so this comparison cannot panic.
		if err == s.err || hasIs && errtree.Matches(err, s.err) {
			return s.verdict
		}
	}
	if network && err == io.EOF {
		return again("eof")
	}
	return Verdict{}
}

// typeNames are types of packages that this one does not link, because a
// program that never dials should not carry them.
type typeName struct{ pkg, name string }

var typeNames = map[typeName]Verdict{
	{"crypto/tls", "CertificateVerificationError"}:         final("tls_cert"),
	{"crypto/tls", "RecordHeaderError"}:                    final("tls"),
	{"crypto/tls", "ECHRejectionError"}:                    final("tls"),
	{"crypto/x509", "CertificateInvalidError"}:             final("tls_cert"),
	{"crypto/x509", "ConstraintViolationError"}:            final("tls_cert"),
	{"crypto/x509", "HostnameError"}:                       final("tls_cert"),
	{"crypto/x509", "InsecureAlgorithmError"}:              final("tls_cert"),
	{"crypto/x509", "SystemRootsError"}:                    final("tls_cert"),
	{"crypto/x509", "UnhandledCriticalExtension"}:          final("tls_cert"),
	{"crypto/x509", "UnknownAuthorityError"}:               final("tls_cert"),
	{"encoding/csv", "ParseError"}:                         final("invalid"),
	{"encoding/hex", "InvalidByteError"}:                   final("invalid"),
	{"encoding/xml", "SyntaxError"}:                        final("invalid"),
	{"encoding/xml", "UnmarshalError"}:                     final("invalid"),
	{"net/http", "ProtocolError"}:                          final("invalid"),
	{"net/http", "tlsHandshakeTimeoutError"}:               anew("timeout"),
	{"os/exec", "Error"}:                                   final("not_found"),
	{"github.com/cenkalti/backoff/v4", "PermanentError"}:   final("permanent"),
	{"github.com/cenkalti/backoff/v5", "PermanentError"}:   final("permanent"),
	{"github.com/avast/retry-go/v4", "unrecoverableError"}: final("permanent"),
	{"github.com/avast/retry-go/v5", "unrecoverableError"}: final("permanent"),
}

func typeNameVerdict(t reflect.Type, err error) Verdict {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	name := t.Name()
	switch {
	case name == "alert" || name == "AlertError":
		return alertVerdict(t, err)
	case strings.HasSuffix(name, "StreamError"):
		return streamVerdict(t, err)
	}
	return typeNames[typeName{t.PkgPath(), name}]
}

// alertVerdict knows crypto/tls.alert and crypto/tls.AlertError: the TLS alert
// that one side sent, which is a refusal but for two that are accidents.
func alertVerdict(t reflect.Type, err error) Verdict {
	const internalError, userCanceled = 80, 90
	if t.PkgPath() != "crypto/tls" || t.Kind() != reflect.Uint8 {
		return Verdict{}
	}
	switch reflect.ValueOf(err).Uint() {
	case internalError, userCanceled:
		return again("tls_alert")
	default:
		return final("tls_alert")
	}
}

// streamVerdict knows the stream error of HTTP/2, both golang.org/x/net/http2's
// and the copy in net/http, by its fields: a reset stream and why.
func streamVerdict(t reflect.Type, err error) Verdict {
	v := reflect.Indirect(reflect.ValueOf(err))
	if v.Kind() != reflect.Struct || t.PkgPath() != "net/http" && !strings.HasSuffix(t.PkgPath(), "/http2") {
		return Verdict{}
	}
	code := v.FieldByName("Code")
	if !v.FieldByName("StreamID").IsValid() || !code.IsValid() || !code.CanUint() {
		return Verdict{}
	}
	// https://www.rfc-editor.org/rfc/rfc9113#section-7
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
