package retrysql_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrysql"
	ncruces "github.com/seed-5ff3c98e/retry/retrysql/internal/fake/go-sqlite3"
	"github.com/seed-5ff3c98e/retry/retrysql/internal/fake/mysql"
	modernc "github.com/seed-5ff3c98e/retry/retrysql/internal/fake/sqlite"
	mattn "github.com/seed-5ff3c98e/retry/retrysql/internal/fake/sqlite3"
)

// errBusiness is an unknown error.
var errBusiness = errors.New("insufficient funds")

// pgError is an error with a SQLSTATE, like the errors of pgx and lib/pq.
type pgError struct{ state, text string }

func pg(state string) error { return &pgError{state, "ERROR (SQLSTATE " + state + ")"} }

func (e *pgError) Error() string    { return e.text }
func (e *pgError) SQLState() string { return e.state }

// pgAnswer has the fields of the errors of pgx and lib/pq.
type pgAnswer struct {
	Severity, Code, Routine string
}

func (e *pgAnswer) Error() string    { return e.Severity + ": (SQLSTATE " + e.Code + ")" }
func (e *pgAnswer) SQLState() string { return e.Code }

// pgxAnswer has the severity in English too.
type pgxAnswer struct {
	pgAnswer
	SeverityUnlocalized, Message string
}

const cachedPlan = "cached plan must not change result type"

// unsentError is an error of pgconn from before anything was sent.
type unsentError struct{}

func (unsentError) Error() string     { return "conn closed" }
func (unsentError) SafeToRetry() bool { return true }

// serverError is an error of go-mssqldb.
type serverError int32

func (e serverError) Error() string         { return "mssql: error" }
func (e serverError) SQLErrorNumber() int32 { return int32(e) }

// badConnError is go-mssqldb's RetryableError: it says that it is ErrBadConn.
type badConnError struct{ err error }

func (e badConnError) Error() string        { return e.err.Error() }
func (e badConnError) Unwrap() error        { return e.err }
func (e badConnError) Is(target error) bool { return target == driver.ErrBadConn }

func my(number uint16) error { return &mysql.MySQLError{Number: number} }

func myState(number uint16, state string) error {
	e := &mysql.MySQLError{Number: number}
	copy(e.SQLState[:], state)
	return e
}

// The expected verdicts. After again and overloaded, the statement may have taken effect.
var (
	final, again, anew  = testkit.Final, testkit.MayRetry, testkit.CanRetry
	limited, overloaded = testkit.CanLimit, testkit.MayLimit
)

func named(category string) retry.Verdict { return retry.Verdict{Category: category} }

// classified are errors, grouped by the verdict that is given to their category.
var classified = []struct {
	name    string
	verdict func(category string) retry.Verdict
	errs    map[string]error // by category
}{
	{"rolled back", anew, states("40001", "CR000", "40P01", "55P03", "55006", "25P03", "72000")},
	{"outcome unknown", again, states("40003", "08007")},
	{"shut down", again, states("57P01", "57P02", "57P05")},
	{"starting", anew, states("57P03")},
	{"short of resources", anew, states("53000", "53200", "53400")},
	{"too many connections", limited, states("53300")},
	{"disk full", final, states("53100")},
	{"connection lost", again, states("08000", "08003", "08006", "08C00")},
	{"range unavailable", again, states("58C00", "58C01")},
	{"a pooler, or not", again, states("08P01")},
	{"a pooler", again, map[string]error{
		"sql_08P01": &pgAnswer{Severity: "FATAL", Code: "08P01"},
		"sql_58000": &pgAnswer{Severity: "FATAL", Code: "58000"},
		"sql_XX000": &pgAnswer{Severity: "FATAL", Code: "XX000"},
	}},
	{"a pooler, or a crash", again, one("sql_XX000", &pgAnswer{Severity: "PANIC", Code: "XX000"})},
	{"a fatal error in the server's language", again, one("sql_XX000", &pgxAnswer{pgAnswer: pgAnswer{Severity: "ВАЖНО", Code: "XX000"}, SeverityUnlocalized: "FATAL"})},
	{"one object changed by two", anew, one("sql_XX000", &pgAnswer{"ERROR", "XX000", "simple_heap_update"})},
	{"one object deleted by two", anew, one("sql_XX000", &pgAnswer{"ERREUR", "XX000", "simple_heap_delete"})},
	{"internal error", final, one("sql_XX000", &pgAnswer{"ERROR", "XX000", "relation_open"})},
	{"internal error, not fatal by the unlocalized severity", final, one("sql_XX000", &pgxAnswer{pgAnswer: pgAnswer{Severity: "FATAL", Code: "XX000"}, SeverityUnlocalized: "ERROR"})},
	{"protocol violation", final, one("sql_08P01", &pgAnswer{Severity: "ERROR", Code: "08P01"})},
	{"system error", unknown, one("", &pgAnswer{Severity: "ERROR", Code: "58000"})},
	{"connection refused", anew, states("08001", "08004")},
	{"on another connection", anew, states("25006", "26000", "42P05")},
	{"final", final, states(
		"40000", "40002", "57014", "25P02", "25P04", "57P04", "23505", "23P01", "XX000", "22012", "23503", "28P01", "3D000",
		"42601", "0A000", "P0001", "XX001", "XX002", "21000", "44000", "54000", "54001", "2BP01", "3F000", "0LP01", "0P000",
		"25001", "25P01", "55P02", "55P04", "22000", "22P02", "23502", "28000", "42P01", "42501",
	)},
	{"cached plan", anew, one("sql_0A000", &pgAnswer{"ERREUR", "0A000", "RevalidateCachedQuery"})},
	{"cached plan of CockroachDB", anew, one("sql_0A000", &pgxAnswer{pgAnswer{"ERROR", "0A000", "exec"}, "ERROR", cachedPlan})},
	{"standby", anew, one("sql_0A000", &pgAnswer{"ERREUR", "0A000", "call_bool_check_hook"})},
	{"standby, serializable by default", anew, one("sql_0A000", &pgAnswer{"ERROR", "0A000", "GetSerializableTransactionSnapshot"})},
	{"another routine", final, one("sql_0A000", &pgAnswer{"ERROR", "0A000", "CheckSelectLocking"})},
	{"system and io error, nobody's opinion", unknown, states("58000", "58030")},
	{"no states", unknown, states("", "4", "4000", "400011", "40001 ", "40p01", "00000", "01000", "99999", "zzzzz")},

	{"MySQL rolled back", anew, numbers(
		1213, 1205, 1614, 1613, 1402, 3058, 3132, 3101, 3572, 1206, 1020, 1412, 1615,
	)},
	{"MySQL too many", limited, numbers(1040, 1203, 1226)},
	{"MySQL lost", again, numbers(
		1053, 1080, 1152, 1184, 1158, 1159, 1160, 1161, 1927, 4031, 2002, 2003, 2006, 2013,
	)},
	{"Galera", again, numbers(1047)},
	{"Group Replication, not begun", anew, numbers(3796, 3797, 3798, 3799)},
	{"Group Replication, perhaps sent", again, numbers(3100)},
	{"MySQL short of memory", again, numbers(1037, 1041)},
	{"NDB", again, numbers(1297)},
	{"MySQL read-only", anew, numbers(1290, 1836, 1792, 1209)},
	{"MySQL interrupted", final, numbers(1317, 3024, 1969)},
	{"MySQL final", final, numbers(
		1045, 1044, 1048, 1049, 1054, 1062, 1064, 1142, 1143, 1146, 1169, 1216, 1217, 1264, 1364, 1366, 1406, 1451, 1452,
	)},
	{"TiDB rolled back", anew, numbers(8002, 8005, 8022, 8028, 9007)},
	{"TiDB unavailable", again, numbers(
		8027, 8120, 9001, 9002, 9003, 9004, 9005, 9006, 9008, 9010, 9012, 9013,
	)},
	{"MySQL, nobody's opinion", named, numbers(1105, 1180, 65535)},
	{"MySQL by state", final, map[string]error{
		"mysql_3819": myState(3819, "23000"), "mysql_1690": myState(1690, "22003"), "mysql_1142": myState(1142, "42000"),
		"mysql_1698": myState(1698, "28000"), "mysql_1222": myState(1222, "21000"), "mysql_1235": myState(1235, "0A000"),
		"mysql_1568": myState(1568, "25001"), "mysql_1046": myState(1046, "3D000"),
	}},
	{"MySQL by state, connection", again, one("mysql_1043", myState(1043, "08S01"))},
	{"MySQL by state, rolled back", anew, one("mysql_1099", myState(1099, "40001"))},
	{"MySQL by state, nobody's opinion", named, one("mysql_1105", myState(1105, "HY000"))},
	{"go-mysql-org", anew, one("mysql_1213", &mysql.MyError{Code: 1213, State: "40001"})},
	{"go-mysql-org by state", final, one("mysql_3819", &mysql.MyError{Code: 3819, State: "23000"})},
	{"MySQL by text", anew, map[string]error{
		"mysql_1213": errors.New("Error 1213 (40001): Deadlock found when trying to get lock"),
		"mysql_1205": errors.New("Error 1205: Lock wait timeout exceeded"),
	}},
	{"MySQL by text, final", final, map[string]error{
		"mysql_1062": fmt.Errorf("Error 1062 (23000): Duplicate entry '%d' for key 'PRIMARY'", 1),
		"mysql_3819": errors.New("Error 3819 (23000): Check constraint is violated"),
	}},
	{"MySQL invalid connection", again, one("mysql_invalid_conn", errors.New("invalid connection"))},
	{"no MySQL", unknown, map[string]error{
		"a code that is no number":  &mysql.Error{Code: "1213"},
		"a value":                   mysql.Error{Code: "1213"},
		"no number":                 my(0),
		"nil":                       (*mysql.MySQLError)(nil),
		"text with a word":          errors.New("Error deadlock: 1213"),
		"text with a number first":  errors.New("1213 (40001): Deadlock"),
		"text with an odd state":    errors.New("Error 1213 (4001): Deadlock"),
		"text with an open state":   errors.New("Error 1213 (40001: Deadlock"),
		"text with no explanation":  errors.New("Error 1213 (40001)"),
		"text with a large number":  errors.New("Error 121300 (40001): Deadlock"),
		"text around it":            errors.New("x: Error 1213 (40001): Deadlock"),
		"invalid connection string": errors.New("invalid connection string"),
	}},

	{"SQLite", anew, codes(5, 261, 517, 773, 6, 262, 518, 15)},
	{"SQLite final", final, codes(
		1, 3, 8, 1032, 9, 10, 266, 2826, 11, 13, 18, 19, 787, 1555, 2067, 20, 21, 23, 25, 26,
	)},
	{"SQLite, nobody's opinion", named, codes(14, 270, 2, 4, 516, 7, 17, 513, 769)},
	{"modernc", anew, one("sqlite_517", &modernc.Error{ResultCode: 517})},
	{"ncruces", anew, one("sqlite_517", &ncruces.Error{ResultCode: 517})},
	{"ncruces code", anew, one("sqlite_5", ncruces.ErrorCode(5))},
	{"ncruces extended code", anew, one("sqlite_517", ncruces.ExtendedErrorCode(517))},
	{"ncruces interrupted, which is Temporary", final, one("sqlite_9", &ncruces.Error{ResultCode: 9})},
	{"mattn", anew, one("sqlite_517", mattn.Error{Code: 5, ExtendedCode: 517})},
	{"mattn by pointer", anew, one("sqlite_517", &mattn.Error{Code: 5, ExtendedCode: 517})},
	{"mattn without extended code", anew, one("sqlite_5", mattn.Error{Code: 5})},
	{"mattn code", anew, one("sqlite_5", mattn.ErrNo(5))},
	{"mattn extended code", final, one("sqlite_2067", mattn.ErrNoExtended(2067))},
	{"SQLite by text", anew, map[string]error{
		"sqlite_5":   errors.New("database is locked"),
		"sqlite_517": errors.New("database is locked (517)"),
		"sqlite_261": errors.New("database is locked (261) (SQLITE_BUSY)"),
		"sqlite_6":   errors.New("database table is locked: accounts"),
		"sqlite_262": errors.New("database table is locked (262)"),
	}},
	{"no SQLite", unknown, map[string]error{
		"0":              &modernc.Error{},
		"less":           &modernc.Error{ResultCode: -5},
		"nil of modernc": (*modernc.Error)(nil),
		"nil of ncruces": (*ncruces.Error)(nil),
		"nil of mattn":   (*mattn.Error)(nil),
		"0 of mattn":     mattn.Error{},
		"a bare code":    codeError(5),
		"another type":   &modernc.OtherError{},
		"text":           errors.New("the database is busy"),
	}},

	{"SQL Server rolled back", anew, servers(1204, 1205, 1222, 3960, 3961, 3966, 41301, 41302, 41305, 41325, 41839)},
	{"SQL Server transient", again, servers(
		40197, 40143, 40540, 40613, 49802, 615, 921, 952, 988, 4060, 4221, 18401, 17197, 17889,
		976, 978, 982, 983, 3906, 596, 3303, 3948, 6005, 904, 913, 922, 955, 956, 1807, 701,
		10053, 10054, 10060, 11001, 233, 121, 64, 997, 8645, 8651, 8628, 601, 669, 617, 539, 42108, 42109, 10922,
	)},
	{
		"SQL Server overloaded", overloaded,
		servers(10928, 10929, 10930, 10936, 49918, 49919, 49920, 40642, 40648, 40675, 40903, 40189),
	},
	{"SQL Server overloaded, with a hint", hinted, servers(40501)},
	{"SQL Server final", final, servers(2627, 2601, 102, 208, 547, 8152, 18456, 40544)},
	{"SQL Server, nobody's opinion", unknown, servers(-2, 926, 20, 50000, 0, -1, 1, 1<<31-1, -1<<31)},

	{"database/sql", final, map[string]error{"sql_no_rows": sql.ErrNoRows, "sql_tx_done": sql.ErrTxDone}},
	{"connection done", anew, one("sql_conn_done", sql.ErrConnDone)},
	{"bad connection", anew, one("sql_bad_conn", driver.ErrBadConn)},
	{"bad connection of SQL Server", anew, one("sql_bad_conn", badConnError{io.EOF})},
	{"unsent", anew, one("unsent", unsentError{})},
	{"nobody's opinion", unknown, one("business", errBusiness)},
}

// codeError has a Code() int like modernc's errors, but is not one of them.
type codeError int

func (e codeError) Error() string { return "code" }
func (e codeError) Code() int     { return int(e) }

// one is a group of one error.
func one(category string, err error) map[string]error { return map[string]error{category: err} }

func unknown(string) retry.Verdict { return retry.Verdict{} }

func hinted(category string) retry.Verdict {
	return retry.Verdict{Class: retry.RateLimited, Category: category, After: 10 * time.Second}
}

func states(list ...string) map[string]error {
	errs := map[string]error{}
	for _, state := range list {
		errs["sql_"+state] = pg(state)
	}
	return errs
}

func numbers(list ...uint16) map[string]error {
	errs := map[string]error{}
	for _, n := range list {
		errs[fmt.Sprintf("mysql_%d", n)] = my(n)
	}
	return errs
}

func codes(list ...int) map[string]error {
	errs := map[string]error{}
	for _, code := range list {
		errs[fmt.Sprintf("sqlite_%d", code)] = &modernc.Error{ResultCode: code}
	}
	return errs
}

func servers(list ...int32) map[string]error {
	errs := map[string]error{}
	for _, n := range list {
		errs[fmt.Sprintf("mssql_%d", n)] = serverError(n)
	}
	return errs
}

// beyond has what retry.Classify does not know, by the name of the row, and why.
var beyond = map[string]string{
	"MySQL by text":                "a part of a text is not read there",
	"MySQL by text, final":         "the same",
	"SQLite by text":               "the same",
	"bad connection of SQL Server": "it has to be asked about driver.ErrBadConn, which the root does not link",
}

// TestClassify checks every row of the table of databases, and that the root package knows them too.
func TestClassify(t *testing.T) {
	t.Parallel()
	for _, tt := range classified {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for category, err := range tt.errs {
				want := tt.verdict(category)
				assert.Equal(t, want, retrysql.Classify(err), category)
				_, apart := beyond[tt.name]
				assert.Equal(t, !apart, want == retry.Classify(err), "root: %s", category)
				assert.Equal(t, want, retrysql.Classify(fmt.Errorf("insert: %w", err)), "wrapped %s", category)
				assert.Equal(t, want, retrysql.Classify(errors.Join(err, errBusiness)), "joined %s", category)
				assert.Equal(t, want, retrysql.Classify(errors.Join(errBusiness, err)), "joined %s", category)
			}
		})
	}
}

// TestRootKnowsAllCodes asks both packages about all codes there are, and more.
func TestRootKnowsAllCodes(t *testing.T) {
	t.Parallel()
	same := func(err error) bool {
		return assert.Equal(t, retry.Classify(err), retrysql.Classify(err), "%#v", err)
	}
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	for _, a := range digits {
		for _, b := range digits {
			for _, rest := range []string{"000", "001", "002", "003", "004", "006", "007", "P01", "P02", "P03", "P04", "C00"} {
				state := string(a) + string(b) + rest
				for _, e := range []pgAnswer{{"", state, ""}, {"ERROR", state, "RevalidateCachedQuery"}, {"FATAL", state, "simple_heap_update"}} {
					if !same(&e) {
						return
					}
				}
			}
		}
	}
	for n := range 1 << 16 {
		if !same(my(uint16(n))) || !same(&modernc.Error{ResultCode: n}) || !same(serverError(n)) {
			return
		}
	}
}

// TestClassifyTrees shows that the root package's rules for trees hold.
func TestClassifyTrees(t *testing.T) {
	t.Parallel()
	closed := sql.OpenDB(&server{})
	assert.NoError(t, closed.Close())
	for _, tt := range []struct {
		name string
		err  error
		want retry.Verdict
	}{
		{"mark", retry.MarkFinal(my(1213)), retry.Verdict{Class: retry.Final}},
		{"mark beneath", fmt.Errorf("x: %w", retry.MarkRetryable(my(1062))), retry.Verdict{Class: retry.Retryable, NotApplied: true}},
		{"statement and rollback", errors.Join(my(1213), sql.ErrTxDone), again("mysql_1213")},
		{"rollback and statement", errors.Join(sql.ErrTxDone, my(1213)), again("mysql_1213")},
		{"two rolled back", errors.Join(my(1213), my(1205)), anew("mysql_1205")},
		{"outer text, inner code", &wrapError{"Error 1062 (23000): x", my(1213)}, anew("mysql_1213")},
		{"named, and what it wraps", &mysqlWrap{my(1105), io.ErrUnexpectedEOF}, again("eof")},
		{"deadline of another context", context.DeadlineExceeded, again("timeout")},
		{"a pool that is closed", closed.Ping(), final("closed")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, tt.want, retrysql.Classify(tt.err))
		})
	}
}

// wrapError is of a type, so its text says nothing.
type wrapError struct {
	text string
	err  error
}

func (e *wrapError) Error() string { return e.text }
func (e *wrapError) Unwrap() error { return e.err }

// mysqlWrap puts one error on top of another.
type mysqlWrap struct{ outer, inner error }

func (e *mysqlWrap) Error() string   { return "x" }
func (e *mysqlWrap) Unwrap() []error { return []error{e.outer, e.inner} }

// hostileError panics in every method that is asked for.
type hostileError struct{}

func (hostileError) Error() string    { panic("Error") }
func (hostileError) SQLState() string { panic("SQLState") }
func (hostileError) Is(error) bool    { panic("Is") }
func (hostileError) Unwrap() []error  { panic("Unwrap") }

// hostileStateError panics when its text is asked for.
type hostileStateError string

func (hostileStateError) Error() string      { panic("Error") }
func (e hostileStateError) SQLState() string { return string(e) }

// listError cannot be compared.
type listError []string

func (listError) Error() string { return "list" }

// loopError wraps itself.
type loopError struct{ _ int }

func (e *loopError) Error() string { return "loop" }
func (e *loopError) Unwrap() error { return e }

// leaves has errors without a cause: the errors of the table, and hostile ones.
func leaves() []error {
	errs := []error{
		nil,
		&loopError{},
		hostileError{},
		hostileStateError("0A000"), hostileStateError("P0001"),
		listError{},
		(*pgError)(nil),
		(*mysql.MySQLError)(nil), (*modernc.Error)(nil), io.EOF, syscall.ECONNRESET, syscall.ECONNREFUSED,
	}
	for _, group := range classified {
		for _, category := range slices.Sorted(maps.Keys(group.errs)) {
			errs = append(errs, group.errs[category])
		}
	}
	return errs
}

var allLeaves = leaves()

// kinds has the parts of random error trees. A byte does not reach all of the
// leaves.
var kinds = testkit.Kinds{
	Leaves: []func(detail byte) error{
		func(detail byte) error { return allLeaves[int(detail)%len(allLeaves)] },
		func(detail byte) error { return allLeaves[(256+int(detail))%len(allLeaves)] },
	},
	Wraps: []func(detail byte, cause error) error{
		func(_ byte, cause error) error { return fmt.Errorf("x: %w", cause) },
		func(_ byte, cause error) error { return badConnError{cause} },
		func(detail byte, cause error) error {
			return retry.Mark(cause, retry.Verdict{Class: retry.Class(detail % 4), Category: "mark"})
		},
	},
}

func checkTree(t *testing.T, data []byte) {
	t.Helper()
	tree := kinds.Tree(data)
	tree.Check(t, retrysql.Classify)
	assert.LessOrEqual(t, retrysql.Classify(tree.Err()).Class, retry.RateLimited)
}

// TestClassifyRandomTrees is the fuzz test with trees that it rarely finds in the
// time of a test run.
func TestClassifyRandomTrees(t *testing.T) {
	t.Parallel()
	assert.LessOrEqual(t, len(allLeaves), 512, "two functions are enough")
	testkit.Random(t, 3000, func(data []byte) { checkTree(t, data) })
}

func FuzzClassify(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{192, 2, 0, 30, 0, 90})                         // two known errors
	f.Add([]byte{81, 0, 82, 0, 0, 8})                           // a chain
	f.Add([]byte("\x4c\x20Error 1213 (40001): Deadlock found")) // texts
	f.Add([]byte("\x4c\x28database is locked (517) (SQLITE_BUSY)"))
	f.Add([]byte{192, 3, 0, 1, 0, 2, 0, 3}) // panics
	f.Add([]byte{192, 2, 80, 2, 0, 40, 80, 3, 0, 50})
	f.Fuzz(func(t *testing.T, data []byte) { checkTree(t, data) })
}
