package known

import "strconv"

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
