package known

import (
	"reflect"
	"strconv"
	"time"
)

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
