package sqltest_test

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"entgo.io/ent/dialect"
	entsql "entgo.io/ent/dialect/sql"
	"entgo.io/ent/dialect/sql/sqlgraph"
	"entgo.io/ent/schema/field"
	"github.com/jackc/pgx/v5/pgconn"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/seed-5ff3c98e/retry"
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
	{"GORM", func(ctx context.Context, db *sql.DB, p *retry.Policy, opts *retrysql.TxOptions, w work) error {
		return runGORM(ctx, db, p, opts, w, &gorm.Config{})
	}},
	{"GORM with options", func(ctx context.Context, db *sql.DB, p *retry.Policy, opts *retrysql.TxOptions, w work) error {
		return runGORM(ctx, db, p, opts, w, &gorm.Config{PrepareStmt: true, TranslateError: true})
	}},
	{"sqlx", runSQLX},
	{"ent", runEnt},
}

func runGORM(
	ctx context.Context, pool *sql.DB, p *retry.Policy, opts *retrysql.TxOptions, w work, config *gorm.Config,
) error {
	config.Logger = logger.Discard
	db, err := gorm.Open(postgres.New(postgres.Config{Conn: pool}), config)
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
	testkit.Needs(t, "PostgreSQL")
	u, err := url.Parse(cmp.Or(os.Getenv("RETRY_TEST_POSTGRES"), "postgres://postgres@127.0.0.1:5432/test"))
	require.NoError(t, err)
	schema := "retry_" + strings.ToLower(rand.Text()[:16])
	query := u.Query()
	query.Set("search_path", schema)
	if !query.Has("sslmode") {
		query.Set("sslmode", "disable")
	}
	u.RawQuery = query.Encode()
	open := func() *sql.DB {
		db, err := sql.Open("pgx", u.String())
		require.NoError(t, err)
		t.Cleanup(func() {
			testkit.Idle(t, db)
			assert.NoError(t, db.Close())
		})
		return db
	}
	other = open()
	execute(t, other, "CREATE SCHEMA "+schema)
	t.Cleanup(func() {
		_, err := other.ExecContext(context.WithoutCancel(t.Context()), "DROP SCHEMA "+schema+" CASCADE")
		assert.NoError(t, err)
	})
	execute(t, other, "CREATE TABLE accounts (id INT PRIMARY KEY, n INT NOT NULL)")
	execute(t, other, "CREATE TABLE notes (id INT PRIMARY KEY, text TEXT NOT NULL)")
	execute(t, other, "INSERT INTO accounts VALUES (1, 0)")
	db = open()
	db.SetMaxOpenConns(1)
	return db, other
}

func execute(t *testing.T, db *sql.DB, statement string) {
	t.Helper()
	_, err := db.ExecContext(t.Context(), statement)
	require.NoError(t, err)
}

func number(t *testing.T, db *sql.DB, query string) (n int) {
	t.Helper()
	require.NoError(t, db.QueryRowContext(t.Context(), query).Scan(&n))
	return n
}

var repeatable = &retrysql.TxOptions{Isolation: sql.LevelRepeatableRead}

func TestSerializationFailureIsRetried(t *testing.T) {
	t.Parallel()
	for _, orm := range orms {
		t.Run(orm.name, func(t *testing.T) {
			t.Parallel()
			db, other := database(t)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			events := &retrytest.Recorder{}
			attempts := 0
			err := orm.run(ctx, db, &retry.Policy{Clock: &retrytest.Clock{}, Observer: events}, repeatable, work{
				note: Note{1, "one"},
				afterRead: func() {
					if attempts++; attempts == 1 {
						execute(t, other, "UPDATE accounts SET n = n + 10")
					}
				},
			})
			require.NoError(t, err)
			assert.Equal(t, 2, attempts)
			assert.Equal(t, "sql_40001", events.Events()[0].Verdict.Category)
			assert.Equal(t, 11, number(t, other, "SELECT n FROM accounts"), "the second attempt reads again")
			assert.Equal(t, 1, number(t, other, "SELECT count(*) FROM notes"), "the first attempt leaves nothing")
		})
	}
}

func TestConstraintIsFinal(t *testing.T) {
	t.Parallel()
	for _, orm := range orms {
		t.Run(orm.name, func(t *testing.T) {
			t.Parallel()
			db, other := database(t)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			execute(t, other, "INSERT INTO notes VALUES (1, 'taken')")
			attempts := 0
			err := orm.run(ctx, db, &retry.Policy{Clock: &retrytest.Clock{}}, nil, work{
				note: Note{1, "one"}, afterRead: func() { attempts++ },
			})
			assert.Equal(t, "23505", testkit.As[*pgconn.PgError](t, err).Code, "the driver's error")
			assert.Equal(t, retry.Final, retrysql.Classify(err).Class)
			assert.Equal(t, 1, attempts)
			assert.Equal(t, 0, number(t, other, "SELECT n FROM accounts"))
		})
	}
}
