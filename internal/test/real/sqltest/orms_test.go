// Package sqltest tests package retrysql with real databases and real drivers:
// PostgreSQL, MariaDB and SQLite, and with GORM, sqlx and ent. It is in a module apart, so that
// the drivers are not requirements of the library, which knows their errors by shape only.
//
// The tests need PostgreSQL on 127.0.0.1:5432 with a database "test" for user
// postgres, and MariaDB on 127.0.0.1:3306 with a database "test" for user root,
// both without a password. RETRY_TEST_POSTGRES and RETRY_TEST_MARIADB name others:
//
//	RETRY_TEST_POSTGRES=postgres://user:password@host:5432/database
//	RETRY_TEST_MARIADB=user:password@tcp(host:3306)/database
//
// They also need the programs initdb, pg_ctl and postgres, in the path or below
// /usr/lib/postgresql, for a server of their own that they restart, and pgbouncer.
package sqltest_test

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"
	"entgo.io/ent/dialect/sql/sqlgraph"
	"entgo.io/ent/schema/field"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/seed-5ff3c98e/retry"
	"github.com/seed-5ff3c98e/retry/internal/test/real/sqltest/suite"
	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrysql"
	"github.com/seed-5ff3c98e/retry/retrytest"
)

// Account and Note are the tables of the tests.
type Account struct {
	ID int
	N  int
}

type Note struct {
	ID   int
	Text string
}

// work reads the account, calls afterRead, inserts the note, and adds 1 to what it has
// read. It does the last two in a transaction of the library, within that of InTx.
type work struct {
	note      Note
	afterRead func()
}

var orms = []struct {
	name string
	run  func(ctx context.Context, db *sql.DB, p *retry.Policy, opts *retrysql.TxOptions, w work) error
}{
	{"GORM", runGORM(gorm.Config{})},
	{"GORM with options", runGORM(gorm.Config{PrepareStmt: true, TranslateError: true})},
	{"sqlx", runSQLX},
	{"ent", runEnt},
}

func runGORM(config gorm.Config) func(context.Context, *sql.DB, *retry.Policy, *retrysql.TxOptions, work) error {
	config.Logger = logger.Discard
	return func(ctx context.Context, pool *sql.DB, p *retry.Policy, opts *retrysql.TxOptions, w work) error {
		db, err := gorm.Open(postgres.New(postgres.Config{Conn: pool}), &config)
		if err != nil {
			return err
		}
		return inGORM(ctx, db, p, opts, func(tx *gorm.DB) error {
			var account Account
			if err := tx.First(&account, 1).Error; err != nil {
				return err
			}
			w.afterRead()
			return tx.Transaction(func(tx *gorm.DB) error { // a savepoint
				if err := tx.Create(&w.note).Error; err != nil {
					return err
				}
				return tx.Model(&account).Update("n", account.N+1).Error
			})
		})
	}
}

func runSQLX(ctx context.Context, pool *sql.DB, p *retry.Policy, opts *retrysql.TxOptions, w work) error {
	db := sqlx.NewDb(pool, "pgx")
	return inSQLX(ctx, db, p, opts, func(ctx context.Context, tx *sqlx.Tx) error {
		var account Account
		if err := tx.GetContext(ctx, &account, "SELECT id, n FROM accounts WHERE id = $1", 1); err != nil {
			return err
		}
		w.afterRead()
		query, args, err := db.BindNamed("INSERT INTO notes (id, text) VALUES (:id, :text)", w.note)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, query, args...); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "UPDATE accounts SET n = $1 WHERE id = $2", account.N+1, account.ID)
		return err
	})
}

func runEnt(ctx context.Context, db *sql.DB, p *retry.Policy, opts *retrysql.TxOptions, w work) error {
	return inEnt(ctx, db, p, opts, func(ctx context.Context, drv dialect.Driver) error {
		var n int
		id, columns := &sqlgraph.FieldSpec{Column: "id", Type: field.TypeInt}, []string{"id", "n"}
		err := sqlgraph.QueryNodes(ctx, drv, &sqlgraph.QuerySpec{
			Node:       &sqlgraph.NodeSpec{Table: "accounts", Columns: columns, ID: id},
			Predicate:  func(s *entsql.Selector) { s.Where(entsql.EQ("id", 1)) },
			ScanValues: func([]string) ([]any, error) { return []any{new(sql.NullInt64), new(sql.NullInt64)}, nil },
			Assign: func(_ []string, values []any) error {
				n = int(values[1].(*sql.NullInt64).Int64)
				return nil
			},
		})
		if err != nil {
			return err
		}
		w.afterRead()
		err = sqlgraph.CreateNode(ctx, drv, &sqlgraph.CreateSpec{
			Table: "notes", ID: &sqlgraph.FieldSpec{Column: "id", Type: field.TypeInt, Value: w.note.ID},
			Fields: []*sqlgraph.FieldSpec{{Column: "text", Type: field.TypeString, Value: w.note.Text}},
		})
		if err != nil {
			return err
		}
		return sqlgraph.UpdateNode(ctx, drv, &sqlgraph.UpdateSpec{ // in a transaction of its own
			Node: &sqlgraph.NodeSpec{
				Table: "accounts", Columns: columns, ID: &sqlgraph.FieldSpec{Column: "id", Type: field.TypeInt, Value: 1},
			},
			Fields:     sqlgraph.FieldMut{Set: []*sqlgraph.FieldSpec{{Column: "n", Type: field.TypeInt, Value: n + 1}}},
			ScanValues: func([]string) ([]any, error) { return []any{new(sql.NullInt64), new(sql.NullInt64)}, nil },
			Assign:     func([]string, []any) error { return nil },
		})
	})
}

// database returns a schema with the tables: a pool for the library under test, with one
// connection, so that a transaction elsewhere than on it would wait for ever; and another
// pool for the test.
func database(t *testing.T) (db, other *sql.DB) {
	t.Helper()
	u := pgURL(t, newSchema(t))
	db, other = openPG(t, "pgx", u), openPG(t, "pgx", u)
	db.SetMaxOpenConns(1)
	suite.Exec(t, other,
		"CREATE TABLE accounts (id INT PRIMARY KEY, n INT NOT NULL)", "INSERT INTO accounts VALUES (1, 0)",
		"CREATE TABLE notes (id INT PRIMARY KEY, text TEXT NOT NULL)",
	)
	return db, other
}

// TestORMs has another transaction change what the first attempt has read, or take the id of
// its note before.
func TestORMs(t *testing.T) {
	t.Parallel()
	for _, orm := range orms {
		t.Run(orm.name, func(t *testing.T) {
			t.Parallel()
			db, other := database(t)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			events := &retrytest.Recorder{}
			p := &retry.Policy{Clock: &retrytest.Clock{}, Observer: events.Observer()}
			attempts := 0
			conflicting := work{note: Note{1, "one"}, afterRead: func() {
				if attempts++; attempts == 1 {
					suite.Exec(t, other, "UPDATE accounts SET n = n + 10")
				}
			}}
			require.NoError(t, orm.run(ctx, db, p, &retrysql.TxOptions{Isolation: sql.LevelRepeatableRead}, conflicting))
			assert.Equal(t, 2, attempts)
			assert.Equal(t, "sql_40001", events.Events()[0].Verdict.Category)
			assert.Equal(t, 1, suite.Count(t, other, "accounts WHERE n = 11"), "the second attempt reads again")
			assert.Equal(t, 1, suite.Count(t, other, "notes"), "the first attempt leaves nothing")

			err := orm.run(ctx, db, p, nil, work{note: Note{1, "taken"}, afterRead: func() { attempts++ }})
			assert.Equal(t, "23505", testkit.As[*pgconn.PgError](t, err).Code, "the driver's error")
			assert.Equal(t, retry.Final, retrysql.Classify(err).Class)
			assert.Equal(t, 3, attempts)
			assert.Equal(t, 1, suite.Count(t, other, "accounts WHERE n = 11"))
		})
	}
}
