package known

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/seed-5ff3c98e/retry/internal/errtree"
)

// typed classifies errors by their types alone.
func typed(err error) Fact {
	switch e := err.(type) {
	case Errno:
		return OfErrno(e)
	case *json.SyntaxError:
		return malformed(cutJSON(e))
	case *json.UnmarshalTypeError, *json.InvalidUnmarshalError,
		*json.UnsupportedValueError, *json.UnsupportedTypeError,
		base64.CorruptInputError, *strconv.NumError, *time.ParseError,
		*net.ParseError, *net.AddrError, net.UnknownNetworkError, net.InvalidAddrError,
		url.EscapeError, url.InvalidHostError:
		return Permanent("invalid")
	case interface{ RuntimeError() }: // runtime.Error
		return Permanent("panic")
	default:
		return unlinked(err)
	}
}

// malformed classifies data that cannot be decoded. Data that ends too early may be a body that
// broke off, which its reader did not notice: then another attempt gets the rest, as after the
// io.ErrUnexpectedEOF of most decoders. An empty body is io.EOF to them, which is Unknown. A CSV
// and base64 cannot tell: there, what has no end is what is wrong.
func malformed(ends bool) Fact {
	if ends {
		return Transient("eof")
	}
	return Permanent("invalid")
}

// unlinked classifies types of packages that this package does not import, because a
// program that never dials should not link them.
func unlinked(err error) Fact {
	t := reflect.TypeOf(err)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	pkg := t.PkgPath()
	if strings.HasSuffix(pkg, "/http2") && t.Name() == "StreamError" {
		return stream(err)
	}
	switch pkg {
	case "crypto/x509":
		return Permanent("tls_cert")
	case "crypto/tls":
		switch t.Name() {
		case "CertificateVerificationError":
			return Permanent("tls_cert")
		case "ECHRejectionError":
			return Permanent("tls")
		case "RecordHeaderError":
			return record(err)
		case "alert", "AlertError":
			return alert(err)
		}
	case "encoding/xml", "encoding/asn1":
		end := text(field(reflect.ValueOf(err), "Msg"))
		return malformed(end == "unexpected EOF" || strings.Contains(end, "truncated"))
	case "encoding/csv", "encoding/hex", "encoding/base32", "net/netip",
		"compress/flate", "compress/bzip2", "regexp/syntax":
		return Permanent("invalid")
	case "os/user": // UnknownUserError and the like
		return Permanent("not_found")
	case "net/http":
		switch t.Name() {
		case "ProtocolError", "MaxBytesError":
			return Permanent("invalid")
		case "unsupportedTEError": // a response with a Transfer-Encoding that is none
			return Permanent("malformed")
		case "tlsHandshakeTimeoutError":
			return Unapplied("timeout")
		case "http2StreamError", "StreamError":
			return stream(err)
		}
	case "os/exec":
		if t.Name() == "Error" {
			return Permanent("not_found")
		}
	case "github.com/cenkalti/backoff/v4", "github.com/cenkalti/backoff/v5":
		if t.Name() == "PermanentError" {
			return Permanent("permanent")
		}
	case "github.com/avast/retry-go/v4", "github.com/avast/retry-go/v5":
		if t.Name() == "unrecoverableError" {
			return Permanent("permanent")
		}
	case "encoding/json/v2", "encoding/json/jsontext":
		switch t.Name() {
		case "SemanticError", "SyntacticError":
			return malformed(errtree.Is(err, io.ErrUnexpectedEOF))
		}
	}
	return Fact{}
}

// alert classifies a TLS alert, sent or received. It is Final, except for what the server
// may get over, and for those that the RFCs say are seen only if the network has spoilt a
// message.
//
// https://www.rfc-editor.org/rfc/rfc8446#section-6,
// https://www.rfc-editor.org/rfc/rfc5246#section-7.2.2
func alert(err error) Fact {
	if alert := reflect.ValueOf(err); alert.Kind() == reflect.Uint8 {
		return alertFact(alert.Uint())
	}
	return Permanent("tls_alert")
}

func alertFact(alert uint64) Fact {
	switch alert {
	case 80, 90, // internal_error, user_canceled
		20, 21, 22, 50: // bad_record_mac, decryption_failed, record_overflow, decode_error
		return Transient("tls_alert")
	default:
		return Permanent("tls_alert")
	}
}

// record classifies the header of a TLS record that is none. It has the connection only if it
// is the first record: the server does not speak TLS. Later, the network has spoilt it.
func record(err error) Fact {
	if conn := field(reflect.ValueOf(err), "Conn"); conn.IsValid() && conn.IsNil() {
		return Transient("tls_record")
	}
	return Permanent("tls")
}

// stream classifies a stream error of HTTP/2, from golang.org/x/net/http2 or the
// copy in net/http: a reset stream and the reason.
//
// https://www.rfc-editor.org/rfc/rfc9113#section-7
func stream(err error) Fact {
	stream := reflect.Indirect(reflect.ValueOf(err))
	if stream.Kind() != reflect.Struct {
		return Fact{}
	}
	code := stream.FieldByName("Code")
	if !code.IsValid() || !code.CanUint() {
		return Fact{}
	}
	switch code.Uint() {
	case 0x7, 0xd: // REFUSED_STREAM, HTTP_1_1_REQUIRED: not processed
		return Unapplied("http2_refused")
	case 0xb: // ENHANCE_YOUR_CALM
		return Throttled("http2_calm")
	case 0xc: // INADEQUATE_SECURITY
		return Permanent("http2_security")
	case 0x1: // PROTOCOL_ERROR: it may be the client's opinion of the response
		return Fact{}
	default:
		return Transient("http2_reset")
	}
}

// indirect returns what a pointer or an interface has, or v itself. A pointer may point to
// itself.
func indirect(v reflect.Value) reflect.Value {
	const most = 10
	for range most {
		if !v.IsValid() || v.Kind() != reflect.Pointer && v.Kind() != reflect.Interface {
			break
		}
		v = v.Elem()
	}
	return v
}

// field returns a field of a struct, or of the struct that v points to.
func field(v reflect.Value, name string) (f reflect.Value) {
	defer silence() // of a nil pointer that is embedded
	if v = indirect(v); v.Kind() == reflect.Struct {
		f = v.FieldByName(name)
	}
	return f
}

// text returns the value of a string, or "".
func text(v reflect.Value) string {
	if v.IsValid() && v.Kind() == reflect.String {
		return v.String()
	}
	return ""
}
