package shared

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	_ "modernc.org/sqlite"             // the driver "sqlite"

	"github.com/seed-5ff3c98e/retry/retrytable"
)

// DB is an open database: PostgreSQL, SQLite or MariaDB. What differs in their statements
// is in [DB.SQL].
type DB struct {
	*sql.DB

	Dialect  retrytable.Dialect
	Instants retrytable.Instants // of the program's columns; 0 is what retrytable has for the Dialect
	DSN      string              // opens this database again, in another process too
}

// Of PostgreSQL's, so that a few programs and their tests fit into the usual 100.
const maxConnections = 8

// Open opens the database that dsn names: postgres://…, or a file for SQLite, or, in a
// program that imports github.com/go-sql-driver/mysql, mysql:// and what that takes. A file
// that is missing is made if its name ends in .db, .sqlite or .sqlite3; any other
// name is rather a mistake.
//
// SQLite is opened for many processes at once: with a write-ahead log, a busy
// timeout of 10 seconds and transactions that lock at their begin. As it has one
// writer at a time anyhow, it gets one connection: finish reading rows before the
// next statement, and use the transaction while there is one.
func Open(ctx context.Context, dsn string) (*DB, error) { return open(ctx, dsn, create) }

// OpenExisting is Open for a database that has to be there: no file is made.
func OpenExisting(ctx context.Context, dsn string) (*DB, error) { return open(ctx, dsn, existing) }

// OpenReadOnly is OpenExisting for a database that refuses statements that write.
func OpenReadOnly(ctx context.Context, dsn string) (*DB, error) { return open(ctx, dsn, readOnly) }

// Opener is [Open], [OpenExisting] or [OpenReadOnly].
type Opener = func(ctx context.Context, dsn string) (*DB, error)

// If is then if a flag is set, and otherwise open.
func If(set *bool, then, open Opener) Opener {
	return func(ctx context.Context, dsn string) (*DB, error) {
		if *set {
			return then(ctx, dsn)
		}
		return open(ctx, dsn)
	}
}

// mode is what opening a database may do to it.
type mode int

const (
	create   mode = iota // make it, if it is a file
	existing             // write to what is there
	readOnly
)

func open(ctx context.Context, dsn string, m mode) (*DB, error) {
	driver, source, err := source(dsn, m)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	dialects := map[string]retrytable.Dialect{"pgx": retrytable.PostgreSQL, "mysql": retrytable.MySQL, "sqlite": retrytable.SQLite}
	db, connections := &DB{DSN: dsn, Dialect: dialects[driver]}, maxConnections
	if db.DB, err = sql.Open(driver, source); err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	if db.Dialect == retrytable.SQLite {
		connections = 1
	}
	db.SetMaxOpenConns(connections)
	db.SetMaxIdleConns(connections)
	if err := db.PingContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open database: %w", err), db.Close())
	}
	return db, nil
}

// source returns a driver and what it opens. The error does not show a DSN: it may have a password.
func source(dsn string, m mode) (driver, name string, err error) {
	_, err = os.Stat(dsn)
	missing := errors.Is(err, fs.ErrNotExist)
	known := slices.Contains([]string{".db", ".sqlite", ".sqlite3"}, filepath.Ext(dsn))
	switch {
	case dsn == "":
		return "", "", Usage(errors.New("the DSN is missing: " + kinds() + " or the name of a file"))
	case strings.HasPrefix(dsn, "postgres://"), strings.HasPrefix(dsn, "postgresql://"):
		driver, name = "pgx", dsn
	case strings.HasPrefix(dsn, "mysql://") && hasMySQL():
		driver, name = "mysql", With(strings.TrimPrefix(dsn, "mysql://"), "multiStatements=true") // a schema is several
	case missing && !known:
		return "", "", Usage(errors.New("the DSN must be " + kinds() + " or the name of a file; a new one ends in .db, .sqlite or .sqlite3"))
	case missing && m != create:
		return "", "", Usage(err)
	case m == create:
		return "sqlite", SQLiteSource(dsn), nil
	default:
		driver, name = "sqlite", With(sqliteSource(dsn), "mode=rw") // its journal stays as it is
	}
	if m == readOnly {
		name = With(name, settingReadOnly[driver])
	}
	return driver, name, nil
}

// settingReadOnly has a driver refuse statements that write.
var settingReadOnly = map[string]string{
	"pgx": "default_transaction_read_only=on", "mysql": "tx_read_only=1", "sqlite": "_pragma=query_only(1)",
}

// With is a DSN with one more setting.
func With(dsn, setting string) string {
	separator := "?"
	if strings.Contains(dsn, "?") {
		separator = "&"
	}
	return dsn + separator + setting
}

// hasMySQL reports whether the program is one that runs on MariaDB.
func hasMySQL() bool { return slices.Contains(sql.Drivers(), "mysql") }

// kinds is what the DSN of a server may be.
func kinds() string {
	if hasMySQL() {
		return "postgres://user@host/name, mysql://user@tcp(host:3306)/name"
	}
	return "postgres://user@host/name"
}

// SQLiteSource is what [Open] has the driver open for a file.
func SQLiteSource(file string) string {
	return sqliteSource(file) + "&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)"
}

func sqliteSource(file string) string {
	u := url.URL{Path: file} // escapes what is special in a URI
	return "file:" + u.EscapedPath() + "?_txlock=immediate&_pragma=busy_timeout(10000)"
}

// SQL returns a statement for this database, in which these stand for:
//
//	{instant}      the type of a column with an instant
//	{now}          the instant of the statement, by the clock of the database
//	{lock}         in PostgreSQL, locks the rows that a SELECT returns; a transaction of SQLite has locked all
//	{concurrently} in PostgreSQL, after INDEX: while others write
//	{microsecond}  what to add to an instant, except in MariaDB: {now} + $1 * {microsecond}
//	$1, $2, …      the arguments; for MariaDB, each stands there once, and in that order
//
// Instants are of the type that [DB.Instants] says. Read them with an [Instant].
func (db *DB) SQL(statement string) string {
	lock, concurrently, microsecond := "", "", "1"
	switch db.Dialect {
	case retrytable.PostgreSQL:
		lock, concurrently, microsecond = " FOR UPDATE", " CONCURRENTLY", "interval '1 microsecond'"
	case retrytable.MySQL:
		statement = parameter.ReplaceAllString(statement, "?")
	default: // SQLite
	}
	return strings.NewReplacer("{instant}", db.Instants.SQLType(db.Dialect), "{now}", db.Instants.Now(db.Dialect),
		"{lock}", lock, "{concurrently}", concurrently, "{microsecond}", microsecond).Replace(statement)
}

// TextLike is for tables whose instants are text in SQLite: text in the form of the first one that is
// found in the columns, so that the programs beside this one can read it. An error of the database is
// not told, as whatever follows meets it too.
func (db *DB) TextLike(table string, columns ...string) retrytable.Instants {
	servers := map[retrytable.Dialect]retrytable.Instants{retrytable.PostgreSQL: retrytable.Timestamptz, retrytable.MySQL: retrytable.Datetime}
	if instants, ok := servers[db.Dialect]; ok {
		return instants
	}
	for _, column := range columns {
		query := "SELECT CAST(" + column + " AS text) FROM " + table + " WHERE " + column + " IS NOT NULL LIMIT 1"
		if found, err := One[string](context.Background(), db, query); err == nil && found != "" {
			return retrytable.TextLike(found)
		}
	}
	return retrytable.RFC3339
}

var parameter = regexp.MustCompile(`\$[0-9]+`)

// On is an action on the database that -dsn names, a flag that it adds. It is opened for the
// action, and closed after it.
func On(flags *flag.FlagSet, open Opener, action func(ctx context.Context, db *DB, out io.Writer) error) Action {
	dsn := flags.String("dsn", "", "the database: "+kinds()+" or the name of a file for SQLite")
	return func(ctx context.Context, out io.Writer) (err error) {
		db, err := open(ctx, *dsn)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, db.Close()) }()
		return action(ctx, db, out)
	}
}

// Query returns all rows of a query, each as scan reads it.
func Query[T any](
	ctx context.Context, db retrytable.DB, scan func(*sql.Rows) (T, error), query string, args ...any,
) (all []T, err error) {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		one, err := scan(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, rows.Err()
}

// One returns the value of a query that has one.
func One[T any](ctx context.Context, db retrytable.DB, query string, args ...any) (value T, err error) {
	_, err = Query(ctx, db, func(rows *sql.Rows) (any, error) { return nil, rows.Scan(&value) }, query, args...)
	return value, err
}

// Instant reads an instant of either database, in UTC. NULL is the zero Time.
type Instant = retrytable.Instant

// JSON is a column with a value as JSON. To read, In is a pointer. With Err, a value that cannot be read is
// left out, and its error is there.
type JSON struct {
	In  any
	Err *error
}

// Value implements [driver.Valuer].
func (j JSON) Value() (driver.Value, error) {
	data, err := json.Marshal(j.In)
	if err != nil || string(data) == "null" {
		return nil, err
	}
	return string(data), nil
}

// Scan implements [database/sql.Scanner].
func (j JSON) Scan(value any) error {
	var data sql.Null[[]byte]
	if err := data.Scan(value); err != nil || !data.Valid {
		return err
	}
	err := json.Unmarshal(data.V, j.In)
	if err != nil && j.Err != nil {
		*j.Err = err
		return json.Unmarshal([]byte("null"), j.In)
	}
	return err
}
