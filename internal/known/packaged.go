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
// fields. The paths are without the major version: see unversioned.
var packages = map[string]judge{
	// RPC.
	"connectrpc.com/connect":          connectError,
	"github.com/twitchtv/twirp":       twirpError,
	"go.temporal.io/api/serviceerror": temporalError,

	"go.etcd.io/etcd/api/v3rpc/rpctypes": etcd,

	// Brokers, mail, directories and files.
	"github.com/rabbitmq/amqp091-go":                   by("Code", amqpReply),
	"github.com/streadway/amqp":                        by("Code", amqpReply),
	"net/textproto":                                    by("Code", reply),            // Error
	"github.com/emersion/go-smtp":                      by("Code", reply),            // SMTPError
	"github.com/wneessen/go-mail":                      byMethod("ErrorCode", reply), // SendError
	"github.com/emersion/go-imap":                      byText("Code", imapCode),
	"github.com/go-ldap/ldap":                          by("ResultCode", ldapResult),
	"github.com/twmb/franz-go/pkg/kerr":                by("Code", Kafka),
	"github.com/confluentinc/confluent-kafka-go/kafka": byMethod("Code", librdkafka), // Error
	"github.com/IBM/sarama":                            itself(Kafka),                // KError
	"github.com/Shopify/sarama":                        itself(Kafka),
	"github.com/segmentio/kafka-go":                    itself(Kafka), // Error
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/internal/exported": byText("Code", serviceBus),
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azeventhubs/internal/exported":  byText("Code", serviceBus),
	"github.com/pkg/sftp":                by("Code", sftpStatus), // StatusError
	"golang.org/x/crypto/ssh":            sshError,
	"golang.org/x/crypto/ssh/knownhosts": always(Permanent("ssh_host_key")),

	"github.com/Azure/go-amqp/internal/encoding": byText("Condition", amqpCondition), // Error
	"github.com/eclipse/paho.golang/autopaho":    by("ReasonCode", mqttReason),       // ConnackError

	"github.com/go-playground/validator": always(Permanent("invalid")),

	// Connections.
	"github.com/quic-go/quic-go/internal/qerr": quicError,
	"github.com/quic-go/quic-go/http3":         by("ErrorCode", http3Code),

	"github.com/apache/pulsar-client-go/pulsar":               by("result", pulsarResult), // Error
	"github.com/apache/pulsar-client-go/pulsaradmin/pkg/rest": status("Code"),             // Error
	"mellium.im/xmpp/stanza":                                  xmppError,
	"mellium.im/xmpp/stream":                                  xmppError,
	"gosrc.io/xmpp/stanza":                                    xmppError,

	"github.com/centrifugal/centrifuge-go": by("Code", centrifugo),    // Error
	"github.com/gopcua/opcua/ua":           itself(opcUA),             // StatusCode
	"github.com/jcmturner/gokrb5/messages": by("ErrorCode", kerberos), // KRBError
	"github.com/digitalocean/go-libvirt":   by("Code", libvirt),       // Error

	// Databases.
	"gopkg.in/rethinkdb/rethinkdb-go":               rethinkDB,
	"go.mongodb.org/mongo-driver/mongo":             mongoError,
	"github.com/redis/go-redis/internal/proto":      redisReply,
	"github.com/redis/go-redis":                     redisReply,
	"github.com/gomodule/redigo/redis":              redisReply,
	"github.com/go-redis/redis/internal/proto":      redisReply,
	"github.com/mediocregopher/radix/resp/resp3":    redisReply, // SimpleError
	"github.com/valkey-io/valkey-go":                redisText,  // ValkeyError
	"github.com/redis/rueidis":                      redisText,  // RedisError
	"github.com/globalsign/mgo":                     mongoError,
	"gopkg.in/mgo":                                  mongoError,
	"github.com/sijms/go-ora/network":               by("ErrCode", Oracle),
	"github.com/godror/godror":                      byMethod("Code", Oracle),
	"github.com/apache/cassandra-gocql-driver":      byMethod("Code", cassandra),
	"github.com/gocql/gocql":                        byMethod("Code", cassandra),
	"github.com/ClickHouse/clickhouse-go/lib/proto": by("Code", clickHouse), // Exception
	"github.com/ClickHouse/ch-go":                   by("Code", clickHouse),
	"github.com/ClickHouse/ch-go/proto":             itself(clickHouse),

	"github.com/aerospike/aerospike-client-go": by("ResultCode", aerospike), // AerospikeError
	"github.com/couchbase/gocb":                couchbase,

	// Services.
	"gocloud.dev/internal/gcerr":                               by("Code", goCloud), // Error
	"github.com/openai/openai-go/internal/apierror":            conflicts("StatusCode"),
	"github.com/anthropics/anthropic-sdk-go/internal/apierror": conflicts("StatusCode"),
	"github.com/stripe/stripe-go":                              conflicts("HTTPStatusCode"),
	"github.com/adshao/go-binance/common":                      by("Code", binance),       // APIError
	"github.com/mrz1836/postmark":                              by("ErrorCode", postmark), // APIError
	"github.com/keighl/postmark":                               by("ErrorCode", postmark),
	"github.com/ncw/swift":                                     swift,    // Error
	"github.com/gotd/td/tgerr":                                 telegram, // Error

	"capnproto.org/go/capnp/exc":                          by("Type", capnp),      // Exception
	"github.com/plgd-dev/go-coap/message/status":          byMethod("Code", coap), // Status
	"github.com/goburrow/modbus":                          by("ExceptionCode", modbusException),
	"github.com/grid-x/modbus":                            by("ExceptionCode", modbusException),
	"github.com/simonvetter/modbus":                       modbusText,                   // Error
	"github.com/tarantool/go-tarantool":                   by("Code", tarantool),        // ServerError, ClientError
	"github.com/kurrent-io/KurrentDB-Client-Go/kurrentdb": by("code", kurrentDB),        // Error
	"github.com/apache/rocketmq-client-go/primitive":      by("ResponseCode", rocketMQ), // MQBrokerErr
	"github.com/nsqio/go-nsq":                             byText("Reason", nsqCode),    // ErrProtocol, ErrIdentify
	"github.com/btcsuite/btcd/btcjson":                    by("Code", bitcoin),          // RPCError
	"github.com/silenceper/wechat/util":                   by("ErrCode", weChat),        // CommonError
	"storj.io/drpc/drpcerr":                               by("code", drpc),
	"github.com/beanstalkd/go-beanstalk":                  beanstalk, // ConnError
	"github.com/rqlite/gorqlite":                          rqlite,    // StatementError
	"github.com/dghubble/go-twitter/twitter":              xErrors,   // APIError

	// Clients that have an HTTP status where others have another code.
	"google.golang.org/api/googleapi":                           status("Code"), // Error
	"google.golang.org/genai":                                   status("Code"), // APIError
	"github.com/nats-io/nats.go":                                status("Code"), // APIError
	"github.com/nats-io/nats.go/jetstream":                      jetStream,
	"github.com/arangodb/go-driver":                             status("Code"), // ArangoError
	"github.com/arangodb/go-driver/arangodb/shared":             status("Code"),
	"github.com/line/line-bot-sdk-go/linebot":                   status("Code"),   // APIError
	"github.com/mailgun/mailgun-go":                             status("Actual"), // UnexpectedResponseError
	"github.com/gophercloud/gophercloud":                        status("Actual"), // ErrUnexpectedResponseCode
	"github.com/hashicorp/consul/api":                           status("Code"),   // StatusError
	"github.com/hashicorp/vault/api":                            vault,            // ResponseError
	"github.com/go-openapi/runtime":                             status("Code"),   // APIError
	"github.com/gofiber/fiber":                                  status("Code"),   // Error
	"github.com/Nerzal/gocloak":                                 status("Code"),   // APIError
	"github.com/pinecone-io/go-pinecone/pinecone":               status("Code"),   // PineconeError
	"github.com/hetznercloud/hcloud-go/hcloud":                  hetzner,
	"github.com/go-telegram-bot-api/telegram-bot-api":           telegram,
	"gopkg.in/telebot":                                          telegram,
	"github.com/mymmrac/telego/telegoapi":                       telegram, // Error
	"github.com/PaulSonOfLars/gotgbot":                          telegram, // TelegramError
	"github.com/dropbox/dropbox-sdk-go-unofficial/dropbox/auth": dropbox,
}

// judgeOf returns what knows the errors of a package, or nil.
func judgeOf(path string) judge {
	path = unversioned(path)
	if judge, ok := packages[path]; ok {
		return judge
	}
	return driverOf(path)
}

// unversioned returns a path without major versions, because a new one has the same errors.
func unversioned(path string) string {
	for from := 0; ; {
		i := strings.Index(path[from:], "v")
		if i < 0 {
			return path
		}
		i += from
		end := i + 1
		for end < len(path) && path[end] >= '0' && path[end] <= '9' {
			end++
		}
		if from = end; end > i+1 && i > 0 && (path[i-1] == '/' || path[i-1] == '.') && (end == len(path) || path[end] == '/') {
			path, from = path[:i-1]+path[end:], i-1
		}
	}
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

// jetStream classifies an APIError by its status, and the variables for what is not there, which
// the server has not said.
func jetStream(v reflect.Value, name string) (Fact, int, time.Duration) {
	if name == "jsError" {
		switch text(field(v, "message")) {
		case "key not found", "key was deleted", "no keys found", "bucket not found", "object not found":
			return Permanent("not_found"), 0, 0
		}
	}
	return Fact{}, valid(number(field(v, "Code"))), 0
}

// telegram classifies the errors of bots and, with a 420, of the clients of users.
//
// https://core.telegram.org/bots/api#responseparameters, https://core.telegram.org/api/errors
func telegram(v reflect.Value, name string) (Fact, int, time.Duration) {
	status := valid(number(field(v, "Code")) | number(field(v, "ErrorCode")))
	seconds := max(number(field(v, "RetryAfter")), number(field(field(v, "Parameters"), "RetryAfter")),
		number(field(field(v, "ResponseParams"), "RetryAfter")))
	switch {
	case name == "FloodError":
		status = 429
	case status == 420:
		seconds = number(field(v, "Argument"))
	}
	return Fact{}, status, time.Duration(min(max(seconds, 0), mostSeconds)) * time.Second
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
	if name == "ResourceExhausted" && f.Class == RateLimited {
		f.Flags |= NotApplied
	}
	return f, 0, 0
}

// etcd classifies the EtcdError that says that there is no space, with the code of a rate limit.
func etcd(v reflect.Value, _ string) (f Fact, _ int, _ time.Duration) {
	if text(field(v, "desc")) == "etcdserver: mvcc: database space exceeded" {
		f = usedUp
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
