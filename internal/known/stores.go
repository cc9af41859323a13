package known

import (
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The error codes of Kafka that its protocol calls retriable, and those about the request
// itself. What else is not retriable is for the client of a group or a transaction.
//
// https://kafka.apache.org/protocol#protocol_error_codes
var (
	kafkaTransient = []int64{2, 3, 5, 6, 7, 8, 9, 13, 14, 15, 16, 19, 20, 41, 56, 70, 71, 72, 74, 75, 78, 80, 83, 84, 88, 100, 103, 106, 133}
	kafkaFinal     = []int64{10, 17, 18, 21, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 42, 43, 44, 53, 54, 58, 87}
)

const kafkaThrottled = 89

// librdkafka classifies the codes of Kafka and, below 0, its own.
//
// https://github.com/confluentinc/librdkafka/blob/master/src/rdkafka.h
func librdkafka(code int64) Fact {
	switch category := "kafka_" + strconv.FormatInt(code, 10); code {
	case -195, -193, -192, -187, -185, -166: // the network, a lookup, timeouts, no broker
		return Transient(category)
	case -184: // the local queue is full
		return Unapplied(category)
	default:
		return Kafka(code)
	}
}

// Kafka classifies a code of Kafka's protocol.
func Kafka(code int64) Fact {
	switch category := "kafka_" + strconv.FormatInt(code, 10); {
	case code == kafkaThrottled:
		return Throttled(category)
	case slices.Contains(kafkaTransient, code):
		return Transient(category)
	case slices.Contains(kafkaFinal, code):
		return Permanent(category)
	default:
		return Fact{}
	}
}

// mongoError classifies an error without a label, by the number of the server: of a command, or
// of the first of its writes.
func mongoError(v reflect.Value, _ string) (Fact, int, time.Duration) {
	code := number(field(v, "Code"))
	if writes := field(v, "WriteErrors"); code == 0 && writes.Kind() == reflect.Slice && writes.Len() > 0 {
		code = number(field(writes.Index(0), "Code"))
	}
	if code == 0 {
		code = number(field(field(v, "WriteConcernError"), "Code"))
	}
	return mongoCode(code), 0, 0
}

// mongoCode classifies a number of a server.
//
// https://github.com/mongodb/mongo/blob/master/src/mongo/base/error_codes.yml,
// https://github.com/mongodb/specifications/blob/master/source/retryable-writes/retryable-writes.md
func mongoCode(code int64) Fact {
	switch category := "mongo_" + strconv.FormatInt(code, 10); code {
	case 6, 7, 89, 91, 134, 189, 262, 9001, 10107, 11600, 11602, 13435, 13436, 384, 24, 64:
		// hosts, networks, shutdowns, elections, a lock that was not got in time
		return Transient(category)
	case 112, 244: // a conflict of writes, a transaction that was aborted
		return Unapplied(category)
	case 202, 462: // no room for more connections or requests
		return Throttled(category)
	case 2, 9, 11, 13, 14, 18, 20, 26, 27, 31, 48, 52, 53, 57, 59, 61, 66, 67, 68, 72, 73, 85, 86, 96, 115, 121, 166,
		197, 211, 292, 8000, 10334, 11000, 11001, 12582, 16755, 17280, 40415, 51091:
		// values, rights, names, keys, documents
		return Permanent(category)
	default:
		return Fact{}
	}
}

// Mongo reads the error labels of a MongoDB server.
//
// https://github.com/mongodb/specifications/tree/master/source/retryable-writes
func Mongo(has func(label string) bool) (v Fact) {
	switch {
	case has("SystemOverloadedError") && has("RetryableError"):
		v = Throttled("mongo_overloaded")
	case has("TransientTransactionError"): // the whole transaction
		v = Unapplied("mongo_transaction")
	case has("RetryableWriteError"), has("RetryableError"):
		v = Transient("mongo_transient")
	case has("UnknownTransactionCommitResult"): // the commit alone
		v = Transient("mongo_commit")
	default:
		return Fact{}
	}
	v.Flags = v.Flags.With(NotApplied, has("NoWritesPerformed"))
	return v
}

// redisReply classifies an error that a server of Redis or Valkey has replied: a string that
// begins with a code. The server has done nothing.
//
// https://redis.io/docs/latest/develop/reference/protocol-spec/#simple-errors
func redisReply(v reflect.Value, _ string) (Fact, int, time.Duration) {
	reply := text(v)
	if reply == "" {
		reply = text(field(v, "msg")) // of the types of go-redis since 9.17
	}
	if reply == "" {
		reply = text(field(v, "S")) // of radix
	}
	return Redis(reply), 0, 0
}

// redisText classifies an error of rueidis or valkey-go, whose text is the reply and no more.
func redisText(v reflect.Value, _ string) (Fact, int, time.Duration) {
	if isNil, ok := result(v.MethodByName("IsNil")); !ok || isNil.Kind() != reflect.Bool {
		return Fact{}, 0, 0
	} else if isNil.Bool() {
		return Permanent("not_found"), 0, 0
	}
	reply, _ := result(v.MethodByName("Error"))
	return Redis(text(reply)), 0, 0
}

// Redis classifies a reply, which begins with its code.
func Redis(reply string) (f Fact) {
	code, rest, _ := strings.Cut(reply, " ")
	switch code {
	case "LOADING", "READONLY", "CLUSTERDOWN", "TRYAGAIN", "MASTERDOWN", "NOREPLICAS", "BUSY":
		f = Unapplied("redis_" + strings.ToLower(code))
	case "OOM":
		f = Rejected("redis_oom")
	case "ERR":
		if f = Permanent("redis"); strings.HasPrefix(rest, "max number of clients reached") {
			f = Unapplied("redis_max_clients")
		}
	case "redis:": // no reply, but an error of the client
		if rest == "nil" {
			f = Permanent("not_found")
		}
	case "MOVED", "ASK": // a client for clusters follows them
		f = Permanent("redis")
		f.Flags = NotApplied
	case "WRONGTYPE", "NOAUTH", "WRONGPASS", "NOPERM", "NOSCRIPT", "EXECABORT", "BUSYGROUP", "NOGROUP", "BUSYKEY",
		"INVALIDOBJ", "NOPROTO", "CROSSSLOT", "DENIED", "MISCONF", "UNKILLABLE", "NOTBUSY":
		f = Permanent("redis")
	}
	return f
}

// tarantool classifies an error code of Tarantool or, from 0x4000 on, of its client.
//
// https://github.com/tarantool/tarantool/blob/master/src/box/errcode.h,
// https://pkg.go.dev/github.com/tarantool/go-tarantool/v3#pkg-constants
func tarantool(code int64) Fact {
	switch category := "tarantool_" + strconv.FormatInt(code, 10); code {
	case 0x4000, 0x4005: // not connected, the server shuts down: nothing was sent
		return Unapplied(category)
	case 0x4004: // the client's own limit
		return Rejected(category)
	case 2, 77, 78, 135, 0x4001, 0x4003, 0x4006: // memory, connections, timeouts
		return Transient(category)
	case 7, 97, 116: // read-only, a conflict that has aborted the transaction, not loaded yet
		return Unapplied(category)
	case 1, 3, 4, 5, 10, 12, 20, 23, 33, 34, 35, 36, 37, 38, 39, 42, 45, 46, 47, 48, 49, 51, 52, 69, 82, 83, 85, 94, 110:
		// arguments, keys, types, spaces, fields, rights
		return Permanent(category)
	default:
		return Fact{}
	}
}

// kurrentDB classifies an ErrorCode of KurrentDB. 12 and 13 are a refusal and a deleted stream, but in
// v1.0 an error of the server and a node that is not the leader.
//
// https://pkg.go.dev/github.com/kurrent-io/KurrentDB-Client-Go/kurrentdb#ErrorCode
func kurrentDB(code int64) Fact {
	switch category := "kurrentdb_" + strconv.FormatInt(code, 10); code {
	case 2, 6, 17, 18, 19: // a deadline, a connection, no leader, aborted, unavailable
		return Transient(category)
	case 1, 3, 4, 5, 7, 8, 9, 10, 11, 20: // features, rights, streams, versions, sizes, checks
		return Permanent(category)
	default:
		return Fact{}
	}
}
