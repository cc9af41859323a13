package known

import (
	"slices"
	"strconv"
	"time"
)

// The error numbers of Oracle that are worth another attempt, and those that it cannot help.
//
// https://docs.oracle.com/error-help/db/
var (
	// The statement or the transaction was rolled back, or never got its lock or its session.
	oracleUnapplied = []int64{
		54, 60, 104, 8177, 30006, 4020, 4021, 4061, 4065, 4068, // locked, deadlock, serialization, a replaced package
		18, 20, 1033, 1034, 1089, 1090, 1109, // too many sessions or processes, starting, stopping, not open
		12514, 12516, 12518, 12519, 12520, 12521, 12526, 12527, 12528, 12541, // the listener
		24761, 25402, // rolled back
	}
	oracleTransient = []int64{
		28, 1012, 3113, 3114, 3135, 12170, 12537, 12543, 12547, 12571, // a session that was killed, a lost connection
		51, 1555, 2049, 2396, 12805, // a snapshot that is too old, idle for too long, a distributed lock
		25408, 25409, // a failover
	}
	oracleFinal = []int64{
		1, 900, 904, 907, 911, 913, 917, 918, 921, 922, 923, 928, 932, 933, 936, 942, 955, 972, 979, 1000, 1004, 1005,
		1008, 1017, 1031, 1036, 1400, 1401, 1403, 1407, 1422, 1427, 1438, 1476, 1722, 1830, 1841, 1858, 1861, 2289,
		2290, 2291, 2292, 2303, 4091, 4098, 4043, 6502, 6550, 12154, 12504, 12505, 12899, 28000, 28001, 1536, 1653,
		1654, 1688,
	}
)

// Oracle classifies an error number, the part after ORA-.
func Oracle(number int64) Fact {
	category := "ora_" + strconv.FormatInt(number, 10)
	switch {
	case slices.Contains(oracleUnapplied, number):
		return Unapplied(category)
	case slices.Contains(oracleTransient, number):
		return Transient(category)
	case slices.Contains(oracleFinal, number):
		return Permanent(category)
	default:
		return Fact{}
	}
}

// Result codes of SQLite: the lowest byte of an extended code.
//
// https://www.sqlite.org/rescode.html
const (
	sqliteError      = 1
	sqlitePerm       = 3
	SQLiteBusy       = 5
	SQLiteLocked     = 6
	sqliteReadOnly   = 8
	sqliteInterrupt  = 9
	SQLiteIOErr      = 10
	SQLiteCorrupt    = 11
	sqliteFull       = 13
	sqliteProtocol   = 15
	sqliteTooBig     = 18
	sqliteConstraint = 19
	sqliteMismatch   = 20
	sqliteMisuse     = 21
	sqliteAuth       = 23
	sqliteRange      = 25
	SQLiteNotADB     = 26

	// Extended codes of sqliteError that are not errors in the SQL.
	sqliteErrorRetry    = 513
	sqliteErrorSnapshot = 769
)

// SQLite classifies an extended result code.
func SQLite(code int) Fact {
	category := "sqlite_" + strconv.Itoa(code)
	if code == sqliteErrorRetry || code == sqliteErrorSnapshot {
		return Fact{Category: category}
	}
	switch code & 0xff {
	case SQLiteBusy, SQLiteLocked, sqliteProtocol:
		// BUSY_SNAPSHOT (517) is among them: it always repeats inside the same
		// transaction, but not in a new one.
		return Unapplied(category)
	case sqliteError, sqlitePerm, sqliteReadOnly, sqliteInterrupt, SQLiteIOErr, SQLiteCorrupt, sqliteFull,
		sqliteTooBig, sqliteConstraint, sqliteMismatch, sqliteMisuse, sqliteAuth, sqliteRange, SQLiteNotADB:
		return Permanent(category)
	default:
		return Fact{Category: category}
	}
}

// The error numbers of SQL Server and Azure SQL that are worth another attempt.
// -2, a timeout of the client, is not among them: the operation may have
// completed.
//
// https://learn.microsoft.com/azure/azure-sql/database/troubleshoot-common-errors-issues,
// https://learn.microsoft.com/sql/relational-databases/errors-events/database-engine-events-and-errors
var (
	// The transaction was rolled back, or never got its lock.
	sqlServerConflicts = []int32{1204, 1205, 1222, 3960, 3961, 3966, 41301, 41302, 41305, 41325, 41839}

	sqlServerTransient = []int32{
		1807,                     // a database that is copied, such as model, is in use
		976, 978, 982, 983, 3906, // an Always On replica that is not the primary, a read-only database: new connection
		596, 3303, 3948, 6005, // a session that was killed, a commit without its replica, a changed role, a shutdown
		904, 913, 922, 955, 956, // starting, recovering, without a partner or a quorum
		615, 921, 952, 988, 40143, 40197, 40540, 40613, 49802, // reconfiguring
		4060, 4221, 17197, 17889, 18401, // login during a failover
		64, 121, 233, 997, 10053, 10054, 10060, 11001, // transport
		701, 8628, 8645, 8651, // waiting for memory or the optimizer
		539, 601, 617, 669, 10922, 42108, 42109,
	}

	// Names, keys, data, permissions, logins, full disks and quotas.
	sqlServerFinals = []int32{
		102, 137, 156, 201, 207, 208, 213, 229, 230, 241, 242, 245, 262, 297, 300, 334, 515, 544, 547, 916, 1105, 2601,
		2627, 2628, 2714, 2812, 3701, 4104, 8114, 8115, 8134, 8152, 8178, 9002, 15151, 18452, 18456, 18486, 18488, 40544,
		40615, 40914, // an address that the firewall does not let in
		42119, // the free amount of the month is used up
	}

	sqlServerLimits = []int32{
		10928, 10929, 10930, 10936, 40189, 40501, 40642, 40648, 40675, 40903, 49918, 49919, 49920,
	}
)

// SQLServer classifies an error number.
func SQLServer(number int32) Fact {
	category := "mssql_" + strconv.Itoa(int(number))
	switch {
	case slices.Contains(sqlServerConflicts, number):
		return Unapplied(category)
	case slices.Contains(sqlServerTransient, number):
		return Transient(category)
	case slices.Contains(sqlServerFinals, number):
		return Permanent(category)
	case slices.Contains(sqlServerLimits, number):
		v := Throttled(category)
		if number == 40501 { // "Retry the request after 10 seconds."
			v.After = 10 * time.Second
		}
		return v
	default:
		return Fact{}
	}
}
