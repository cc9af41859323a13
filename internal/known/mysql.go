package known

import (
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// mysqlNumbers has the error numbers of MySQL, MariaDB and TiDB that are worth
// another attempt. The functions make facts with categories named after the
// numbers.
//
// https://dev.mysql.com/doc/mysql-errors/8.4/en/server-error-reference.html,
// https://mariadb.com/docs/server/reference/error-codes,
// https://docs.pingcap.com/tidb/stable/error-codes
var mysqlNumbers = map[int]func(category string) Fact{
	1213: Unapplied, // deadlock
	1205: Unapplied, // lock wait timeout, which rolls back the statement only
	1614: Unapplied, // XA deadlock
	1613: Unapplied, // XA branch rolled back for its time
	1402: Unapplied, // XA branch rolled back
	3058: Unapplied, // deadlock of GET_LOCK, whose locks outlive a rollback: new connection
	3132: Unapplied, // deadlock of the locking service: new connection
	3101: Unapplied, // rolled back by the group at the commit
	3572: Unapplied, // NOWAIT, and the row is locked
	1206: Unapplied, // the table of locks is full
	1637: Unapplied, // too many concurrent transactions
	3168: Transient, // the server is not available
	1020: Unapplied, // MariaDB: changed since last read, with snapshot isolation
	1412: Unapplied, // the table's definition changed after the snapshot
	1615: Unapplied, // a prepared statement whose tables changed too often meanwhile

	1040: Rejected, // too many connections
	1203: Rejected, // the same of one user
	1226: Rejected, // a user's quota

	1047: Transient, // Galera: the node has not joined, or is cut off from the cluster: new connection
	3100: Transient, // Group Replication: it could not be sent to the group, or no answer came
	3796: Unapplied, // Group Replication: the member is not online
	3797: Unapplied, // Group Replication: no answer to the wait before it
	3798: Unapplied, // Group Replication: earlier ones do not end
	3799: Unapplied, // Group Replication: the member is in error

	1053: Transient, // shutdown in progress
	1080: Transient, // a connection closed by force, in a shutdown
	1152: Transient, // connection aborted
	1184: Transient, // the same, while it was new
	1037: Transient, // out of memory
	1041: Transient, // out of memory
	1297: Transient, // NDB: a temporary error, with a number of its own
	1158: Transient, // network: read
	1159: Transient, // network: read timeout
	1160: Transient, // network: write
	1161: Transient, // network: write timeout
	1927: Transient, // MariaDB: connection was killed
	4031: Transient, // disconnected for being idle
	2002: Transient, // from a proxy: no connection to the server, by socket
	2003: Transient, // from a proxy: no connection to the server
	2006: Transient, // from a proxy: the server has gone away
	2013: Transient, // from a proxy: lost during a statement

	1290: Unapplied, // read-only server, a demoted primary: new connection
	1836: Unapplied, // read-only mode
	1792: Unapplied, // read-only transaction
	1209: Unapplied, // read-only, an old number

	8005: Unapplied, // TiDB: write conflict
	8027: Transient, // TiDB: it does not know the newest schema
	8120: Transient, // TiDB: no timestamp to begin with
	8002: Unapplied, // TiDB: SELECT FOR UPDATE cannot be retried inside
	8022: Unapplied, // TiDB: commit failed and was rolled back
	8028: Unapplied, // TiDB: the schema changed
	8020: Unapplied, // TiDB: a table is locked
	8229: Unapplied, // TiDB: the transaction was idle for too long
	9501: Unapplied, // RDS Proxy: no connection within the time to borrow one
	9001: Transient, // TiDB: PD timeout
	9002: Transient, // TiDB: TiKV timeout
	9003: Transient, // TiDB: TiKV is busy
	9004: Transient, // TiDB: resolving locks timed out
	9005: Transient, // TiDB: region unavailable
	9006: Transient, // TiDB: garbage collection too early
	9007: Unapplied, // TiDB: write conflict
	9008: Transient, // TiDB: too many requests to TiKV
	9010: Transient, // TiDB: TiKV cannot process a raft log
	9012: Transient, // TiDB: TiFlash timeout
	9013: Transient, // TiDB: TiFlash is busy
}

// mysqlFinals has error numbers that another attempt cannot help: those whose
// SQLSTATE does not tell, and common ones for drivers without the SQLSTATE.
var mysqlFinals = []int{
	1153, // a packet larger than max_allowed_packet, with the SQLSTATE of a lost connection
	1129, // a host is blocked until FLUSH HOSTS
	1021, // the disk is full
	1114, // a table is full
	1093, // a table that is updated and read
	1317, // interrupted by KILL QUERY
	3024, // max_execution_time
	1969, // MariaDB: max_statement_time
	1364, // no default value
	1366, // not a value of that type
	3819, // a CHECK, which has the SQLSTATE HY000
	4025, // MariaDB: a CHECK
	3140, // not a JSON document
	8004, // TiDB: a transaction that is too large
	8025, // TiDB: a row that is too large
	8175, // TiDB: a query beyond its memory

	1044, 1045, 1048, 1049, 1054, 1062, 1064, 1142, 1143, 1146, 1169, 1216, 1217, 1264, 1292, 1305, 1406, 1418, 1419, 1451,
	1452, 3105, 3730, 3780,
}

// mysqlStates has the first characters of the SQLSTATEs that another attempt
// cannot help: cardinality, data, constraints, authorization, transaction state,
// names, features, syntax.
var mysqlStates = []string{"21", "22", "23", "28", "25", "3D", "0A", "42"}

// MySQL classifies an error number of MySQL, MariaDB and TiDB with its SQLSTATE, which
// may be empty.
func MySQL(number int, state string) Fact {
	category := "mysql_" + strconv.Itoa(number)
	if fact, ok := mysqlNumbers[number]; ok {
		return fact(category)
	}
	switch {
	case slices.Contains(mysqlFinals, number):
		return Permanent(category)
	case state == "40001":
		return Unapplied(category)
	case len(state) == 5 && state[:2] == "08": // of the connection
		return Transient(category)
	case len(state) == 5 && slices.Contains(mysqlStates, state[:2]):
		return Permanent(category)
	default:
		return Fact{Category: category}
	}
}

// driverOf returns what knows the errors of a driver of MySQL or SQLite, of which there are many
// forks, by the end of its path, or nil.
func driverOf(pkg string) judge {
	switch path.Base(pkg) {
	case "mysql":
		return mysqlDriver
	case "sqlite", "sqlite3", "go-sqlite", "go-sqlite3":
		return sqliteDriver
	default:
		return nil
	}
}

// mysqlDriver classifies the errors of go-sql-driver (MySQLError), go-mysql-org (MyError) and
// mymysql (Error).
func mysqlDriver(v reflect.Value, name string) (Fact, int, time.Duration) {
	code := "Code"
	switch name {
	case "MySQLError":
		code = "Number"
	case "MyError", "Error":
	default:
		return Fact{}, 0, 0
	}
	n := field(v, code)
	if !n.IsValid() || !n.CanUint() || n.Uint() == 0 || n.Uint() > 1<<16-1 {
		return Fact{}, 0, 0
	}
	return MySQL(int(n.Uint()), mysqlState(v)), 0, 0
}

// mysqlState reads the text of go-mysql-org, or the five bytes of go-sql-driver.
func mysqlState(v reflect.Value) string {
	if s := text(field(v, "State")); s != "" {
		return s
	}
	s := field(v, "SQLState")
	if !s.IsValid() || s.Kind() != reflect.Array || s.Type().Elem().Kind() != reflect.Uint8 {
		return ""
	}
	var b strings.Builder
	for i := range s.Len() {
		b.WriteByte(byte(s.Index(i).Uint()))
	}
	return b.String()
}

// sqliteDriver classifies the errors of three drivers: fields of mattn, Code() int of modernc,
// ExtendedCode() of a type of its own of ncruces. The codes of mattn and ncruces are errors
// themselves.
func sqliteDriver(v reflect.Value, name string) (Fact, int, time.Duration) {
	var code int64
	switch name {
	case "ErrorCode", "ExtendedErrorCode", "ErrNo", "ErrNoExtended":
		code = number(v)
	case "Error":
		code = sqliteCode(v)
	}
	const most = 1 << 30
	if code <= 0 || code > most {
		return Fact{}, 0, 0
	}
	return SQLite(int(code)), 0, 0
}

// sqliteCode reads the extended code, or else the code. The names of the methods are constants,
// so that the linker still drops the methods that nobody calls.
func sqliteCode(v reflect.Value) int64 {
	for _, name := range [...]string{"ExtendedCode", "Code"} {
		if code := number(field(v, name)); code > 0 {
			return code
		}
	}
	if code, ok := result(v.MethodByName("ExtendedCode")); ok {
		return number(code)
	}
	if code, ok := result(v.MethodByName("Code")); ok {
		return number(code)
	}
	return 0
}

// rqlite classifies the StatementError of gorqlite, whose codes are SQLite's. Other statements of the
// request may have taken effect.
func rqlite(v reflect.Value, _ string) (f Fact, _ int, _ time.Duration) {
	codes := field(v, "SQLite")
	for _, name := range [...]string{"ExtendedCode", "Code"} {
		if code := number(field(codes, name)); code > 0 && code <= 1<<16 && f == (Fact{}) {
			f = SQLite(int(code))
		}
	}
	f.Flags &^= NotApplied
	return f, 0, 0
}
