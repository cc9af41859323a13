package known

import (
	"reflect"
	"strconv"
	"strings"
	"time"
)

// Codes of services and of protocols above HTTP.

// jsonRPC classifies a code that JSON-RPC has reserved. An internal error, and a code that a
// server has defined, may be anything.
//
// https://www.jsonrpc.org/specification#error_object
func jsonRPC(code int64) Fact {
	if code < -32768 || code > -32000 {
		return Fact{}
	}
	switch category := "jsonrpc_" + strconv.FormatInt(-code, 10); code {
	case -32700, -32602, -32601, -32600: // parse error, invalid params, method not found, invalid request
		return Permanent(category)
	case -32603:
		return Fact{Category: category}
	default:
		return Fact{}
	}
}

// integer classifies the integer Code of an error that has no status. It is one of JSON-RPC by
// its range. It is an HTTP status if the name of the type says so, or if it is one of the few that
// mean much the same wherever statuses were copied.
func integer(code int64, name string) (f Fact, status int) {
	if f = jsonRPC(code); f != (Fact{}) {
		return f, 0
	}
	switch status = valid(code); status {
	case 401, 403, 404, 429:
		return f, status
	}
	switch name {
	case "HTTPError", "APIError", "ApiError", "StatusError", "ResponseError", "ErrorResponse", "RequestError":
		return f, status
	default:
		return f, 0
	}
}

// closeCode classifies why a WebSocket was closed.
//
// https://www.iana.org/assignments/websocket/websocket.xhtml#close-code-number
func closeCode(code int64) Fact {
	switch category := "ws_" + strconv.FormatInt(code, 10); code {
	case 1001, 1006, 1011, 1012, 1014: // going away, abnormal, internal error, restart, bad gateway
		return Transient(category)
	case 1013: // try again later
		return Throttled(category)
	case 1002, 1003, 1007, 1008, 1009, 1010, 1015: // of the protocol, the data, a policy, TLS
		return Permanent(category)
	default:
		return Fact{}
	}
}

// quicError classifies what the peer says when it closes a connection of QUIC.
//
// https://www.rfc-editor.org/rfc/rfc9000#section-20.1
func quicError(v reflect.Value, name string) (Fact, int, time.Duration) {
	const internal, refused, cryptoFirst, cryptoLast = 0x1, 0x2, 0x100, 0x1ff
	code := number(field(v, "ErrorCode"))
	switch {
	case name == "VersionNegotiationError":
		return Permanent("quic"), 0, 0
	case name != "TransportError":
		return Fact{}, 0, 0
	case code == refused:
		return Unapplied("conn_refused"), 0, 0
	case code == internal:
		return Transient("quic"), 0, 0
	case code >= cryptoFirst && code <= cryptoLast:
		return alertFact(uint64(code - cryptoFirst)), 0, 0
	default:
		return Fact{}, 0, 0
	}
}

// http3Code classifies the codes of HTTP/3 that its standard or its predecessor tells apart.
//
// https://www.rfc-editor.org/rfc/rfc9114#section-8.1
func http3Code(code int64) Fact {
	switch code {
	case 0x10b, 0x110: // H3_REQUEST_REJECTED, H3_VERSION_FALLBACK: not processed
		return Unapplied("http3_refused")
	case 0x107: // H3_EXCESSIVE_LOAD
		return Throttled("http3_load")
	case 0x100, 0x102, 0x10c: // H3_NO_ERROR, H3_INTERNAL_ERROR, H3_REQUEST_CANCELLED
		return Transient("http3_reset")
	default:
		return Fact{}
	}
}

// goCloud classifies a code of gocloud.dev, whose portable errors wrap that of a provider.
//
// https://pkg.go.dev/gocloud.dev/gcerrors#ErrorCode
func goCloud(code int64) Fact {
	switch category := "gocloud_" + strconv.FormatInt(code, 10); code {
	case 2:
		return Permanent("not_found")
	case 3:
		return Permanent("exists")
	case 4, 6, 7: // invalid argument, unimplemented, failed precondition
		return Permanent(category)
	case 8:
		return Permanent("permission")
	case 9: // resource exhausted
		return Throttled(category)
	case 10:
		return Permanent("canceled")
	case 11:
		return Transient("timeout")
	default:
		return Fact{}
	}
}

// xmppError classifies an error in a stanza by what its type asks the sender to do, and one of a
// stream by its condition.
//
// https://www.rfc-editor.org/rfc/rfc6120#section-8.3.2, https://www.rfc-editor.org/rfc/rfc6120#section-4.9.3
func xmppError(v reflect.Value, _ string) (f Fact, _ int, _ time.Duration) {
	switch kind := text(field(v, "Type")); kind {
	case "auth", "cancel", "modify":
		return Permanent("xmpp_" + kind), 0, 0
	case "wait":
		return Unapplied("xmpp_wait"), 0, 0
	}
	condition := text(field(v, "Condition"))
	if condition == "" {
		condition = text(field(v, "Err"))
	}
	switch category := "xmpp_" + condition; condition {
	case "connection-timeout", "remote-connection-failed", "remote-server-timeout", "reset", "resource-constraint",
		"system-shutdown":
		f = Transient(category)
	case "bad-format", "bad-namespace-prefix", "bad-request", "conflict", "feature-not-implemented", "forbidden", "gone",
		"host-gone", "host-unknown", "improper-addressing", "invalid-from", "invalid-namespace", "invalid-xml",
		"item-not-found", "jid-malformed", "not-acceptable", "not-allowed", "not-authorized", "not-well-formed",
		"policy-violation", "registration-required", "restricted-xml", "subscription-required",
		"unsupported-encoding", "unsupported-feature", "unsupported-stanza-type", "unsupported-version":
		f = Permanent(category)
	}
	return f, 0, 0
}

// pulsarResult classifies the Result of an error of Pulsar's client.
//
// https://pkg.go.dev/github.com/apache/pulsar-client-go/pulsar#Result
func pulsarResult(code int64) Fact {
	switch category := "pulsar_" + strconv.FormatInt(code, 10); code {
	case 3, 4, 5, 6, 10, 11, 13, 14, 22: // timeouts, lookups, connections, a broker's storage, a consumer that is busy
		return Transient(category)
	case 19, 24, 25, 26, 42, 44: // lookups, quotas, queues and buffers that are full
		return Throttled(category)
	case 2, 7, 8, 9, 15, 16, 20, 21, 23, 27, 28, 29, 31, 32, 33, 34, 35, 38, 39, 41, 43, 45:
		// settings, rights, names, messages, what is closed, a producer that is fenced
		return Permanent(category)
	default:
		return Fact{}
	}
}

// centrifugo classifies a code of Centrifugo.
//
// https://centrifugal.dev/docs/server/codes
func centrifugo(code int64) Fact {
	switch category := "centrifugo_" + strconv.FormatInt(code, 10); code {
	case 100: // internal
		return Transient(category)
	case 111: // too many requests
		return Rejected(category)
	case 101, 102, 103, 104, 105, 106, 107, 108: // rights, channels, methods, a bad request
		return Permanent(category)
	default:
		return Fact{}
	}
}

// opcUA classifies a status code of OPC UA.
//
// https://reference.opcfoundation.org/Core/Part4/v105/docs/7.38.2
func opcUA(code int64) Fact {
	switch category := "opcua_" + strconv.FormatInt(code, 16); code >> 16 {
	case 0x8003, 0x8004, 0x8005, 0x800a, 0x800c, 0x800d, 0x800e, 0x8031, 0x8085, 0x8086, 0x80ae:
		// memory, resources, connections, timeouts, a server that stops
		return Transient(category)
	case 0x8056, 0x8078, 0x807d: // sessions, publish requests, a busy server
		return Throttled(category)
	case 0x800b, 0x8010, 0x8012, 0x8013, 0x801a, 0x801f, 0x8020, 0x8021, 0x8033, 0x8034, 0x8035, 0x8036, 0x803a, 0x803b,
		0x803c, 0x803d, 0x8055, 0x8074, 0x8075, 0x80ab:
		// rights, certificates, nodes, attributes, types, a request with too much in it
		return Permanent(category)
	default:
		return Fact{}
	}
}

// kerberos classifies an error code of Kerberos.
//
// https://www.rfc-editor.org/rfc/rfc4120#section-7.5.9
func kerberos(code int64) Fact {
	switch category := "krb_" + strconv.FormatInt(code, 10); code {
	case 29: // a service is not available
		return Unapplied(category)
	case 1, 2, 3, 6, 7, 12, 13, 14, 18, 19, 20, 23, 24, 31, 32, 37, 41, 68: // principals, policies, keys, clocks
		return Permanent(category)
	default:
		return Fact{}
	}
}

// libvirt classifies an error number of libvirt.
//
// https://libvirt.org/html/libvirt-virterror.html#virErrorNumber
func libvirt(code int64) Fact {
	switch category := "libvirt_" + strconv.FormatInt(code, 10); code {
	case 38, 39, 68, 86, 87: // the system, RPC, a timeout, an agent that does not answer, a busy resource
		return Transient(category)
	case 3, 7, 8, 27, 28, 29, 32, 35, 37, 42, 43, 45, 49, 50, 66, 67, 72, 74, 84, 88:
		// what is not supported, invalid, denied, not there or there already
		return Permanent(category)
	default:
		return Fact{}
	}
}

// rethinkDB classifies by the names of the types.
//
// https://rethinkdb.com/docs/error-types/
func rethinkDB(_ reflect.Value, name string) (f Fact, _ int, _ time.Duration) {
	switch name {
	case "RQLOpFailedError": // certainly without effect
		f = Unapplied("rethinkdb_op_failed")
	case "RQLOpIndeterminateError", "RQLTimeoutError", "RQLConnectionError":
		f = Transient("rethinkdb")
	case "RQLAuthError":
		f = Permanent("permission")
	case "RQLQueryLogicError", "RQLNonExistenceError", "RQLUserError", "RQLResourceLimitError", "RQLCompileError",
		"RQLServerCompileError", "RQLDriverCompileError", "RQLClientError":
		f = Permanent("rethinkdb")
	}
	return f, 0, 0
}

// binance classifies a code of Binance. What it has done after a timeout is unknown.
//
// https://developers.binance.com/docs/binance-spot-api-docs/errors
func binance(code int64) Fact {
	switch category := "binance_" + strconv.FormatInt(-code, 10); {
	case code == -1000, code == -1001, code == -1006, code == -1007, code == -1021:
		// unknown, disconnected, an unexpected response, a timeout, a clock or a slow network
		return Transient(category)
	case code == -1003, code == -1008, code == -1015, code == -1034: // requests, the server's load, orders, connections
		return Rejected(category)
	case code == -1002, code == -1014, code == -1016, code == -1020, code == -1022,
		code <= -1099 && code >= -1199, code == -2010, code == -2011, code == -2013, code == -2014, code == -2015:
		return Permanent(category)
	default:
		return Fact{}
	}
}

// postmark classifies a code of Postmark.
//
// https://postmarkapp.com/developer/api/overview#error-codes
func postmark(code int64) Fact {
	switch category := "postmark_" + strconv.FormatInt(code, 10); {
	case code == 100: // maintenance
		return Unapplied(category)
	case code == 10, code >= 300 && code < 600, code >= 1000 && code < 1500: // tokens, emails, bounces, servers, templates
		return Permanent(category)
	default:
		return Fact{}
	}
}

// swift classifies the status with which OpenStack's object storage tells that a limit of its own
// is reached; elsewhere it is that of a token that is not valid.
//
// https://docs.openstack.org/swift/latest/ratelimit.html
func swift(v reflect.Value, _ string) (f Fact, _ int, _ time.Duration) {
	if number(field(v, "StatusCode")) == 498 {
		f = Rejected("http_498")
	}
	return f, 0, 0
}

// conflicts is for services whose own clients repeat a request after a conflict, because it means
// another request in progress.
//
// https://docs.stripe.com/error-low-level#idempotency,
// https://github.com/openai/openai-go#retries, https://github.com/anthropics/anthropic-sdk-go#retries
func conflicts(field string) judge {
	status := status(field)
	return func(v reflect.Value, name string) (Fact, int, time.Duration) {
		if _, code, _ := status(v, name); code == conflict {
			return Transient("http_409"), 0, 0
		}
		return Fact{}, 0, 0
	}
}

// capnp classifies the type of an exception of Cap'n Proto. One that has "failed" would fail again,
// says the protocol; but a client makes it of a broken connection too.
//
// https://github.com/capnproto/capnproto/blob/v2/c++/src/capnp/rpc.capnp, Exception
func capnp(kind int64) Fact {
	switch kind {
	case 1:
		return Throttled("capnp_overloaded")
	case 2:
		return Transient("capnp_disconnected")
	case 3:
		return Permanent("capnp_unimplemented")
	default:
		return Fact{}
	}
}

// rocketMQ classifies a response code of a broker of RocketMQ. A topic or a right that one broker
// does not have, another may have.
//
// https://github.com/apache/rocketmq/blob/develop/remoting/src/main/java/org/apache/rocketmq/remoting/protocol/ResponseCode.java
func rocketMQ(code int64) Fact {
	switch category := "rocketmq_" + strconv.FormatInt(code, 10); code {
	case 2: // the system is busy
		return Throttled(category)
	case 1, 10, 11, 12, 14: // the system, its disk, its replicas, a service that is not available
		return Transient(category)
	case 3, 13, 15, 23: // requests, messages, versions, subscriptions
		return Permanent(category)
	default:
		return Fact{}
	}
}

// nsqCode classifies a reply of NSQ, which begins with a code.
//
// https://nsq.io/clients/tcp_protocol_spec
func nsqCode(reply string) Fact {
	code, _, _ := strings.Cut(reply, " ")
	switch category := strings.ToLower(strings.Replace(code, "E_", "nsq_", 1)); code {
	case "E_PUB_FAILED", "E_MPUB_FAILED", "E_DPUB_FAILED", "E_AUTH_FAILED", "E_AUTH_ERROR":
		return Transient(category)
	case "E_INVALID", "E_BAD_BODY", "E_BAD_TOPIC", "E_BAD_CHANNEL", "E_BAD_MESSAGE", "E_UNAUTHORIZED", "E_AUTH_DISABLED",
		"E_FIN_FAILED", "E_REQ_FAILED", "E_TOUCH_FAILED": // the last three: the message is another's by now
		return Permanent(category)
	default:
		return Fact{}
	}
}

// beanstalk classifies the error of a connection by the reply that it wraps, which has only a text.
//
// https://github.com/beanstalkd/beanstalkd/blob/master/doc/protocol.txt
func beanstalk(v reflect.Value, _ string) (f Fact, _ int, _ time.Duration) {
	switch reply := text(field(field(v, "Err"), "s")); reply {
	case "not found":
		f = Permanent("not_found")
	case "job too big", "bad command format", "expected CR LF", "unknown command":
		f = Permanent("invalid")
	case "draining", "server is out of memory":
		f = Unapplied("temporary")
	}
	return f, 0, 0
}

// drpc classifies the one code that DRPC itself has.
func drpc(code int64) (f Fact) {
	if code == 12 {
		f = Permanent("unsupported")
	}
	return f
}

// bitcoin classifies a code of a Bitcoin node, beside those of JSON-RPC.
//
// https://github.com/bitcoin/bitcoin/blob/master/src/rpc/protocol.h
func bitcoin(code int64) Fact {
	switch category := "bitcoin_" + strconv.FormatInt(-code, 10); code {
	case -28: // warming up
		return Unapplied(category)
	case -7, -9, -10: // memory, no peers, the first download
		return Transient(category)
	case -3, -5, -8, -22, -27, -32: // types, addresses, parameters, what is in the chain, what is gone
		return Permanent(category)
	default:
		return jsonRPC(code)
	}
}

// weChat classifies a code of WeChat. A token that is not valid is asked for again.
//
// https://developers.weixin.qq.com/doc/offiaccount/Getting_Started/Global_Return_Code.html
func weChat(code int64) Fact {
	switch category := "wechat_" + strconv.FormatInt(code, 10); {
	case code == -1: // the system is busy
		return Transient(category)
	case code == 45011: // too often in a minute
		return Rejected(category)
	case code == 45009: // the calls of a day
		return usedUp
	case code >= 40003 && code <= 40013, code >= 41002 && code <= 41009, code >= 43001 && code <= 43003, code == 48001, code == 50001:
		return Permanent(category)
	default:
		return Fact{}
	}
}

// xErrors classifies the first error of a list of X, whose codes are older than its statuses.
//
// https://docs.x.com/x-api/fundamentals/response-codes-and-errors
func xErrors(v reflect.Value, _ string) (f Fact, _ int, _ time.Duration) {
	list := field(v, "Errors")
	if list.Kind() != reflect.Slice || list.Len() == 0 {
		return f, 0, 0
	}
	code := number(field(list.Index(0), "Code"))
	switch category := "x_" + strconv.FormatInt(code, 10); code {
	case 88:
		f = Rejected(category)
	case 130, 131: // over capacity, an internal error
		f = Transient(category)
	case 185: // the posts of a day
		f = usedUp
	case 17, 32, 34, 50, 63, 64, 87, 89, 93, 99, 135, 136, 139, 144, 179, 187, 215, 220, 326:
		// what is not there, who may not, what is there already
		f = Permanent(category)
	}
	return f, 0, 0
}
