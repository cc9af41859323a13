package shared

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	_ "modernc.org/sqlite"             // the driver "sqlite"

	"github.com/seed-5ff3c98e/retry/retrysql"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// DB is an open database: PostgreSQL or SQLite. Both take $1, $2, … in their
// statements; what else differs is in [DB.SQL].
type DB struct {
	*sql.DB

	Dialect retrytable.Dialect
	DSN     string // opens this database again, in another process too

	remove func() error // closes, and removes what is temporary
}

// Of PostgreSQL's, so that a few programs and their tests fit into the usual 100.
const maxConnections = 8

// Open opens the database that dsn names: postgres://…, or a file for SQLite,
// which is made if it is missing. An empty dsn is a file that Close removes.
//
// SQLite is opened for many processes at once: with a write-ahead log, a busy
// timeout of 10 seconds and transactions that lock at their begin. As it has one
// writer at a time anyhow, it gets one connection: finish reading rows before the
// next statement, and use the transaction while there is one.
func Open(ctx context.Context, dsn string) (*DB, error) {
	db, err := open(dsn)
	if err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	if err := db.PingContext(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open database: %w", err), db.Close())
	}
	return db, nil
}

// Temporary opens a place of its own in the database that dsn names, which Close
// removes: a schema with a random name in PostgreSQL, a file if dsn is empty. It
// is for demonstrations and tests, which must not meddle with what is there.
func Temporary(ctx context.Context, dsn string) (*DB, error) {
	if dsn == "" {
		return Open(ctx, dsn)
	}
	u, err := url.Parse(dsn)
	if err != nil || !isPostgreSQL(dsn) {
		return nil, errors.New("open database: a temporary one needs postgres://… or no DSN at all")
	}
	schema := "retry_" + strings.ToLower(rand.Text()[:16])
	query := u.Query()
	query.Set("search_path", schema)
	u.RawQuery = query.Encode()
	db, err := Open(ctx, u.String())
	if err != nil {
		return nil, err
	}
	if _, err := db.ExecContext(ctx, "CREATE SCHEMA "+schema); err != nil {
		return nil, errors.Join(fmt.Errorf("open database: %w", err), db.Close())
	}
	db.remove = func() error {
		_, err := db.ExecContext(context.WithoutCancel(ctx), "DROP SCHEMA "+schema+" CASCADE")
		return errors.Join(err, db.DB.Close())
	}
	return db, nil
}

func isPostgreSQL(dsn string) bool {
	return strings.HasPrefix(dsn, "postgres://") || strings.HasPrefix(dsn, "postgresql://")
}

func open(dsn string) (db *DB, err error) {
	if isPostgreSQL(dsn) {
		db = &DB{Dialect: retrytable.PostgreSQL, DSN: dsn}
		if db.DB, err = sql.Open("pgx", dsn); err != nil {
			return nil, err
		}
		db.SetMaxOpenConns(maxConnections)
		db.SetMaxIdleConns(maxConnections)
		return db, nil
	}
	if strings.Contains(dsn, "://") {
		return nil, errors.New("the DSN must be postgres://… or the name of a file")
	}
	db = &DB{Dialect: retrytable.SQLite, DSN: dsn}
	if dsn == "" {
		folder, err := os.MkdirTemp("", "retry-example-")
		if err != nil {
			return nil, err
		}
		db.DSN = filepath.Join(folder, "example.db")
		db.remove = func() error { return errors.Join(db.DB.Close(), os.RemoveAll(folder)) }
	}
	if db.DB, err = sql.Open("sqlite", SQLiteSource(db.DSN)); err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

// SQLiteSource is what [Open] has the driver open for a file.
func SQLiteSource(file string) string {
	u := url.URL{Path: file} // escapes what is special in a URI
	return "file:" + u.EscapedPath() +
		"?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)"
}

// Close closes the database, and removes it if it is temporary.
func (db *DB) Close() error {
	if db.remove != nil {
		return db.remove()
	}
	return db.DB.Close()
}

// SQL returns a statement for this database, in which these stand for:
//
//	{instant}      the type of a column with an instant
//	{now}          the instant of the statement, by the clock of the database
//	{microsecond}  what to add to an instant: {now} + $1 * {microsecond}
//
// Instants are timestamptz in PostgreSQL and microseconds since 1970 in SQLite,
// as in retrytable. Read them with an [Instant].
func (db *DB) SQL(statement string) string {
	instant, now, microsecond := "timestamptz", "statement_timestamp()", "interval '1 microsecond'"
	if db.Dialect == retrytable.SQLite {
		instant, microsecond = "INTEGER", "1"
		now = "(CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) * 1000)"
	}
	return strings.NewReplacer("{instant}", instant, "{now}", now, "{microsecond}", microsecond).Replace(statement)
}

// Create executes a schema, in the words of [DB.SQL], unless there is a table or an
// index of that name, which the schema has to create. All of it is done or nothing.
// Processes that start together take turns: the first does it.
func (db *DB) Create(ctx context.Context, name, schema string) error {
	err := retrysql.InTx(ctx, db.DB, nil, &retrysql.TxOptions{Idempotent: true}, func(ctx context.Context, tx *sql.Tx) error {
		look := "SELECT EXISTS (SELECT 1 FROM sqlite_master WHERE name = $1)" // the transaction has locked the file
		if db.Dialect == retrytable.PostgreSQL {
			if _, err := tx.ExecContext(ctx, "SELECT pg_advisory_xact_lock(hashtext('retry examples'))"); err != nil {
				return err
			}
			look = "SELECT to_regclass($1) IS NOT NULL"
		}
		var exists bool
		if err := tx.QueryRowContext(ctx, look, name).Scan(&exists); err != nil || exists {
			return err
		}
		_, err := tx.ExecContext(ctx, db.SQL(schema))
		return err
	})
	if err != nil {
		return fmt.Errorf("create %s: %w", name, err)
	}
	return nil
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

// Instant reads an instant of either database, in UTC. NULL is the zero Time.
type Instant struct{ time.Time }

// Scan implements [sql.Scanner].
func (i *Instant) Scan(value any) error {
	switch v := value.(type) {
	case nil:
		i.Time = time.Time{}
	case time.Time:
		i.Time = v.UTC()
	case int64:
		i.Time = time.UnixMicro(v).UTC()
	default:
		return fmt.Errorf("not an instant: %T", value)
	}
	return nil
}
