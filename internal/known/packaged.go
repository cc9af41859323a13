package known

import (
	"reflect"
	"strconv"
	"strings"
	"time"
)

// judge classifies an error by fields and methods that mean something only in its package: it
// returns the fact, or the HTTP status, and the wait.
type judge func(v reflect.Value, name string) (Fact, int, time.Duration)

// packages has a row for each package whose errors are known by more than the names of their
// fields.
var packages = map[string]judge{
	// RPC.
	"connectrpc.com/connect":          connectError,
	"connectrpc.com/connect/v2":       connectError,
	"github.com/twitchtv/twirp":       twirpError,
	"go.temporal.io/api/serviceerror": temporalError,

	// Brokers, mail, directories and files.
	"github.com/rabbitmq/amqp091-go":    by("Code", amqpReply),
	"github.com/streadway/amqp":         by("Code", amqpReply),
	"net/textproto":                     by("Code", reply),            // Error
	"github.com/emersion/go-smtp":       by("Code", reply),            // SMTPError
	"github.com/wneessen/go-mail":       byMethod("ErrorCode", reply), // SendError
	"github.com/emersion/go-imap/v2":    byText("Code", imapCode),
	"github.com/go-ldap/ldap/v3":        by("ResultCode", ldapResult),
	"github.com/twmb/franz-go/pkg/kerr": by("Code", kafka),
	"github.com/IBM/sarama":             itself(kafka), // KError
	"github.com/segmentio/kafka-go":     itself(kafka), // Error
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/internal/exported": byText("Code", serviceBus),
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azeventhubs/internal/exported":  byText("Code", serviceBus),
	"github.com/pkg/sftp":                by("Code", sftpStatus), // StatusError
	"golang.org/x/crypto/ssh":            sshError,
	"golang.org/x/crypto/ssh/knownhosts": always(Permanent("ssh_host_key")),

	"github.com/Azure/go-amqp/internal/encoding": byText("Condition", amqpCondition), // Error
	"github.com/eclipse/paho.golang/autopaho":    by("ReasonCode", mqttReason),       // ConnackError

	"github.com/go-playground/validator/v10": always(Permanent("invalid")),

	// Connections.
	"github.com/gorilla/websocket":             by("Code", closeCode), // CloseError
	"github.com/coder/websocket":               by("Code", closeCode),
	"github.com/quic-go/quic-go/internal/qerr": quicError,
	"github.com/quic-go/quic-go/http3":         by("ErrorCode", http3Code),

	// Databases.
	"go.mongodb.org/mongo-driver/mongo":                mongoError,
	"go.mongodb.org/mongo-driver/v2/mongo":             mongoError,
	"github.com/redis/go-redis/v9/internal/proto":      redisReply,
	"github.com/redis/go-redis/v9":                     redisReply,
	"github.com/gomodule/redigo/redis":                 redisReply,
	"github.com/sijms/go-ora/v2/network":               by("ErrCode", Oracle),
	"github.com/godror/godror":                         byMethod("Code", Oracle),
	"github.com/apache/cassandra-gocql-driver/v2":      byMethod("Code", cassandra),
	"github.com/gocql/gocql":                           byMethod("Code", cassandra),
	"github.com/ClickHouse/clickhouse-go/v2/lib/proto": by("Code", clickHouse), // Exception
	"github.com/ClickHouse/ch-go":                      by("Code", clickHouse),
	"github.com/ClickHouse/ch-go/proto":                itself(clickHouse),

	"github.com/aerospike/aerospike-client-go/v7": by("ResultCode", aerospike), // AerospikeError
	"github.com/aerospike/aerospike-client-go/v8": by("ResultCode", aerospike),
	"github.com/couchbase/gocb/v2":                couchbase,

	// Clients that have an HTTP status where others have another code.
	"google.golang.org/api/googleapi":                              status("Code"), // Error
	"google.golang.org/genai":                                      status("Code"), // APIError
	"github.com/nats-io/nats.go":                                   status("Code"), // APIError
	"github.com/nats-io/nats.go/jetstream":                         status("Code"), // APIError
	"github.com/arangodb/go-driver":                                status("Code"), // ArangoError
	"github.com/arangodb/go-driver/v2/arangodb/shared":             status("Code"),
	"github.com/line/line-bot-sdk-go/v7/linebot":                   status("Code"), // APIError
	"github.com/line/line-bot-sdk-go/v8/linebot":                   status("Code"),
	"github.com/mailgun/mailgun-go/v4":                             status("Actual"), // UnexpectedResponseError
	"github.com/mailgun/mailgun-go/v5":                             status("Actual"),
	"github.com/gophercloud/gophercloud":                           status("Actual"), // ErrUnexpectedResponseCode
	"github.com/gophercloud/gophercloud/v2":                        status("Actual"),
	"github.com/hashicorp/consul/api":                              status("Code"), // StatusError
	"github.com/hashicorp/vault/api":                               vault,          // ResponseError
	"github.com/go-openapi/runtime":                                status("Code"), // APIError
	"github.com/Nerzal/gocloak/v13":                                status("Code"), // APIError
	"github.com/pinecone-io/go-pinecone/v4/pinecone":               status("Code"), // PineconeError
	"github.com/hetznercloud/hcloud-go/v2/hcloud":                  hetzner,
	"github.com/go-telegram-bot-api/telegram-bot-api/v5":           telegram,
	"gopkg.in/telebot.v3":                                          telegram,
	"gopkg.in/telebot.v4":                                          telegram,
	"github.com/dropbox/dropbox-sdk-go-unofficial/v6/dropbox/auth": dropbox,
}

// by classifies by the number in a field.
func by(name string, of func(int64) Fact) judge {
	return func(v reflect.Value, _ string) (Fact, int, time.Duration) { return of(number(field(v, name))), 0, 0 }
}

// byText classifies by the text in a field.
func byText(name string, of func(string) Fact) judge {
	return func(v reflect.Value, _ string) (Fact, int, time.Duration) { return of(text(field(v, name))), 0, 0 }
}

// byMethod classifies by the number that a method returns. The linker keeps methods with these
// names.
func byMethod(name string, of func(int64) Fact) judge {
	return func(v reflect.Value, _ string) (Fact, int, time.Duration) {
		method := v.MethodByName("Code")
		if name == "ErrorCode" {
			method = v.MethodByName("ErrorCode")
		}
		if code, ok := result(method); ok {
			return of(number(code)), 0, 0
		}
		return Fact{}, 0, 0
	}
}

// itself classifies an error that is a number.
func itself(of func(int64) Fact) judge {
	return func(v reflect.Value, _ string) (Fact, int, time.Duration) { return of(number(v)), 0, 0 }
}

// always is for packages all of whose errors are of one kind.
func always(f Fact) judge {
	return func(reflect.Value, string) (Fact, int, time.Duration) { return f, 0, 0 }
}

// status is for errors with an HTTP status in the named field.
func status(name string) judge {
	return func(v reflect.Value, _ string) (Fact, int, time.Duration) {
		return Fact{}, valid(number(field(v, name))), 0
	}
}

func telegram(v reflect.Value, name string) (Fact, int, time.Duration) {
	status, seconds := valid(number(field(v, "Code"))), number(field(v, "RetryAfter"))
	if name == "FloodError" {
		status = 429
	}
	return Fact{}, status, max(time.Duration(seconds)*time.Second, 0)
}

// dropbox classifies the RateLimitAPIError, which has the seconds of the body and no status.
func dropbox(v reflect.Value, name string) (Fact, int, time.Duration) {
	if name != "RateLimitAPIError" {
		return Fact{}, 0, 0
	}
	seconds := number(field(field(v, "RateLimitError"), "RetryAfter"))
	return Fact{}, 429, max(time.Duration(seconds)*time.Second, 0)
}

// hetzner classifies an Error, whose code says more than its status.
//
// https://docs.hetzner.cloud/reference/cloud#errors
func hetzner(v reflect.Value, _ string) (Fact, int, time.Duration) {
	switch code := text(field(v, "Code")); code {
	case "":
		return Fact{}, 0, 0
	case "rate_limit_exceeded":
		return Fact{}, 429, 0
	case "conflict", "locked", "robot_unavailable", "resource_unavailable", "maintenance":
		return Transient("hcloud_" + code), 0, 0
	case "server_error", "bad_gateway":
		return Fact{}, 502, 0
	case "timeout":
		return Fact{}, 504, 0
	case "unknown_error", "service_error":
		return Fact{}, 0, 0
	default:
		return Permanent("hcloud_" + code), 0, 0
	}
}

// twirpError classifies by the name of the code, which is that of gRPC.
//
// https://twitchtv.github.io/twirp/docs/errors.html
func twirpError(v reflect.Value, _ string) (Fact, int, time.Duration) {
	code, ok := result(v.MethodByName("Code"))
	if !ok {
		return Fact{}, 0, 0
	}
	switch name := text(code); name {
	case "malformed", "bad_route":
		return Permanent("grpc_" + name), 0, 0
	case "resource_exhausted": // of HTTP's status 429
		return Rejected("grpc_resource_exhausted"), 0, 0
	case "":
		return Fact{}, 0, 0
	default:
		for _, f := range grpcCodes {
			if strings.TrimPrefix(f.Category, "grpc_") == strings.Replace(name, "canceled", "cancelled", 1) {
				return f, 0, 0
			}
		}
		return Fact{}, 0, 0
	}
}

// temporalError classifies by the status that every error of Temporal's server has. What it
// refuses for load is told by RetryInfo, or is a limit for each second.
func temporalError(v reflect.Value, name string) (Fact, int, time.Duration) {
	status, ok := result(v.MethodByName("Status"))
	if !ok {
		return Fact{}, 0, 0
	}
	f := grpcStatus(status)
	if name == "ResourceExhausted" && f.Class == Final {
		f = Rejected(f.Category)
	}
	return f, 0, 0
}

// imapCode classifies the response code of an IMAP server.
//
// https://www.rfc-editor.org/rfc/rfc5530#section-3, https://www.rfc-editor.org/rfc/rfc9208
func imapCode(code string) Fact {
	switch category := "imap_" + strings.ToLower(code); code {
	case "UNAVAILABLE", "INUSE", "SERVERBUG":
		return Transient(category)
	case "AUTHENTICATIONFAILED", "AUTHORIZATIONFAILED", "EXPIRED", "PRIVACYREQUIRED", "CONTACTADMIN", "NOPERM",
		"CORRUPTION", "CLIENTBUG", "CANNOT", "LIMIT", "OVERQUOTA", "ALREADYEXISTS", "NONEXISTENT", "BADCHARSET",
		"PARSE", "TRYCREATE", "TOOBIG":
		return Permanent(category)
	default:
		return Fact{}
	}
}

// serviceBus classifies the codes of Service Bus and Event Hubs. A lock that is lost needs the
// message to be received again.
//
// https://pkg.go.dev/github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus#Code
func serviceBus(code string) Fact {
	switch code {
	case "connlost":
		return Transient("conn_closed")
	case "timeout":
		return Transient("timeout")
	case "unauthorized":
		return Permanent("permission")
	case "notfound":
		return Permanent("not_found")
	case "locklost", "closed", "ownershiplost":
		return Permanent(code)
	default:
		return Fact{}
	}
}

// sftpStatus classifies the status of an SFTP server.
//
// https://datatracker.ietf.org/doc/html/draft-ietf-secsh-filexfer-02#section-7
func sftpStatus(code int64) Fact {
	switch code {
	case 2:
		return Permanent("not_found")
	case 3:
		return Permanent("permission")
	case 5:
		return Permanent("invalid")
	case 6, 7:
		return Transient("conn_closed")
	case 8:
		return Permanent("unsupported")
	default:
		return Fact{}
	}
}

// vault classifies the statuses that mean something else in Vault: a node has not got yet what
// the request needs, or is a standby.
//
// https://developer.hashicorp.com/vault/api-docs#http-status-codes
func vault(v reflect.Value, _ string) (Fact, int, time.Duration) {
	switch code := number(field(v, "StatusCode")); code {
	case 412, 472, 473:
		return Unapplied("http_" + strconv.FormatInt(code, 10)), 0, 0
	default:
		return Fact{}, 0, 0
	}
}

// sshError classifies an OpenChannelError, or what the two sides could not agree on.
func sshError(v reflect.Value, name string) (Fact, int, time.Duration) {
	switch name {
	case "OpenChannelError":
		return sshChannel(number(field(v, "Reason"))), 0, 0
	case "AlgorithmNegotiationError", "PassphraseMissingError", "ServerAuthError", "BannerError":
		return Permanent("ssh"), 0, 0
	default:
		return Fact{}, 0, 0
	}
}

// sshChannel classifies why an SSH server has not opened a channel.
//
// https://www.rfc-editor.org/rfc/rfc4254#section-5.1
func sshChannel(reason int64) Fact {
	switch category := "ssh_" + strconv.FormatInt(reason, 10); reason {
	case 2, 4: // connect failed, resource shortage
		return Unapplied(category)
	case 1, 3: // prohibited, unknown type
		return Permanent(category)
	default:
		return Fact{}
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

// cassandra classifies an error code of Cassandra's native protocol.
//
// https://github.com/apache/cassandra/blob/trunk/doc/native_protocol_v5.spec
func cassandra(code int64) Fact {
	switch category := "cassandra_" + strconv.FormatInt(code, 16); code {
	case 0x1000: // unavailable: too few replicas live, so none was asked
		return Unapplied(category)
	case 0x1001: // overloaded
		return Rejected(category)
	case 0x1002: // bootstrapping
		return Unapplied(category)
	case 0x0000, 0x1003, 0x1100, 0x1200, 0x1300, 0x1500, 0x1700: // server error, truncation, timeouts and failures
		return Transient(category)
	case 0x000a, 0x0100, 0x1400, 0x2000, 0x2100, 0x2200, 0x2300, 0x2400:
		return Permanent(category)
	default:
		return Fact{}
	}
}

// clickHouse classifies an error code of ClickHouse.
//
// https://github.com/ClickHouse/ClickHouse/blob/master/src/Common/ErrorCodes.cpp
func clickHouse(code int64) Fact {
	switch category := "clickhouse_" + strconv.FormatInt(code, 10); code {
	case 201: // a user's quota, for an hour or a day
		return Permanent(category)
	case 202, 252: // too many simultaneous queries, too many parts
		return Throttled(category)
	case 3, 159, 203, 209, 210, 225, 236, 241, 242, 279, 285, 319, 425, 439, 999, 1000:
		// a broken connection, timeouts, no ZooKeeper, memory, read-only replicas, too few replicas live
		return Transient(category)
	case 6, 16, 20, 27, 36, 42, 43, 44, 46, 47, 53, 57, 60, 62, 81, 82, 115, 164, 192, 193, 194, 195, 215, 291, 386,
		497, 516:
		return Permanent(category)
	default:
		return Fact{}
	}
}

// aerospike classifies a result code of Aerospike or its client.
//
// https://aerospike.com/docs/develop/learn/error-codes
func aerospike(code int64) Fact {
	switch category := "aerospike_" + strconv.FormatInt(code, 10); code {
	case -18, -15, -11, -8, 1, 8, 9, 11, 14, 32: // network, errors, connections, memory, timeout, partition, busy keys
		return Transient(category)
	case 18: // device overload
		return Throttled(category)
	case -13, -10, -7, -2, -1, 2, 3, 4, 5, 6, 7, 10, 12, 13, 16, 17, 19, 20, 21, 22, 23, 24, 25, 26, 27:
		return Permanent(category)
	default:
		if code >= 51 && code <= 81 { // of users and roles
			return Permanent(category)
		}
		return Fact{}
	}
}

// couchbase knows the error that all timeouts of the client are.
func couchbase(_ reflect.Value, name string) (Fact, int, time.Duration) {
	if name == "TimeoutError" {
		return Transient("timeout"), 0, 0
	}
	return Fact{}, 0, 0
}

// amqpCondition classifies a condition of AMQP 1.0, or of Service Bus.
//
// https://docs.oasis-open.org/amqp/core/v1.0/os/amqp-core-transport-v1.0-os.html,
// https://learn.microsoft.com/azure/service-bus-messaging/service-bus-amqp-troubleshoot
func amqpCondition(condition string) Fact {
	switch condition {
	case "amqp:connection:forced", "amqp:link:detach-forced", "amqp:internal-error", "amqp:link:stolen",
		"amqp:resource-locked", "com.microsoft:timeout", "com.microsoft:operation-cancelled":
		return Transient(condition)
	case "com.microsoft:server-busy":
		return Rejected(condition)
	case "amqp:unauthorized-access", "amqp:not-found", "amqp:not-allowed", "amqp:not-implemented",
		"amqp:precondition-failed", "amqp:resource-deleted", "amqp:invalid-field", "amqp:decode-error", "amqp:link:message-size-exceeded",
		"amqp:resource-limit-exceeded", "com.microsoft:auth-failed", "com.microsoft:entity-disabled":
		return Permanent(condition)
	default:
		return Fact{}
	}
}

// mqttReason classifies why a broker of MQTT 5 has refused a connection.
//
// https://docs.oasis-open.org/mqtt/mqtt/v5.0/os/mqtt-v5.0-os.html#_Toc3901079
func mqttReason(code int64) Fact {
	switch category := "mqtt_" + strconv.FormatInt(code, 16); code {
	case 0x80, 0x83, 0x88: // unspecified, of the implementation, unavailable
		return Transient(category)
	case 0x89, 0x97, 0x9f: // busy, quota, connection rate
		return Rejected(category)
	case 0x81, 0x82, 0x84, 0x85, 0x86, 0x87, 0x8a, 0x8c, 0x90, 0x95, 0x99, 0x9a, 0x9b, 0x9c, 0x9d:
		return Permanent(category)
	default:
		return Fact{}
	}
}
