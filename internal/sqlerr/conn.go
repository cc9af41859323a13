package sqlerr

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"strings"
	"time"

	"github.com/seed-5ff3c98e/retry"
)

// drainTime bounds how long the closing of idle connections may take. It
// blocks only if another goroutine takes them first.
const drainTime = 100 * time.Millisecond

// Elsewhere reports whether another server, or a new connection to this one, is likely to take
// what this one has refused. The idle connections lead to the same server.
func Elsewhere(v retry.Verdict) bool {
	return v.Category == NotHere && v.Class == retry.Retryable || refused(v) || ReadOnly(v)
}

// Discard closes a connection for good.
func Discard(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
}

// Drain closes the connections that are idle now, and leaves those in use alone.
func Drain(ctx context.Context, db *sql.DB) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime)
	defer cancel()
	for range db.Stats().Idle {
		if db.Stats().Idle == 0 {
			return // another goroutine has it
		}
		conn, err := db.Conn(ctx)
		if err != nil {
			return
		}
		Discard(conn)
		_ = conn.Close()
	}
}

// ReadOnly reports whether the server takes no writes, usually because it was
// demoted.
func ReadOnly(v retry.Verdict) bool {
	switch v.Category {
	case ReadOnlyTx, "mysql_1290", "mysql_1836", "mysql_1792", "mysql_1209", "mssql_3906":
		return true
	default:
		return false
	}
}

// refused reports whether the server takes no statements, because it has left its cluster
// or has no role in it.
func refused(v retry.Verdict) bool {
	switch v.Category {
	case "mysql_1047", "mysql_3796", "mysql_3797", "mysql_3798", "mysql_3799",
		"mssql_976", "mssql_978", "mssql_982", "mssql_983":
		return true
	default:
		return false
	}
}

// Stale reports whether the connection is no longer usable, or soon will not
// be, or has kept what a rollback does not undo.
func Stale(v retry.Verdict) bool {
	switch v.Category {
	case BadConn, InvalidConn, "sql_26000", "sql_42P05", "sql_25P03",
		"mysql_1053", "mysql_1080", "mysql_1152", "mysql_1184", "mysql_2006", "mysql_2013",
		"mysql_1158", "mysql_1159", "mysql_1160", "mysql_1161", "mysql_1927", "mysql_4031",
		"mysql_3058", "mysql_3132", // it still has the locks
		"mssql_596", "mssql_6005":
		return true
	default:
		return strings.HasPrefix(v.Category, "sql_08") || strings.HasPrefix(v.Category, "sql_57P")
	}
}
