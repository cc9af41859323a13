package known

import (
	"path"
	"reflect"
	"strings"
	"time"
)

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
