//nolint:thelper // what forEach calls is the test itself
package tabletest_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5ff3c98e/retry/internal/test/testkit"
	"github.com/seed-5ff3c98e/retry/retrytable"
)

// live makes the table of a program that has nothing of a Table yet, with rows.
func (s *store) live(t testing.TB, columns string, rows int) {
	t.Helper()
	run(t, s.db, "CREATE TABLE jobs (id bigint PRIMARY KEY"+columns+")")
	for id := range rows {
		run(t, s.db, "INSERT INTO jobs (id) VALUES ($1)", id+1)
	}
}

// catalog describes the columns, the indexes and the rules of all tables.
func (s *store) catalog(t testing.TB) string {
	t.Helper()
	var all []string
	for _, sql := range map[retrytable.Dialect][]string{
		retrytable.PostgreSQL: {
			"SELECT c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull FROM pg_class c JOIN pg_attribute a " +
				"ON a.attrelid = c.oid WHERE relnamespace = current_schema()::regnamespace AND attnum > 0 AND NOT attisdropped ORDER BY 1, 2",
			"SELECT indexdef FROM pg_indexes WHERE schemaname = current_schema() ORDER BY 1",
		},
		retrytable.SQLite: {"SELECT name, sql FROM sqlite_master ORDER BY 1"},
		retrytable.MySQL: {
			"SELECT TABLE_NAME, COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE() ORDER BY 1, 2",
			"SELECT TABLE_NAME, INDEX_NAME FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = DATABASE() ORDER BY 1, 2",
		},
	}[s.dialect] {
		for _, row := range query(t, s.db, sql) {
			all = append(all, fmt.Sprint(row...))
		}
	}
	return strings.Join(all, "\n")
}

// told is a Tell, and what it was told.
type told struct{ statements []string }

func (t *told) tell(statements []string) error {
	t.statements = append(t.statements, statements...)
	return nil
}

// A table in use has what it lacks, as Missing says, and what was in it. The second time nothing is told.
func TestMigrate(t *testing.T) {
	t.Parallel()
	forEach(t, kinds, func(t *testing.T, s *store) {
		table := s.jobs()
		s.live(t, ", polls integer", 2)
		missing := testkit.Must(table.Missing(t.Context(), s.db))(t)
		var all told
		require.NoError(t, table.Migrate(t.Context(), s.db, retrytable.Migration[int64]{Tell: all.tell}))
		assert.Equal(t, missing, all.statements)
		require.NoError(t, table.Check(t.Context(), s.db))
		assert.Empty(t, testkit.Must(table.Missing(t.Context(), s.db))(t))
		require.NoError(t, table.Migrate(t.Context(), s.db, retrytable.Migration[int64]{
			Tell: func([]string) error { return errors.New("nothing is missing") },
		}))
		assert.ElementsMatch(t, []int64{1, 2}, claimed(t, s, table, 3))
	})
}

// What else the program needs is part of it: the table itself, and others. What Tell refuses is not done.
func TestMigrateAlso(t *testing.T) {
	t.Parallel()
	forEach(t, databases, func(t *testing.T, s *store) {
		table := s.jobs()
		table.Set.Fail = "note = $1"
		also := func(ctx context.Context, db retrytable.DB) ([]string, error) {
			log, err := s.log(ctx, db)
			if len(log) > 0 {
				log = append([]string{"CREATE TABLE jobs (id bigint PRIMARY KEY, note text)"}, log...)
			}
			return log, err
		}
		m := retrytable.Migration[int64]{Also: also, Probe: retrytable.Probe[int64]{
			Insert: func(ctx context.Context, tx *sql.Tx) error {
				_, err := tx.ExecContext(ctx, "INSERT INTO jobs (id) VALUES (1)")
				return err
			},
			Worker: &retrytable.Worker[int64]{
				FinishArgs: func(*retrytable.Outcome[int64]) []any { return []any{"a note"} },
				InTx: func(ctx context.Context, tx *sql.Tx, o *retrytable.Outcome[int64]) error {
					_, err := tx.ExecContext(ctx, "INSERT INTO log (job) VALUES ($1)", o.Job.ID)
					return err
				},
			},
		}}
		before := s.catalog(t)
		refused := errors.New("not today")
		m.Tell = func(statements []string) error {
			assert.Contains(t, statements[0], "CREATE TABLE jobs")
			return refused
		}
		require.ErrorIs(t, table.Migrate(t.Context(), s.db, m), refused)
		assert.Equal(t, before, s.catalog(t))
		m.Tell = nil
		require.NoError(t, table.Migrate(t.Context(), s.db, m))
		assert.Empty(t, query(t, s.db, "SELECT * FROM log"))
		assert.Empty(t, query(t, s.db, "SELECT id FROM jobs"))
		require.NoError(t, table.Check(t.Context(), s.db))
	})
}

// If the result would not serve, nothing is changed, and the error says which write is refused, and why.
func TestMigrateChangesNothing(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		columns, after string
		says           []string
		in             []retrytable.Dialect
	}{
		"type":    {", due_at boolean", "", []string{`Columns.Due: "due_at": is `}, nil},
		"a CHECK": {", status varchar(9) DEFAULT 'ready' CHECK (status IN ('ready', 'running', 'done', 'waiting'))", "", []string{"fail, for good: "}, nil},
		"a CHECK of a word for a success": {
			", status varchar(9) DEFAULT 'ready' CHECK (status <> 'done')", "", []string{"succeed as done: "}, nil,
		},
		"NOT NULL": {", error text NOT NULL DEFAULT ''", "", []string{`"error": must allow NULL`}, nil},
		"a foreign key": {
			", error text REFERENCES texts (id)", "",
			[]string{"fail, for a retry: ", "fail, for good: "},
			[]retrytable.Dialect{retrytable.PostgreSQL},
		},
		"a trigger": {
			"", "CREATE TRIGGER no BEFORE UPDATE ON jobs BEGIN SELECT RAISE(ABORT, 'not this one'); END",
			[]string{"claim: ", "not this one"},
			[]retrytable.Dialect{retrytable.SQLite},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			some := databases
			if test.in != nil {
				some = of(databases, test.in...)
			}
			forEach(t, some, func(t *testing.T, s *store) {
				run(t, s.db, "CREATE TABLE texts (id varchar(700) PRIMARY KEY)")
				s.live(t, test.columns, 2)
				if test.after != "" {
					run(t, s.db, test.after)
				}
				table := s.jobs()
				before := s.catalog(t)
				err := table.Migrate(t.Context(), s.db, retrytable.Migration[int64]{})
				require.ErrorIs(t, err, retrytable.ErrTable)
				for _, says := range test.says {
					assert.ErrorContains(t, err, says)
				}
				assert.Equal(t, before, s.catalog(t))
			})
		})
	}
}

var errKilled = errors.New("killed")

// killed is a connection of a process that is killed before one of the statements that change the tables.
type killed struct {
	fullConn

	kill context.CancelFunc
	left *atomic.Int64 // statements
}

func (c *killed) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	verb, _, _ := strings.Cut(query, " ")
	if slices.Contains([]string{"CREATE", "ALTER", "DROP", "ANALYZE", "INSERT", "ROLLBACK"}, verb) && c.left.Add(-1) == 0 {
		c.kill()
	}
	if c.left.Load() <= 0 {
		return nil, errKilled
	}
	return c.fullConn.ExecContext(ctx, query, args)
}

// A migration that is killed at any statement goes on, and what it has begun is mended.
func TestMigrateKilledAtEachStatement(t *testing.T) {
	t.Parallel()
	forEach(t, databases, func(t *testing.T, s *store) {
		table := s.jobs()
		m := retrytable.Migration[int64]{Also: s.log}
		kills := 0
		for at := int64(1); ; at++ {
			s.live(t, "", 1)
			ctx, kill := context.WithCancel(t.Context())
			var left atomic.Int64
			left.Store(at)
			db := sql.OpenDB(&wrapping{s.db.Driver(), s.dsn, func(conn fullConn) driver.Conn { return &killed{conn, kill, &left} }, nil})
			err := table.Migrate(ctx, db, m)
			kill()
			require.NoError(t, db.Close())
			if err != nil {
				require.ErrorIs(t, err, errKilled, at)
				kills++
				require.NoError(t, table.Migrate(t.Context(), s.db, m), at)
			}
			require.Empty(t, testkit.Must(table.Missing(t.Context(), s.db))(t), at)
			assert.Equal(t, []int64{1}, claimed(t, s, table, 9))
			if err == nil {
				break
			}
			run(t, s.db, "DROP TABLE jobs")
			run(t, s.db, "DROP TABLE log")
		}
		assert.GreaterOrEqual(t, kills, 9)
	})
}

// log is what a program needs besides: another table.
func (s *store) log(ctx context.Context, db retrytable.DB) ([]string, error) {
	exists := map[retrytable.Dialect]string{
		retrytable.PostgreSQL: "SELECT 1 WHERE to_regclass('log') IS NOT NULL",
		retrytable.SQLite:     "SELECT 1 FROM sqlite_master WHERE name = 'log'",
		retrytable.MySQL:      "SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'log'",
	}[s.dialect]
	rows, err := db.QueryContext(ctx, exists)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	if rows.Next() || rows.Err() != nil {
		return nil, rows.Err()
	}
	return []string{"CREATE TABLE log (job bigint NOT NULL)"}, nil
}

// Several at once take turns: one does what is missing, and nothing is missing for the others.
func TestMigrateTogether(t *testing.T) {
	t.Parallel()
	forEach(t, databases, func(t *testing.T, s *store) {
		s.live(t, "", 100)
		var migrations sync.WaitGroup
		var tells atomic.Int32
		for range 4 {
			db := s.again(t)
			migrations.Go(func() {
				table := s.jobs()
				assert.NoError(t, table.Migrate(t.Context(), db, retrytable.Migration[int64]{
					Tell: func([]string) error { tells.Add(1); return nil },
				}))
			})
		}
		migrations.Wait()
		if s.dialect == retrytable.SQLite { // several may have seen what is missing, before it was the turn of one
			assert.LessOrEqual(t, tells.Load(), int32(4))
		} else {
			assert.Equal(t, int32(1), tells.Load())
		}
		table := s.jobs()
		assert.Empty(t, testkit.Must(table.Missing(t.Context(), s.db))(t))
	})
}

// again opens the database once more.
func (s *store) again(t testing.TB) *sql.DB {
	t.Helper()
	db := openDB(t, s.driver, s.dsn)
	if s.dialect == retrytable.SQLite {
		db.SetMaxOpenConns(1)
	}
	return db
}

// A lock that somebody has on the table holds up the migration, and nobody else for longer than a second.
func TestMigrateWaits(t *testing.T) {
	t.Parallel()
	forEach(t, of(databases, retrytable.PostgreSQL, retrytable.MySQL), func(t *testing.T, s *store) {
		s.live(t, "", 1)
		tx := testkit.Must(s.again(t).BeginTx(t.Context(), nil))(t)
		assert.Len(t, query(t, tx, "SELECT id FROM jobs"), 1)
		table := s.jobs()
		done := make(chan error)
		begun := make(chan struct{})
		db := s.again(t)
		go func() {
			done <- table.Migrate(t.Context(), db, retrytable.Migration[int64]{
				Tell: func([]string) error { close(begun); return nil },
			})
		}()
		<-begun
		for range 3 {
			run(t, s.db, "UPDATE jobs SET id = id") // which waits behind it for a while
		}
		select {
		case err := <-done:
			t.Fatal("it did not wait: ", err)
		default:
		}
		require.NoError(t, tx.Rollback())
		require.NoError(t, <-done)
	})
}

// A table with partitions is migrated too.
func TestMigratePartitioned(t *testing.T) {
	t.Parallel()
	forEach(t, of(databases, retrytable.MySQL, retrytable.PostgreSQL), func(t *testing.T, s *store) {
		if s.dialect == retrytable.MySQL {
			run(t, s.db, "CREATE TABLE jobs (id bigint PRIMARY KEY) PARTITION BY HASH (id) PARTITIONS 4")
		} else {
			run(t, s.db, "CREATE TABLE jobs (id bigint PRIMARY KEY) PARTITION BY HASH (id)")
			run(t, s.db, "CREATE TABLE jobs_0 PARTITION OF jobs FOR VALUES WITH (MODULUS 1, REMAINDER 0)")
		}
		run(t, s.db, "INSERT INTO jobs (id) VALUES (1)")
		table := s.jobs()
		require.NoError(t, table.Migrate(t.Context(), s.db, retrytable.Migration[int64]{}))
		require.NoError(t, table.Check(t.Context(), s.db))
		require.NoError(t, table.Migrate(t.Context(), s.db, retrytable.Migration[int64]{}))
	})
}

// The connection that has migrated goes back to the pool as it was.
func TestMigrateLeavesTheConnection(t *testing.T) {
	t.Parallel()
	forEach(t, of(databases, retrytable.MySQL), func(t *testing.T, s *store) {
		s.live(t, "", 1)
		s.db.SetMaxOpenConns(1)
		setting := func() any { return query(t, s.db, "SELECT @@SESSION.lock_wait_timeout")[0][0] }
		before := setting()
		table := s.jobs()
		var all told
		require.NoError(t, table.Migrate(t.Context(), s.db, retrytable.Migration[int64]{Tell: all.tell}))
		require.Len(t, all.statements, 1, "the table is copied once")
		require.Equal(t, before, setting())
	})
}

// A function of the Probe that looks at the table with another connection waits for the migration,
// which does not wait for it for ever.
func TestMigrateProbesElsewhere(t *testing.T) {
	t.Parallel()
	forEach(t, of(databases, retrytable.PostgreSQL), func(t *testing.T, s *store) {
		s.live(t, "", 1)
		table := s.jobs()
		before, other := s.catalog(t), s.again(t)
		inTx := func(ctx context.Context, _ *sql.Tx, _ *retrytable.Outcome[int64]) error {
			return other.QueryRowContext(ctx, "SELECT FROM jobs").Err()
		}
		err := table.Migrate(t.Context(), s.db, retrytable.Migration[int64]{
			Probe: retrytable.Probe[int64]{Worker: &retrytable.Worker[int64]{InTx: inTx}},
		})
		require.ErrorIs(t, err, retrytable.ErrTable)
		require.ErrorContains(t, err, "InTx must use only their tx")
		assert.Equal(t, before, s.catalog(t))
	})
}
