// Package tabletest tests package retrytable with real databases: PostgreSQL,
// through pgx and lib/pq, SQLite, and MariaDB, through go-sql-driver/mysql.
//
// The tests need PostgreSQL on 127.0.0.1:5432 with a database "test" for user
// postgres, and MariaDB on 127.0.0.1:3306 with a database "test" for user root, both
// without a password. RETRY_TEST_POSTGRES and RETRY_TEST_MARIADB name others:
//
//	RETRY_TEST_POSTGRES=postgres://user:password@host:5432/database
//	RETRY_TEST_MARIADB=user:password@tcp(host:3306)/database
//
// They make schemas and databases with random names, and drop them.
package tabletest_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "github.com/lib/pq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite"

	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// kind is a database, a driver, and a type of instants.
type kind struct {
	name     string
	dialect  retrytable.Dialect
	driver   string
	instants retrytable.Instants
	settings string // of connections to MariaDB
}

var kinds = []kind{
	{"pgx/timestamptz", retrytable.PostgreSQL, "pgx", retrytable.Timestamptz, ""},
	{"pgx/micros", retrytable.PostgreSQL, "pgx", retrytable.UnixMicros, ""},
	{"pgx/seconds", retrytable.PostgreSQL, "pgx", retrytable.UnixSeconds, ""},
	{"pq/timestamptz", retrytable.PostgreSQL, "postgres", retrytable.Timestamptz, ""},
	{"pq/millis", retrytable.PostgreSQL, "postgres", retrytable.UnixMillis, ""},
	{"sqlite/micros", retrytable.SQLite, "sqlite", retrytable.UnixMicros, ""},
	{"sqlite/millis", retrytable.SQLite, "sqlite", retrytable.UnixMillis, ""},
	{"sqlite/seconds", retrytable.SQLite, "sqlite", retrytable.UnixSeconds, ""},
	{"mariadb/datetime", retrytable.MySQL, "mariadb", retrytable.Datetime, ""},
	{"mariadb/micros", retrytable.MySQL, "mariadb", retrytable.UnixMicros, "clientFoundRows=true"},
	{"mariadb/seconds", retrytable.MySQL, "mariadb", retrytable.UnixSeconds, "interpolateParams=true"},
	{
		"mariadb/datetime elsewhere", retrytable.MySQL, "mariadb", retrytable.Datetime,
		"parseTime=true&loc=America%2FSt_Johns&time_zone=%27%2B05%3A30%27&tx_isolation=%27SERIALIZABLE%27",
	},
	{"sqlite/text", retrytable.SQLite, "sqlite", retrytable.RFC3339, ""},
	{"sqlite/text of others", retrytable.SQLite, "sqlite", ofOthers, ""},
}

// ofOthers is text as other programs write it.
var ofOthers = retrytable.TextLike("2024-01-05 00:00:00.000")

// databases are the kinds with their usual instants.
var databases = []kind{kinds[0], kinds[3], kinds[5], kinds[8]}

// threeDatabases are a kind of each database, with one driver.
var threeDatabases = []kind{databases[0], databases[2], databases[3]}

// of returns the kinds of a database.
func of(kinds []kind, dialects ...retrytable.Dialect) (some []kind) {
	for _, k := range kinds {
		if slices.Contains(dialects, k.dialect) {
			some = append(some, k)
		}
	}
	return some
}

// store is an open database of a kind with a place of its own for tables.
type store struct {
	kind

	db  *sql.DB
	dsn string
}

// forEach runs a test for every kind.
func forEach(t *testing.T, kinds []kind, test func(t *testing.T, s *store)) {
	t.Helper()
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			test(t, k.open(t))
		})
	}
}

// forEachTable is forEach with a new table, such as jobs makes, which has the IDs 1 to n.
func forEachTable(
	t *testing.T, kinds []kind, table func() *retrytable.Table[int64], n int, test func(t *testing.T, s *store, table *retrytable.Table[int64]),
) {
	t.Helper()
	forEach(t, kinds, func(t *testing.T, s *store) {
		t.Helper()
		table := table()
		s.create(t, table, n)
		test(t, s, table)
	})
}

func (k kind) open(t testing.TB) *store {
	t.Helper()
	dsn := sqliteDSN(filepath.Join(t.TempDir(), "test.db"))
	switch k.dialect {
	case retrytable.PostgreSQL:
		dsn = newSchema(t)
	case retrytable.MySQL:
		dsn = newMariaDB(t, k.settings)
	}
	s := &store{k, openDB(t, k.driver, dsn), dsn}
	if k.dialect == retrytable.SQLite {
		s.db.SetMaxOpenConns(1)
	}
	return s
}

func openDB(t testing.TB, driver, dsn string) *sql.DB {
	t.Helper()
	db := keepIdle(testkit.Must(sql.Open(driver, dsn))(t))
	t.Cleanup(func() {
		testkit.Idle(t, db)
		assert.NoError(t, db.Close())
	})
	return db
}

// keepIdle lets a pool keep what a test uses at once. A server of many tests would be busy with
// connections that come and go: each costs it as much as a hundred statements.
func keepIdle(db *sql.DB) *sql.DB {
	db.SetMaxIdleConns(20)
	return db
}

func sqliteDSN(path string) string {
	return "file:" + path + "?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)"
}

// pgDSN is the address of the server, with a setting of the connection.
func pgDSN(t testing.TB, dsn, name, value string) string {
	t.Helper()
	u := testkit.Must(url.Parse(dsn))(t)
	query := u.Query()
	query.Set(name, value)
	u.RawQuery = query.Encode()
	return u.String()
}

func newSchema(t testing.TB) string {
	t.Helper()
	testkit.Needs(t, "PostgreSQL")
	dsn := cmp.Or(os.Getenv("RETRY_TEST_POSTGRES"), "postgres://postgres@127.0.0.1:5432/test?sslmode=disable")
	name := "retry_" + strings.ToLower(rand.Text()[:16])
	db := openDB(t, "pgx", dsn)
	testkit.Must(db.ExecContext(t.Context(), "CREATE SCHEMA "+name))(t)
	testkit.AtEnd(t, db, "DROP SCHEMA "+name+" CASCADE")
	return pgDSN(t, pgDSN(t, dsn, "search_path", name), "application_name", name)
}

func run(t testing.TB, db retrytable.DB, query string, args ...any) {
	t.Helper()
	_, err := db.ExecContext(t.Context(), query, args...)
	require.NoError(t, err, query)
}

// create makes the table jobs as somebody had it, adds what retrytable needs,
// and inserts rows with the IDs 1 to n.
func (s *store) create(t testing.TB, table *retrytable.Table[int64], n int) {
	t.Helper()
	s.createAnew(t, table)
	require.NoError(t, table.Validate())
	for id := range n {
		run(t, s.db, "INSERT INTO jobs (id) VALUES ($1)", id+1)
	}
}

// series is a table of the numbers i, from the first to the last.
func (k kind) series(first, last int) string {
	if k.dialect == retrytable.MySQL { // which limits recursion
		return fmt.Sprintf("(SELECT seq AS i FROM seq_%d_to_%d) AS r", first, last)
	}
	return fmt.Sprintf("(WITH RECURSIVE r(i) AS (SELECT %d UNION ALL SELECT i + 1 FROM r WHERE i < %d) SELECT i FROM r) AS r", first, last)
}

// text is a type of texts that may be keys.
func (k kind) text() string {
	if k.dialect == retrytable.MySQL {
		return "varchar(64)"
	}
	return "text"
}

// begin begins a transaction for claims: in MySQL, others would lock out all workers.
func (s *store) begin(ctx context.Context, t testing.TB) *sql.Tx {
	t.Helper()
	var options sql.TxOptions
	if s.dialect == retrytable.MySQL {
		options.Isolation = sql.LevelReadCommitted
	}
	return testkit.Must(s.db.BeginTx(ctx, &options))(t)
}

// indexes is what a schema adds to a table that has the columns already.
func (k kind) indexes(schema string) string {
	if k.dialect == retrytable.MySQL {
		head, _, _ := strings.Cut(schema, "\n")
		return head + strings.Join(regexp.MustCompile(`(?m)^.*(?:GENERATED| INDEX ).*$`).FindAllString(schema, -1), "")
	}
	_, indexes, _ := strings.Cut(schema, "CREATE")
	return "CREATE" + indexes
}

// jobs is a Table with all the columns.
func jobs() *retrytable.Table[int64] {
	return &retrytable.Table[int64]{
		Name:    "jobs",
		Columns: retrytable.Columns{RateLimited: "limited", Pending: "polls", First: "first_at", Error: "error"},
	}
}

// jobs is that Table in a database of the kind.
func (k kind) jobs() *retrytable.Table[int64] {
	table := jobs()
	table.Dialect, table.Instants = k.dialect, k.instants
	return table
}

// query returns all rows of a query.
func query(t testing.TB, db retrytable.DB, query string, args ...any) (all [][]any) {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query, args...)
	require.NoError(t, err, query)
	defer func() { assert.NoError(t, rows.Close()) }()
	columns := testkit.Must(rows.Columns())(t)
	for rows.Next() {
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		require.NoError(t, rows.Scan(into...))
		for i, value := range values {
			if text, ok := value.([]byte); ok { // MariaDB's
				values[i] = string(text)
			}
		}
		all = append(all, values)
	}
	require.NoError(t, rows.Err())
	return all
}

// record is a row as it is stored. No instant is the zero Time.
type record struct {
	status   string
	attempts int64
	limited  int64
	fence    int64
	due      time.Time
	lease    time.Time
	note     string
}

func (s *store) record(t testing.TB, db retrytable.DB, id int64) record {
	t.Helper()
	rows := query(t, db,
		"SELECT status, attempts, limited, fence, due_at, lease_until, coalesce(note, '') FROM jobs WHERE id = $1", id)
	require.Len(t, rows, 1)
	r := rows[0]
	return record{
		r[0].(string), r[1].(int64), r[2].(int64), r[3].(int64), s.time(t, r[4]), s.time(t, r[5]), r[6].(string),
	}
}

func (k kind) unit() time.Duration {
	switch k.instants {
	case retrytable.UnixSeconds:
		return time.Second
	case retrytable.UnixMillis, retrytable.RFC3339, ofOthers:
		return time.Millisecond
	default:
		return time.Microsecond
	}
}

// time reads an instant of the kind.
func (k kind) time(t testing.TB, value any) time.Time {
	t.Helper()
	switch v := value.(type) {
	case nil:
		return time.Time{}
	case time.Time, string:
		require.Contains(t, []retrytable.Instants{retrytable.Timestamptz, retrytable.Datetime, retrytable.RFC3339, ofOthers}, k.instants)
		at := retrytable.Instant{As: k.instants}
		require.NoError(t, at.Scan(v))
		return at.Time
	case int64:
		perSecond := int64(time.Second / k.unit())
		return time.Unix(v/perSecond, v%perSecond*int64(k.unit()))
	default:
		require.Failf(t, "no instant", "%T", value)
		return time.Time{}
	}
}

// instant is what to store for an instant.
func (k kind) instant(at time.Time) any {
	switch k.instants {
	case retrytable.Timestamptz:
		return at
	case retrytable.RFC3339, ofOthers: // as others write it
		return at.In(time.FixedZone("", 5400)).Format(time.RFC3339Nano)
	case retrytable.Datetime:
		return at.UTC().Format("2006-01-02 15:04:05.999999")
	}
	return at.UnixNano() / int64(k.unit())
}

// ago sets an instant of a row back, so that nobody has to wait.
func (s *store) ago(t testing.TB, db retrytable.DB, column string, id int64, d time.Duration) {
	t.Helper()
	s.agoIn(t, db, "jobs", column, id, d)
}

func (s *store) agoIn(t testing.TB, db retrytable.DB, table, column string, id int64, d time.Duration) {
	t.Helper()
	run(t, db, fmt.Sprintf("UPDATE %s SET %s = $1 WHERE id = $2", table, column), s.instant(time.Now().Add(-d)), id)
}

// near asserts that an instant is d from now, give or take a slow machine.
func near(t testing.TB, at time.Time, d time.Duration) {
	t.Helper()
	assert.WithinDuration(t, time.Now().Add(d), at, 10*time.Second)
}

// errDown is what a database says that is down.
var errDown = errors.New("the database is down")

// bubbled is SQLite with the clock of a testing/synctest bubble, which can be switched
// off.
type bubbled struct {
	down   atomic.Bool
	breaks atomic.Int32 // so many of the next commits, and finishes beside transactions, take effect and yet fail
}

// openBubbled opens a new database, which must be closed within the bubble.
func openBubbled(t testing.TB) (*store, *bubbled) {
	t.Helper()
	b, dsn := &bubbled{}, sqliteDSN(filepath.Join(t.TempDir(), "test.db"))
	db := sql.OpenDB(&wrapping{sqliteDriver(t), dsn, func(conn fullConn) driver.Conn { return &bubbledConn{conn, b, false} }, &b.down})
	db.SetMaxOpenConns(1)
	return &store{kinds[5], db, dsn}, b
}

// sqliteDriver is the driver of SQLite.
func sqliteDriver(t testing.TB) driver.Driver {
	t.Helper()
	memory := testkit.Must(sql.Open("sqlite", ":memory:"))(t)
	require.NoError(t, memory.Close())
	return memory.Driver()
}

// wrapping opens connections that do something else besides.
type wrapping struct {
	driver driver.Driver
	dsn    string
	wrap   func(conn fullConn) driver.Conn
	down   *atomic.Bool // nil: never
}

func (w *wrapping) Connect(context.Context) (driver.Conn, error) {
	if w.down != nil && w.down.Load() {
		return nil, errDown
	}
	conn, err := w.driver.Open(w.dsn)
	if err != nil {
		return nil, err
	}
	return w.wrap(conn.(fullConn)), nil
}

func (w *wrapping) Driver() driver.Driver { return w.driver }

// fullConn is what package sql asks of a connection, as far as the driver knows it.
type fullConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
}

type bubbledConn struct {
	fullConn

	database *bubbled
	inTx     bool
}

func (c *bubbledConn) now(query string) string {
	const instant = "2006-01-02 15:04:05.000"
	return strings.ReplaceAll(query, "julianday('now')", fmt.Sprintf("julianday('%s')", time.Now().UTC().Format(instant)))
}

func (c *bubbledConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if c.database.down.Load() {
		return nil, errDown
	}
	result, err := c.fullConn.ExecContext(ctx, c.now(query), args)
	if err == nil && !c.inTx && strings.Contains(query, "`lease_until` = NULL") && c.database.breaks.Load() > 0 {
		c.database.breaks.Add(-1)
		return nil, errDown
	}
	return result, err
}

func (c *bubbledConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if c.database.down.Load() {
		return nil, errDown
	}
	return c.fullConn.QueryContext(ctx, c.now(query), args)
}

func (c *bubbledConn) BeginTx(ctx context.Context, options driver.TxOptions) (driver.Tx, error) {
	if c.database.down.Load() {
		return nil, errDown
	}
	tx, err := c.fullConn.BeginTx(ctx, options)
	c.inTx = err == nil
	return &bubbledTx{tx, c}, err
}

type bubbledTx struct {
	driver.Tx

	conn *bubbledConn
}

func (tx *bubbledTx) Commit() error {
	tx.conn.inTx = false
	err := tx.Tx.Commit()
	if breaks := &tx.conn.database.breaks; err == nil && breaks.Load() > 0 {
		breaks.Add(-1)
		return errDown
	}
	return err
}

func (tx *bubbledTx) Rollback() error {
	tx.conn.inTx = false
	return tx.Tx.Rollback()
}
