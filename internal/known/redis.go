package known

import (
	"reflect"
	"strings"
	"time"
)

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
	return redisCode(reply), 0, 0
}

// redisText classifies an error of rueidis or valkey-go, whose text is the reply and no more.
func redisText(v reflect.Value, _ string) (Fact, int, time.Duration) {
	if isNil, ok := result(v.MethodByName("IsNil")); !ok || isNil.Kind() != reflect.Bool {
		return Fact{}, 0, 0
	} else if isNil.Bool() {
		return Permanent("not_found"), 0, 0
	}
	reply, _ := result(v.MethodByName("Error"))
	return redisCode(text(reply)), 0, 0
}

func redisCode(reply string) (f Fact) {
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
	case "redis:": // no reply, but that of the client
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
