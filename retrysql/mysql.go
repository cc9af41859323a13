package retrysql

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-5ff3c98e/retry"
)

const mysqlInvalidConn = "mysql_invalid_conn"

// mysqlNumbers are the error numbers of MySQL, MariaDB and TiDB that are worth
// another attempt. Functions make the verdicts of their keys.
//
// https://dev.mysql.com/doc/mysql-errors/8.4/en/server-error-reference.html,
// https://mariadb.com/docs/server/reference/error-codes,
// https://docs.pingcap.com/tidb/stable/error-codes
var mysqlNumbers = map[int]func(category string) retry.Verdict{
	1213: anew, // deadlock
	1205: anew, // lock wait timeout, which rolls back the statement only
	1614: anew, // XA deadlock
	3101: anew, // rolled back by the group at the commit
	3572: anew, // NOWAIT, and the row is locked
	1206: anew, // the table of locks is full
	1020: anew, // MariaDB: changed since last read, with snapshot isolation

	1040: limited, // too many connections
	1203: limited, // the same of one user
	1226: limited, // a user's quota

	1053: again, // shutdown in progress
	1158: again, // network: read
	1159: again, // network: read timeout
	1160: again, // network: write
	1161: again, // network: write timeout
	1927: again, // MariaDB: connection was killed
	4031: again, // disconnected for being idle

	1290: anew, // read-only server, a demoted primary: new connection
	1836: anew, // read-only mode
	1792: anew, // read-only transaction
	1209: anew, // read-only, an old number

	8002: anew,  // TiDB: SELECT FOR UPDATE cannot be retried inside
	8022: anew,  // TiDB: commit failed and was rolled back
	8028: anew,  // TiDB: the schema changed
	9001: again, // TiDB: PD timeout
	9002: again, // TiDB: TiKV timeout
	9003: again, // TiDB: TiKV is busy
	9004: again, // TiDB: resolving locks timed out
	9005: again, // TiDB: region unavailable
	9006: again, // TiDB: garbage collection too early
	9007: anew,  // TiDB: write conflict
}

// mysqlFinals are numbers that come again: those whose SQLSTATE says nothing,
// and common ones for texts and drivers that do not tell it.
var mysqlFinals = []int{
	1317, // interrupted by KILL QUERY
	3024, // max_execution_time
	1969, // MariaDB: max_statement_time
	1364, // no default value
	1366, // not a value of that type

	1044, 1045, 1048, 1049, 1054, 1062, 1064, 1142, 1143, 1146, 1169, 1216, 1217, 1264, 1406, 1451, 1452,
}

// mysqlStates are the first characters of the SQLSTATEs of errors that come
// again: cardinality, data, constraints, authorization, transaction state, names,
// features, syntax.
var mysqlStates = []string{"21", "22", "23", "28", "25", "3D", "0A", "42"}

func mysqlVerdict(number int, state string) retry.Verdict {
	category := "mysql_" + strconv.Itoa(number)
	if verdict, ok := mysqlNumbers[number]; ok {
		return verdict(category)
	}
	switch {
	case slices.Contains(mysqlFinals, number):
		return final(category)
	case state == "40001":
		return anew(category)
	case len(state) == 5 && slices.Contains(mysqlStates, state[:2]):
		return final(category)
	default:
		return retry.Verdict{Category: category}
	}
}

// mysqlError reads the error types of go-sql-driver (MySQLError), go-mysql-org
// (MyError) and mymysql (Error).
func mysqlError(t reflect.Type, err error) (number int, state string, ok bool) {
	field := "Code"
	switch t.Name() {
	case "MySQLError":
		field = "Number"
	case "MyError", "Error":
	default:
		return 0, "", false
	}
	e := reflect.Indirect(reflect.ValueOf(err))
	if e.Kind() != reflect.Struct {
		return 0, "", false
	}
	n := e.FieldByName(field)
	if !n.IsValid() || !n.CanUint() || n.Uint() == 0 || n.Uint() > 1<<16-1 {
		return 0, "", false
	}
	return int(n.Uint()), mysqlState(e), true
}

// mysqlState reads the five bytes of go-sql-driver, or the text of go-mysql-org.
func mysqlState(e reflect.Value) string {
	if s := e.FieldByName("State"); s.IsValid() && s.Kind() == reflect.String {
		return s.String()
	}
	s := e.FieldByName("SQLState")
	if !s.IsValid() || s.Kind() != reflect.Array || s.Type().Elem().Kind() != reflect.Uint8 {
		return ""
	}
	var b strings.Builder
	for i := range s.Len() {
		b.WriteByte(byte(s.Index(i).Uint()))
	}
	return b.String()
}

// mysqlText reads the text of go-sql-driver's errors: "Error 1213 (40001): …" or
// "Error 1213: …".
func mysqlText(text string) (number int, state string, ok bool) {
	head, _, ok := strings.Cut(text, ": ")
	if !ok {
		return 0, "", false
	}
	head, ok = strings.CutPrefix(head, "Error ")
	if !ok {
		return 0, "", false
	}
	digits, state, stated := strings.Cut(head, " (")
	if stated {
		state, ok = strings.CutSuffix(state, ")")
		if !ok || len(state) != 5 {
			return 0, "", false
		}
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	return int(n), state, err == nil
}
