package known

import "strconv"

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
