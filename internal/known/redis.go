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
func redisReply(v reflect.Value, _ string) (f Fact, _ int, _ time.Duration) {
	reply := text(v)
	if reply == "" {
		reply = text(field(v, "msg")) // of the types of go-redis since 9.17
	}
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
	case "MOVED", "ASK": // a client for clusters follows them
		f = Permanent("redis")
		f.Flags = NotApplied
	case "WRONGTYPE", "NOAUTH", "WRONGPASS", "NOPERM", "NOSCRIPT", "EXECABORT", "BUSYGROUP", "NOGROUP", "BUSYKEY",
		"INVALIDOBJ", "NOPROTO", "CROSSSLOT", "DENIED", "MISCONF", "UNKILLABLE", "NOTBUSY":
		f = Permanent("redis")
	}
	return f, 0, 0
}
