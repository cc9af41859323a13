package known

import (
	"cmp"
	"reflect"
	"strconv"
	"time"
)

// mostHidden is how many causes are looked for that Unwrap does not return. Errors may refer to
// each other.
const mostHidden = 3

// says classifies the error by types, methods and fields of modules that this package does not
// import. It returns the fact about the error, or its HTTP status, and the wait that the error
// asks for, or else after. The names of the methods are constants, so that the linker still
// drops the methods that nobody calls.
func (c *client) says(after time.Duration) (Fact, int, time.Duration) {
	if judge := c.shape.judge; judge != nil {
		if f, status, wait := judge(c.v, c.shape.name); f != (Fact{}) || status != 0 {
			return f, status, cmp.Or(after, wait)
		}
	}
	var method string // the name of the code that the method Code returns
	if !c.shape.silent {
		if status, ok := result(c.v.MethodByName("GRPCStatus")); ok {
			return grpcStatus(status), 0, after
		}
		if status, ok := result(c.v.MethodByName("Status")); ok && isKubernetes(status) {
			seconds := number(field(field(status, "Details"), "RetryAfterSeconds"))
			return Fact{}, valid(number(field(status, "Code"))), max(after, time.Duration(seconds)*time.Second)
		}
		if code, ok := result(c.v.MethodByName("Code")); ok && code.Type().PkgPath() == "google.golang.org/grpc/codes" { // etcd
			return grpcCode(number(code)), 0, after
		} else if ok {
			method = named(code)
		}
	}
	if after <= 0 {
		after = c.after
	}
	if c.status >= 400 {
		return Fact{}, c.status, after
	}
	f := c.shape.limited
	if f.Class == Unknown {
		c.addText(method)
		f = c.codes()
	}
	if f == (Fact{}) {
		var status int
		if f, status = integer(cmp.Or(c.number, number(c.v)), c.shape.name); status != 0 {
			return f, status, after
		}
	}
	if f.Class != Unknown && f.Category == "" {
		f.Category = categories[f.Class]
	}
	return f, 0, after
}

// categories are those of a code without a status.
var categories = [...]string{Retryable: "temporary", RateLimited: "rate_limited"}

// isKubernetes reports whether a status is a Status of Kubernetes.
func isKubernetes(status reflect.Value) bool {
	if status.Kind() != reflect.Struct {
		return false
	}
	reason := field(status, "Reason")
	return reason.IsValid() && reason.Kind() == reflect.String
}

// reply classifies the reply of a mail server, or of a server for files or news, by its first
// digit. A refusal says that the requested action did not occur, except that a transfer of a
// file broke off in the middle.
//
// https://www.rfc-editor.org/rfc/rfc5321#section-4.2.1,
// https://www.rfc-editor.org/rfc/rfc959#section-4.2
func reply(code int64) Fact {
	if code < 400 || code > 599 {
		return Fact{}
	}
	const brokeOff = 426
	switch category := "reply_" + strconv.FormatInt(code, 10); {
	case code == brokeOff:
		return Transient(category)
	case code < 500:
		return Unapplied(category)
	default:
		return Permanent(category)
	}
}

// grpcCodes has the facts of the codes of gRPC and Connect. INTERNAL and UNKNOWN stay
// Unknown: proxies and broken connections cause them too. ABORTED asks to repeat the whole.
//
// https://grpc.github.io/grpc/core/md_doc_statuscodes.html
var grpcCodes = [...]Fact{
	1:  Permanent("grpc_cancelled"),
	2:  {Category: "grpc_unknown"},
	3:  Permanent("grpc_invalid_argument"),
	4:  Transient("grpc_deadline_exceeded"),
	5:  Permanent("grpc_not_found"),
	6:  Permanent("grpc_already_exists"),
	7:  Permanent("grpc_permission_denied"),
	8:  Throttled("grpc_resource_exhausted"), // but see tooLarge
	9:  Permanent("grpc_failed_precondition"),
	10: Transient("grpc_aborted"),
	11: Permanent("grpc_out_of_range"),
	12: Permanent("grpc_unimplemented"),
	13: {Category: "grpc_internal"},
	14: Transient("grpc_unavailable"),
	15: Permanent("grpc_data_loss"),
	16: Permanent("grpc_unauthenticated"),
}

const (
	grpcDeadlineExceeded  = 4
	grpcPermissionDenied  = 7
	grpcResourceExhausted = 8
	grpcAborted           = 10
	grpcUnavailable       = 14
)

func grpcCode(code int64) Fact {
	if code < 0 || code >= int64(len(grpcCodes)) {
		return Fact{}
	}
	return grpcCodes[code]
}

// ldapResult classifies the result code of an LDAP server.
//
// https://www.rfc-editor.org/rfc/rfc4511#appendix-A
func ldapResult(code int64) Fact {
	switch category := "ldap_" + strconv.FormatInt(code, 10); code {
	case 200, 204, 205: // of go-ldap: the network, a response that does not fit
		return Transient(category)
	case 201, 202, 206: // of go-ldap: a filter, a password
		return Permanent(category)
	case 51, 52: // busy, unavailable
		return Unapplied(category)
	case 2, 7, 8, 12, 13, 16, 17, 18, 19, 20, 21, 32, 33, 34, 36, 48, 49, 50, 53, 54, 64, 65, 66, 67, 68, 69:
		return Permanent(category)
	default:
		return Fact{}
	}
}

// amqpReply classifies the reply code of an AMQP broker. 504 is also what the client says
// when its connection or channel is closed.
//
// https://www.rabbitmq.com/amqp-0-9-1-reference#constants
func amqpReply(code int64) Fact {
	switch category := "amqp_" + strconv.FormatInt(code, 10); code {
	case 311, 320, 504, 506, 541:
		return Transient(category)
	case 403, 404, 405, 406, 501, 502, 503, 505, 530, 540:
		return Permanent(category)
	default:
		return Fact{}
	}
}
